#pragma once

// Timed runs as the library describes them: the setup, the batch and the cluster of a row of
// `runs_*.csv`.

#include <gpuplan/cluster.hpp>

#include <optional>
#include <string>

#include "csv.hpp"
#include "setups.hpp"

namespace accuracy {

struct timed_run {
  gpuplan::training_setup setup{};
  std::shared_ptr<gpuplan::composite_model> composite{};  // that of the setup, if it has one
  gpuplan::batch_plan plan{};
  gpuplan::cluster on{};
  std::string why_not;  // blank where the library can say how long a step takes
};

/// A row's run. Where a run on several nodes says nothing of their network, it is that of NVIDIA's
/// reference design of the generation; where the NVLink domain is larger than a node, it stands for
/// the node. Throws `bad_file` for a cell that no run can have.
timed_run describe_timed_run(const row& source);

/// The seconds that one step took, by the time of a step or the tokens of a second that the row
/// prints; absent where it prints neither.
std::optional<double> measured_step(const row& source);
/// Likewise, where the row prints tokens of a second but no batch: of a step of the run's own.
std::optional<double> measured_step(const row& source, const timed_run& run);

/// What the row's model, device and kernels have in common with others, so that errors of one say
/// something of the others: source, device, width, sequence, tensor-parallel degree, micro-batch.
std::string cell_of(const row& source);

/// Whether a cell is one of the quarter, by its FNV-1a hash, that fit_time holds out.
bool is_unseen(const row& source);

}  // namespace accuracy
