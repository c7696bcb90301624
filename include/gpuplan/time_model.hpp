#pragma once

// What a time model is, and what follows from any of them.

#include <gpuplan/batch.hpp>
#include <gpuplan/units.hpp>

#include <concepts>

namespace gpuplan {

/// Answers "how long does one optimizer step of this plan take?". Precondition of `step`: a plan
/// that `validate` accepts. Where `validate(model)` exists, decisions call it first.
template <class Model>
concept time_model = requires(const Model& model, const batch_plan& plan) {
  { model.step(plan) } -> std::same_as<duration>;
};

/// The samples per second of all GPUs together: `effective_batch / step`. Precondition: a valid
/// plan, whose step takes more than no time.
template <time_model Model>
[[nodiscard]] constexpr sample_rate throughput(const batch_plan& plan, const Model& model) {
  return samples_per(plan.effective_batch(), model.step(plan));
}

}  // namespace gpuplan
