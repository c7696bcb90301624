#pragma once

// GeForce RTX 20 (Turing). Part of catalog/gpus.hpp, which says how to read the numbers.

#include <gpuplan/catalog/gpus/shared.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan::catalog {

// The Founders Edition runs at 1635 MHz and 260 W. No matrix units for bf16, tf32 or fp8.
inline constexpr gpu_spec rtx_2080_ti{
    .id = "rtx_2080_ti",
    .name = "GeForce RTX 2080 Ti",
    .driver_names = {"NVIDIA GeForce RTX 2080 Ti"},
    .architecture = "Turing TU102",
    .compute_capability = 75,
    .year = 2018,
    .sm_count = 68,
    .clock_MHz = 1545,
    .memory_label_GB = 11,
    .memory = 11264_MiB,
    .memory_bandwidth = 616_GBps,
    .dense = {.fp64 = 0.42_TFLOPS,
              .fp32 = 13.4_TFLOPS,
              .fp16 = 53.8_TFLOPS,
              .fp16_sum_fp16 = 107.6_TFLOPS,
              .fp16_vector = 26.9_TFLOPS,
              .int8 = 215.2_TFLOPS},
    .peers = peer_link{"NVLink 2", 100_GBps, 2},
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 250_W,
    .source = "NVIDIA Turing whitepaper, reference clock",
    .trust = confidence::one_source,
};

}  // namespace gpuplan::catalog
