#pragma once

// The planner's inner loop, in plain numbers: every plan's time from tables, the best of them in
// order, and what no plan can be better than. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/planner/candidates.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/planner/times.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/training_setup.hpp>

#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>

namespace gpuplan::detail {

// The time of a layer is one for all plans of a family with the same micro-batch.
struct plan_family {
  double bound = 0;
  std::int64_t tensor = 1, context = 1, expert = 1, recompute = 0, sequence = 0, setup = 0;
  int first_bound = 0;  // of its micro-batches, in order; below 0: there was no room
  int bounds = 0;
};
struct micro_batch_bound {
  double bound = 0;
  std::int64_t micro_batch = 0;
};

// The plans of a request. One pass over all of them finds the lowest candidates that come behind a
// given one.
template <times_of_setups TimesOf>
class plan_enumeration {
 public:
  static constexpr int most_families = 512;

  constexpr plan_enumeration(const plan_request& asked, const TimesOf& times)
      : request_(asked),
        times_(times),
        time_{.setup = asked.setup, .on = asked.on, .efficiency = asked.efficiency},
        composer_(time_),
        limits_(asked) {
    if constexpr (has_tables) {
      time_.loader = times.loader;
      time_.straggler_slowdown = times.straggler_slowdown;
      time_.terms = times.terms;
    }
    begin_setup(0);
    find_families();
  }

  constexpr plan_enumeration(const plan_enumeration&) = delete;
  constexpr plan_enumeration& operator=(const plan_enumeration&) = delete;

  constexpr const plan_counts& counts() const { return counts_; }
  // Of the first layout that was refused.
  constexpr const failure& flaw() const { return flaw_; }
  constexpr bool has_layouts() const { return has_layouts_; }
  constexpr bool has_too_many() const { return has_too_many_; }

  // What the goal counts, of so many seconds a sample.
  constexpr double value_of(const plan_group& group, double per_sample) const {
    return request_.goal == plan_goal::least_money ? per_sample * static_cast<double>(group.gpus)
                                                   : per_sample;
  }
  constexpr const run_limits& limits() const { return limits_; }

  constexpr std::int64_t most_gpus() const {
    const std::int64_t all = total_gpus(request_.on);
    return searched(request_.space.gpus, all, all).high;
  }

  // The setup with a group's layout.
  constexpr const training_setup& divided(const plan_group& group) {
    set_family({.tensor = group.tensor,
                .context = group.context,
                .expert = group.expert,
                .recompute = group.recompute,
                .sequence = group.sequence,
                .setup = group.setup});
    set_layout({.pipeline = group.pipeline, .chunks = group.chunks, .zero = group.zero});
    return time_.setup;
  }

  // The lowest candidates, `most` of them: those behind another one, where there is one, and not
  // above `limit`. `refine(candidate, setup, parameters of its first rank)` may raise a candidate's
  // bound, to infinity where it has no plan.
  template <class Refine>
  constexpr candidate_list lowest(int most,
                                  const plan_candidate* behind,
                                  double limit,
                                  const Refine& refine) {
    counts_ = {};
    candidate_list found(most);
    for (int at = 0; at < family_count_; ++at) {
      const plan_family& family = families_[at];
      const auto is_excluded = [&](double bound) {
        return prunes() && bound > (found.limit() < limit ? found.limit() : limit);
      };
      if (is_excluded(family.bound)) break;
      set_family(family);
      find_layouts();
      if (family.first_bound < 0) {
        for (std::int64_t b = request_.space.micro_batch.low(); b <= largest_micro_batch(); ++b)
          visit(family, b, behind, limit, found, refine);
        continue;
      }
      for (int which = family.first_bound; which < family.first_bound + family.bounds; ++which) {
        if (is_excluded(bounds_[which].bound)) break;
        visit(family, bounds_[which].micro_batch, behind, limit, found, refine);
      }
    }
    counts_.excluded = plans_ - counts_.evaluated;
    return found;
  }

