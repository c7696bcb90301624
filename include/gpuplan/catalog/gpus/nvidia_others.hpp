#pragma once

// NVIDIA's devices for data centres of Ada, Turing, Volta and Pascal. Part of catalog/gpus.hpp,
// which says how to read the numbers.

#include <gpuplan/catalog/gpus/shared.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan::catalog {

// NVIDIA Ada, data centre

// The datasheet's pair disagrees with itself: 733 / 2 is 366.5, which is the rate at 2520 MHz;
// 362.05 is at 2490 MHz. 264 to 269 TFLOPS were measured in bf16, so 183 (half) is no
// fp32-accumulate rate.
inline constexpr gpu_spec l40s{
    .id = "l40s",
    .name = "L40S",
    .driver_names = {"NVIDIA L40S"},
    .architecture = "Ada AD102",
    .compute_capability = 89,
    .year = 2023,
    .sm_count = 142,
    .clock_MHz = 2520,
    .memory_label_GB = 48,
    .memory = 46068_MiB,
    .memory_bandwidth = 864_GBps,
    .dense = {.fp64 = 1.43_TFLOPS,
              .fp32 = 91.6_TFLOPS,
              .tf32 = 183_TFLOPS,
              .bf16 = 362.05_TFLOPS,
              .fp16 = 362.05_TFLOPS,
              .fp16_sum_fp16 = 362.05_TFLOPS,
              .fp16_vector = 91.6_TFLOPS,
              .fp8 = 733_TFLOPS,
              .int8 = 733_TFLOPS},
    .sparse = {.tf32 = 366_TFLOPS, .bf16 = 733_TFLOPS, .fp16 = 733_TFLOPS, .fp8 = 1466_TFLOPS},
    .pcie = pcie_link{.generation = 4, .lanes = 16},
    .tdp = 350_W,
    .source = "NVIDIA L40S page; nvidia-smi 46068 MiB (ECC on)",
    .trust = confidence::one_source,
};

// Half of the L40S on the same die: NVIDIA states it at the GeForce rate.
inline constexpr gpu_spec l40{
    .id = "l40",
    .name = "L40",
    .driver_names = {"NVIDIA L40"},
    .architecture = "Ada AD102",
    .compute_capability = 89,
    .year = 2022,
    .sm_count = 142,
    .clock_MHz = 2490,
    .memory_label_GB = 48,
    .memory = 46068_MiB,
    .memory_bandwidth = 864_GBps,
    .dense = {.fp64 = 1.41_TFLOPS,
              .fp32 = 90.5_TFLOPS,
              .tf32 = 90.5_TFLOPS,
              .bf16 = 181.05_TFLOPS,
              .fp16 = 181.05_TFLOPS,
              .fp16_sum_fp16 = 362.1_TFLOPS,
              .fp16_vector = 90.5_TFLOPS,
              .fp8 = 362_TFLOPS,
              .int8 = 362_TFLOPS},
    .sparse = {.tf32 = 181_TFLOPS, .bf16 = 362.1_TFLOPS, .fp16 = 362.1_TFLOPS, .fp8 = 724_TFLOPS},
    .pcie = pcie_link{.generation = 4, .lanes = 16},
    .tdp = 300_W,
    .source = "NVIDIA L40 datasheet; Ada whitepaper 2.1",
    .trust = confidence::one_source,
};

// 70.9 TFLOPS were measured at 72 W, so 60.6 (half) is no fp32-accumulate rate.
inline constexpr gpu_spec l4{
    .id = "l4",
    .name = "L4",
    .driver_names = {"NVIDIA L4"},
    .architecture = "Ada AD104",
    .compute_capability = 89,
    .year = 2023,
    .sm_count = 58,
    .clock_MHz = 2040,
    .memory_label_GB = 24,
    .memory = 23034_MiB,
    .memory_bandwidth = 300_GBps,
    .dense = {.fp64 = 0.47_TFLOPS,
              .fp32 = 30.3_TFLOPS,
              .tf32 = 60.5_TFLOPS,
              .bf16 = 121_TFLOPS,
              .fp16 = 121_TFLOPS,
              .fp16_sum_fp16 = 121_TFLOPS,
              .fp16_vector = 30.3_TFLOPS,
              .fp8 = 242.5_TFLOPS,
              .int8 = 242.5_TFLOPS},
    .sparse = {.tf32 = 121_TFLOPS, .bf16 = 242_TFLOPS, .fp16 = 242_TFLOPS, .fp8 = 485_TFLOPS},
    .pcie = pcie_link{.generation = 4, .lanes = 16},
    .tdp = 72_W,
    .source = "NVIDIA L4 page; nvidia-smi 23034 MiB (ECC on), 72 W",
    .trust = confidence::one_source,
};

// NVIDIA Turing, Volta and Pascal, data centre

// The datasheet says 300 GB/s, the memory clock gives 320.
inline constexpr gpu_spec t4{
    .id = "t4",
    .name = "T4",
    .driver_names = {"Tesla T4"},
    .architecture = "Turing TU104",
    .compute_capability = 75,
    .year = 2018,
    .sm_count = 40,
    .clock_MHz = 1590,
    .memory_label_GB = 16,
    .memory = 15360_MiB,
    .memory_bandwidth = 320_GBps,
    .dense = {.fp64 = 0.254_TFLOPS,
              .fp32 = 8.1_TFLOPS,
              .fp16 = 65_TFLOPS,
              .fp16_sum_fp16 = 65_TFLOPS,
              .fp16_vector = 16.2_TFLOPS,
              .int8 = 130_TFLOPS},
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 70_W,
    .source = "NVIDIA T4 datasheet; SM count and bandwidth (memory clock) not verified",
    .trust = confidence::unverified,
};

