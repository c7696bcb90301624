#pragma once

// What kernels reach on generations of devices: fitted to published steps, all of them, and all
// sources with devices of a generation at once. benchmarks/accuracy/fit_time.cpp fits them again
// from here, with runs left out, and says how well each is determined.

#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/units.hpp>

#include <string_view>

namespace gpuplan::catalog {

/// V100: fitted to 187 steps of BigScience, LiBai, Languini and BERT, 6 to 15 % off in the mean of
/// a source. Products of 8192 timed alone reach 1.2 times as much (95 TFLOP/s by torch.matmul, in
/// fp32 14: mli/transformers-benchmarks); with these steps of all four are too fast. Fused
/// attention is taken to be as on A100.
inline constexpr device_efficiency volta{.name = "Volta",
                                         .products = 0.63,
                                         .products_fp32 = 0.75,
                                         .odd_matmuls = 0.38,
                                         .attention_forward = 0.498,
                                         .attention_backward = 0.261,
                                         .memory = 0.7,
                                         .kernel_floor = 3_us,
                                         .board_power = 300_W,
                                         .board_peak = 125_TFLOPS,
                                         .board_clock_MHz = 1530,
                                         .in_burst = 1.2,
                                         .source = "published steps"};
/// A100: 224 steps of LLM Foundry, vTrain and Megatron-LM, within 3 to 5 % of them on average;
/// those of Megatron-LM within 12 % where they are left out of the fit. The share of odd products
/// is from 432 of vTrain's profiled steps and BigScience's with heads of 150. How well they are
/// determined: products 0.76 to 0.783, attention_forward 0.42 to 0.58, attention_backward 0.25 to
/// 0.28; they trade against each other.
inline constexpr device_efficiency ampere{.name = "Ampere",
                                          .products = 0.783,
                                          .products_fp32 = 0.74,
                                          .odd_matmuls = 0.52,
                                          .attention_forward = 0.498,
                                          .attention_backward = 0.261,
                                          .memory = 0.8,
                                          .kernel_floor = 3_us,
                                          .board_power = 400_W,
                                          .board_peak = 312_TFLOPS,
                                          .board_clock_MHz = 1410,
                                          .source = "published steps"};
/// H100 and H200: 36 steps of torchtitan and Megatron-Bridge, within 6 % of them on average.
/// Products are determined to 0.03, in fp8 to 0.1; of attention, whose kernels are PyTorch's, only
/// both passes together: a kernel that was timed alone reaches 0.43 and 0.35 at long sequences
/// (`kernel_shares`), by which these steps are 12 % too fast, most where ranks share a sequence.
/// Products with odd dimensions were timed on an H100 (PyTorch 2.11): 124 TFLOP/s of a head of
/// 50257 classes, 243 of one of 30522, where aligned ones reach 613.
inline constexpr device_efficiency hopper{.name = "Hopper",
                                          .products = 0.62,
                                          .products_fp32 = 0.82,
                                          .products_fp8 = 0.715,
                                          .products_fp8_by_row = 0.315,
                                          .odd_matmuls = 0.2,
                                          .unaligned_matmuls = 0.4,
                                          .attention_forward = 0.165,
                                          .attention_backward = 0.286,
                                          .memory = 0.8,
                                          .kernel_floor = 3_us,
                                          .board_power = 700_W,
                                          .board_peak = 989.4_TFLOPS,
                                          .board_clock_MHz = 1830,
                                          .in_burst = 1.25,
                                          .source = "published steps"};
/// B200, GB200, B300 and GB300: 92 steps of Megatron-Bridge and Megatron-Core, within 3 % (one
/// node) and 10 % (clusters, releases of a year).
inline constexpr device_efficiency blackwell{.name = "Blackwell",
                                             .products = 0.58,
                                             .products_fp8 = 0.8,
                                             .products_fp4 = 0.75,
                                             .odd_matmuls = 0.38,
                                             .attention_forward = 0.673,
                                             .attention_backward = 0.388,
                                             .memory = 0.8,
                                             .kernel_floor = 3_us,
                                             .board_power = 1400_W,
                                             .source = "published steps"};

/// GeForce cards of the generations of Ampere, Ada and Blackwell, whose peaks with sums in fp32 are
/// half of those with sums in fp16: products of 8192 reach all of it on an RTX 3090 Ti and a 4090,
/// as mli/transformers-benchmarks measured them, in tf32 too. What steps lose beside, 39 of
/// Languini on an RTX 3090 say.
inline constexpr device_efficiency geforce{.name = "GeForce",
                                           .products = 0.9,
                                           .products_fp32 = 0.95,
                                           .odd_matmuls = 0.5,
                                           .attention_forward = 0.6,
                                           .attention_backward = 0.45,
                                           .memory = 0.88,
                                           .kernel_floor = 3_us,
                                           .source = "published kernels"};
/// Cards of the same generations for workstations and servers, whose peak is that of sums in fp16
/// and whose power limit is lower: 0.61 and 0.78 of an RTX A6000, as the same page has it.
/// By peaks and clocks their limits bind none of Ada's workstation cards more than an RTX 6000 Ada,
/// nor the RTX 2000 Ada with its 70 W (see `clock_share`), so that no board's power stands here; an
/// L4 with its 72 W was measured at 59 to 71 TFLOP/s, where this says 74.
inline constexpr device_efficiency workstation{.name = "Workstation",
                                               .products = 0.61,
                                               .products_fp32 = 0.78,
                                               .odd_matmuls = 0.5,
                                               .attention_forward = 0.4,
                                               .attention_backward = 0.3,
                                               .memory = 0.88,
                                               .kernel_floor = 3_us,
                                               .source = "published kernels"};
/// Turing, of which no step was timed: 42 TFLOP/s, 0.65 of its peak, are the best of public
/// measurements of products on a T4. With this share on a card of 260 W a T4 has 37 by its 70 W, as
/// steps have less than products alone on other generations. Fused attention is taken to be as on
/// workstation cards.
inline constexpr device_efficiency turing{.name = "Turing",
                                          .products = 0.65,
                                          .odd_matmuls = 0.5,
                                          .attention_forward = 0.4,
                                          .attention_backward = 0.3,
                                          .kernel_floor = 3_us,
                                          .board_power = 260_W,
                                          .board_peak = 130.5_TFLOPS,
                                          .board_clock_MHz = 1770,
                                          .source = "published kernels"};
/// MI300X to MI355X: products of large shapes reach 0.51 (MI300X), 0.6 (MI325X), 0.46 (MI350X) and
/// 0.58 (MI355X), fused attention's forward pass 0.25 on MI300X, of stas00/ml-engineering and AMD's
/// own tables. CDNA 5, of which no product was timed, is taken to be as these.
inline constexpr device_efficiency cdna{.name = "CDNA",
                                        .products = 0.52,
                                        .products_fp32 = 0.5,
                                        .products_fp8 = 0.45,
                                        .odd_matmuls = 0.4,
                                        .attention_forward = 0.25,
                                        .attention_backward = 0.2,
                                        .memory = 0.7,
                                        .kernel_floor = 5_us,
                                        .source = "published kernels"};

/// What is known of the generation of `gpu`; where nothing is, what `device_efficiency` says
/// without a name.
[[nodiscard]] constexpr device_efficiency efficiency_of(const gpu_spec& gpu) {
  if (gpu.vendor == gpu_vendor::amd)  // but for Radeons, which nobody timed
    return std::string_view(gpu.architecture).starts_with("RDNA") ? device_efficiency{} : cdna;
  if (gpu.vendor != gpu_vendor::nvidia || !gpu.compute_capability) return {};
  const bool has_half_rate =
      gpu.dense.fp16 && gpu.dense.fp16_sum_fp16 && *gpu.dense.fp16 < *gpu.dense.fp16_sum_fp16;
  switch (*gpu.compute_capability) {
    case 70:
      return volta;
    case 75:
      return has_half_rate ? geforce : turing;
    case 80:
      return ampere;
    case 90:
      return hopper;
    case 100:
    case 103:
    case 107:  // Rubin, which nobody timed
      return blackwell;
    case 86:
    case 89:
    case 120:
    case 121:  // GB10, which nobody timed
      return has_half_rate ? geforce : workstation;
    default:
      return {};
  }
}

}  // namespace gpuplan::catalog