 private:
  struct layout {
    std::int64_t pipeline = 1, chunks = 1, zero = 0;
    // Micro-batches from here on are refused; 0: none was tried.
    std::int64_t refused_from = 0;
  };
  // Divisions with as many stages.
  struct pipeline_layouts {
    std::int64_t stages = 1;
    int first = 0;  // in `layouts_`: those of one chunk come first
    int count = 0;
    int in_chunks = 0;
    parameter_counts held{};  // by the first rank
  };
  static constexpr int most_layouts = 1024;
  static constexpr int most_pipelines = 256;
  static constexpr int most_bounds = 4096;
  // Bounds are other sums than what they are compared with.
  static constexpr double rounding = 1 - 1e-12;

  // Else a time model is asked about each plan, and nothing bounds what it answers.
  static constexpr bool has_tables = std::same_as<TimesOf, roofline_times>;

  const plan_request& request_;
  const TimesOf& times_;
  std::int64_t setup_ = 0;
  roofline_time time_;
  step_composer composer_;
  run_limits limits_;
  plan_counts counts_{};
  failure flaw_{};
  plan_family families_[most_families]{};
  int family_count_ = 0;
  layout layouts_[most_layouts]{};  // of the family that is visited
  int layout_count_ = 0;
  pipeline_layouts pipelines_[most_pipelines]{};
  int pipeline_count_ = 0;
  micro_batch_bound bounds_[most_bounds]{};
  int bound_count_ = 0;
  std::int64_t plans_ = 0;  // all there are
  bool has_layouts_ = false;
  bool has_too_many_ = false;

  constexpr bool prunes() const {
    return has_tables && !request_.evaluates_all && request_.goal != plan_goal::least_memory;
  }
  constexpr std::int64_t devices_per_node() const { return request_.on.gpus_per_node; }
  // The next number of GPUs that so many ranks of a model divide: of a node any, then whole nodes.
  constexpr std::int64_t next_gpus(std::int64_t after, std::int64_t ranks) const {
    const std::int64_t in_node = devices_per_node();
    const std::int64_t next = (after / ranks + 1) * ranks;
    if (next <= in_node) return next;
    const std::int64_t nodes = std::lcm(ranks, in_node);
    return ((after < in_node ? in_node : after) / nodes + 1) * nodes;
  }
  constexpr std::int64_t first_gpus(std::int64_t ranks = 1) const {
    const std::int64_t all = total_gpus(request_.on);
    return next_gpus(searched(request_.space.gpus, all, all).low - 1, ranks);
  }
  constexpr std::int64_t largest_micro_batch() const {
    const std::int64_t asked = request_.space.micro_batch.high();
    const std::int64_t most = request_.effective_batch.high();
    return asked < most ? asked : most;
  }
  static constexpr degree_span searched(const known<range<std::int64_t>>& degrees,
                                        std::int64_t as_set,
                                        std::int64_t most) {
    if (!degrees) return {as_set, as_set < most ? as_set : most};
    return {degrees->low(), degrees->high() < most ? degrees->high() : most};
  }

  constexpr const training_setup& setup_at(std::int64_t which) const {
    return which == 0 ? request_.setup : request_.setups[static_cast<std::size_t>(which - 1)];
  }
  constexpr void begin_setup(std::int64_t which) {
    setup_ = which;
    time_.setup = setup_at(which);
    if constexpr (has_tables) {
      std::construct_at(&composer_, time_);
      composer_.set_factors(times_.factors);
    }
  }
  constexpr void set_family(const plan_family& family) {
    if (family.setup != setup_) begin_setup(family.setup);
    parallelism& degrees = time_.setup.parallelism;
    degrees.tensor_parallel = family.tensor;
    degrees.context_parallel = family.context;
    degrees.expert_parallel = family.expert;
    if (request_.space.sequence_parallel) degrees.sequence_parallel = family.sequence != 0;
    time_.setup.recompute = static_cast<recompute_mode>(family.recompute);
  }
  constexpr void set_layout(const layout& of) {
    parallelism& degrees = time_.setup.parallelism;
    degrees.pipeline_parallel = of.pipeline;
    degrees.virtual_pipeline = of.chunks;
    degrees.zero_stage = static_cast<int>(of.zero);
  }

