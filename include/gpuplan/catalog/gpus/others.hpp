#pragma once

// Devices of Intel, Google and AWS. Part of catalog/gpus.hpp, which says how to read the numbers.

#include <gpuplan/catalog/gpus/shared.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan::catalog {

// Intel

// Intel's whitepaper says 1835 TFLOPS, at 1750 MHz. fp8 is no faster than bf16.
inline constexpr gpu_spec gaudi3{
    .id = "gaudi3",
    .name = "Gaudi 3",
    .vendor = gpu_vendor::intel,
    .architecture = "Gaudi 3",
    .year = 2024,
    .sm_count = 64,
    .clock_MHz = 1600,
    .memory_label_GB = 128,
    .memory_bandwidth = 3700_GBps,
    .dense = {.fp32 = 229_TFLOPS,
              .tf32 = 459_TFLOPS,
              .bf16 = 1677_TFLOPS,
              .fp16 = 459_TFLOPS,
              .fp8 = 1677_TFLOPS},
    .peers = peer_link{"Ethernet", 1050_GBps},
    .pcie = pcie_link{.generation = 5, .lanes = 16},
    .tdp = 900_W,
    .source = "ml-engineering, at the 1600 MHz that the device reports",
    .trust = confidence::formula,
};

// 24 Ethernet ports of 100 Gb/s, 21 of which stay in the node.
inline constexpr gpu_spec gaudi2{
    .id = "gaudi2",
    .name = "Gaudi 2",
    .vendor = gpu_vendor::intel,
    .architecture = "Gaudi 2",
    .year = 2022,
    .sm_count = 24,
    .clock_MHz = 1650,
    .memory_label_GB = 96,
    .memory_bandwidth = 2460_GBps,
    .dense = {.bf16 = 432_TFLOPS, .fp16 = 432_TFLOPS, .fp8 = 865_TFLOPS},
    .peers = peer_link{"Ethernet", 525_GBps},
    .pcie = pcie_link{.generation = 4, .lanes = 16},
    .tdp = 600_W,
    .source = "Intel Gaudi 2 whitepaper via ml-engineering",
    .trust = confidence::one_source,
};

// Google

inline constexpr gpu_spec tpu_v7x{
    .id = "tpu_v7x",
    .name = "TPU v7x",
    .vendor = gpu_vendor::google,
    .architecture = "TPU",
    .year = 2025,
    .sm_count = 2,
    .memory_label_GB = 192,
    .memory_bandwidth = 7370_GBps,
    .dense = {.bf16 = 2307_TFLOPS, .fp8 = 4614_TFLOPS},
    .peers = peer_link{"ICI", 1200_GBps},
    .source = "Google Cloud TPU documentation via ml-engineering",
    .trust = confidence::one_source,
};

inline constexpr gpu_spec tpu_v6e{
    .id = "tpu_v6e",
    .name = "TPU v6e",
    .vendor = gpu_vendor::google,
    .architecture = "TPU",
    .year = 2024,
    .sm_count = 1,
    .memory_label_GB = 32,
    .memory_bandwidth = 1638_GBps,
    .dense = {.bf16 = 918_TFLOPS, .int8 = 1836_TFLOPS},
    .peers = peer_link{"ICI", 800_GBps},
    .source = "Google Cloud TPU documentation",
    .trust = confidence::two_sources,
};

inline constexpr gpu_spec tpu_v5p{
    .id = "tpu_v5p",
    .name = "TPU v5p",
    .vendor = gpu_vendor::google,
    .architecture = "TPU",
    .year = 2023,
    .sm_count = 2,
    .memory_label_GB = 95,
    .memory_bandwidth = 2765_GBps,
    .dense = {.bf16 = 459_TFLOPS, .int8 = 918_TFLOPS},
    .peers = peer_link{"ICI", 1200_GBps},
    .source = "Google Cloud TPU documentation",
    .trust = confidence::two_sources,
};

