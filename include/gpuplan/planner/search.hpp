#pragma once

// The planner's inner loop, in plain numbers: every plan's time from tables, the best of them in
// order, and what no plan can be better than. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/training_setup.hpp>

#include <compare>
#include <cstdint>
#include <limits>

namespace gpuplan::detail {

// A division on so many GPUs, and a micro-batch.
struct plan_group {
  std::int64_t gpus = 0;
  std::int64_t tensor = 1, context = 1, expert = 1;
  std::int64_t recompute = 0;
  std::int64_t pipeline = 1, chunks = 1;
  std::int64_t zero = 0;
  std::int64_t micro_batch = 1;

  constexpr std::int64_t model_ranks() const { return tensor * context * pipeline; }
  constexpr std::int64_t data_parallel() const { return gpus / model_ranks(); }
  constexpr bool same_division(const plan_group& other) const {
    return gpus == other.gpus && tensor == other.tensor && context == other.context &&
           expert == other.expert && recompute == other.recompute && pipeline == other.pipeline &&
           chunks == other.chunks && zero == other.zero;
  }
  // Of plans as good, the one that is simpler comes first.
  friend constexpr auto operator<=>(const plan_group&,
                                    const plan_group&) = default;  // NOLINT(modernize-use-nullptr)
};

// Degrees to search; none where it ends before it starts.
struct degree_span {
  std::int64_t low = 1;
  std::int64_t high = 0;
};

// The accumulations that meet a request's effective batch: multiples of `unit`.
struct accumulations {
  std::int64_t low = 1;
  std::int64_t high = 0;
  std::int64_t unit = 1;

  constexpr std::int64_t count() const { return high < low ? 0 : (high - low) / unit + 1; }
};

constexpr accumulations accumulations_for(const range<std::int64_t>& effective_batch,
                                          std::int64_t samples_at_once,
                                          std::int64_t unit) {
  const std::int64_t each = samples_at_once * unit;
  return {ceil_div(effective_batch.low(), each) * unit, effective_batch.high() / each * unit, unit};
}

// A group, the accumulations that are left of it, and what none of its plans is below.
struct plan_candidate {
  double bound = 0;
  plan_group group{};
  accumulations of{};
  step_curve step{};  // seconds by its accumulation

  constexpr double per_sample(std::int64_t accumulation) const {
    return step(accumulation) /
           static_cast<double>(group.micro_batch * group.data_parallel() * accumulation);
  }

  friend constexpr bool operator<(const plan_candidate& a, const plan_candidate& b) {
    return a.bound != b.bound ? a.bound < b.bound : a.group < b.group;
  }
};

// The lowest candidates, in order.
class candidate_list {
 public:
  static constexpr int capacity = 64;

  constexpr bool is_full() const { return count_ == capacity; }
  constexpr int size() const { return count_; }
  constexpr const plan_candidate& operator[](int at) const { return of_[at]; }
  // What a candidate must be below to be kept.
  constexpr double limit() const {
    return is_full() ? of_[capacity - 1].bound : std::numeric_limits<double>::infinity();
  }
  constexpr void insert(const plan_candidate& candidate) {
    if (is_full() && !(candidate < of_[capacity - 1])) return;
    int at = is_full() ? capacity - 1 : count_++;
    for (; at > 0 && candidate < of_[at - 1]; --at) of_[at] = of_[at - 1];
    of_[at] = candidate;
  }

 private:
  plan_candidate of_[capacity]{};
  int count_ = 0;
};

struct plan_counts {
  std::int64_t evaluated = 0;  // plans whose time was worked out
  std::int64_t excluded = 0;   // by a bound
  std::int64_t refused = 0;    // of both: known to take too long or cost too much
};

// What the search goes through in blocks: the time of a layer is one for all plans of a family.
struct plan_family {
  double bound = 0;
  std::int64_t tensor = 1, context = 1, expert = 1, recompute = 0;
};

// The plans of a request. One pass over all of them finds the lowest candidates that come behind a
// given one.
class plan_enumeration {
 public:
  static constexpr int most_families = 512;

  constexpr explicit plan_enumeration(const plan_request& asked)
      : request_(asked),
        time_{.setup = asked.setup, .on = asked.on, .efficiency = asked.efficiency},
        composer_(time_) {
    const double samples = static_cast<double>(asked.samples);
    if (asked.finish_in) per_sample_at_most_ = asked.finish_in->value() / samples;
    if (asked.at_most)
      gpu_time_at_most_ = asked.at_most->value() / asked.on.price_per_gpu->each.value() / samples;
    find_families();
  }