  // Beyond these, micro-batches of all replicas are more than a batch.
  constexpr std::int64_t most_gpus(std::int64_t ranks, std::int64_t b) const {
    const std::int64_t most = request_.effective_batch.high() / b * ranks;
    return most < most_gpus() ? most : most_gpus();
  }
  constexpr bool has_gpus_for(std::int64_t ranks) const { return first_gpus(ranks) <= most_gpus(); }

  constexpr void find_families() {
    for (std::size_t which = 0; which <= request_.setups.size(); ++which)
      find_families(static_cast<std::int64_t>(which));
  }
  constexpr void find_families(std::int64_t which) {
    const training_setup& setup = setup_at(which);
    const parallelism& as_set = setup.parallelism;
    const plan_space& space = request_.space;
    const std::int64_t most = most_gpus();
    const std::int64_t in_node =
        request_.tensor_within_node && devices_per_node() < most ? devices_per_node() : most;
    const degree_span tensor = searched(space.tensor_parallel, as_set.tensor_parallel, in_node);
    const degree_span context = searched(space.context_parallel, as_set.context_parallel, most);
    const std::int64_t experts = setup.model.moe.num_experts;
    const degree_span expert =
        searched(space.expert_parallel, as_set.expert_parallel, experts == 0 ? 1 : experts);
    for (std::int64_t t = tensor.low; t <= tensor.high; ++t)
      for (std::int64_t c = context.low; c <= context.high && c <= most / t; ++c) {
        if (!has_gpus_for(t * c)) continue;
        if (failed(flaw_) && !can_divide_layers(setup, t, c)) {
          if (c > setup.sequence_length) break;
          continue;
        }
        for (std::int64_t e = expert.low; e <= expert.high; ++e) {
          if (experts != 0 && experts % e != 0) continue;
          for (int mode = 0; mode < 3; ++mode)
            for (std::int64_t along = 0; along <= (space.sequence_parallel && t > 1 ? 1 : 0);
                 ++along)
              if (space.recompute || mode == static_cast<int>(setup.recompute))
                add_family({.tensor = t,
                            .context = c,
                            .expert = e,
                            .recompute = mode,
                            .sequence = along,
                            .setup = which});
        }
      }
  }
  // Else no code divides them so, whatever the stages: of all degrees few are left.
  static constexpr bool can_divide_layers(const training_setup& setup,
                                          std::int64_t tensor,
                                          std::int64_t context) {
    return setup.model.num_attention_heads % tensor == 0 &&
           (context == 1 || setup.sequence_length % (2 * context) == 0) &&
           (tensor == 1 || setup.model.moe.num_experts == 0) &&
           (context == 1 || !setup.model.is_latent());
  }
  constexpr void add_family(plan_family family) {
    if (family_count_ == most_families) {
      has_too_many_ = true;
      return;
    }
    set_family(family);
    find_layouts();
    if (layout_count_ == 0) return;
    has_layouts_ = true;
    find_bounds(family);
    if (family.bounds == 0) return;
    int at = family_count_++;
    for (; at > 0 && family.bound < families_[at - 1].bound; --at)
      families_[at] = families_[at - 1];
    families_[at] = family;
  }
  // Of the micro-batches that have plans. Where bounds are not wanted, they are 0.
  constexpr void find_bounds(plan_family& family) {
    family.bound = infinity;
    family.first_bound = bound_count_;
    set_layout({.pipeline = 1});
    for (std::int64_t b = request_.space.micro_batch.low(); b <= largest_micro_batch(); ++b) {
      const range<std::int64_t>& all = request_.effective_batch;
      if (all.high() / b * b < all.low()) continue;
      const std::int64_t plans = plans_of(b);
      if (plans == 0) continue;
      plans_ += plans;
      ++family.bounds;
      double bound = 0;
      if (prunes()) {
        composer_.tabulate_layers(b);
        bound = bound_of(family, b, composer_.of_all_stages(), most_gpus());
      }
      if (bound < family.bound) family.bound = bound;
      if (bound_count_ == most_bounds) family.first_bound = -1;
      if (family.first_bound < 0) continue;
      int at = bound_count_++;
      for (; at > family.first_bound && bound < bounds_[at - 1].bound; --at)
        bounds_[at] = bounds_[at - 1];
      bounds_[at] = {bound, b};
    }
  }
  // GPUs that compute all the time, and on layers alone.
  constexpr double bound_of(const plan_family& family,
                            std::int64_t b,
                            double all_stages,
                            std::int64_t many) const {
    const double gpu_time = all_stages * static_cast<double>(family.tensor * family.context) /
                            static_cast<double>(b) * rounding;
    return request_.goal == plan_goal::least_money ? gpu_time
                                                   : gpu_time / static_cast<double>(many);
  }

