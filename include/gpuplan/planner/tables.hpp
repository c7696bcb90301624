#pragma once

// What the planner works out once of a request: its families with their bounds, and the times of a
// family's plans from tables of a layer's seconds. Private.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/planner/candidates.hpp>
#include <gpuplan/planner/domain.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/planner/times.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/training_setup.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace gpuplan::detail {

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
      : time_(slowed(times(family, request.on, request.efficiency).model, request)),
        composer_(time_) {
    composer_.set_factors(times.factors);
  }
  constexpr family_times(const family_times&) = delete;
  constexpr family_times& operator=(const family_times&) = delete;

  // Of micro-batches of so many samples.
  constexpr void tabulate(std::int64_t b) {
    if (b == micro_batch_) return;
    set_layout({});  // in which nothing is shared
    composer_.tabulate_layers(b);
    all_stages_ = composer_.of_all_stages();
    micro_batch_ = b;
  }
  // As `training_setup::recompute_layers`: of the family's setup, where not set to another.
  constexpr void set_recomputed(std::int64_t layers) { composer_.set_recomputed(layers); }
  constexpr void set_fewest_recomputed() { set_recomputed(time_.setup.recompute_layers); }
  constexpr double of_busiest_stage(const pipeline_layouts& pipeline) {
    set_layout({.pipeline = pipeline.stages, .chunks = pipeline.chunks});
    return composer_.of_busiest_stage();
  }
  constexpr void set_split(const stated_split& split) {
    pipeline_split set = time_.setup.parallelism.split;
    split.set(set);
    composer_.set_split(set);
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
  double all_stages_ = 0;

  static constexpr roofline_time slowed(roofline_time model, const plan_request& request) {
    model.straggler_slowdown *= request.straggler_slowdown;
    return model;
  }

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
    has_too_many_layouts_ = layouts.has_too_many();
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
  // More families than there is room for, or more layouts of one: then the tables are of no use.
  constexpr bool has_too_many() const { return has_too_many_; }
  constexpr bool has_too_many_layouts() const { return has_too_many_layouts_; }

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
  bool has_too_many_layouts_ = false;

  constexpr void find_families(const plan_domain& domain,
                               const TimesOf& times_of,
                               std::int64_t which,
                               family_layouts& layouts) {
    const training_setup& setup = domain.setup_at(which);
    const plan_space& space = domain.request().space;
    const std::int64_t most = domain.most_gpus();
    const std::int64_t experts = setup.model.moe.num_experts;
    const degree_span tensor = domain.tensor_degrees(setup);
    const degree_span context = domain.context_degrees(setup);
    const degree_span expert = domain.expert_degrees(setup);
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
           (context == 1 || setup.sequence_length % (2 * context) == 0);
  }
  constexpr void add_family(const plan_domain& domain,
                            const TimesOf& times_of,
                            plan_family family,
                            family_layouts& layouts) {
    if (family_count_ == most_families) has_too_many_ = true;
    if (has_too_many_) return;
    layouts.find(domain, family);
    has_too_many_ = layouts.has_too_many();
    if (has_too_many_ || layouts.size() == 0) return;
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
          there.tabulate(b);
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

}  // namespace gpuplan::detail
