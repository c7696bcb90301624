#pragma once

// The memory of training steps, by replay.

#include <gpuplan/replay.hpp>

#include <cstdint>
#include <string>

#include "csv.hpp"
#include "setups.hpp"

namespace accuracy {

struct predicted_memory {
  gpuplan::step_memory step{};
  std::string why_not;  // blank where there is a prediction
};

/// The memory of the third step of a row of `torch_steps.csv`.
predicted_memory step_memory_of(const row& source);
/// Likewise of a framework's run, as `framework_options` describes it.
predicted_memory framework_memory_of(const row& source);

struct predicted_batch {
  std::int64_t micro_batch = 0;
  std::string why_not;
};

/// The largest micro-batch whose three steps fit into the row's `usable_bytes`.
predicted_batch largest_micro_batch_of(const row& source);

}  // namespace accuracy
