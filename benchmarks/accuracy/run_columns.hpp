#pragma once

// Timed runs by their columns alone: whose layers, which engine and which formats, as far as the
// row says so, whoever published it.

#include "csv.hpp"
#include "setups.hpp"

namespace accuracy {

/// The setup and the batch of a row of `runs_*.csv`. The columns `framework` and
/// `framework_version` say who ran it; where the catalogue has no such framework it is the nearest
/// kind that it has, as the layout and the model say, and counts as not timed.
described_setup read_run_columns(const row& source);

/// Whether the output layer of the row's model is of whole samples, or of few tokens of them: a
/// classifier's, a question's, that of masked tokens alone.
bool has_small_output(const row& source);

}  // namespace accuracy
