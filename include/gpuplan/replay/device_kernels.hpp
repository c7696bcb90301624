#pragma once

// What each kind of kernel reaches of generations of devices, for steps that are replayed: from
// published kernels, none of it fitted to steps.

#include <gpuplan/gpu.hpp>
#include <gpuplan/replay/kernel_shares.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan {

namespace device_kernels {

/// H100, as benchmarks/results has it.
inline constexpr kernel_shares hopper{};
/// A100: products 253.7 and 256.5 TFLOP/s of 8192 and 16384 cubed by cuBLASLt with random data,
/// attention forward 179.5 by flash-attention 2 with heads of 128, which the backward's share is in
/// proportion to; exponentials are an SM's of H100. Its limit is in these. Element-wise kernels and
/// products of odd sizes are taken to be as on H100, where those run A100's instructions too, and
/// steps to scatter twice as much, which is judgement.
inline constexpr kernel_shares ampere = [] {
  kernel_shares found;
  found.products = 0.81;
  found.odd_products = found.odd_gradients = 0.52;
  found.unaligned_products = 0.7;
  found.flash_forward.products = 0.69;
  found.flash_backward.products = 0.56;
  found.efficient_forward.products = 0.36;
  found.efficient_backward.products = 0.24;
  found.joules_per_flop = found.joules_per_byte = 0;
  found.scatter = 0.12;
  return found;
}();
/// B200, GB200 and B300: the best of many shapes of products of bf16 is 1745, 1822 and 1769 TFLOP/s
/// (stas00/ml-engineering), 0.73 to 0.79 of their peaks. An H100's products are 0.92 of its best by
/// the numbers above; as much of these is 0.67 to 0.72. Attention forward is 374 TFLOP/s by
/// flash-attention 2, which has no instructions of theirs, and the backward in proportion. Their
/// limit is in these, and nothing else was measured.
inline constexpr kernel_shares blackwell = [] {
  kernel_shares found;
  found.products = 0.68;
  found.flash_forward.products = 0.15;
  found.flash_backward.products = 0.12;
  found.joules_per_flop = found.joules_per_byte = 0;
  found.scatter = 0.12;
  return found;
}();
/// V100: products of 8192 by torch.matmul 95 TFLOP/s, of fp32 14 (mli/transformers-benchmarks).
inline constexpr kernel_shares volta = [] {
  kernel_shares found = ampere;
  found.products = 0.76;
  found.fp32_products = 0.89;
  found.odd_products = found.odd_gradients = 0.38;
  found.unaligned_products = 0.5;
  return found;
}();
/// GeForce cards of Ampere, Ada and Blackwell, whose peak with sums in fp32 is half of that with
/// sums in fp16: products of 8192 reach all of it on an RTX 3090 Ti and a 4090 (the same page).
/// Their layers of BERT say that no element-wise kernel is bound by more than its bytes.
inline constexpr kernel_shares geforce = [] {
  kernel_shares found = ampere;
  found.products = 1;
  found.fp32_products = 0.95;
  found.flash_forward.products = found.efficient_forward.products = 0.65;
  found.flash_backward.products = found.efficient_backward.products = 0.48;
  found.elements = found.widening = 0.88;
  found.updates = found.norms = found.rms_norms = found.norm_gradients = found.softmaxes =
      found.softmax_gradients = found.sums = {0.88, 0.88};
  return found;
}();
/// Cards of the same generations for workstations: 95 TFLOP/s of an RTX A6000 in fp16, 60 in TF32.
inline constexpr kernel_shares workstation = [] {
  kernel_shares found = geforce;
  found.products = 0.61;
  found.fp32_products = 0.78;
  found.flash_forward.products = found.efficient_forward.products = 0.42;
  found.flash_backward.products = found.efficient_backward.products = 0.31;
  return found;
}();
/// MI300X: products 668 TFLOP/s at best (stas00/ml-engineering), attention forward 329, a stream's
/// copies 0.78 of the bandwidth where an H100's are 0.89.
inline constexpr kernel_shares cdna = [] {
  kernel_shares found = ampere;
  found.products = 0.51;
  found.flash_forward.products = 0.27;
  found.flash_backward.products = 0.23;
  found.elements = 0.77;
  return found;
}();

}  // namespace device_kernels

/// What is known of the generation of `gpu`; of others, what is known of H100. Of 11 layers of
/// BERT-large that mli/transformers-benchmarks measured on V100, RTX A6000, 3090 Ti and 4090 the
/// forward pass is at most 12 % off, 5 in the mean; both passes are from 2 % too fast to 22 % too
/// slow, 8 % of which may be the gradient of the layer's input, which that page did not need. On
/// A100 the forward pass is 27 % too fast, both 6. On an H200 single kernels are as far off as on
/// the H100 that gave them.
[[nodiscard]] constexpr kernel_shares kernel_shares_of(const gpu_spec& gpu) {
  if (gpu.vendor == gpu_vendor::amd) return device_kernels::cdna;
  if (gpu.vendor != gpu_vendor::nvidia || !gpu.compute_capability) return device_kernels::hopper;
  const bool has_half_rate =
      gpu.dense.fp16 && gpu.dense.fp16_sum_fp16 && *gpu.dense.fp16 < *gpu.dense.fp16_sum_fp16;
  switch (*gpu.compute_capability) {
    case 70:
      return device_kernels::volta;
    case 80:
      return device_kernels::ampere;
    case 100:
    case 103:
      return device_kernels::blackwell;
    case 86:
    case 89:
    case 120:
      return has_half_rate ? device_kernels::geforce : device_kernels::workstation;
    default:
      return device_kernels::hopper;
  }
}

}  // namespace gpuplan
