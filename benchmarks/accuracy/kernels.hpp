#pragma once

// Single kernels, in the columns of `kernels.csv` that measure_torch.py writes.

#include <gpuplan/gpu.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/replay/kernel_shares.hpp>

#include <cstdint>

#include "comparison.hpp"
#include "csv.hpp"

namespace accuracy {

/// A kernel as operators of a step count theirs.
struct kernel {
  gpuplan::eager::device_work work{};
  bool is_backward = false;
};

/// What one kernel that computes in `format` takes of a device of which kernels reach `shares`, in
/// seconds, at the highest clock that it has alone.
double kernel_seconds(const kernel& one,
                      const gpuplan::gpu_spec& gpu,
                      const gpuplan::kernel_shares& shares,
                      gpuplan::number_format format,
                      bool is_causal = true);

/// Attention of `heads` heads of queries over each of `batch` sequences.
struct attention_size {
  std::int64_t batch = 1;
  std::int64_t tokens = 0;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 0;
};
/// Its kernel, forward or of the gradients.
kernel attention_kernel_of(const attention_size& size,
                           gpuplan::eager::element format,
                           bool is_flash,
                           bool is_backward);

/// Seconds of one kernel in a step of eager code, by the shares that `replayed_time` takes for its
/// device, at the highest clock; or why the library has none: it is no kernel of a step, or ran for
/// so long that the clock fell.
prediction kernel_time_of(const row& source);

}  // namespace accuracy
