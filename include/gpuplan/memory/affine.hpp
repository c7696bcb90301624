#pragma once

// The guides' memory model: a fixed part and a part that grows with the micro-batch.

#include <gpuplan/memory_model.hpp>

#include <cstdint>

namespace gpuplan {

/// `required = fixed + per_sample * micro_batch`. `fixed` holds what does not depend on the batch:
/// weights, gradients, optimizer states, library workspaces; `per_sample` the activations of one
/// sample. Such a line is a fit: trust it between the batches that it came from.
struct affine_memory {
  bytes fixed{};
  bytes per_sample{};

  [[nodiscard]] constexpr bytes required(const batch_plan& plan) const {
    return fixed + per_sample * plan.micro_batch;
  }

  friend constexpr bool operator==(const affine_memory& a, const affine_memory& b) {
    return a.fixed == b.fixed && a.per_sample == b.per_sample;
  }
};

/// The model itself where both parts are finite and not negative.
[[nodiscard]] constexpr result<affine_memory> validate(const affine_memory& model) {
  if (const failure flaw = detail::flaw_of_memory(fact::fixed, model.fixed); detail::failed(flaw))
    return flaw;
  if (const failure flaw = detail::flaw_of_memory(fact::per_sample, model.per_sample);
      detail::failed(flaw))
    return flaw;
  return model;
}

/// The shares of an affine model's parts that an optimisation saves, each from 0 to 1.
struct memory_saving {
  double fixed = 0;
  double per_sample = 0;
};

/// Activation checkpointing (recomputation): activations are computed again instead of kept, so a
/// share of the per-sample part goes; weights, gradients and optimizer states stay.
[[nodiscard]] constexpr memory_saving checkpointing(double share_saved) {
  return {.per_sample = share_saved};
}

/// Mixed precision under autocast: activations shrink; the fixed part does not, since the weights,
/// their gradients and the optimizer states stay in fp32 (Micikevicius et al. 2018, section 3.1).
[[nodiscard]] constexpr memory_saving mixed_precision(double share_saved) {
  return {.per_sample = share_saved};
}

/// The model after the saving: `with(groot, checkpointing(0.5))`. Savings one after another
/// multiply: half of a half is a quarter. Precondition: shares from 0 to 1.
[[nodiscard]] constexpr affine_memory with(const affine_memory& model,
                                           const memory_saving& saving) {
  for (const double share : {saving.fixed, saving.per_sample})
    if (!(share >= 0 && share <= 1))
      detail::precondition_violated(detail::share_out_of_bounds(fact::memory_saving));
  return {.fixed = model.fixed * (1 - saving.fixed),
          .per_sample = model.per_sample * (1 - saving.per_sample)};
}

}  // namespace gpuplan
