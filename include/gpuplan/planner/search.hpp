#pragma once

// The planner's inner loop, in plain numbers: what a request allows, tables of it, the candidates
// of a family of plans, the time of each from tables, and the lowest of them. Private.

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
#include <numeric>
#include <type_traits>

namespace gpuplan::detail {

// ---- What a request allows

// The time of a layer is one for all plans of a family with the same micro-batch.
struct plan_family {
  double bound = 0;
  std::int64_t tensor = 1, context = 1, expert = 1, recompute = 0, sequence = 0, setup = 0;
  int first_bound = 0;  // of its micro-batches, in order; below 0: there was no room
  int bounds = 0;
};

// Functions of a request.
class plan_domain {
 public:
  constexpr explicit plan_domain(const plan_request& request) : request_(request) {}

  constexpr const plan_request& request() const { return request_; }

  constexpr std::int64_t setups() const {
    return static_cast<std::int64_t>(request_.setups.size()) + 1;
  }
  constexpr const training_setup& setup_at(std::int64_t which) const {
    return which == 0 ? request_.setup : request_.setups[static_cast<std::size_t>(which - 1)];
  }
  // With the degrees of a family, and what it recomputes.
  constexpr training_setup setup_of(const plan_family& family) const {
    training_setup setup = setup_at(family.setup);
    parallelism& degrees = setup.parallelism;
    degrees.tensor_parallel = family.tensor;
    degrees.context_parallel = family.context;
    degrees.expert_parallel = family.expert;
    if (request_.space.sequence_parallel) degrees.sequence_parallel = family.sequence != 0;
    setup.recompute = static_cast<recompute_mode>(family.recompute);
    return setup;
  }

  // What the goal counts, of so many seconds a sample.
  constexpr double value_of(const plan_group& group, double per_sample) const {
    return request_.goal == plan_goal::least_money ? per_sample * static_cast<double>(group.gpus)
                                                   : per_sample;
  }
  constexpr std::int64_t most_gpus() const {
    const std::int64_t all = total_gpus(request_.on);
    return searched(request_.space.gpus, all, all).high;
  }
  // Beyond these, micro-batches of all replicas are more than a batch.
  constexpr std::int64_t most_gpus(std::int64_t ranks, std::int64_t b) const {
    const std::int64_t most = request_.effective_batch.high() / b * ranks;
    return most < most_gpus() ? most : most_gpus();
  }
  // The next number of GPUs that so many ranks of a model divide: of a node any, then whole nodes.
  constexpr std::int64_t next_gpus(std::int64_t after, std::int64_t ranks) const {
    const std::int64_t in_node = request_.on.gpus_per_node;
    const std::int64_t next = (after / ranks + 1) * ranks;
    if (next <= in_node) return next;
    const std::int64_t nodes = std::lcm(ranks, in_node);
    return ((after < in_node ? in_node : after) / nodes + 1) * nodes;
  }
  constexpr std::int64_t first_gpus(std::int64_t ranks = 1) const {
    const std::int64_t all = total_gpus(request_.on);
    return next_gpus(searched(request_.space.gpus, all, all).low - 1, ranks);
  }
  constexpr bool has_gpus_for(std::int64_t ranks) const { return first_gpus(ranks) <= most_gpus(); }

  constexpr std::int64_t least_micro_batch() const { return request_.space.micro_batch.low(); }
  constexpr std::int64_t largest_micro_batch() const {
    const std::int64_t asked = request_.space.micro_batch.high();
    const std::int64_t most = request_.effective_batch.high();
    return asked < most ? asked : most;
  }
  // Degrees asked for, or the one that is set.
  static constexpr degree_span searched(const known<range<std::int64_t>>& degrees,
                                        std::int64_t as_set,
                                        std::int64_t most) {
    if (!degrees) return {as_set, as_set < most ? as_set : most};
    return {degrees->low(), degrees->high() < most ? degrees->high() : most};
  }

