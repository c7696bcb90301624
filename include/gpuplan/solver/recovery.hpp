#pragma once

// What to do after running out of memory, as steps that are data.

#include <gpuplan/batch.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>

namespace gpuplan {

enum class recovery_action { lower_micro_batch, recompute_activations };

/// One change of a plan that ran out of memory. The effective batch stays.
struct recovery_step {
  recovery_action action{};
  batch_plan plan;         // after the change
  bool recompute = false;  // whether activations are recomputed after the change
};

namespace detail {

// The largest divisor of `number` up to `most`, for positive arguments: O(sqrt(number)).
constexpr std::int64_t largest_divisor(std::int64_t number, std::int64_t most) {
  std::int64_t largest = 1;
  for (std::int64_t small = 1; small <= number / small; ++small) {
    if (number % small != 0) continue;
    if (number / small <= most) return number / small;  // the first is the largest
    if (small <= most) largest = small;
  }
  return largest;
}

}  // namespace detail

/// The next thing to try: half the micro-batch and twice the accumulation; where half is not a
/// divisor of micro-batch x accumulation, the largest divisor below it. From micro-batch 1 on,
/// recomputation of activations. Errors: `validate(plan)`; `nothing_left_to_try` where that is on
/// already; `out_of_bounds` where a GPU's samples of a step, micro-batch x accumulation, exceed
/// 2^40.
[[nodiscard]] constexpr result<recovery_step> after_out_of_memory(const batch_plan& plan,
                                                                  bool recompute = false) {
  if (const auto valid = validate(plan); !valid) return valid.why();
  if (plan.micro_batch > 1) {
    const std::int64_t samples = plan.micro_batch * plan.accumulation;
    if (samples > detail::most_samples_per_gpu) return detail::too_many_samples_per_gpu(samples);
    const std::int64_t lower = detail::largest_divisor(samples, plan.micro_batch / 2);
    return recovery_step{recovery_action::lower_micro_batch,
                         {lower, plan.data_parallel, samples / lower},
                         recompute};
  }
  if (!recompute) return recovery_step{recovery_action::recompute_activations, plan, true};
  return failure(errc::nothing_left_to_try,
                 named_fact{fact::micro_batch, plan.micro_batch},
                 named_fact{fact::data_parallel, plan.data_parallel},
                 named_fact{fact::accumulation, plan.accumulation});
}

/// A plan's way back into memory: the steps, in order, each with what it needs.
struct recovery {
  static constexpr int most_steps = 64;  // each but the last at least halves a 64-bit micro-batch

  struct step : recovery_step {
    bytes required{};
  };
  step steps[most_steps]{};
  int count = 0;
  batch_plan plan;         // after the last step
  bool recompute = false;  // after the last step

  [[nodiscard]] constexpr const step* begin() const { return steps; }
  [[nodiscard]] constexpr const step* end() const { return steps + count; }
};

/// Takes the steps of `after_out_of_memory` until the plan fits: no step where it already does.
/// `recomputing` is the model with recomputed activations, `with(model, checkpointing(0.5))`.
/// Errors: what is wrong with the plan, the budget or a model; `exceeds_gpu_memory` where the last
/// step does not fit either, with its numbers; `out_of_bounds` as `after_out_of_memory`.
template <memory_model Model, memory_model Recomputing>
[[nodiscard]] constexpr result<recovery> recover_from_out_of_memory(
    const batch_plan& plan, memory_budget gpu, const Model& model, const Recomputing& recomputing) {
  if (const auto valid = validate(plan); !valid) return valid.why();
  if (const failure flaw = detail::first_flaw(gpu, model); detail::failed(flaw)) return flaw;
  if (const failure flaw = detail::first_flaw(gpu, recomputing); detail::failed(flaw)) return flaw;
  recovery way;
  way.plan = plan;
  bytes required = model.required(plan);
  while (!(required <= gpu.size())) {
    const auto next = after_out_of_memory(way.plan, way.recompute);
    if (!next && next.why().code == errc::out_of_bounds) return next.why();
    if (!next) return detail::exceeds_gpu_memory(way.plan, required, gpu);
    way.plan = next->plan;
    way.recompute = next->recompute;
    required = way.recompute ? recomputing.required(way.plan) : model.required(way.plan);
    way.steps[way.count++] = {*next, required};
  }
  return way;
}

}  // namespace gpuplan
