#pragma once

// A sweep of training on a GPU. Compiled by nvcc; included by host code.

#include <gpuplan/measure/sweep/options.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sweep/data_set.hpp"

namespace sweep_cuda {

struct training_options {
  int device = 0;
  std::vector<std::int64_t> widths{};  // of the network, from the pixels to the digits
  std::size_t memory_limit = 0;        // in bytes: the rest of the device's is taken away; 0: none
  std::uint64_t seed = 1;
};

/// The device that is measured.
struct trained_on {
  std::string name{};
  double memory_bytes = 0;  // that training may take: what was free before, or the limit
};

/// Throws `measure_gpu_program::no_device`, `guides::bad_request` where there is no such device,
/// and `gpuplan::cuda::call_error`.
[[nodiscard]] trained_on device_of(const training_options& training);

/// Runs a sweep: `asked` says the settings and when to stop; set-up, probes and what counts as out
/// of memory are written into it. Full precision is fp32, mixed precision bf16 with parameters of
/// fp32. Memory is what the device has less of than before the first setting: of the kernels that
/// were loaded since as well. Throws what could not be made before the first setting.
[[nodiscard]] gpuplan::measure::sweep_result run_sweep(const sweep_examples::data_set& samples,
                                                       const training_options& training,
                                                       gpuplan::measure::sweep_options asked);

}  // namespace sweep_cuda