  constexpr void find_layouts() {
    layout_count_ = pipeline_count_ = 0;
    const parallelism& as_set = setup_at(setup_).parallelism;
    const plan_space& space = request_.space;
    const std::int64_t layers = time_.setup.model.layers();
    const std::int64_t tensor = time_.setup.parallelism.tensor_parallel;
    const std::int64_t context = time_.setup.parallelism.context_parallel;
    const degree_span pipeline =
        searched(space.pipeline_parallel, as_set.pipeline_parallel, layers);
    const degree_span zero = searched(space.zero_stage, as_set.zero_stage, 3);
    for (std::int64_t p = pipeline.low; p <= pipeline.high; ++p) {
      if (!has_gpus_for(tensor * context * p)) continue;
      pipeline_layouts here{.stages = p, .first = layout_count_};
      const degree_span chunks =
          searched(space.virtual_pipeline, as_set.virtual_pipeline, p > 1 ? layers / p : 1);
      for (std::int64_t v = chunks.low; v <= chunks.high; ++v) {
        if (v > 1 && layers % (p * v) != 0) continue;
        for (std::int64_t z = zero.low; z <= zero.high; ++z) {
          set_layout({.pipeline = p, .chunks = v, .zero = z});
          // Every stage is one of the layout.
          const auto valid = validate(time_.setup);
          if (!valid && !failed(flaw_)) flaw_ = valid.why();
          if (!valid) continue;
          if (layout_count_ == most_layouts || pipeline_count_ == most_pipelines) {
            has_too_many_ = true;
            return;
          }
          layouts_[layout_count_++] = {.pipeline = p, .chunks = v, .zero = z};
          here.in_chunks += v > 1 ? 1 : 0;
        }
      }
      here.count = layout_count_ - here.first;
      if (here.count == 0) continue;
      here.held = parameters(time_.setup.model, time_.setup.parallelism, {});
      pipelines_[pipeline_count_++] = here;
    }
  }

  static constexpr plan_group group_of(const plan_family& family,
                                       const pipeline_layouts& pipeline,
                                       std::int64_t many,
                                       std::int64_t b) {
    return {.gpus = many,
            .tensor = family.tensor,
            .context = family.context,
            .expert = family.expert,
            .recompute = family.recompute,
            .pipeline = pipeline.stages,
            .sequence = family.sequence,
            .setup = family.setup,
            .micro_batch = b};
  }
  // What a pipeline's layouts may do on so many GPUs: none where there are no such plans.
  struct batches {
    accumulations plain{};
    accumulations in_chunks{};  // go through as many micro-batches as stages at a time

