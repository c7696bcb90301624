#pragma once

// NVIDIA's devices for data centres from Blackwell on. Part of catalog/gpus.hpp, which says how to
// read the numbers.

#include <gpuplan/catalog/gpus/shared.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan::catalog {

// NVIDIA Blackwell, data centre

// Some sources say 7.7 TB/s, 80 TFLOPS in fp32, 192 GB.
inline constexpr gpu_spec b200_sxm{
    .id = "b200_sxm",
    .name = "B200 180 GB",
    .driver_names = {"NVIDIA B200"},
    .architecture = "Blackwell GB100",
    .compute_capability = 100,
    .year = 2024,
    .sm_count = 148,
    .clock_MHz = 1856,
    .memory_label_GB = 180,
    .memory = 183359_MiB,
    .memory_bandwidth = 8000_GBps,
    .dense = {.fp64 = 37_TFLOPS,
              .fp64_matrix = 37_TFLOPS,
              .fp32 = 75_TFLOPS,
              .tf32 = 1125_TFLOPS,
              .bf16 = 2250_TFLOPS,
              .fp16 = 2250_TFLOPS,
              .fp8 = 4500_TFLOPS,
              .fp4 = 9000_TFLOPS,
              .int8 = 4500_TFLOPS},
    .sparse = {.tf32 = 2250_TFLOPS,
               .bf16 = 4500_TFLOPS,
               .fp16 = 4500_TFLOPS,
               .fp8 = 9000_TFLOPS,
               .fp4 = 18000_TFLOPS},
    .peers = peer_link{"NVLink 5", 1800_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 1000_W,
    .mig = gpu_data::mig_b200,
    .source = "NVIDIA exemplar-performance; aiconfigurator; nvidia-smi 183359 MiB",
    .trust = confidence::one_source,
};

// fp4 is stated as 13.1 to 15 PFLOPS dense, int8 as 150 to 187 TOPS (not 4500).
inline constexpr gpu_spec b300_sxm{
    .id = "b300_sxm",
    .name = "B300 288 GB",
    .driver_names = {"NVIDIA B300 SXM6 AC"},
    .architecture = "Blackwell Ultra",
    .compute_capability = 103,
    .year = 2025,
    .sm_count = 148,
    .clock_MHz = 1856,
    .memory_label_GB = 288,
    .memory = 275040_MiB,
    .memory_bandwidth = 8000_GBps,
    .dense = {.fp64 = 1.25_TFLOPS,
              .fp64_matrix = 1.25_TFLOPS,
              .fp32 = 75_TFLOPS,
              .tf32 = 1125_TFLOPS,
              .bf16 = 2250_TFLOPS,
              .fp16 = 2250_TFLOPS,
              .fp8 = 4500_TFLOPS,
              .fp4 = 13500_TFLOPS,
              .int8 = 153.5_TFLOPS},
    .sparse = {.tf32 = 2250_TFLOPS,
               .bf16 = 4500_TFLOPS,
               .fp16 = 4500_TFLOPS,
               .fp8 = 9000_TFLOPS,
               .fp4 = 18000_TFLOPS},
    .peers = peer_link{"NVLink 5", 1800_GBps},
    .pcie = pcie_link{.generation = 6, .lanes = 16},
    .tdp = 1100_W,
    .source = "NVIDIA exemplar-performance; aiconfigurator; nvidia-smi 275040 MiB",
    .trust = confidence::formula,
};

// NVIDIA's own utilisation figures divide by 2450 TFLOPS.
inline constexpr gpu_spec gb200{
    .id = "gb200",
    .name = "GB200 (one GPU)",
    .driver_names = {"NVIDIA GB200"},
    .architecture = "Blackwell GB100",
    .compute_capability = 100,
    .year = 2024,
    .sm_count = 152,
    .clock_MHz = 2008,
    .memory_label_GB = 186,
    .memory = 189471_MiB,
    .memory_bandwidth = 8000_GBps,
    .dense = {.fp64 = 40_TFLOPS,
              .fp64_matrix = 40_TFLOPS,
              .fp32 = 80_TFLOPS,
              .tf32 = 1250_TFLOPS,
              .bf16 = 2500_TFLOPS,
              .fp16 = 2500_TFLOPS,
              .fp8 = 5000_TFLOPS,
              .fp4 = 10000_TFLOPS,
              .int8 = 5000_TFLOPS},
    .sparse = {.tf32 = 2500_TFLOPS,
               .bf16 = 5000_TFLOPS,
               .fp16 = 5000_TFLOPS,
               .fp8 = 10000_TFLOPS,
               .fp4 = 20000_TFLOPS},
    .peers = peer_link{"NVLink 5", 1800_GBps},
    .tdp = 1200_W,
    .mig = gpu_data::mig_gb200,
    .source = "NVIDIA datasheet via torchtitan; aiconfigurator; nvidia-smi 189471 MiB",
    .trust = confidence::one_source,
};

// No clock is published that gives these rates. int8 is not 5000.
inline constexpr gpu_spec gb300{
    .id = "gb300",
    .name = "GB300 (one GPU)",
    .driver_names = {"NVIDIA GB300"},
    .architecture = "Blackwell Ultra",
    .compute_capability = 103,
    .year = 2025,
    .sm_count = 152,
    .memory_label_GB = 288,
    .memory = 284208_MiB,
    .memory_bandwidth = 8000_GBps,
    .dense = {.fp64 = 1.3_TFLOPS,
              .fp64_matrix = 1.3_TFLOPS,
              .fp32 = 80_TFLOPS,
              .tf32 = 1250_TFLOPS,
              .bf16 = 2500_TFLOPS,
              .fp16 = 2500_TFLOPS,
              .fp8 = 5000_TFLOPS,
              .fp4 = 15000_TFLOPS,
              .int8 = 165_TFLOPS},
    .sparse = {.tf32 = 2500_TFLOPS,
               .bf16 = 5000_TFLOPS,
               .fp16 = 5000_TFLOPS,
               .fp8 = 10000_TFLOPS,
               .fp4 = 20000_TFLOPS},
    .peers = peer_link{"NVLink 5", 1800_GBps},
    .tdp = 1400_W,
    .source = "aiconfigurator; nvidia-smi 284208 MiB",
    .trust = confidence::formula,
};

// NVIDIA Rubin

// The GPU of Vera Rubin NVL72, R100 in Megatron-Bridge. Dense rates of training; for inference
// NVIDIA states 50 PFLOPS in NVFP4, which data must allow. The fp8 rate of 17.5 PFLOPS is of the
// product page, as are memory and links; bf16 is of a table that copies it. No clock is published,
// and no power: 1.8 kW is what third parties say.
inline constexpr gpu_spec vr200{
    .id = "vr200",
    .name = "Vera Rubin VR200",
    .driver_names = {"NVIDIA VR200", "NVIDIA R100"},
    .architecture = "Rubin",
    .compute_capability = 107,
    .year = 2026,
    .sm_count = 224,
    .memory_label_GB = 288,
    .memory_bandwidth = 22_TBps,
    .dense = {.bf16 = 4000_TFLOPS, .fp16 = 4000_TFLOPS, .fp8 = 17500_TFLOPS, .fp4 = 35000_TFLOPS},
    .peers = peer_link{"NVLink 6", 3600_GBps},
    .tdp = 1800_W,
    .source = "NVIDIA's page of VR NVL72, by ml-engineering 744d01e1; SM count of NVIDIA's blog",
    .trust = confidence::unverified,
};

// NVIDIA GB10

// DGX Spark: memory is the system's, of which CUDA sees 121.6 GiB. NVIDIA states 1 PFLOPS in
// sparse fp4; bf16 is an eighth of its half, as on GeForce cards, and people measured about 60.
// Workstation cards have twice that.
inline constexpr gpu_spec gb10{
    .id = "gb10",
    .name = "GB10 (DGX Spark)",
    .driver_names = {"NVIDIA GB10"},
    .architecture = "Blackwell GB10",
    .compute_capability = 121,
    .year = 2025,
    .sm_count = 48,
    .memory_label_GB = 128,
    .memory_bandwidth = 273_GBps,
    .dense = {.bf16 = 62.5_TFLOPS,
              .fp16 = 62.5_TFLOPS,
              .fp16_sum_fp16 = 125_TFLOPS,
              .fp8 = 125_TFLOPS,
              .fp4 = 500_TFLOPS},
    .sparse = {.fp4 = 1000_TFLOPS},
    .tdp = 140_W,
    .source = "NVIDIA's page of DGX Spark; fp16, bf16 and fp8 by the ratios of its generation",
    .trust = confidence::unverified,
};

}  // namespace gpuplan::catalog