 private:
  const plan_request& request_;
};

// ---- The candidates of a family

struct stage_layout {
  std::int64_t pipeline = 1, chunks = 1, zero = 0;
};
constexpr void set_stages(parallelism& degrees, const stage_layout& stages) {
  degrees.pipeline_parallel = stages.pipeline;
  degrees.virtual_pipeline = stages.chunks;
  degrees.zero_stage = static_cast<int>(stages.zero);
}

// Layouts with as many stages.
struct pipeline_layouts {
  std::int64_t stages = 1;
  std::int64_t ranks = 1;  // of a model
  int first = 0;           // those of one chunk come first
  int count = 0;
  int in_chunks = 0;
  parameter_counts held{};  // by the first rank
};

// What a pipeline's layouts may do on so many GPUs: none where there are no such plans.
struct allowed_batches {
  accumulations plain{};
  accumulations in_chunks{};  // go through as many micro-batches as stages at a time

  constexpr const accumulations& with(const stage_layout& layout) const {
    return layout.chunks > 1 ? in_chunks : plain;
  }
  constexpr std::int64_t plans(const pipeline_layouts& pipeline) const {
    return (pipeline.count - pipeline.in_chunks) * plain.count() +
           pipeline.in_chunks * in_chunks.count();
  }
};

// The layouts of a family, those that `validate` accepts.
class family_layouts {
 public:
  static constexpr int most_layouts = 1024;
  static constexpr int most_pipelines = 256;

  // Those of the setup of a family. The failure stays that of the first that ever was refused.
  constexpr void find(const plan_domain& domain, const plan_family& family) {
    count_ = pipeline_count_ = 0;
    training_setup setup = domain.setup_of(family);
    const parallelism& as_set = domain.setup_at(family.setup).parallelism;
    const plan_space& space = domain.request().space;
    const std::int64_t layers = setup.model.layers();
    const degree_span pipeline =
        domain.searched(space.pipeline_parallel, as_set.pipeline_parallel, layers);
    const degree_span zero = domain.searched(space.zero_stage, as_set.zero_stage, 3);
    for (std::int64_t p = pipeline.low; p <= pipeline.high; ++p) {
      const std::int64_t ranks = family.tensor * family.context * p;
      if (!domain.has_gpus_for(ranks)) continue;
      pipeline_layouts here{.stages = p, .ranks = ranks, .first = count_};
      const degree_span chunks =
          domain.searched(space.virtual_pipeline, as_set.virtual_pipeline, p > 1 ? layers / p : 1);
      for (std::int64_t v = chunks.low; v <= chunks.high; ++v) {
        if (v > 1 && layers % (p * v) != 0) continue;
        for (std::int64_t z = zero.low; z <= zero.high; ++z) {
          const stage_layout layout{.pipeline = p, .chunks = v, .zero = z};
          set_stages(setup.parallelism, layout);
          // Every stage is one of the layout.
          const auto valid = validate(setup);
          if (!valid && !failed(flaw_)) flaw_ = valid.why();
          if (!valid) continue;
          if (count_ == most_layouts || pipeline_count_ == most_pipelines) {
            has_too_many_ = true;
            return;
          }
          layouts_[count_++] = layout;
          here.in_chunks += v > 1 ? 1 : 0;
        }
      }
      here.count = count_ - here.first;
      if (here.count == 0) continue;
      here.held = parameters(setup.model, setup.parallelism, {});
      pipelines_[pipeline_count_++] = here;
    }
  }

  constexpr int size() const { return count_; }
  constexpr const stage_layout& operator[](int at) const { return layouts_[at]; }
  constexpr const pipeline_layouts* begin() const { return pipelines_; }
  constexpr const pipeline_layouts* end() const { return pipelines_ + pipeline_count_; }
  constexpr const failure& flaw() const { return flaw_; }
  constexpr bool has_too_many() const { return has_too_many_; }

