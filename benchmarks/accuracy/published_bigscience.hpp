#pragma once

// BigScience's runs, in the columns of `runs_*.csv`: Megatron-DeepSpeed of early 2022.

#include "csv.hpp"
#include "setups.hpp"

namespace accuracy {

/// The setup and the batch of a row, of the first pipeline stage. Where a table does not say which
/// GPU its memory is of, it is the fullest (chronicles-prequel.md prints the most of all nodes).
/// Throws `bad_file` for a cell that no run can have.
described_setup describe_bigscience(const row& source);
/// Likewise, whether the library can replay its memory or not.
described_setup read_bigscience(const row& source);

}  // namespace accuracy
