#pragma once

// How long the library says that the steps of timed runs take.

#include <gpuplan/time/roofline.hpp>

#include <string>

#include "timed_runs.hpp"

namespace accuracy {

/// The time model of a run, with what its device's kernels reach as the catalogue has it.
gpuplan::roofline_time time_model_of(const timed_run& run);

struct predicted_step {
  double seconds = 0;
  std::string why_not;  // blank where there is a prediction
};

/// One optimizer step of a run, without the terms that are switched off.
predicted_step predict_step(const timed_run& run, const gpuplan::time_terms& terms = {});

}  // namespace accuracy
