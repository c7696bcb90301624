#pragma once

// AMD's devices. Part of catalog/gpus.hpp, which says how to read the numbers.

#include <gpuplan/catalog/gpus/shared.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan::catalog {

// AMD

// The GPU of the Helios rack, in which 72 are joined. AMD states 20.1 PFLOPS in fp8 and 40.3 in
// fp4, and not whether of dense matrices: they are halved here, to two and four times bf16 as on
// CDNA 4. LLVM's schedule of gfx1250 has fp8 at four times bf16, which says otherwise. Before its
// launch the memory had 19.6 TB/s. No clock is published for the rates, and no power.
inline constexpr gpu_spec mi455x{
    .id = "mi455x",
    .name = "Instinct MI455X",
    .driver_names = {"AMD Instinct MI455X"},
    .vendor = gpu_vendor::amd,
    .architecture = "CDNA 5 gfx1250",
    .year = 2026,
    .sm_count = 256,
    .memory_label_GB = 432,
    .memory = 432_GiB,
    .memory_bandwidth = 23300_GBps,
    .dense = {.bf16 = 5000_TFLOPS, .fp16 = 5000_TFLOPS, .fp8 = 10050_TFLOPS, .fp4 = 20150_TFLOPS},
    .peers = peer_link{"UALink over Ethernet", 3600_GBps},
    .source = "AMD's page by ml-engineering; compute units and memory of ROCm's rocjitsu",
    .trust = confidence::unverified,
};