inline constexpr gpu_spec tpu_v5e{
    .id = "tpu_v5e",
    .name = "TPU v5e",
    .vendor = gpu_vendor::google,
    .architecture = "TPU",
    .year = 2023,
    .sm_count = 1,
    .memory_label_GB = 16,
    .memory_bandwidth = 819_GBps,
    .dense = {.bf16 = 197_TFLOPS, .int8 = 393_TFLOPS},
    .peers = peer_link{"ICI", 400_GBps},
    .source = "Google Cloud TPU documentation",
    .trust = confidence::two_sources,
};

// Two TensorCores, one device.
inline constexpr gpu_spec tpu_v4{
    .id = "tpu_v4",
    .name = "TPU v4",
    .vendor = gpu_vendor::google,
    .architecture = "TPU",
    .year = 2021,
    .sm_count = 2,
    .memory_label_GB = 32,
    .memory_bandwidth = 1200_GBps,
    .dense = {.bf16 = 275_TFLOPS, .int8 = 275_TFLOPS},
    .peers = peer_link{"ICI", 600_GBps},
    .tdp = 192_W,
    .source = "Google Cloud TPU documentation; power not verified",
    .trust = confidence::unverified,
};

// AWS

// Sparsity is 4:1, not 2:4.
inline constexpr gpu_spec trainium3{
    .id = "trainium3",
    .name = "Trainium 3",
    .vendor = gpu_vendor::aws,
    .architecture = "NeuronCore-v4",
    .year = 2025,
    .sm_count = 8,
    .memory_label_GB = 144,
    .memory_bandwidth = 4900_GBps,
    .dense = {.fp32 = 183_TFLOPS,
              .tf32 = 671_TFLOPS,
              .bf16 = 671_TFLOPS,
              .fp16 = 671_TFLOPS,
              .fp8 = 2517_TFLOPS,
              .fp4 = 2517_TFLOPS},
    .sparse = {.tf32 = 2517_TFLOPS, .bf16 = 2517_TFLOPS, .fp16 = 2517_TFLOPS},
    .peers = peer_link{"NeuronLink", 2560_GBps},
    .source = "AWS Neuron documentation 2.29.1",
    .trust = confidence::two_sources,
};

// Sparsity is 4:1, not 2:4.
inline constexpr gpu_spec trainium2{
    .id = "trainium2",
    .name = "Trainium 2",
    .vendor = gpu_vendor::aws,
    .architecture = "NeuronCore-v3",
    .year = 2024,
    .sm_count = 8,
    .memory_label_GB = 96,
    .memory_bandwidth = 2900_GBps,
    .dense = {.fp32 = 181_TFLOPS,
              .tf32 = 667_TFLOPS,
              .bf16 = 667_TFLOPS,
              .fp16 = 667_TFLOPS,
              .fp8 = 1299_TFLOPS},
    .sparse = {.tf32 = 2563_TFLOPS, .bf16 = 2563_TFLOPS, .fp16 = 2563_TFLOPS, .fp8 = 2563_TFLOPS},
    .peers = peer_link{"NeuronLink", 1280_GBps},
    .source = "AWS Neuron documentation 2.29",
    .trust = confidence::two_sources,
};

// 820 is printed as GiB/s in some versions of the page.
inline constexpr gpu_spec trainium1{
    .id = "trainium1",
    .name = "Trainium",
    .vendor = gpu_vendor::aws,
    .architecture = "NeuronCore-v2",
    .year = 2022,
    .sm_count = 2,
    .memory_label_GB = 32,
    .memory_bandwidth = 820_GBps,
    .dense = {.fp32 = 47.5_TFLOPS,
              .tf32 = 190_TFLOPS,
              .bf16 = 190_TFLOPS,
              .fp16 = 190_TFLOPS,
              .fp8 = 190_TFLOPS,
              .int8 = 380_TFLOPS},
    .source = "AWS Neuron documentation",
    .trust = confidence::two_sources,
};

}  // namespace gpuplan::catalog
