#pragma once

// Timed training runs, in the columns of `runs_*.csv`: what a source counts as the FLOPs of a step,
// and what rate and utilisation follow from the time of one.

#include <gpuplan/batch.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/parallelism.hpp>

#include <optional>
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

/// The layout of a run, and its batch, by their columns: a blank one is 1, or no sharding.
gpuplan::parallelism layout_in(const row& source);
gpuplan::batch_plan batch_in(const row& source);

/// What of a model in Megatron-Bridge's tables is in no column: layers of multi-token prediction,
/// which its notes say, and GPT-OSS' sliding windows.
void add_unlisted_parts(const row& source, gpuplan::transformer& model);

/// The parameters of a run's model.
prediction run_parameters(const row& source);

/// The rate of one GPU in TFLOP/s, as the row's source counts.
prediction run_tflops(const row& source);

/// Model FLOPs and hardware FLOPs utilisation in percent of the dense peak; of a step of so many
/// seconds, where it is not the row's own.
prediction run_mfu(const row& source, std::optional<double> step = {});
prediction run_hfu(const row& source);

}  // namespace accuracy
