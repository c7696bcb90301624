#pragma once

// Functions that a kernel and the host both call: what a kernel must leave in memory is computed
// by the very code that the kernel runs.

#ifdef __CUDACC__
#define GPUPLAN_HOST_DEVICE __host__ __device__
#else
#define GPUPLAN_HOST_DEVICE
#endif
