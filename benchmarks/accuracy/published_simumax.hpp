#pragma once

// SimuMax's measurements on B200, in the columns of `runs_*.csv`: Megatron-LM of early 2026 with
// Transformer Engine 2.11.

#include "csv.hpp"
#include "setups.hpp"

namespace accuracy {

/// The setup and the batch of a row, of the pipeline stage that `memory_rank` names. Context
/// parallelism is by all-to-all, experts are padded to a capacity factor of 1 (its
/// docs/b200/b200_real_repro_guide.md and launchers). Throws `bad_file` for a cell that no run can
/// have.
described_setup describe_simumax(const row& source);
/// Likewise, whether the library can replay its memory or not.
described_setup read_simumax(const row& source);

}  // namespace accuracy