  constexpr plan_enumeration(const plan_enumeration&) = delete;
  constexpr plan_enumeration& operator=(const plan_enumeration&) = delete;

  constexpr const plan_counts& counts() const { return counts_; }
  // Of the first division that was refused.
  constexpr const failure& flaw() const { return flaw_; }
  constexpr bool has_divisions() const { return family_count_ != 0; }
  constexpr bool has_too_many() const { return has_too_many_; }

  // What the goal counts, of so many seconds a sample.
  constexpr double value_of(const plan_group& group, double per_sample) const {
    return request_.goal == plan_goal::least_money ? per_sample * static_cast<double>(group.gpus)
                                                   : per_sample;
  }
  constexpr bool meets_limits(const plan_group& group, double per_sample) const {
    return per_sample <= per_sample_at_most_ &&
           per_sample * static_cast<double>(group.gpus) <= gpu_time_at_most_;
  }

  constexpr std::int64_t most_gpus() const {
    const std::int64_t all = total_gpus(request_.on);
    return searched(request_.space.gpus, all, all).high;
  }

  // The setup with a group's division.
  constexpr const training_setup& divided(const plan_group& group) {
    set_family({0, group.tensor, group.context, group.expert, group.recompute});
    set_division({group.pipeline, group.chunks, group.zero});
    return time_.setup;
  }

  // The lowest candidates: those behind another one, where there is one, and not above `limit`.
  // `refine(candidate, setup)` may raise a candidate's bound, to infinity where it has no plan.
  template <class Refine>
  constexpr candidate_list lowest(const plan_candidate* behind,
                                  double limit,
                                  const Refine& refine) {
    counts_ = {};
    candidate_list found;
    for (int at = 0; at < family_count_; ++at) {
      set_family(families_[at]);
      find_divisions();
      if (division_count_ == 0) continue;
      for (std::int64_t b = request_.space.micro_batch.low(); b <= largest_micro_batch(); ++b) {
        const double most = found.limit() < limit ? found.limit() : limit;
        if (prunes() && families_[at].bound > most)
          exclude(b);
        else
          visit(families_[at], b, behind, limit, found, refine);
      }
    }
    return found;
  }

 private:
  struct division {
    std::int64_t pipeline = 1, chunks = 1, zero = 0;
    int held = 0;  // place in `held_`
  };
  static constexpr int most_divisions = 1024;
  static constexpr int most_pipelines = 256;
  // Bounds are other sums than what they are compared with.
  static constexpr double rounding = 1 - 1e-12;

  const plan_request& request_;
  roofline_time time_;
  step_composer composer_;
  plan_counts counts_{};
  failure flaw_{};
  plan_family families_[most_families]{};
  int family_count_ = 0;
  division divisions_[most_divisions]{};  // of the family that is visited
  int division_count_ = 0;
  parameter_counts held_[most_pipelines]{};  // by its pipelines' first ranks
  int held_count_ = 0;
  bool has_too_many_ = false;
  double per_sample_at_most_ = std::numeric_limits<double>::infinity();
  double gpu_time_at_most_ = std::numeric_limits<double>::infinity();

