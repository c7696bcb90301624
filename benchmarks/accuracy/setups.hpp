#pragma once

// Training setups, in the columns of `torch_steps.csv`.

#include <gpuplan/batch.hpp>
#include <gpuplan/training_setup.hpp>

#include <memory>
#include <string>

#include "csv.hpp"

namespace accuracy {

struct described_setup {
  gpuplan::training_setup setup{};
  std::shared_ptr<gpuplan::composite_model> composite;  // that of the setup, if it has one
  gpuplan::batch_plan plan{};
  std::string why_not;  // blank where the library can replay the step
};

/// Says why the library cannot replay the setup, where it cannot and nothing else is said.
void refuse_invalid(described_setup& described);

/// Reads what columns say of precision and optimizer; why they are not known, or nothing.
std::string read_numerics(const row& source, gpuplan::training_setup& setup);

/// Reads how ranks share a step: `parallel`, and the formats of fully_shard; likewise.
std::string read_parallel(const row& source, gpuplan::training_setup& setup);

/// Reads what the version of PyTorch changes.
void read_version(const row& source, gpuplan::training_setup& setup);

/// The setup and the batch of a row. Throws `bad_file` for a cell that no step can have.
described_setup describe_setup(const row& source);

/// Likewise of a run that measure_torch.py timed.
described_setup describe_measured_run(const row& run);

}  // namespace accuracy
