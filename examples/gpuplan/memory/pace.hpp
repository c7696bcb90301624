#pragma once

// About when in a step each block of memory comes and goes.

#include <gpuplan/batch.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/memory/trace.hpp>
#include <gpuplan/replay/step_time.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/training_setup.hpp>

#include <string>
#include <vector>

namespace memory_timeline {

struct timed_trace {
  gpuplan::memory_trace trace{};
  std::vector<double> times{};  // s: of each change, and last of the step's end
  std::string clock{};          // "time as estimated for an A100-SXM4-80GB"
};

/// Of the plan's step as many micro-batches as `drawn` has, at the pace of this time model.
[[nodiscard]] timed_trace timed(const gpuplan::roofline_time& by,
                                const gpuplan::batch_plan& plan,
                                const gpuplan::batch_plan& drawn);

/// Likewise of several models in one step, whose operators are replayed: blocks come and go as the
/// host issues these. Throws `guides::bad_request` where their time cannot be told.
[[nodiscard]] timed_trace timed(const gpuplan::replayed_time& by, const gpuplan::batch_plan& drawn);

/// On nodes of up to 8 of these GPUs and an adapter of 25 GB/s each; of A100s where none is given,
/// or its rate in the setup's format is not known.
[[nodiscard]] timed_trace timed(const gpuplan::training_setup& setup,
                                const gpuplan::batch_plan& plan,
                                const gpuplan::batch_plan& drawn,
                                const gpuplan::gpu_spec* gpu);

}  // namespace memory_timeline