// Older drivers report 16160 MiB.
inline constexpr gpu_spec v100_sxm2_16gb{
    .id = "v100_sxm2_16gb",
    .name = "V100 SXM2 16 GB",
    .driver_names = {"Tesla V100-SXM2-16GB"},
    .architecture = "Volta GV100",
    .compute_capability = 70,
    .year = 2017,
    .sm_count = 80,
    .clock_MHz = 1530,
    .memory_label_GB = 16,
    .memory = 16384_MiB,
    .memory_bandwidth = 900_GBps,
    .dense = gpu_data::v100_sxm2_dense,
    .peers = peer_link{"NVLink 2", 300_GBps},
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 300_W,
    .source = "NVIDIA V100 datasheet r5; nvidia-smi 16384 MiB",
    .trust = confidence::one_source,
};

// Older drivers report 32510 MiB.
inline constexpr gpu_spec v100_sxm2_32gb{
    .id = "v100_sxm2_32gb",
    .name = "V100 SXM2 32 GB",
    .driver_names = {"Tesla V100-SXM2-32GB"},
    .architecture = "Volta GV100",
    .compute_capability = 70,
    .year = 2018,
    .sm_count = 80,
    .clock_MHz = 1530,
    .memory_label_GB = 32,
    .memory = 32768_MiB,
    .memory_bandwidth = 900_GBps,
    .dense = gpu_data::v100_sxm2_dense,
    .peers = peer_link{"NVLink 2", 300_GBps},
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 300_W,
    .source = "NVIDIA V100 datasheet r5; nvidia-smi 32768 MiB",
    .trust = confidence::one_source,
};

inline constexpr gpu_spec v100_pcie_16gb{
    .id = "v100_pcie_16gb",
    .name = "V100 PCIe 16 GB",
    .driver_names = {"Tesla V100-PCIE-16GB"},
    .architecture = "Volta GV100",
    .compute_capability = 70,
    .year = 2017,
    .sm_count = 80,
    .clock_MHz = 1370,
    .memory_label_GB = 16,
    .memory = 16384_MiB,
    .memory_bandwidth = 900_GBps,
    .dense = gpu_data::v100_pcie_dense,
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 250_W,
    .source = "NVIDIA V100 datasheet r5",
    .trust = confidence::one_source,
};

inline constexpr gpu_spec v100_pcie_32gb{
    .id = "v100_pcie_32gb",
    .name = "V100 PCIe 32 GB",
    .driver_names = {"Tesla V100-PCIE-32GB"},
    .architecture = "Volta GV100",
    .compute_capability = 70,
    .year = 2018,
    .sm_count = 80,
    .clock_MHz = 1370,
    .memory_label_GB = 32,
    .memory = 32768_MiB,
    .memory_bandwidth = 900_GBps,
    .dense = gpu_data::v100_pcie_dense,
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 250_W,
    .source = "NVIDIA V100 datasheet r5",
    .trust = confidence::one_source,
};

inline constexpr gpu_spec v100s_pcie_32gb{
    .id = "v100s_pcie_32gb",
    .name = "V100S PCIe 32 GB",
    .driver_names = {"Tesla V100S-PCIE-32GB"},
    .architecture = "Volta GV100",
    .compute_capability = 70,
    .year = 2019,
    .sm_count = 80,
    .clock_MHz = 1597,
    .memory_label_GB = 32,
    .memory = 32768_MiB,
    .memory_bandwidth = 1134_GBps,
    .dense = {.fp64 = 8.2_TFLOPS,
              .fp32 = 16.4_TFLOPS,
              .fp16 = 130_TFLOPS,
              .fp16_sum_fp16 = 130_TFLOPS,
              .fp16_vector = 32.7_TFLOPS},
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 250_W,
    .source = "Composer, PyTorch Lightning; bandwidth not verified",
    .trust = confidence::unverified,
};

inline constexpr gpu_spec p100_sxm2_16gb{
    .id = "p100_sxm2_16gb",
    .name = "P100 SXM2 16 GB",
    .driver_names = {"Tesla P100-SXM2-16GB"},
    .architecture = "Pascal GP100",
    .compute_capability = 60,
    .year = 2016,
    .sm_count = 56,
    .clock_MHz = 1480,
    .memory_label_GB = 16,
    .memory = 16280_MiB,
    .memory_bandwidth = 732_GBps,
    .dense = {.fp64 = 5.3_TFLOPS, .fp32 = 10.6_TFLOPS, .fp16_vector = 21.2_TFLOPS},
    .peers = peer_link{"NVLink 1", 160_GBps},
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 300_W,
    .source = "nvidia-smi 16280 MiB; rates of the P100 datasheet not verified",
    .trust = confidence::unverified,
};

inline constexpr gpu_spec p100_pcie_16gb{
    .id = "p100_pcie_16gb",
    .name = "P100 PCIe 16 GB",
    .driver_names = {"Tesla P100-PCIE-16GB"},
    .architecture = "Pascal GP100",
    .compute_capability = 60,
    .year = 2016,
    .sm_count = 56,
    .clock_MHz = 1303,
    .memory_label_GB = 16,
    .memory = 16280_MiB,
    .memory_bandwidth = 732_GBps,
    .dense = {.fp64 = 4.7_TFLOPS, .fp32 = 9.3_TFLOPS, .fp16_vector = 18.7_TFLOPS},
    .pcie = pcie_link{.generation = 3, .lanes = 16},
    .tdp = 250_W,
    .source = "nvidia-smi 16280 MiB; rates of the P100 datasheet not verified",
    .trust = confidence::unverified,
};

}  // namespace gpuplan::catalog
