#pragma once

// Rows that measure_torch.py wrote in other columns than those of its steps, as rows of steps.

#include "csv.hpp"

namespace accuracy {

/// The `source` of its runs.
inline constexpr const char* measured_source = "measure_torch";

/// A file of one row: the training step that a row of runs is, with what its notes say.
csv_file step_of_run(const row& run);

/// Likewise a model of the one layer that a row of layers is, with as few tokens to know as there
/// can be: what its layer takes is the row's.
csv_file step_of_layer(const row& layer);

}  // namespace accuracy
