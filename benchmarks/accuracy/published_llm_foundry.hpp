#pragma once

// MosaicML's published runs of MPT, in the columns of `runs_*.csv`.

#include "csv.hpp"
#include "setups.hpp"

namespace accuracy {

/// The setup and the batch of a row. Throws `bad_file` for a cell that no run can have.
described_setup read_llm_foundry(const row& source);

}  // namespace accuracy
