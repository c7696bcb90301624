#pragma once

// NVIDIA's devices for data centres, Hopper. Part of catalog/gpus.hpp, which says how to read the
// numbers.

#include <gpuplan/catalog/gpus/shared.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan::catalog {

// NVIDIA Hopper

// Vector rates are stated at 1980 MHz, matrix rates at 1830 MHz.
inline constexpr gpu_spec h100_sxm5_80gb{
    .id = "h100_sxm5_80gb",
    .name = "H100 SXM5 80 GB",
    .driver_names = {"NVIDIA H100 80GB HBM3"},
    .architecture = "Hopper GH100",
    .compute_capability = 90,
    .year = 2022,
    .sm_count = 132,
    .clock_MHz = 1830,
    .memory_label_GB = 80,
    .memory = 81559_MiB,
    .memory_bandwidth = 3350_GBps,
    .dense = gpu_data::gh100_sxm_dense,
    .sparse = gpu_data::gh100_sxm_sparse,
    .peers = peer_link{"NVLink 4", 900_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 700_W,
    .mig = gpu_data::mig_h100_80gb,
    .source = "NVIDIA H100 datasheet; nvidia-smi 81559 MiB",
    .trust = confidence::two_sources,
};

// Vector rates are stated at 1755 MHz. Memory clocks give 2039 GB/s; the datasheet says 2.0 TB/s.
inline constexpr gpu_spec h100_pcie_80gb{
    .id = "h100_pcie_80gb",
    .name = "H100 PCIe 80 GB",
    .driver_names = {"NVIDIA H100 PCIe"},
    .architecture = "Hopper GH100",
    .compute_capability = 90,
    .year = 2022,
    .sm_count = 114,
    .clock_MHz = 1620,
    .memory_label_GB = 80,
    .memory = 81559_MiB,
    .memory_bandwidth = 2000_GBps,
    .dense = {.fp64 = 26_TFLOPS,
              .fp64_matrix = 51_TFLOPS,
              .fp32 = 51_TFLOPS,
              .tf32 = 378_TFLOPS,
              .bf16 = 756.5_TFLOPS,
              .fp16 = 756.5_TFLOPS,
              .fp16_sum_fp16 = 756.5_TFLOPS,
              .fp16_vector = 102.4_TFLOPS,
              .fp8 = 1513_TFLOPS,
              .int8 = 1513_TFLOPS},
    .sparse = {.tf32 = 756_TFLOPS, .bf16 = 1513_TFLOPS, .fp16 = 1513_TFLOPS, .fp8 = 3026_TFLOPS},
    .peers = peer_link{"NVLink 4", 600_GBps, 2},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 350_W,
    .mig = gpu_data::mig_h100_pcie,
    .source = "NVIDIA H100 datasheet; product brief PB-11133; nvidia-smi 81559 MiB",
    .trust = confidence::two_sources,
};

// The launch table of 2023 printed the pair of two cards (3958 sparse): these are of one card.
inline constexpr gpu_spec h100_nvl{
    .id = "h100_nvl",
    .name = "H100 NVL 94 GB",
    .driver_names = {"NVIDIA H100 NVL"},
    .architecture = "Hopper GH100",
    .compute_capability = 90,
    .year = 2023,
    .sm_count = 132,
    .clock_MHz = 1545,
    .memory_label_GB = 94,
    .memory = 95830_MiB,
    .memory_bandwidth = 3900_GBps,
    .dense = gpu_data::gh100_nvl_dense,
    .sparse = gpu_data::gh100_nvl_sparse,
    .peers = peer_link{"NVLink 4", 600_GBps, 2},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 400_W,
    .mig = gpu_data::mig_h100_94gb,
    .source = "NVIDIA H100 page (per GPU); nvidia-smi 95830 MiB; torchtitan",
    .trust = confidence::two_sources,
};

// The label is nearer to GiB (140.4) than to GB (150.8).
inline constexpr gpu_spec h200_sxm{
    .id = "h200_sxm",
    .name = "H200 SXM5 141 GB",
    .driver_names = {"NVIDIA H200"},
    .architecture = "Hopper GH100",
    .compute_capability = 90,
    .year = 2024,
    .sm_count = 132,
    .clock_MHz = 1830,
    .memory_label_GB = 141,
    .memory = 143771_MiB,
    .memory_bandwidth = 4800_GBps,
    .dense = gpu_data::gh100_sxm_dense,
    .sparse = gpu_data::gh100_sxm_sparse,
    .peers = peer_link{"NVLink 4", 900_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 700_W,
    .mig = gpu_data::mig_h200,
    .source = "NVIDIA H200 page; nvidia-smi 143771 MiB",
    .trust = confidence::two_sources,
};

// Not the H200's rates: as the H100 NVL.
inline constexpr gpu_spec h200_nvl{
    .id = "h200_nvl",
    .name = "H200 NVL 141 GB",
    .driver_names = {"NVIDIA H200 NVL"},
    .architecture = "Hopper GH100",
    .compute_capability = 90,
    .year = 2024,
    .sm_count = 132,
    .clock_MHz = 1545,
    .memory_label_GB = 141,
    .memory = 143771_MiB,
    .memory_bandwidth = 4800_GBps,
    .dense = gpu_data::gh100_nvl_dense,
    .sparse = gpu_data::gh100_nvl_sparse,
    .peers = peer_link{"NVLink 4", 900_GBps, 4},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 600_W,
    .mig = gpu_data::mig_h200,
    .source = "the H100 NVL's rates; nvidia-smi 143771 MiB, 600 W",
    .trust = confidence::formula,
};

// The driver's name gives the CPU's memory. Another 900 GB/s link goes to the CPU.
inline constexpr gpu_spec gh200_96gb{
    .id = "gh200_96gb",
    .name = "GH200 96 GB",
    .driver_names = {"NVIDIA GH200 480GB"},
    .architecture = "Hopper GH100",
    .compute_capability = 90,
    .year = 2023,
    .sm_count = 132,
    .clock_MHz = 1830,
    .memory_label_GB = 96,
    .memory = 97871_MiB,
    .memory_bandwidth = 4000_GBps,
    .dense = gpu_data::gh100_sxm_dense,
    .sparse = gpu_data::gh100_sxm_sparse,
    .peers = peer_link{"NVLink 4", 900_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 900_W,
    .mig = gpu_data::mig_gh200_96gb,
    .source = "ml-engineering; nvidia-smi 97871 MiB, 900 W",
    .trust = confidence::one_source,
};

inline constexpr gpu_spec gh200_144gb{
    .id = "gh200_144gb",
    .name = "GH200 144 GB",
    .driver_names = {"NVIDIA GH200 144G HBM3e"},
    .architecture = "Hopper GH100",
    .compute_capability = 90,
    .year = 2024,
    .sm_count = 132,
    .clock_MHz = 1830,
    .memory_label_GB = 144,
    .memory = 146831_MiB,
    .memory_bandwidth = 4900_GBps,
    .dense = gpu_data::gh100_sxm_dense,
    .sparse = gpu_data::gh100_sxm_sparse,
    .peers = peer_link{"NVLink 4", 900_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 900_W,
    .mig = gpu_data::mig_gh200_144gb,
    .source = "ml-engineering (4.8 to 4.9 TB/s); nvidia-smi 146831 MiB",
    .trust = confidence::formula,
};

// The H100's links and memory with less arithmetic, which no clock explains: none is published.
inline constexpr gpu_spec h20{
    .id = "h20",
    .name = "H20",
    .driver_names = {"NVIDIA H20"},
    .architecture = "Hopper GH100",
    .compute_capability = 90,
    .year = 2023,
    .sm_count = 78,
    .memory_label_GB = 96,
    .memory = 97871_MiB,
    .memory_bandwidth = 4000_GBps,
    .dense = {.fp64 = 1_TFLOPS,
              .fp32 = 44_TFLOPS,
              .tf32 = 74_TFLOPS,
              .bf16 = 148_TFLOPS,
              .fp16 = 148_TFLOPS,
              .fp16_sum_fp16 = 148_TFLOPS,
              .fp8 = 296_TFLOPS,
              .int8 = 296_TFLOPS},
    .sparse = {},
    .peers = peer_link{"NVLink 4", 900_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 400_W,
    .source = "torchtitan utils.py and public tables; SM count and driver's memory not verified",
    .trust = confidence::unverified,
};

// An H100 SXM with links of 400 GB/s, and next to no fp64.
inline constexpr gpu_spec h800_sxm5_80gb{
    .id = "h800_sxm5_80gb",
    .name = "H800 SXM5 80 GB",
    .driver_names = {"NVIDIA H800"},
    .architecture = "Hopper GH100",
    .compute_capability = 90,
    .year = 2023,
    .sm_count = 132,
    .clock_MHz = 1830,
    .memory_label_GB = 80,
    .memory = 81559_MiB,
    .memory_bandwidth = 3350_GBps,
    .dense =
        [] {
          peak_rates rates = gpu_data::gh100_sxm_dense;
          rates.fp64 = rates.fp64_matrix = 1_TFLOPS;
          return rates;
        }(),
    .sparse = gpu_data::gh100_sxm_sparse,
    .peers = peer_link{"NVLink 4", 400_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 700_W,
    .source = "the DeepSeek-V3 report (arXiv 2412.19437) for the links; else as the H100",
    .trust = confidence::one_source,
};

}  // namespace gpuplan::catalog
