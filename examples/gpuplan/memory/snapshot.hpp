#pragma once

// Doors to other viewers: PyTorch's memory snapshots, and Chrome's traces.

#include <gpuplan/io/chart/stacked_areas.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memory/pace.hpp"

namespace memory_timeline {

/// The step as `torch.cuda.memory._dump_snapshot` would write it, for pytorch.org/memory_viz and
/// `python -m torch.cuda._memory_viz`: every block that comes or goes, at the address that the
/// caching allocator gives it. Frames are the moment and the layer.
[[nodiscard]] std::string snapshot_of(const timed_trace& step);

/// What a snapshot's busiest device asked for and freed.
struct measured_step {
  std::vector<double> times;         // s from the first event: of each change, then of the end
  std::vector<std::int64_t> in_use;  // B: from each change on
  std::vector<std::int64_t> asked;   // B: of each allocation, in their order
};

/// Reads what PyTorch wrote after `torch.cuda.memory._record_memory_history`. Throws
/// `guides::bad_request`, after the option, where it is no such snapshot or has no history.
[[nodiscard]] measured_step measured_in(const std::string& option, const std::string& bytes);

/// The measured step as a line over the predicted one's picture.
[[nodiscard]] gpuplan::io::stacked_areas::outline outline_of(const measured_step& measured,
                                                             const std::string& name,
                                                             double units_of_second);

/// Where the two part: how many allocations are alike one after the other, and the first that is
/// not; and both peaks.
[[nodiscard]] std::string comparison(const timed_trace& predicted, const measured_step& measured);

/// The step as a Chrome trace (JSON, for Perfetto and chrome://tracing): its passes and layers, and
/// counters of its memory by kind.
[[nodiscard]] std::string chrome_trace_of(const timed_trace& step);

}  // namespace memory_timeline