    constexpr const accumulations& of(const layout& one) const {
      return one.chunks > 1 ? in_chunks : plain;
    }
    constexpr std::int64_t plans(const pipeline_layouts& pipeline) const {
      return (pipeline.count - pipeline.in_chunks) * plain.count() +
             pipeline.in_chunks * in_chunks.count();
    }
  };
  constexpr std::int64_t ranks_of(const pipeline_layouts& pipeline) const {
    const parallelism& degrees = time_.setup.parallelism;
    return degrees.tensor_parallel * degrees.context_parallel * pipeline.stages;
  }
  constexpr batches batches_of(const pipeline_layouts& pipeline,
                               std::int64_t data_parallel,
                               std::int64_t b) const {
    const std::int64_t samples = b * data_parallel;
    if (failed(flaw_of_batch(time_.setup, {b, data_parallel, 1}))) return {};
    batches found{.plain = accumulations_for(request_.effective_batch, samples, 1)};
    if (pipeline.in_chunks != 0)
      found.in_chunks = accumulations_for(request_.effective_batch, samples, pipeline.stages);
    return found;
  }
  constexpr std::int64_t plans_of(std::int64_t b) const {
    std::int64_t plans = 0;
    for (int at = 0; at < pipeline_count_; ++at) {
      const std::int64_t ranks = ranks_of(pipelines_[at]);
      const std::int64_t high = most_gpus(ranks, b);
      for (std::int64_t many = first_gpus(ranks); many <= high; many = next_gpus(many, ranks))
        plans += batches_of(pipelines_[at], many / ranks, b).plans(pipelines_[at]);
    }
    return plans;
  }

  template <class Refine>
  constexpr void visit(const plan_family& family,
                       std::int64_t b,
                       const plan_candidate* behind,
                       double limit,
                       candidate_list& found,
                       const Refine& refine) {
    const bool share_differs = time_.setup.recompute_layers != 0;
    // Of one number of GPUs, so that what is hopeless is so for all plans of a layout.
    const bool rules_out = first_gpus() == most_gpus() && !request_.evaluates_all;
    bool is_tabulated = false;
    double all_stages = 0;
    const auto is_excluded = [&](double bound) {
      return prunes() && bound > (found.limit() < limit ? found.limit() : limit);
    };
    for (int at = 0; at < pipeline_count_; ++at) {
      const pipeline_layouts& pipeline = pipelines_[at];
      const std::int64_t ranks = ranks_of(pipeline);
      const std::int64_t high = most_gpus(ranks, b);
      double busiest = 0;
      for (std::int64_t many = first_gpus(ranks); many <= high; many = next_gpus(many, ranks)) {
        const batches all = batches_of(pipeline, many / ranks, b);
        if (all.plans(pipeline) == 0 || is_refused(pipeline, b)) continue;
        if constexpr (has_tables) {
          // What weights' sharing takes is not in bounds.
          set_layout({.pipeline = pipeline.stages});
          if (!is_tabulated || (share_differs && busiest == 0)) {
            composer_.tabulate_layers(b);
            all_stages = composer_.of_all_stages();
            is_tabulated = true;
          }
          if (is_excluded(bound_of(family, b, all_stages, many))) continue;
          if (busiest == 0) busiest = composer_.of_busiest_stage();
        }
        plan_candidate here{.group = group_of(family, pipeline, many, b)};
        const double least = busiest / static_cast<double>(b * here.group.data_parallel());
        if constexpr (has_tables) composer_.set_data_parallel(here.group.data_parallel());
        const auto memory = [&](plan_candidate& of) { refine(of, time_.setup, pipeline.held); };
        for (int which = pipeline.first; which < pipeline.first + pipeline.count; ++which) {
          layout& of = layouts_[which];
          here.of = all.of(of);
          if (here.of.count() == 0 || (of.refused_from != 0 && b >= of.refused_from)) continue;
          if (is_excluded(value_of(here.group, least * rounding))) break;
          set_layout(of);
          here.group.chunks = of.chunks;
          here.group.zero = of.zero;
          if (rules_out && of.refused_from == 0 && try_least(of, here, memory)) continue;
          const auto add = [&](plan_candidate one) {
            if (!evaluate(one) || is_excluded(one.bound)) return;
            memory(one);
            if (rules_out && one.bound == infinity) find_refused(of, here, memory);
            if (one.bound < infinity && one.bound <= limit && (behind == nullptr || *behind < one))
              found.insert(one);
          };
          if constexpr (has_tables) {
            const step_line line = composer_.line(pipeline.held);
            const double samples = static_cast<double>(b * here.group.data_parallel());
            if (is_excluded(value_of(here.group, line.at_least(here.of.high) / samples * rounding)))
              continue;
            here.step = here.of.count() == 1 ? line.curve_at(here.of.low) : line.curve();
            add(here);
          } else {
            const auto time = times_(time_.setup, request_.on);
            plan_candidate one = here;
            for (; one.of.low <= here.of.high; one.of.low += one.of.unit) {
              one.of.high = one.of.low;
              const batch_plan plan{b, here.group.data_parallel(), one.of.low};
              one.step = {0, time.step(plan).value(), {}, {}};
              add(one);
            }
          }
        }
      }
    }
  }

