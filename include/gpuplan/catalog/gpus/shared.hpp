#pragma once

// MIG profiles, and peak rates that several devices share. Part of catalog/gpus.hpp, which says how
// to read the numbers.

#include <gpuplan/gpu.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan::catalog {

// MIG profiles as `nvidia-smi mig -lgip` lists them, the least memory where driver versions differ;
// the shares of memory are those of NVIDIA's MIG user guide. Profiles of which no listing with
// memory and SM count was found are left out: the larger ones of the B200, GB200 and GH200 144 GB,
// and all of the B300 and GB300.
namespace gpu_data {
// NVIDIA MIG user guide; an A100-SXM4-40GB of ThetaGPU.
inline constexpr mig_slice mig_a100_40gb[] = {
    {.name = "1g.5gb", .most = 7, .sm_count = 14, .memory_eighths = 1, .memory = 4.75_GiB},
    {.name = "1g.10gb", .most = 4, .sm_count = 14, .memory_eighths = 2, .memory = 9.75_GiB},
    {.name = "2g.10gb", .most = 3, .sm_count = 28, .memory_eighths = 2, .memory = 9.75_GiB},
    {.name = "3g.20gb", .most = 2, .sm_count = 42, .memory_eighths = 4, .memory = 19.62_GiB},
    {.name = "4g.20gb", .most = 1, .sm_count = 56, .memory_eighths = 4, .memory = 19.62_GiB},
    {.name = "7g.40gb", .most = 1, .sm_count = 98, .memory_eighths = 8, .memory = 39.5_GiB},
};
// Listings of several A100-SXM4-80GB.
inline constexpr mig_slice mig_a100_80gb[] = {
    {.name = "1g.10gb", .most = 7, .sm_count = 14, .memory_eighths = 1, .memory = 9.5_GiB},
    {.name = "1g.20gb", .most = 4, .sm_count = 14, .memory_eighths = 2, .memory = 19.5_GiB},
    {.name = "2g.20gb", .most = 3, .sm_count = 28, .memory_eighths = 2, .memory = 19.5_GiB},
    {.name = "3g.40gb", .most = 2, .sm_count = 42, .memory_eighths = 4, .memory = 39.25_GiB},
    {.name = "4g.40gb", .most = 1, .sm_count = 56, .memory_eighths = 4, .memory = 39.25_GiB},
    {.name = "7g.80gb", .most = 1, .sm_count = 98, .memory_eighths = 8, .memory = 78.75_GiB},
};
// Listings of several A30.
inline constexpr mig_slice mig_a30[] = {
    {.name = "1g.6gb", .most = 4, .sm_count = 14, .memory_eighths = 2, .memory = 5.81_GiB},
    {.name = "2g.12gb", .most = 2, .sm_count = 28, .memory_eighths = 4, .memory = 11.69_GiB},
    {.name = "4g.24gb", .most = 1, .sm_count = 56, .memory_eighths = 8, .memory = 23.44_GiB},
};
// A listing of two H100 80GB HBM3.
inline constexpr mig_slice mig_h100_80gb[] = {
    {.name = "1g.10gb", .most = 7, .sm_count = 16, .memory_eighths = 1, .memory = 9.75_GiB},
    {.name = "1g.20gb", .most = 4, .sm_count = 26, .memory_eighths = 2, .memory = 19.62_GiB},
    {.name = "2g.20gb", .most = 3, .sm_count = 32, .memory_eighths = 2, .memory = 19.62_GiB},
    {.name = "3g.40gb", .most = 2, .sm_count = 60, .memory_eighths = 4, .memory = 39.5_GiB},
    {.name = "4g.40gb", .most = 1, .sm_count = 64, .memory_eighths = 4, .memory = 39.5_GiB},
    {.name = "7g.80gb", .most = 1, .sm_count = 132, .memory_eighths = 8, .memory = 79.25_GiB},
};
// A listing of an H100 PCIe, driver 570.169.
inline constexpr mig_slice mig_h100_pcie[] = {
    {.name = "1g.10gb", .most = 7, .sm_count = 14, .memory_eighths = 1, .memory = 9.75_GiB},
    {.name = "1g.20gb", .most = 4, .sm_count = 14, .memory_eighths = 2, .memory = 19.62_GiB},
    {.name = "2g.20gb", .most = 3, .sm_count = 30, .memory_eighths = 2, .memory = 19.62_GiB},
    {.name = "3g.40gb", .most = 2, .sm_count = 46, .memory_eighths = 4, .memory = 39.5_GiB},
    {.name = "4g.40gb", .most = 1, .sm_count = 62, .memory_eighths = 4, .memory = 39.5_GiB},
    {.name = "7g.80gb", .most = 1, .sm_count = 114, .memory_eighths = 8, .memory = 79.25_GiB},
};
// gpu-operator #903 (10.75 GiB) and later listings (10.62). DCGM, vGPU and drivers before mid-2024
// call the smallest 1g.11gb.
inline constexpr mig_slice mig_h100_94gb[] = {
    {.name = "1g.12gb",
     .alias = "1g.11gb",
     .most = 7,
     .sm_count = 16,
     .memory_eighths = 1,
     .memory = 10.62_GiB},
    {.name = "1g.24gb", .most = 4, .sm_count = 26, .memory_eighths = 2, .memory = 21.5_GiB},
    {.name = "2g.24gb", .most = 3, .sm_count = 32, .memory_eighths = 2, .memory = 21.5_GiB},
    {.name = "3g.47gb", .most = 2, .sm_count = 60, .memory_eighths = 4, .memory = 46.12_GiB},
    {.name = "4g.47gb", .most = 1, .sm_count = 64, .memory_eighths = 4, .memory = 46.12_GiB},
    {.name = "7g.94gb", .most = 1, .sm_count = 132, .memory_eighths = 8, .memory = 92.62_GiB},
};
// mig-parted #120.
inline constexpr mig_slice mig_h200[] = {
    {.name = "1g.18gb", .most = 7, .sm_count = 16, .memory_eighths = 1, .memory = 16_GiB},
    {.name = "1g.35gb", .most = 4, .sm_count = 26, .memory_eighths = 2, .memory = 32.25_GiB},
    {.name = "2g.35gb", .most = 3, .sm_count = 32, .memory_eighths = 2, .memory = 32.25_GiB},
    {.name = "3g.71gb", .most = 2, .sm_count = 60, .memory_eighths = 4, .memory = 69.5_GiB},
    {.name = "4g.71gb", .most = 1, .sm_count = 64, .memory_eighths = 4, .memory = 69.5_GiB},
    {.name = "7g.141gb", .most = 1, .sm_count = 132, .memory_eighths = 8, .memory = 139.75_GiB},
};
// A listing of a GH200 of the University of Colorado Anschutz.
inline constexpr mig_slice mig_gh200_96gb[] = {
    {.name = "1g.12gb", .most = 7, .sm_count = 16, .memory_eighths = 1, .memory = 11_GiB},
    {.name = "1g.24gb", .most = 4, .sm_count = 26, .memory_eighths = 2, .memory = 23_GiB},
    {.name = "2g.24gb", .most = 3, .sm_count = 32, .memory_eighths = 2, .memory = 23_GiB},
    {.name = "3g.48gb", .most = 2, .sm_count = 60, .memory_eighths = 4, .memory = 46.5_GiB},
    {.name = "4g.48gb", .most = 1, .sm_count = 64, .memory_eighths = 4, .memory = 46.5_GiB},
    {.name = "7g.96gb", .most = 1, .sm_count = 132, .memory_eighths = 8, .memory = 93_GiB},
};
// mig-parted #139.
inline constexpr mig_slice mig_gh200_144gb[] = {
    {.name = "1g.18gb", .most = 7, .sm_count = 16, .memory_eighths = 1, .memory = 17.5_GiB},
    {.name = "1g.36gb", .most = 4, .sm_count = 26, .memory_eighths = 2, .memory = 35.25_GiB},
    {.name = "2g.36gb", .most = 3, .sm_count = 32, .memory_eighths = 2, .memory = 35.25_GiB},
};
// mig-parted #187 (20.50 GiB) and #166 (22.00).
inline constexpr mig_slice mig_b200[] = {
    {.name = "1g.23gb", .most = 7, .sm_count = 18, .memory_eighths = 1, .memory = 20.5_GiB},
    {.name = "1g.45gb", .most = 4, .sm_count = 30, .memory_eighths = 2, .memory = 44.25_GiB},
    {.name = "2g.45gb", .most = 3, .sm_count = 36, .memory_eighths = 2, .memory = 44.25_GiB},
};
// gpu-operator #1303 (20.00 GiB, with the name 1g.24gb) and mig-parted #227 (22.00, 1g.23gb).
inline constexpr mig_slice mig_gb200[] = {
    {.name = "1g.23gb",
     .alias = "1g.24gb",
     .most = 7,
     .sm_count = 18,
     .memory_eighths = 1,
     .memory = 20_GiB},
    {.name = "1g.47gb", .most = 4, .sm_count = 32, .memory_eighths = 2, .memory = 45.5_GiB},
    {.name = "2g.47gb", .most = 3, .sm_count = 38, .memory_eighths = 2, .memory = 45.5_GiB},
};
// cubecos #312 (23.12 GiB) and another listing of a server edition (23.62; the larger ones).
inline constexpr mig_slice mig_rtx_pro_6000[] = {
    {.name = "1g.24gb", .most = 4, .sm_count = 46, .memory_eighths = 2, .memory = 23.12_GiB},
    {.name = "2g.48gb", .most = 2, .sm_count = 94, .memory_eighths = 4, .memory = 47.38_GiB},
    {.name = "4g.96gb", .most = 1, .sm_count = 188, .memory_eighths = 8, .memory = 95.12_GiB},
};
}  // namespace gpu_data

