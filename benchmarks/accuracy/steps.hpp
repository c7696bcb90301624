#pragma once

// Training steps of PyTorch, in the columns of `torch_steps.csv`.

#include <gpuplan/flops.hpp>
#include <gpuplan/model.hpp>

#include <cstdint>
#include <string>

#include "csv.hpp"

namespace accuracy {

struct described_step {
  gpuplan::transformer shape{};
  gpuplan::training_pass pass{};
  std::int64_t sequences = 0;        // forward passes of one sequence in a step
  bool pools_in_vain = false;        // the pooler runs, and nothing reads its result
  std::int64_t more_parameters = 0;  // that train with all, and that the shape does not tell of
  double other_flops_forward = 0;    // of a step: the loss's own product; backward twice as many
  std::string why_not;               // blank where the library can count the step
};

/// The model, what trains of it, and how often it is passed. Throws `bad_file` for a cell that no
/// step can have.
described_step describe_step(const row& source);

}  // namespace accuracy
