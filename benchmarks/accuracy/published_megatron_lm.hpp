#pragma once

// Runs of Megatron-LM and what grew out of it, in the columns of `runs_*.csv`: Megatron-LM of 2021
// and vTrain's measurements with it, MegaScale, Megatron-Bridge.

#include "csv.hpp"
#include "setups.hpp"

namespace accuracy {

/// The setup and the batch of a row of Megatron-LM of 2021 (Narayanan et al., arXiv 2104.04473), or
/// of vTrain. Where the schedule is interleaved and the chunks are not printed, a stage has the
/// fewest that divide its layers, from two on. Throws `bad_file`, as those below, for a
/// cell that no run can have.
described_setup read_megatron_lm(const row& source);

/// Likewise of MegaScale (arXiv 2402.15627): a micro-batch of 1, six chunks a stage of 175 billion
/// parameters and three of 530 billion, scores recomputed (its section 6, recalled).
described_setup read_megascale(const row& source);

/// Likewise of Megatron-Bridge's tables. Recomputed modules count where they are the scores; what
/// else its recipes recompute is small. A row without a recipe recomputes nothing.
described_setup read_megatron_bridge(const row& source);

}  // namespace accuracy