// Peak rates that several devices share.
namespace gpu_data {
inline constexpr peak_rates gh100_sxm_dense{.fp64 = 34_TFLOPS,
                                            .fp64_matrix = 67_TFLOPS,
                                            .fp32 = 67_TFLOPS,
                                            .tf32 = 494.7_TFLOPS,
                                            .bf16 = 989.4_TFLOPS,
                                            .fp16 = 989.4_TFLOPS,
                                            .fp16_sum_fp16 = 989.4_TFLOPS,
                                            .fp16_vector = 133.8_TFLOPS,
                                            .fp8 = 1978.9_TFLOPS,
                                            .int8 = 1978.9_TFLOPS};
inline constexpr peak_rates gh100_sxm_sparse{
    .tf32 = 989.4_TFLOPS, .bf16 = 1978.9_TFLOPS, .fp16 = 1978.9_TFLOPS, .fp8 = 3957.8_TFLOPS};
inline constexpr peak_rates gh100_nvl_dense{.fp64 = 30_TFLOPS,
                                            .fp64_matrix = 60_TFLOPS,
                                            .fp32 = 60_TFLOPS,
                                            .tf32 = 417.5_TFLOPS,
                                            .bf16 = 835.5_TFLOPS,
                                            .fp16 = 835.5_TFLOPS,
                                            .fp16_sum_fp16 = 835.5_TFLOPS,
                                            .fp8 = 1670.5_TFLOPS,
                                            .int8 = 1670.5_TFLOPS};
inline constexpr peak_rates gh100_nvl_sparse{
    .tf32 = 835_TFLOPS, .bf16 = 1671_TFLOPS, .fp16 = 1671_TFLOPS, .fp8 = 3341_TFLOPS};
inline constexpr peak_rates a100_dense{.fp64 = 9.7_TFLOPS,
                                       .fp64_matrix = 19.5_TFLOPS,
                                       .fp32 = 19.5_TFLOPS,
                                       .tf32 = 156_TFLOPS,
                                       .bf16 = 312_TFLOPS,
                                       .fp16 = 312_TFLOPS,
                                       .fp16_sum_fp16 = 312_TFLOPS,
                                       .fp16_vector = 78_TFLOPS,
                                       .int8 = 624_TFLOPS};
inline constexpr peak_rates a100_sparse{.tf32 = 312_TFLOPS, .bf16 = 624_TFLOPS, .fp16 = 624_TFLOPS};
inline constexpr peak_rates v100_sxm2_dense{.fp64 = 7.8_TFLOPS,
                                            .fp32 = 15.7_TFLOPS,
                                            .fp16 = 125_TFLOPS,
                                            .fp16_sum_fp16 = 125_TFLOPS,
                                            .fp16_vector = 31.4_TFLOPS};
inline constexpr peak_rates v100_pcie_dense{.fp64 = 7_TFLOPS,
                                            .fp32 = 14_TFLOPS,
                                            .fp16 = 112_TFLOPS,
                                            .fp16_sum_fp16 = 112_TFLOPS,
                                            .fp16_vector = 28_TFLOPS};
inline constexpr peak_rates mi300_dense{.fp64 = 81.7_TFLOPS,
                                        .fp64_matrix = 163.4_TFLOPS,
                                        .fp32 = 163.4_TFLOPS,
                                        .tf32 = 653.7_TFLOPS,
                                        .bf16 = 1307.4_TFLOPS,
                                        .fp16 = 1307.4_TFLOPS,
                                        .fp8 = 2614.9_TFLOPS,
                                        .int8 = 2614.9_TFLOPS};
inline constexpr peak_rates mi300_sparse{
    .tf32 = 1307.4_TFLOPS, .bf16 = 2614.9_TFLOPS, .fp16 = 2614.9_TFLOPS, .fp8 = 5229.8_TFLOPS};
}  // namespace gpu_data

}  // namespace gpuplan::catalog
