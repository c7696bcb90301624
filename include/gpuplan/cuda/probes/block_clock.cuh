#pragma once

// Cycles of the SM that a block of a probe took.

#include <climits>

namespace gpuplan::cuda {

/// When a block of a probe began and ended, by the clock of the SM that it ran on.
struct block_clock {
  long long start = 0;
  long long stop = 0;
  unsigned sm = UINT_MAX;  // which stays where no kernel wrote
};

/// Takes the time of a block from its construction to `stop`, both called by all of its threads:
/// the first notes the times, when all have arrived.
class block_stopwatch {
 public:
  __device__ explicit block_stopwatch(block_clock* clocks) : clock_(clocks + blockIdx.x) {
    __syncthreads();
    if (threadIdx.x == 0) start_ = clock64();
  }

  __device__ void stop() const {
    __syncthreads();
    if (threadIdx.x != 0) return;
    unsigned sm = 0;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    *clock_ = {start_, clock64(), sm};
  }

 private:
  block_clock* clock_;
  long long start_ = 0;
};

}  // namespace gpuplan::cuda