  constexpr bool prunes() const {
    return !request_.evaluates_all && request_.goal != plan_goal::least_memory;
  }
  constexpr std::int64_t devices_per_node() const { return request_.on.gpus_per_node; }
  // The next number of GPUs: of a node any, then whole nodes.
  constexpr std::int64_t next_gpus(std::int64_t after) const {
    const std::int64_t in_node = devices_per_node();
    return after < in_node ? after + 1 : (after / in_node + 1) * in_node;
  }
  constexpr std::int64_t first_gpus() const {
    const std::int64_t all = total_gpus(request_.on);
    return next_gpus(searched(request_.space.gpus, all, all).low - 1);
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

  constexpr void set_family(const plan_family& family) {
    parallelism& degrees = time_.setup.parallelism;
    degrees.tensor_parallel = family.tensor;
    degrees.context_parallel = family.context;
    degrees.expert_parallel = family.expert;
    time_.setup.recompute = static_cast<recompute_mode>(family.recompute);
  }
  constexpr void set_division(const division& of) {
    parallelism& degrees = time_.setup.parallelism;
    degrees.pipeline_parallel = of.pipeline;
    degrees.virtual_pipeline = of.chunks;
    degrees.zero_stage = static_cast<int>(of.zero);
  }

  // Numbers of GPUs that so many ranks of a model divide.
  constexpr bool has_gpus_for(std::int64_t ranks) const {
    const std::int64_t high = most_gpus();
    if (ranks > high) return false;
    for (std::int64_t many = first_gpus(); many <= high; many = next_gpus(many))
      if (many % ranks == 0) return true;
    return false;
  }

  constexpr void find_families() {
    const parallelism& as_set = request_.setup.parallelism;
    const plan_space& space = request_.space;
    const std::int64_t most = most_gpus();
    const std::int64_t in_node =
        request_.tensor_within_node && devices_per_node() < most ? devices_per_node() : most;
    const degree_span tensor = searched(space.tensor_parallel, as_set.tensor_parallel, in_node);
    const degree_span context = searched(space.context_parallel, as_set.context_parallel, most);
    const std::int64_t experts = request_.setup.model.moe.num_experts;
    const degree_span expert =
        searched(space.expert_parallel, as_set.expert_parallel, experts == 0 ? 1 : experts);
    for (std::int64_t t = tensor.low; t <= tensor.high; ++t)
      for (std::int64_t c = context.low; c <= context.high; ++c) {
        if (!has_gpus_for(t * c)) continue;
        for (std::int64_t e = expert.low; e <= expert.high; ++e) {
          if (experts != 0 && experts % e != 0) continue;
          for (int mode = 0; mode < 3; ++mode)
            if (space.recompute || mode == static_cast<int>(request_.setup.recompute))
              add_family({0, t, c, e, mode});
        }
      }
  }
  constexpr void add_family(plan_family family) {
    if (family_count_ == most_families) {
      has_too_many_ = true;
      return;
    }
    set_family(family);
    find_divisions();
    if (division_count_ == 0) return;
    if (prunes()) family.bound = bound_of(family);
    int at = family_count_++;
    for (; at > 0 && family.bound < families_[at - 1].bound; --at)
      families_[at] = families_[at - 1];
    families_[at] = family;
  }
  // GPUs that compute all the time, and on layers alone.
  constexpr double bound_of(const plan_family& family) {
    double least = std::numeric_limits<double>::infinity();
    set_division({1, 1, 0});
    for (std::int64_t b = request_.space.micro_batch.low(); b <= largest_micro_batch(); ++b) {
      composer_.tabulate_layers(b);
      const double here = bound_of(family, b, composer_.of_all_stages(), most_gpus());
      if (here < least) least = here;
    }
    return least;
  }
  constexpr double bound_of(const plan_family& family,
                            std::int64_t b,
                            double all_stages,
                            std::int64_t many) const {
    const double gpu_time = all_stages * static_cast<double>(family.tensor * family.context) /
                            static_cast<double>(b) * rounding;
    return request_.goal == plan_goal::least_money ? gpu_time
                                                   : gpu_time / static_cast<double>(many);
  }

  constexpr void find_divisions() {
    division_count_ = held_count_ = 0;
    const parallelism& as_set = request_.setup.parallelism;
    const plan_space& space = request_.space;
    const std::int64_t layers = request_.setup.model.layers();
    const std::int64_t tensor = time_.setup.parallelism.tensor_parallel;
    const std::int64_t context = time_.setup.parallelism.context_parallel;
    const degree_span pipeline =
        searched(space.pipeline_parallel, as_set.pipeline_parallel, layers);
    const degree_span zero = searched(space.zero_stage, as_set.zero_stage, 3);
    for (std::int64_t p = pipeline.low; p <= pipeline.high; ++p) {
      if (!has_gpus_for(tensor * context * p)) continue;
      const int before = division_count_;
      const degree_span chunks =
          searched(space.virtual_pipeline, as_set.virtual_pipeline, p > 1 ? layers / p : 1);
      for (std::int64_t v = chunks.low; v <= chunks.high; ++v) {
        if (v > 1 && layers % (p * v) != 0) continue;
        for (std::int64_t z = zero.low; z <= zero.high; ++z) {
          set_division({p, v, z});
          // Every stage is one of the division.
          const auto valid = validate(time_.setup);
          if (!valid && !failed(flaw_)) flaw_ = valid.why();
          if (!valid) continue;
          if (division_count_ == most_divisions || held_count_ == most_pipelines) {
            has_too_many_ = true;
            return;
          }
          divisions_[division_count_++] = {p, v, z, held_count_};
        }
      }
      if (division_count_ == before) continue;
      held_[held_count_++] = parameters(time_.setup.model, time_.setup.parallelism, {});
    }
  }

  constexpr plan_group group_of(const division& of, std::int64_t many, std::int64_t b) const {
    const parallelism& degrees = time_.setup.parallelism;
    return {many,
            degrees.tensor_parallel,
            degrees.context_parallel,
            degrees.expert_parallel,
            static_cast<std::int64_t>(time_.setup.recompute),
            of.pipeline,
            of.chunks,
            of.zero,
            b};
  }
  // The accumulations of a division on so many GPUs; none where there is no such plan.
  constexpr accumulations accumulations_of(const plan_group& group) const {
    if (group.gpus % group.model_ranks() != 0) return {};
    const std::int64_t data_parallel = group.data_parallel();
    if (failed(flaw_of_batch(time_.setup, {group.micro_batch, data_parallel, 1}))) return {};
    // Interleaved schedules go through as many micro-batches as stages at a time.
    return accumulations_for(request_.effective_batch,
                             group.micro_batch * data_parallel,
                             group.chunks > 1 ? group.pipeline : 1);
  }

  constexpr void exclude(std::int64_t b) {
    const std::int64_t high = most_gpus();
    for (int at = 0; at < division_count_; ++at)
      for (std::int64_t many = first_gpus(); many <= high; many = next_gpus(many)) {
        const plan_group group = group_of(divisions_[at], many, b);
        counts_.excluded += accumulations_of(group).count();
      }
  }

  template <class Refine>
  constexpr void visit(const plan_family& family,
                       std::int64_t b,
                       const plan_candidate* behind,
                       double limit,
                       candidate_list& found,
                       const Refine& refine) {
    const std::int64_t high = most_gpus();
    const bool share_differs = request_.setup.recompute_layers != 0;
    std::int64_t tabulated_for = 0;  // stages
    double all_stages = 0;
    for (int at = 0; at < division_count_; ++at)
      for (std::int64_t many = first_gpus(); many <= high; many = next_gpus(many)) {
        const division& of = divisions_[at];
        plan_candidate here{.group = group_of(of, many, b)};
        here.of = accumulations_of(here.group);
        if (here.of.count() == 0) continue;
        if (tabulated_for == 0 || (share_differs && tabulated_for != of.pipeline)) {
          set_division({of.pipeline, 1, 0});  // what weights' sharing takes is not in the bound
          composer_.tabulate_layers(b);
          all_stages = composer_.of_all_stages();
          tabulated_for = of.pipeline;
        }
        set_division(of);
        const double most = found.limit() < limit ? found.limit() : limit;
        if (prunes() && bound_of(family, b, all_stages, many) > most) {
          counts_.excluded += here.of.count();
          continue;
        }
        composer_.set_data_parallel(here.group.data_parallel());
        here.step = composer_.line(held_[of.held]).curve();
        if (!evaluate(here) || here.bound > most) continue;
        refine(here, time_.setup);
        if (here.bound < std::numeric_limits<double>::infinity() && here.bound <= limit &&
            (behind == nullptr || *behind < here))
          found.insert(here);
      }
  }

  // Whether a plan of the group meets the limits. The time of a sample falls with accumulation, so
  // that of the most is the least of all.
  constexpr bool evaluate(plan_candidate& group) {
    const accumulations& of = group.of;
    double least = group.per_sample(of.high);
    if (request_.evaluates_all) {
      group.step.settle();
      for (std::int64_t many = of.low; many <= of.high; many += of.unit) {
        const double here = group.per_sample(many);
        if (here < least) least = here;
        counts_.refused += meets_limits(group.group, here) ? 0 : 1;
      }
      counts_.evaluated += of.count();
    } else {
      const bool meets = meets_limits(group.group, least);
      counts_.evaluated += 1;
      counts_.excluded += of.count() - 1;
      counts_.refused += meets ? 0 : of.count();
    }
    group.bound = request_.goal == plan_goal::least_memory ? 0 : value_of(group.group, least);
    return meets_limits(group.group, least);
  }
};

}  // namespace gpuplan::detail
