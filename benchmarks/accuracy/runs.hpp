#pragma once

// Timed training runs, in the columns of `runs_*.csv`: what a source counts as the FLOPs of a step,
// and what rate and utilisation follow from the time of one.

#include <gpuplan/model.hpp>

#include <string>

#include "comparison.hpp"
#include "csv.hpp"

namespace accuracy {

/// The model of a run, or why there is none.
struct described_run {
  gpuplan::transformer shape{};
  std::string why_not;
};
described_run describe_run(const row& source);

/// The parameters of a run's model.
prediction run_parameters(const row& source);

/// The rate of one GPU in TFLOP/s, as the row's source counts.
prediction run_tflops(const row& source);

/// Model FLOPs and hardware FLOPs utilisation in percent of the dense peak.
prediction run_mfu(const row& source);
prediction run_hfu(const row& source);

}  // namespace accuracy
