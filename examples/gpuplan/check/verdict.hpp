#pragma once

// What can be said of a training that files configure: whether it fits, how long it takes, what
// would be better.

#include <gpuplan/cluster.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/time/step_rates.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "runs/remedies.hpp"

namespace check_program {

/// Another way to train the same batch on the same GPUs.
struct alternative {
  std::string change;  // in words, "micro-batch 4, accumulation 8; recompute none"
  gpuplan::training_plan plan{};
};

struct verdict {
  gpuplan::memory_breakdown memory{};    // at the peak
  bool is_uncountable = false;           // `memory` is of a smaller micro-batch, and fits nothing
  gpuplan::bytes usable{};               // of the GPU, to PyTorch
  std::int64_t largest_micro_batch = 0;  // that fits; 0: none
  std::string why_it_cannot_run{};       // the GPU has no kernels of it
  gpuplan::known<gpuplan::duration> step{};
  gpuplan::range<gpuplan::duration> step_by_stack{};  // where `step` is known
  gpuplan::step_rates rates{};                        // likewise
  std::string why_no_time{};
  std::vector<alternative> better{};  // fit, and are faster, or fit where this does not
  // Other methods whose micro-batch of 1 fits, where that of the stated one does not
  std::vector<runs::remedy> remedies{};

  [[nodiscard]] bool fits() const { return !is_uncountable && memory.total() <= usable; }
};

/// What the training needs and takes on this cluster. `fragmentation` is the share of the peak that
/// the allocator cannot use. Precondition: `validate` accepts its setup and plan.
[[nodiscard]] verdict judge(const gpuplan::io::configured_training& training,
                            const gpuplan::cluster& on,
                            double fragmentation);

}  // namespace check_program
