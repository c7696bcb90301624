#pragma once

// A device that exists nowhere, and what nobody measured of it: something in every field.

#include <gpuplan/measured_device.hpp>

namespace imaginary_device {

using namespace gpuplan;

inline constexpr gpu_spec imaginary{
    .id = "imaginary",
    .sm_count = 100,
    .memory_bandwidth = 2_TBps,
    .dense = {.bf16 = 200_TFLOPS, .fp16 = 200_TFLOPS, .int8 = 400_TFLOPS},
    .peers = peer_link{"NVLink 3", 600_GBps},
    .pcie = pcie_link{.generation = 4, .lanes = 16}};

inline constexpr measured_matmul matmuls[] = {
    {.format = number_format::bf16,
     .shape = {8192, 8192, 8192},
     .sustained = reading<compute_rate>{150_TFLOPS, 149_TFLOPS, 151_TFLOPS, 400},
     .burst = reading<compute_rate>{170_TFLOPS, 169_TFLOPS, 171_TFLOPS, 20},
     .zeros = reading<compute_rate>{190_TFLOPS, 189_TFLOPS, 191_TFLOPS, 400}},
    {.format = number_format::fp16,
     .shape = {4096, 4096, 4096},
     .own_kernel = reading<compute_rate>{80_TFLOPS, 79_TFLOPS, 81_TFLOPS, 100}},
    {.format = number_format::fp16,
     .sum = accumulator::fp16,
     .shape = {8192, 8192, 8192},
     .sustained = reading<compute_rate>{300_TFLOPS, 290_TFLOPS, 310_TFLOPS, 400}}};
inline constexpr measured_issue issue[] = {
    {issue_probe::mma_sync,
     number_format::bf16,
     {},
     {195_TFLOPS, 194_TFLOPS, 196_TFLOPS, 50},
     1024},
    {issue_probe::fma, number_format::fp32, {}, {25_TFLOPS, 25_TFLOPS, 25_TFLOPS, 50}, 128}};
inline constexpr measured_point surface[] = {
    {.format = number_format::bf16, .shape = {1024, 1024, 1024}, .rate = 50_TFLOPS},
    {.format = number_format::fp8, .shape = {1024, 1024, 1024}, .rate = 50_TFLOPS}};
inline constexpr measured_footprint footprints[] = {{1_MiB, 6_TBps}, {64_MiB, 1.8_TBps}};
inline constexpr measured_all_reduce all_reduces[] = {{2, 20_us, 200_GBps}, {8, 30_us, 120_GBps}};

inline constexpr measured_device in_full{
    .id = "imaginary",
    .name = "NVIDIA \"Imaginary\" \\ 2",
    .date = "2026-11-22",
    .driver = "580.1",
    .runtime = "13.0",
    .library = "cuBLASLt 13.0.2",
    .sm_count = 100,
    .memory = 79_GiB,
    .free_memory = 78_GiB,
    .context_memory = 0.4_GiB,
    .power_limit = 400_W,
    .error_correction = false,
    .matmuls = matmuls,
    .issue = issue,
    .surface = surface,
    .copy = reading<bandwidth>{1800_GBps, 1790_GBps, 1810_GBps, 100},
    .triad = reading<bandwidth>{1750_GBps, 1740_GBps, 1760_GBps, 100},
    .read = reading<bandwidth>{1900_GBps, 1890_GBps, 1910_GBps, 100},
    .write = reading<bandwidth>{1850_GBps, 1840_GBps, 1860_GBps, 100},
    .l2 = reading<bandwidth>{6_TBps, 5.9_TBps, 6.1_TBps, 100, 1400, 300_W},
    .l2_knee = 32_MiB,
    .footprints = footprints,
    .pinned = {.to_device = reading<bandwidth>{26_GBps, 25_GBps, 27_GBps, 3},
               .from_device = reading<bandwidth>{24_GBps, 23_GBps, 25_GBps, 3},
               .both_ways = reading<bandwidth>{47.3_GBps, 47_GBps, 48_GBps, 3}},
    .pageable = {.to_device = reading<bandwidth>{9.1_GBps, 9_GBps, 9.2_GBps, 3}},
    .kernel_launch = reading<duration>{3_us, 2.5_us, 4_us, 1000},
    .kernel_enqueue = reading<duration>{2_us, 1.9_us, 2.2_us, 200},
    .empty_kernel = reading<duration>{1.5_us, 1.4_us, 1.6_us, 200},
    .graph_node = reading<duration>{1_us, 0.9_us, 1.1_us, 1000},
    .peer_copy = reading<bandwidth>{250_GBps, 249_GBps, 251_GBps, 3},
    .all_reduces = all_reduces};

}  // namespace imaginary_device
