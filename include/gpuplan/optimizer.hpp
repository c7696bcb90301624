#pragma once

// What an optimizer keeps for each parameter, and what it makes while it steps.

#include <gpuplan/precision.hpp>

#include <cstdint>

namespace gpuplan {

enum class optimizer_kind {
  sgd,
  sgd_momentum,
  adamw,
  adafactor,  // Shazeer and Stern 2018, arXiv 1804.04235, without a first moment
  lion,       // Chen et al. 2023, arXiv 2302.06675
  muon,       // Jordan et al. 2024: of the layers' matrices; AdamW for the rest
  rmsprop,
  adagrad
};

/// How a step goes over the parameters.
enum class optimizer_loop {
  foreach,   // all at once, operator by operator: temporaries as large as the parameters
  fused,     // one kernel, no temporaries
  parameter  // one after the other
};

/// Whose code steps.
enum class optimizer_library {
  torch,         // torch.optim's; Lion as its authors published it; with bf16 states torchdistx's
                 // AnyPrecisionAdamW, which goes over one parameter after the other
  bitsandbytes,  // 0.50: one kernel for each parameter; int8 states by blocks of 256 elements
  torchao        // 0.18: likewise, compiled
};

struct optimizer {
  optimizer_kind kind = optimizer_kind::adamw;
  optimizer_library library = optimizer_library::torch;
  optimizer_loop loop = optimizer_loop::foreach;  // of torch
  // Of torch, fp32 stands for the format of the weights.
  number_format states = number_format::fp32;
  // States of 100,000 elements and more are in memory that the driver moves between the device and
  // the host (bitsandbytes' paged optimizers), which no allocator of the device counts.
  bool pages_states = false;
  // Of tables of embeddings states are fp32, whatever they are in else (as transformers' Trainer
  // has bitsandbytes' 8-bit optimizers), unless an engine updates copies of the weights.
  bool widens_embeddings = false;
  bool clips_gradients = false;  // by their norm, before the step
  // It reads gradients in the format in which they are summed, and has no copy in fp32
  // (Megatron-Core's use_precision_aware_optimizer).
  bool reads_narrow_gradients = false;

  friend constexpr bool operator==(const optimizer&, const optimizer&) = default;
};

}  // namespace gpuplan
