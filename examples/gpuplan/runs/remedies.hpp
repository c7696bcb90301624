#pragma once

// What else would fit where a micro-batch of 1 does not.

#include <gpuplan/batch.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <string>
#include <vector>

namespace runs {

struct remedy {
  std::string options;      // of a command line that say it, "--zero 3 --recompute full", or a key
  std::string in_words;     // "ZeRO-3, full recomputation"
  gpuplan::bytes needed{};  // for a micro-batch of 1
};

/// Methods on as many of these GPUs whose micro-batch of 1 fits: recomputation, gradients that are
/// reduced at once, Liger's kernels, shared states, adapters, the longest sequences of a half, a
/// quarter and so on; and last the smallest GPU of the same vendor that has room for the stated
/// method.
[[nodiscard]] std::vector<remedy> remedies_of(const gpuplan::training_setup& setup,
                                              const gpuplan::batch_plan& plan,
                                              const gpuplan::gpu_spec& gpu,
                                              double fragmentation);

}  // namespace runs