 private:
  stage_layout layouts_[most_layouts]{};
  int count_ = 0;
  pipeline_layouts pipelines_[most_pipelines]{};
  int pipeline_count_ = 0;
  failure flaw_{};
  bool has_too_many_ = false;
};

// Calls `visit(GPUs, batches)` for each number of GPUs on which a pipeline has plans.
template <class Visit>
constexpr void for_each_size(const plan_domain& domain,
                             const training_setup& setup,
                             const pipeline_layouts& pipeline,
                             std::int64_t b,
                             const Visit& visit) {
  const range<std::int64_t>& batch = domain.request().effective_batch;
  const std::int64_t high = domain.most_gpus(pipeline.ranks, b);
  for (std::int64_t many = domain.first_gpus(pipeline.ranks); many <= high;
       many = domain.next_gpus(many, pipeline.ranks)) {
    const std::int64_t data_parallel = many / pipeline.ranks;
    if (failed(flaw_of_batch(setup, {b, data_parallel, 1}))) continue;
    const std::int64_t samples = b * data_parallel;
    allowed_batches batches{.plain = accumulations_for(batch, samples, 1)};
    if (pipeline.in_chunks != 0)
      batches.in_chunks = accumulations_for(batch, samples, pipeline.stages);
    if (batches.plans(pipeline) != 0) visit(many, batches);
  }
}

// ---- What there is, worked out once

struct micro_batch_bound {
  double bound = 0;
  std::int64_t micro_batch = 0;
};

// Bounds are other sums than what they are compared with.
inline constexpr double rounding_of_bounds = 1 - 1e-12;

// The times of a family's plans by `roofline_time`: those of a layer in tables, one micro-batch at
// a time.
class family_times {
 public:
  constexpr family_times(const plan_request& request,
                         const roofline_times& times,
                         const training_setup& family)
      : time_(times(family, request.on, request.efficiency).model), composer_(time_) {
    composer_.set_factors(times.factors);
  }
  constexpr family_times(const family_times&) = delete;
  constexpr family_times& operator=(const family_times&) = delete;

  // Of micro-batches of so many samples on so many stages.
  constexpr void tabulate(std::int64_t b, std::int64_t stages) {
    // Where some layers are recomputed, their share is one of a stage.
    const bool is_there = b == micro_batch_ && (stages == stages_ || !share_differs());
    if (is_there) return;
    set_layout({.pipeline = stages});
    composer_.tabulate_layers(b);
    all_stages_ = composer_.of_all_stages();
    micro_batch_ = b;
    stages_ = stages;
  }
  constexpr double of_busiest_stage(std::int64_t stages) {
    set_layout({.pipeline = stages});
    return composer_.of_busiest_stage();
  }
  constexpr step_line line(const stage_layout& layout,
                           std::int64_t data_parallel,
                           const parameter_counts& held) {
    set_layout(layout);
    composer_.set_data_parallel(data_parallel);
    return composer_.line(held);
  }

  // What no plan on so many GPUs is below: GPUs that compute all the time, and on layers alone.
  // What weights' sharing takes is not in it.
  constexpr double bound(plan_goal goal, std::int64_t many) const {
    const parallelism& degrees = time_.setup.parallelism;
    const double gpu_time =
        all_stages_ * static_cast<double>(degrees.tensor_parallel * degrees.context_parallel) /
        static_cast<double>(micro_batch_) * rounding_of_bounds;
    return goal == plan_goal::least_money ? gpu_time : gpu_time / static_cast<double>(many);
  }

 private:
  roofline_time time_;
  step_composer composer_;
  std::int64_t micro_batch_ = 0;  // that is tabulated
  std::int64_t stages_ = 0;
  double all_stages_ = 0;

  constexpr bool share_differs() const { return time_.setup.recompute_layers != 0; }
  constexpr void set_layout(const stage_layout& layout) {
    composer_.set_layout(layout.pipeline, layout.chunks, static_cast<int>(layout.zero));
  }
};
// Of a time model that is asked about each plan.
struct no_times {
  constexpr no_times(const plan_request&, const auto&, const training_setup&) {}
};

// The families of a request that have plans, the lowest bound first, each with its micro-batches.
template <times_of_setups TimesOf>
class plan_tables {
 public:
  static constexpr int most_families = 512;