  // Whether that is known of all layouts with as many stages.
  constexpr bool is_refused(const pipeline_layouts& pipeline, std::int64_t b) const {
    for (int at = pipeline.first; at < pipeline.first + pipeline.count; ++at)
      if (layouts_[at].refused_from == 0 || b < layouts_[at].refused_from) return false;
    return true;
  }
  // Whether memory refuses even the least accumulation. It rises with that and the micro-batch.
  template <class Refine>
  constexpr bool is_refused(plan_candidate of, std::int64_t b, const Refine& refine) const {
    of.group.micro_batch = b;
    of.of.low = of.of.high = of.of.unit;
    refine(of);
    return of.bound == infinity;
  }
  template <class Refine>
  constexpr bool try_least(layout& of, const plan_candidate& here, const Refine& refine) const {
    const std::int64_t least = request_.space.micro_batch.low();
    of.refused_from =
        is_refused(here, least, refine) ? least : std::numeric_limits<std::int64_t>::max();
    return of.refused_from == least;
  }
  // The least micro-batch that is refused, of which `here` has one.
  template <class Refine>
  constexpr void find_refused(layout& of, const plan_candidate& here, const Refine& refine) const {
    std::int64_t high = here.group.micro_batch;
    if (!is_refused(here, high, refine)) return;
    std::int64_t low = request_.space.micro_batch.low();
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (is_refused(here, middle, refine) ? high : low) = middle;
    }
    of.refused_from = high;
  }

  // Whether a plan of the group meets the limits: then it ends with the most accumulation that
  // does, or begins with the least where memory is the goal. The time of a sample falls with
  // accumulation, so that of the most is the least of all.
  constexpr bool evaluate(plan_candidate& group) {
    const accumulations all = group.of;
    if (request_.evaluates_all) {
      plan_candidate settled = group;  // the same but for rounding
      settled.step.settle();
      double longest = 0;
      for (std::int64_t many = all.low; many <= all.high; many += all.unit) {
        const double here = settled.per_sample(many);
        if (here > longest) longest = here;
      }
      counts_.evaluated += longest < infinity ? all.count() : 0;
    } else {
      counts_.evaluated += 1;
    }
    const bool from_least = request_.goal == plan_goal::least_memory;
    std::int64_t best = 0;
    if (limits_.may_be_met_by(group))
      best = from_least ? limits_.least_accumulation(group) : limits_.most_accumulation(group);
    if (best == 0) {
      counts_.refused += all.count();
      return false;
    }
    (from_least ? group.of.low : group.of.high) = best;
    group.bound = from_least ? 0 : value_of(group.group, group.per_sample(best));
    return true;
  }
};

}  // namespace gpuplan::detail
