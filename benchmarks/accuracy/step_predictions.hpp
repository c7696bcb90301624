#pragma once

// How long the library says that the steps of timed runs take.

#include <gpuplan/time/roofline.hpp>

#include <string>

#include "csv.hpp"
#include "timed_runs.hpp"

namespace accuracy {

/// The time model of a run, with what its device's kernels reach as the catalogue has it.
gpuplan::roofline_time time_model_of(const timed_run& run);

/// The software as if no step of it had been timed: at the costs of code of its kind.
gpuplan::framework as_untimed(gpuplan::framework software);

struct predicted_step {
  double seconds = 0;
  double low = 0;  // from here to `high` lie four of five such steps
  double high = 0;
  std::string why_not;  // blank where there is a prediction
};

/// One optimizer step of a run, without the terms that are switched off.
predicted_step predict_step(const timed_run& run, const gpuplan::time_terms& terms = {});
/// Of eager PyTorch on one device, by `replayed_time` where that counts the step, else likewise.
predicted_step predict_eager_step(const timed_run& run);

/// The step of a row of `torch_steps.csv`, on its `gpu` alone.
timed_run describe_timed_step(const row& source);

struct predicted_layer {
  double forward_seconds = 0;  // of its kernels
  double backward_seconds = 0;
  std::string why_not;
};

/// One layer of a row of `layers.csv`.
predicted_layer predict_layer(const row& source);

/// The product of a row of `matmul.csv`.
predicted_step predict_matmul(const row& source);

}  // namespace accuracy
