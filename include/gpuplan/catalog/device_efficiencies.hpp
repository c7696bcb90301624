#pragma once

// What kernels reach on generations of devices: fitted to published steps by
// benchmarks/accuracy/fit_time.cpp, all sources with devices of a generation at once.

#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan::catalog {

/// A100: 226 steps of LLM Foundry, vTrain and Megatron-LM.
inline constexpr device_efficiency ampere{.name = "Ampere",
                                          .products = 0.796,
                                          .attention_forward = 0.456,
                                          .attention_backward = 0.266,
                                          .memory = 0.8,
                                          .kernel_floor = 2_us,
                                          .extra_depth = 105,
                                          .board_power = 400_W};
/// H100 and H200: steps of torchtitan.
inline constexpr device_efficiency hopper{.name = "Hopper",
                                          .products = 0.6,
                                          .products_fp8 = 0.5,
                                          .attention_forward = 0.3,
                                          .attention_backward = 0.25,
                                          .memory = 0.8,
                                          .kernel_floor = 2_us,
                                          .extra_depth = 105,
                                          .board_power = 700_W};
/// B200, GB200, B300 and GB300: steps of Megatron-Bridge and SimuMax.
inline constexpr device_efficiency blackwell{.name = "Blackwell",
                                             .products = 0.65,
                                             .products_fp8 = 0.5,
                                             .products_fp4 = 0.4,
                                             .attention_forward = 0.3,
                                             .attention_backward = 0.25,
                                             .memory = 0.8,
                                             .kernel_floor = 2_us,
                                             .extra_depth = 105};

/// What is known of the generation of `gpu`; where nothing is, what `device_efficiency` says
/// without a name.
[[nodiscard]] constexpr device_efficiency efficiency_of(const gpu_spec& gpu) {
  if (gpu.vendor != gpu_vendor::nvidia || !gpu.compute_capability) return {};
  switch (*gpu.compute_capability) {
    case 80:
      return ampere;
    case 90:
      return hopper;
    case 100:
    case 103:
      return blackwell;
    default:
      return {};
  }
}

}  // namespace gpuplan::catalog