// Memory of these two as the driver reports an MI350X's, in ROCm's rocjitsu.
inline constexpr gpu_spec mi355x{
    .id = "mi355x",
    .name = "Instinct MI355X",
    .driver_names = {"AMD Instinct MI355X"},
    .vendor = gpu_vendor::amd,
    .architecture = "CDNA 4 gfx950",
    .year = 2025,
    .sm_count = 256,
    .clock_MHz = 2400,
    .memory_label_GB = 288,
    .memory = 294896_MiB,
    .memory_bandwidth = 8000_GBps,
    .dense = {.fp64 = 78.6_TFLOPS,
              .fp64_matrix = 78.6_TFLOPS,
              .fp32 = 157.3_TFLOPS,
              .bf16 = 2516.6_TFLOPS,
              .fp16 = 2516.6_TFLOPS,
              .fp8 = 5033.2_TFLOPS,
              .fp4 = 10066.3_TFLOPS,
              .int8 = 5033.2_TFLOPS},
    .sparse = {.bf16 = 5033.2_TFLOPS, .fp16 = 5033.2_TFLOPS, .fp8 = 10066.3_TFLOPS},
    .peers = peer_link{"Infinity Fabric", 1071_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 1400_W,
    .source = "AMD via ml-engineering, exact by clock",
    .trust = confidence::one_source,
};

inline constexpr gpu_spec mi350x{
    .id = "mi350x",
    .name = "Instinct MI350X",
    .driver_names = {"AMD Instinct MI350X"},
    .vendor = gpu_vendor::amd,
    .architecture = "CDNA 4 gfx950",
    .year = 2025,
    .sm_count = 256,
    .clock_MHz = 2200,
    .memory_label_GB = 288,
    .memory = 294896_MiB,
    .memory_bandwidth = 8000_GBps,
    .dense = {.fp64 = 72.1_TFLOPS,
              .fp64_matrix = 72.1_TFLOPS,
              .fp32 = 144.2_TFLOPS,
              .bf16 = 2306.9_TFLOPS,
              .fp16 = 2306.9_TFLOPS,
              .fp8 = 4613.7_TFLOPS,
              .fp4 = 9227.5_TFLOPS,
              .int8 = 4613.7_TFLOPS},
    .sparse = {.bf16 = 4613.7_TFLOPS, .fp16 = 4613.7_TFLOPS, .fp8 = 9227.5_TFLOPS},
    .peers = peer_link{"Infinity Fabric", 1071_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 1000_W,
    .source = "AMD via ml-engineering, scaled to 2200 MHz",
    .trust = confidence::formula,
};

// A card, half of an MI350X; its power can be set to 450 W. No link to others but PCIe.
inline constexpr gpu_spec mi350p{
    .id = "mi350p",
    .name = "Instinct MI350P",
    .driver_names = {"AMD Instinct MI350P"},
    .vendor = gpu_vendor::amd,
    .architecture = "CDNA 4 gfx950",
    .year = 2026,
    .sm_count = 128,
    .clock_MHz = 2200,
    .memory_label_GB = 144,
    .memory_bandwidth = 4000_GBps,
    .dense = {.fp64 = 36_TFLOPS,
              .fp64_matrix = 36_TFLOPS,
              .fp32 = 72.1_TFLOPS,
              .bf16 = 1153.4_TFLOPS,
              .fp16 = 1153.4_TFLOPS,
              .fp8 = 2306.9_TFLOPS,
              .fp4 = 4613.7_TFLOPS,
              .int8 = 2306.9_TFLOPS},
    .sparse = {.bf16 = 2306.9_TFLOPS, .fp16 = 2306.9_TFLOPS, .fp8 = 4613.7_TFLOPS},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 600_W,
    .source = "AMD via ServeTheHome (MXFP8 2.3 PFLOPS), half of MI350X",
    .trust = confidence::formula,
};

inline constexpr gpu_spec mi325x{
    .id = "mi325x",
    .name = "Instinct MI325X",
    .driver_names = {"AMD Instinct MI325X"},
    .vendor = gpu_vendor::amd,
    .architecture = "CDNA 3 gfx942",
    .year = 2024,
    .sm_count = 304,
    .clock_MHz = 2100,
    .memory_label_GB = 256,
    .memory_bandwidth = 6000_GBps,
    .dense = gpu_data::mi300_dense,
    .sparse = gpu_data::mi300_sparse,
    .peers = peer_link{"Infinity Fabric", 896_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 1000_W,
    .source = "AMD via ml-engineering and nanochat",
    .trust = confidence::one_source,
};

inline constexpr gpu_spec mi300x{
    .id = "mi300x",
    .name = "Instinct MI300X",
    .driver_names = {"AMD Instinct MI300X", "AMD Instinct MI300X OAM"},
    .vendor = gpu_vendor::amd,
    .architecture = "CDNA 3 gfx942",
    .year = 2023,
    .sm_count = 304,
    .clock_MHz = 2100,
    .memory_label_GB = 192,
    .memory = 196592_MiB,
    .memory_bandwidth = 5300_GBps,
    .dense = gpu_data::mi300_dense,
    .sparse = gpu_data::mi300_sparse,
    .peers = peer_link{"Infinity Fabric", 896_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 750_W,
    .source = "AMD via ml-engineering and nanochat",
    .trust = confidence::two_sources,
};

// One of the two GCDs of a module, which is what HIP calls a device: half of the module's numbers.
inline constexpr gpu_spec mi250x{
    .id = "mi250x",
    .name = "Instinct MI250X (one of two GCDs)",
    .driver_names = {"AMD Instinct MI250X"},
    .vendor = gpu_vendor::amd,
    .architecture = "CDNA 2 gfx90a",
    .year = 2021,
    .sm_count = 110,
    .clock_MHz = 1700,
    .memory_label_GB = 64,
    .memory_bandwidth = 1638.4_GBps,
    .dense = {.fp64 = 23.95_TFLOPS,
              .fp64_matrix = 47.85_TFLOPS,
              .fp32 = 23.95_TFLOPS,
              .bf16 = 191.5_TFLOPS,
              .fp16 = 191.5_TFLOPS,
              .int8 = 191.5_TFLOPS},
    // Three links of 50 GB/s each way lead to other modules; the four to the other GCD are not what
    // bounds a ring.
    .peers = peer_link{"Infinity Fabric", 300_GBps},
    .pcie = pcie_link{.generation = 4, .lanes = 16},
    .tdp = 280_W,
    .source = "AMD via ml-engineering and torchtitan, halved",
    .trust = confidence::one_source,
};

// One of the two GCDs of a module, which is what HIP calls a device: half of the module's numbers.
inline constexpr gpu_spec mi250{
    .id = "mi250",
    .name = "Instinct MI250 (one of two GCDs)",
    .driver_names = {"AMD Instinct MI250"},
    .vendor = gpu_vendor::amd,
    .architecture = "CDNA 2 gfx90a",
    .year = 2021,
    .sm_count = 104,
    .clock_MHz = 1700,
    .memory_label_GB = 64,
    .memory_bandwidth = 1638.4_GBps,
    .dense = {.fp64 = 22.65_TFLOPS,
              .fp64_matrix = 45.25_TFLOPS,
              .fp32 = 22.65_TFLOPS,
              .bf16 = 181.05_TFLOPS,
              .fp16 = 181.05_TFLOPS,
              .int8 = 181.05_TFLOPS},
    // Three links of 50 GB/s each way lead to other modules; the four to the other GCD are not what
    // bounds a ring.
    .peers = peer_link{"Infinity Fabric", 300_GBps},
    .pcie = pcie_link{.generation = 4, .lanes = 16},
    .tdp = 280_W,
    .source = "AMD via ml-engineering, halved",
    .trust = confidence::one_source,
};

inline constexpr gpu_spec mi210{
    .id = "mi210",
    .name = "Instinct MI210",
    .driver_names = {"AMD Instinct MI210"},
    .vendor = gpu_vendor::amd,
    .architecture = "CDNA 2 gfx90a",
    .year = 2022,
    .sm_count = 104,
    .clock_MHz = 1700,
    .memory_label_GB = 64,
    .memory_bandwidth = 1638.4_GBps,
    .dense = {.fp64 = 22.6_TFLOPS,
              .fp64_matrix = 45.3_TFLOPS,
              .fp32 = 22.6_TFLOPS,
              .bf16 = 181_TFLOPS,
              .fp16 = 181_TFLOPS,
              .int8 = 181_TFLOPS},
    .peers = peer_link{"Infinity Fabric", 300_GBps, 4},
    .pcie = pcie_link{.generation = 4, .lanes = 16},
    .tdp = 300_W,
    .source = "llm-analysis; fp64 not verified",
    .trust = confidence::unverified,
};

// int8 equals fp16 in CDNA 1 and 2; bf16 is half of it.
inline constexpr gpu_spec mi100{
    .id = "mi100",
    .name = "Instinct MI100",
    .driver_names = {"AMD Instinct MI100"},
    .vendor = gpu_vendor::amd,
    .architecture = "CDNA 1 gfx908",
    .year = 2020,
    .sm_count = 120,
    .clock_MHz = 1502,
    .memory_label_GB = 32,
    .memory_bandwidth = 1228.8_GBps,
    .dense = {.fp64 = 11.5_TFLOPS,
              .fp32 = 23.1_TFLOPS,
              .bf16 = 92.3_TFLOPS,
              .fp16 = 184.6_TFLOPS,
              .int8 = 184.6_TFLOPS},
    .peers = peer_link{"Infinity Fabric", 276_GBps, 4},
    .pcie = pcie_link{.generation = 4, .lanes = 16},
    .tdp = 300_W,
    .source = "llm-analysis; bf16 and int8 not verified",
    .trust = confidence::unverified,
};

// Radeon

inline constexpr gpu_spec rx_9070_xt{
    .id = "rx_9070_xt",
    .name = "Radeon RX 9070 XT",
    .driver_names = {"AMD Radeon RX 9070 XT", "Radeon RX 9070 XT"},
    .vendor = gpu_vendor::amd,
    .architecture = "RDNA 4 gfx1201",
    .year = 2025,
    .sm_count = 64,
    .clock_MHz = 2970,
    .memory_label_GB = 16,
    .memory_bandwidth = 640_GBps,
    .dense = {.fp32 = 48.7_TFLOPS,
              .bf16 = 194.6_TFLOPS,
              .fp16 = 194.6_TFLOPS,
              .fp8 = 389.3_TFLOPS,
              .int8 = 389.3_TFLOPS},
    .sparse = {.bf16 = 389.3_TFLOPS, .fp16 = 389.3_TFLOPS, .fp8 = 778.6_TFLOPS},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 304_W,
    .source = "AMD via VideoCardz; 1024 FLOP per clock and CU",
    .trust = confidence::formula,
};

// Others say 3230 MHz and 180 W, before it was sold.
inline constexpr gpu_spec rx_9060_xt_16gb{
    .id = "rx_9060_xt_16gb",
    .name = "Radeon RX 9060 XT 16 GB",
    .driver_names = {"AMD Radeon RX 9060 XT 16 GB", "Radeon RX 9060 XT 16 GB"},
    .vendor = gpu_vendor::amd,
    .architecture = "RDNA 4 gfx1200",
    .year = 2025,
    .sm_count = 32,
    .clock_MHz = 3130,
    .memory_label_GB = 16,
    .memory_bandwidth = 320_GBps,
    .dense = {.fp32 = 25.6_TFLOPS,
              .bf16 = 102.6_TFLOPS,
              .fp16 = 102.6_TFLOPS,
              .fp8 = 205.1_TFLOPS,
              .int8 = 205.1_TFLOPS},
    .sparse = {.bf16 = 205.1_TFLOPS, .fp16 = 205.1_TFLOPS, .fp8 = 410.3_TFLOPS},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 160_W,
    .source =
        "AMD via Corsair and TweakTown (821 TOPS in int4, sparse); 1024 FLOP per clock and CU",
    .trust = confidence::formula,
};

// Rates in fp32 are those of two instructions at once, which few kernels reach.
inline constexpr gpu_spec rx_7900_xtx{
    .id = "rx_7900_xtx",
    .name = "Radeon RX 7900 XTX",
    .driver_names = {"AMD Radeon RX 7900 XTX", "Radeon RX 7900 XTX"},
    .vendor = gpu_vendor::amd,
    .architecture = "RDNA 3 gfx1100",
    .year = 2022,
    .sm_count = 96,
    .clock_MHz = 2500,
    .memory_label_GB = 24,
    .memory_bandwidth = 960_GBps,
    .dense = {.fp32 = 61.4_TFLOPS,
              .bf16 = 122.9_TFLOPS,
              .fp16 = 122.9_TFLOPS,
              .int8 = 122.9_TFLOPS},
    .pcie = pcie_link{.generation = 4, .lanes = 16},
    .tdp = 355_W,
    .source = "guru3d and cputronic.com; 512 FLOP per clock and CU",
    .trust = confidence::formula,
};

// Power of 300 W too is published.
inline constexpr gpu_spec rx_7900_xt{
    .id = "rx_7900_xt",
    .name = "Radeon RX 7900 XT",
    .driver_names = {"AMD Radeon RX 7900 XT", "Radeon RX 7900 XT"},
    .vendor = gpu_vendor::amd,
    .architecture = "RDNA 3 gfx1100",
    .year = 2022,
    .sm_count = 84,
    .clock_MHz = 2400,
    .memory_label_GB = 20,
    .memory_bandwidth = 800_GBps,
    .dense = {.fp32 = 51.6_TFLOPS,
              .bf16 = 103.2_TFLOPS,
              .fp16 = 103.2_TFLOPS,
              .int8 = 103.2_TFLOPS},
    .pcie = pcie_link{.generation = 4, .lanes = 16},
    .tdp = 315_W,
    .source = "guru3d and cputronic.com; 512 FLOP per clock and CU; hardwaredb.net",
    .trust = confidence::formula,
};

}  // namespace gpuplan::catalog