  // Nothing bounds what another time model answers.
  static constexpr bool has_times = std::same_as<TimesOf, roofline_times>;
  using times = std::conditional_t<has_times, family_times, no_times>;

  constexpr plan_tables(const plan_domain& domain, const TimesOf& times_of)
      : prunes_(has_times && !domain.request().evaluates_all &&
                domain.request().goal != plan_goal::least_memory) {
    family_layouts layouts;
    for (std::int64_t setup = 0; setup < domain.setups(); ++setup)
      find_families(domain, times_of, setup, layouts);
    flaw_ = layouts.flaw();
    has_too_many_ = has_too_many_ || layouts.has_too_many();
  }

  // Whether bounds are worked out.
  constexpr bool prunes() const { return prunes_; }
  constexpr std::int64_t plans() const { return plans_; }
  constexpr const plan_family* begin() const { return families_; }
  constexpr const plan_family* end() const { return families_ + family_count_; }
  // In order of their bounds; none where there was no room for them.
  constexpr const micro_batch_bound* bounds_of(const plan_family& family) const {
    return family.first_bound < 0 ? nullptr : bounds_ + family.first_bound;
  }
  // Of the first layout that was refused.
  constexpr const failure& flaw() const { return flaw_; }
  constexpr bool has_layouts() const { return has_layouts_; }
  constexpr bool has_too_many() const { return has_too_many_; }

 private:
  static constexpr int most_bounds = 4096;

  bool prunes_;
  plan_family families_[most_families]{};
  int family_count_ = 0;
  micro_batch_bound bounds_[most_bounds]{};
  int bound_count_ = 0;
  std::int64_t plans_ = 0;
  failure flaw_{};
  bool has_layouts_ = false;
  bool has_too_many_ = false;

