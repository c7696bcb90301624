#pragma once

// Training steps of models that a Hugging Face configuration file describes: rows with a
// `config_file`, as measure_config.py measures them.

#include "row_comparisons.hpp"
#include "setups.hpp"

namespace accuracy {

/// The setup and the batch of such a row: the model of its `config_file`, which lies beside the
/// table, or of the JSON that the cell holds instead, run by the class that `model_class` names.
/// Throws `bad_file` for a cell that no step can have, and where the file cannot be read.
described_setup describe_configured_step(const row& source);

/// Parameters and FLOPs as the replay counts them, and its peaks.
void compare_configured_step(row_comparisons& row);

}  // namespace accuracy
