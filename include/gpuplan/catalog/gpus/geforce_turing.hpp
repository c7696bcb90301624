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

// The Founders Edition runs at 1800 MHz and 225 W. Its bridge's rate is not in these sources.
inline constexpr gpu_spec rtx_2080{
    .id = "rtx_2080",
    .name = "GeForce RTX 2080",
    .driver_names = {"NVIDIA GeForce RTX 2080"},
    .architecture = "Turing TU104",
    .compute_capability = 75,
    .year = 2018,
    .sm_count = 46,
    .clock_MHz = 1710,
    .memory_label_GB = 8,
    .memory_bandwidth = 448_GBps,
    .dense = {.fp64 = 0.315_TFLOPS,
              .fp32 = 10.1_TFLOPS,
              .fp16 = 40.3_TFLOPS,
              .fp16_sum_fp16 = 80.5_TFLOPS,
              .fp16_vector = 20.1_TFLOPS,
              .int8 = 161.1_TFLOPS},
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 215_W,
    .source = "NVIDIA Turing whitepaper via bit-tech, reference clock; rates by SM and clock",
    .trust = confidence::formula,
};

inline constexpr gpu_spec rtx_2070{
    .id = "rtx_2070",
    .name = "GeForce RTX 2070",
    .driver_names = {"NVIDIA GeForce RTX 2070"},
    .architecture = "Turing TU106",
    .compute_capability = 75,
    .year = 2018,
    .sm_count = 36,
    .clock_MHz = 1620,
    .memory_label_GB = 8,
    .memory_bandwidth = 448_GBps,
    .dense = {.fp64 = 0.233_TFLOPS,
              .fp32 = 7.46_TFLOPS,
              .fp16 = 29.9_TFLOPS,
              .fp16_sum_fp16 = 59.7_TFLOPS,
              .fp16_vector = 14.9_TFLOPS,
              .int8 = 119.4_TFLOPS},
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 175_W,
    .source =
        "NVIDIA Turing whitepaper via bit-tech, reference clock; rates by SM and clock; Tom's "
        "Hardware",
    .trust = confidence::formula,
};

inline constexpr gpu_spec rtx_2060_super{
    .id = "rtx_2060_super",
    .name = "GeForce RTX 2060 SUPER",
    .driver_names = {"NVIDIA GeForce RTX 2060 SUPER"},
    .architecture = "Turing TU106",
    .compute_capability = 75,
    .year = 2019,
    .sm_count = 34,
    .clock_MHz = 1650,
    .memory_label_GB = 8,
    .memory_bandwidth = 448_GBps,
    .dense = {.fp64 = 0.224_TFLOPS,
              .fp32 = 7.18_TFLOPS,
              .fp16 = 28.7_TFLOPS,
              .fp16_sum_fp16 = 57.5_TFLOPS,
              .fp16_vector = 14.4_TFLOPS,
              .int8 = 114.9_TFLOPS},
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 175_W,
    .source = "TechPowerUp and heise, reference clock; rates by SM and clock",
    .trust = confidence::formula,
};

// 6 GB.
inline constexpr gpu_spec rtx_2060{
    .id = "rtx_2060",
    .name = "GeForce RTX 2060",
    .driver_names = {"NVIDIA GeForce RTX 2060"},
    .architecture = "Turing TU106",
    .compute_capability = 75,
    .year = 2019,
    .sm_count = 30,
    .clock_MHz = 1680,
    .memory_label_GB = 6,
    .memory_bandwidth = 336_GBps,
    .dense = {.fp64 = 0.202_TFLOPS,
              .fp32 = 6.45_TFLOPS,
              .fp16 = 25.8_TFLOPS,
              .fp16_sum_fp16 = 51.6_TFLOPS,
              .fp16_vector = 12.9_TFLOPS,
              .int8 = 103.2_TFLOPS},
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 160_W,
    .source =
        "TechPowerUp, reference clock; rates by SM and clock, bandwidth by 192 bits of 14 Gb/s",
    .trust = confidence::formula,
};

}  // namespace gpuplan::catalog
