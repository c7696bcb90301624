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

struct optimizer {
  optimizer_kind kind = optimizer_kind::adamw;
  optimizer_loop loop = optimizer_loop::foreach;
  number_format states = number_format::fp32;  // fp32 stands for the format of the weights
  bool clips_gradients = false;                // by their norm, before the step

  friend constexpr bool operator==(const optimizer&, const optimizer&) = default;
};

}  // namespace gpuplan