  constexpr void find_families(const plan_domain& domain,
                               const TimesOf& times_of,
                               std::int64_t which,
                               family_layouts& layouts) {
    const training_setup& setup = domain.setup_at(which);
    const parallelism& as_set = setup.parallelism;
    const plan_request& request = domain.request();
    const plan_space& space = request.space;
    const std::int64_t most = domain.most_gpus();
    const std::int64_t in_node = request.tensor_within_node && request.on.gpus_per_node < most
                                     ? request.on.gpus_per_node
                                     : most;
    const degree_span tensor =
        domain.searched(space.tensor_parallel, as_set.tensor_parallel, in_node);
    const degree_span context =
        domain.searched(space.context_parallel, as_set.context_parallel, most);
    const std::int64_t experts = setup.model.moe.num_experts;
    const degree_span expert =
        domain.searched(space.expert_parallel, as_set.expert_parallel, experts == 0 ? 1 : experts);
    for (std::int64_t t = tensor.low; t <= tensor.high; ++t)
      for (std::int64_t c = context.low; c <= context.high && c <= most / t; ++c) {
        if (!domain.has_gpus_for(t * c)) continue;
        if (failed(layouts.flaw()) && !can_divide_layers(setup, t, c)) {
          if (c > setup.sequence_length) break;
          continue;
        }
        for (std::int64_t e = expert.low; e <= expert.high; ++e) {
          if (experts != 0 && experts % e != 0) continue;
          for (int mode = 0; mode < 3; ++mode)
            for (std::int64_t along = 0; along <= (space.sequence_parallel && t > 1 ? 1 : 0);
                 ++along)
              if (space.recompute || mode == static_cast<int>(setup.recompute))
                add_family(domain,
                           times_of,
                           {.tensor = t,
                            .context = c,
                            .expert = e,
                            .recompute = mode,
                            .sequence = along,
                            .setup = which},
                           layouts);
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
  constexpr void add_family(const plan_domain& domain,
                            const TimesOf& times_of,
                            plan_family family,
                            family_layouts& layouts) {
    if (family_count_ == most_families) {
      has_too_many_ = true;
      return;
    }
    layouts.find(domain, family);
    if (layouts.size() == 0) return;
    has_layouts_ = true;
    find_bounds(domain, times_of, layouts, family);
    if (family.bounds == 0) return;
    int at = family_count_++;
    for (; at > 0 && family.bound < families_[at - 1].bound; --at)
      families_[at] = families_[at - 1];
    families_[at] = family;
  }
  // Of the micro-batches that have plans. Where bounds are not wanted, they are 0.
  constexpr void find_bounds(const plan_domain& domain,
                             const TimesOf& times_of,
                             const family_layouts& layouts,
                             plan_family& family) {
    const plan_request& request = domain.request();
    const range<std::int64_t>& all = request.effective_batch;
    const training_setup setup = domain.setup_of(family);
    [[maybe_unused]] times there(request, times_of, setup);
    family.bound = infinity;
    family.first_bound = bound_count_;
    for (std::int64_t b = domain.least_micro_batch(); b <= domain.largest_micro_batch(); ++b) {
      if (all.high() / b * b < all.low()) continue;
      std::int64_t plans = 0;
      for (const pipeline_layouts& pipeline : layouts)
        for_each_size(
            domain, setup, pipeline, b, [&](std::int64_t, const allowed_batches& batches) {
              plans += batches.plans(pipeline);
            });
      if (plans == 0) continue;
      plans_ += plans;
      ++family.bounds;
      double bound = 0;
      if constexpr (has_times)
        if (prunes_) {
          there.tabulate(b, 1);
          bound = there.bound(request.goal, domain.most_gpus());
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
};

// ---- The lowest candidates

// Whether a plan of a candidate meets the limits: then it ends with the most accumulation that
// does, or begins with the least where memory is the goal. The time of a sample falls with
// accumulation, so that of the most is the least of all.
constexpr bool settle(const plan_domain& domain,
                      const run_limits& limits,
                      plan_candidate& candidate,
                      plan_counts& counts) {
  const accumulations all = candidate.allowed;
  if (domain.request().evaluates_all) {
    plan_candidate settled = candidate;  // the same but for rounding
    settled.step.settle();
    double longest = 0;
    for (std::int64_t many = all.low; many <= all.high; many += all.unit) {
      const double here = settled.per_sample(many);
      if (here > longest) longest = here;
    }
    counts.evaluated += longest < infinity ? all.count() : 0;
  } else {
    counts.evaluated += 1;
  }
  const bool from_least = domain.request().goal == plan_goal::least_memory;
  std::int64_t best = 0;
  if (limits.may_be_met_by(candidate))
    best = from_least ? limits.least_accumulation(candidate) : limits.most_accumulation(candidate);
  if (best == 0) {
    counts.refused += all.count();
    return false;
  }
  (from_least ? candidate.allowed.low : candidate.allowed.high) = best;
  candidate.bound = from_least ? 0 : domain.value_of(candidate.group, candidate.per_sample(best));
  return true;
}

// The plans of a request. One pass over its families finds the lowest candidates that come behind a
// given one.
template <times_of_setups TimesOf>
class plan_search {
 public:
  constexpr plan_search(const plan_request& request, const TimesOf& times_of)
      : domain_(request), times_of_(times_of), limits_(request), tables_(domain_, times_of) {}

  constexpr const plan_domain& domain() const { return domain_; }
  constexpr const run_limits& limits() const { return limits_; }
  constexpr const plan_tables<TimesOf>& tables() const { return tables_; }

  // The setup with a group's layout.
  constexpr training_setup setup_of(const plan_group& group) const {
    training_setup setup = domain_.setup_of(family_of(group));
    set_stages(setup.parallelism,
               {.pipeline = group.pipeline, .chunks = group.chunks, .zero = group.zero});
    return setup;
  }

  struct lowest_candidates {
    candidate_list candidates;
    plan_counts counts{};
  };
  // The lowest candidates, `most` of them: those behind another one, where there is one, and not
  // above `limit`. `refine(candidate, setup, parameters of its first rank)` may raise a candidate's
  // bound, to infinity where it has no plan.
  template <class Refine>
  constexpr lowest_candidates lowest(int most,
                                     const plan_candidate* behind,
                                     double limit,
                                     const Refine& refine) const {
    lowest_candidates found{.candidates = candidate_list(most)};
    family_layouts layouts;
    for (const plan_family& family : tables_) {
      if (is_excluded(family.bound, found, limit)) break;
      layouts.find(domain_, family);
      const training_setup setup = domain_.setup_of(family);
      typename plan_tables<TimesOf>::times times(domain_.request(), times_of_, setup);
      family_pass<Refine> pass{.search = *this,
                               .domain = domain_,
                               .family = family,
                               .layouts = layouts,
                               .times = times,
                               .setup = setup,
                               .rules_out = domain_.first_gpus() == domain_.most_gpus() &&
                                            !domain_.request().evaluates_all,
                               .behind = behind,
                               .limit = limit,
                               .refine = refine,
                               .found = found};
      const micro_batch_bound* bounds = tables_.bounds_of(family);
      if (bounds == nullptr) {
        for (std::int64_t b = domain_.least_micro_batch(); b <= domain_.largest_micro_batch(); ++b)
          pass.visit(b);
        continue;
      }
      for (int at = 0; at < family.bounds; ++at) {
        if (is_excluded(bounds[at].bound, found, limit)) break;
        pass.visit(bounds[at].micro_batch);
      }
    }
    found.counts.excluded = tables_.plans() - found.counts.evaluated;
    return found;
  }

 private:
  plan_domain domain_;
  const TimesOf& times_of_;
  run_limits limits_;
  plan_tables<TimesOf> tables_;

  static constexpr bool has_times = plan_tables<TimesOf>::has_times;

  static constexpr plan_family family_of(const plan_group& group) {
    return {.tensor = group.tensor,
            .context = group.context,
            .expert = group.expert,
            .recompute = group.recompute,
            .sequence = group.sequence,
            .setup = group.setup};
  }
  constexpr bool is_excluded(double bound, const lowest_candidates& found, double limit) const {
    if (!tables_.prunes()) return false;
    const double most = found.candidates.limit();
    return bound > (most < limit ? most : limit);
  }

  // One family's plans, micro-batch by micro-batch.
  template <class Refine>
  struct family_pass {
    const plan_search& search;
    const plan_domain& domain;
    const plan_family& family;
    const family_layouts& layouts;
    typename plan_tables<TimesOf>::times& times;
    training_setup setup;  // of the layout that is visited
    // Of one number of GPUs, so that what is hopeless is so for all plans of a layout.
    bool rules_out;
    const plan_candidate* behind;
    double limit;
    const Refine& refine;
    lowest_candidates& found;
    // Micro-batches of a layout from here on are refused; 0: none was tried.
    std::int64_t refused_from[family_layouts::most_layouts]{};

    constexpr void visit(std::int64_t b) {
      for (const pipeline_layouts& pipeline : layouts)
        if (!is_refused(pipeline, b)) visit(pipeline, b);
    }
    constexpr bool is_excluded(double bound) const {
      return search.is_excluded(bound, found, limit);
    }
    constexpr void visit(const pipeline_layouts& pipeline, std::int64_t b) {
      double busiest = 0;
      for_each_size(
          domain, setup, pipeline, b, [&](std::int64_t many, const allowed_batches& batches) {
            if constexpr (has_times) {
              times.tabulate(b, pipeline.stages);
              if (is_excluded(times.bound(domain.request().goal, many))) return;
              if (busiest == 0) busiest = times.of_busiest_stage(pipeline.stages);
            }
            visit(pipeline, many, batches, b, busiest);
          });
    }
    // The layouts of a pipeline on so many GPUs.
    constexpr void visit(const pipeline_layouts& pipeline,
                         std::int64_t many,
                         const allowed_batches& batches,
                         std::int64_t b,
                         double busiest) {
      plan_candidate here{.group = group_of(pipeline, many, b)};
      const double least = busiest / static_cast<double>(b * here.group.data_parallel());
      for (int at = pipeline.first; at < pipeline.first + pipeline.count; ++at) {
        const stage_layout& layout = layouts[at];
        here.allowed = batches.with(layout);
        if (here.allowed.count() == 0 || (refused_from[at] != 0 && b >= refused_from[at])) continue;
        if (is_excluded(domain.value_of(here.group, least * rounding_of_bounds))) break;
        set_stages(setup.parallelism, layout);
        here.group.chunks = layout.chunks;
        here.group.zero = layout.zero;
        if (rules_out && refused_from[at] == 0 && try_least(at, here, pipeline)) continue;
        if constexpr (has_times) {
          const step_line line = times.line(layout, here.group.data_parallel(), pipeline.held);
          const double samples = static_cast<double>(b * here.group.data_parallel());
          const double at_least = line.at_least(here.allowed.high) / samples * rounding_of_bounds;
          if (is_excluded(domain.value_of(here.group, at_least))) continue;
          here.step = here.allowed.count() == 1 ? line.curve_at(here.allowed.low) : line.curve();
          add(at, here, here, pipeline);
        } else {
          const auto time = search.times_of_(setup, domain.request().on);
          plan_candidate one_plan = here;
          accumulations& alone = one_plan.allowed;
          for (; alone.low <= here.allowed.high; alone.low += alone.unit) {
            alone.high = alone.low;
            const batch_plan plan{b, here.group.data_parallel(), alone.low};
            one_plan.step = {0, time.step(plan).value(), {}, {}};
            add(at, here, one_plan, pipeline);
          }
        }
      }
    }
    constexpr plan_group group_of(const pipeline_layouts& pipeline,
                                  std::int64_t many,
                                  std::int64_t b) const {
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
    // A candidate of the layout, of which `here` has all accumulations.
    constexpr void add(int at,
                       const plan_candidate& here,
                       plan_candidate candidate,
                       const pipeline_layouts& pipeline) {
      if (!settle(domain, search.limits_, candidate, found.counts)) return;
      if (is_excluded(candidate.bound)) return;
      refine(candidate, setup, pipeline.held);
      if (rules_out && candidate.bound == infinity) find_refused(at, here, pipeline);
      if (candidate.bound < infinity && candidate.bound <= limit &&
          (behind == nullptr || *behind < candidate))
        found.candidates.insert(candidate);
    }

    // Whether that is known of all layouts with as many stages.
    constexpr bool is_refused(const pipeline_layouts& pipeline, std::int64_t b) const {
      for (int at = pipeline.first; at < pipeline.first + pipeline.count; ++at)
        if (refused_from[at] == 0 || b < refused_from[at]) return false;
      return true;
    }
    // Whether memory refuses even the least accumulation. It rises with that and the micro-batch.
    constexpr bool is_refused(plan_candidate candidate,
                              std::int64_t b,
                              const pipeline_layouts& pipeline) const {
      candidate.group.micro_batch = b;
      candidate.allowed.low = candidate.allowed.high = candidate.allowed.unit;
      refine(candidate, setup, pipeline.held);
      return candidate.bound == infinity;
    }
    constexpr bool try_least(int at, const plan_candidate& here, const pipeline_layouts& pipeline) {
      const std::int64_t least = domain.least_micro_batch();
      refused_from[at] =
          is_refused(here, least, pipeline) ? least : std::numeric_limits<std::int64_t>::max();
      return refused_from[at] == least;
    }
    // The least micro-batch that is refused, of which `here` has one.
    constexpr void find_refused(int at,
                                const plan_candidate& here,
                                const pipeline_layouts& pipeline) {
      std::int64_t high = here.group.micro_batch;
      if (!is_refused(here, high, pipeline)) return;
      std::int64_t low = domain.least_micro_batch();
      while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (is_refused(here, middle, pipeline) ? high : low) = middle;
      }
      refused_from[at] = high;
    }
  };
};

}  // namespace gpuplan::detail
