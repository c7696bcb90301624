#pragma once

// torchtitan's published runs, in the columns of `runs_*.csv`.

#include "csv.hpp"
#include "setups.hpp"

namespace accuracy {

/// The setup and the batch of a row, from its columns and notes. Throws `bad_file` for a cell that
/// no run can have.
described_setup describe_torchtitan(const row& source);
/// Likewise, whether the library can replay its memory or not.
described_setup read_torchtitan(const row& source);

}  // namespace accuracy
