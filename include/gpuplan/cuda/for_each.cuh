#pragma once

// Work on the device that has no other form than "for each number below n".

#include <gpuplan/cuda/runtime.cuh>

#include <algorithm>
#include <cstdint>

namespace gpuplan::cuda {

namespace detail {

template <class Body>
__global__ void for_each_kernel(std::int64_t count, Body body) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += threads)
    body(i);
}

}  // namespace detail

/// Puts `body(i)` for each 0 <= i < count on a stream of the current device, in any order. `body`
/// is copied to the device: it holds numbers and pointers to the device's memory.
template <class Body>
void for_each(std::int64_t count, Body body, cudaStream_t on) {
  if (count == 0) return;
  constexpr int threads = 256;
  constexpr std::int64_t most = 1 << 16;
  const auto blocks = static_cast<unsigned>(std::min((count + threads - 1) / threads, most));
  GPUPLAN_CUDA_LAUNCH(detail::for_each_kernel<<<blocks, threads, 0, on>>>(count, body));
}

}  // namespace gpuplan::cuda
