#pragma once

// What kernels reach of a device's data sheet: a few physical shares that no data sheet states and
// that differ from one generation to the next. The values are in catalog/device_efficiencies.hpp.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan {

/// Shares are of the dense peak of the format, or of the memory bandwidth; 1 is all of it.
struct device_efficiency {
  const char* name = "";
  double products = 0.8;       // matrix products in fp16 and bf16 whose tiles fill the device
  double products_fp32 = 0.8;  // likewise in fp32 and tf32, of their peaks,
  double products_fp8 = 0.75;  // in fp8, and fp4
  double products_fp4 = 0.6;
  double products_fp8_by_row = 0.4;  // in fp8 with a scale for each row of both operands
  double odd_matmuls = 0.38;         // of that, where a dimension is no multiple of 4 bytes,
  double unaligned_matmuls = 0.5;    // or none of 16
  double attention_forward = 0.52;   // fused attention, of the fp16 and bf16 peak
  double attention_backward = 0.42;  // counting 2.5 times the forward's products
  double memory = 0.8;               // element-wise kernels and the optimizer
  // How many times as long others of element-wise kernels take for as many bytes, measured of eager
  // PyTorch on an H100 (`kernel_shares`). Arithmetic bounds them, so that on other devices it goes
  // by the bytes in a clock of an SM:
  double functions = 2.2;   // activations,
  double sums = 2.2;        // gradients of biases,
  double softmaxes = 1.82;  // of rows, and losses,
  double norms = 1.8;       // LayerNorm,
  double rms_norms = 1.1;   // RMSNorm,
  double norm_gradients = 2.5;
  double reorders = 2.1;    // and what does not lie in one order, as rotary positions
  duration kernel_floor{};  // no kernel takes less
  // Of the device that reached these, see clock_share: its limit of power, its dense peak in fp16,
  // at so many MHz (0: those of the device that is asked for), and how many times as much products
  // reach of its peak while power does not bound them.
  power board_power{};
  compute_rate board_peak{};
  double board_clock_MHz = 0;
  double in_burst = 1;
  const char* source = "";
};

/// How many times as much of its peak a device's products reach as those of the device that
/// `reached` is of, because of its limit of power: what is drawn grows with the FLOPs and with the
/// square of the voltage, which grows with the clock. By the cube root of power for each FLOP of
/// the peak and square of its clock, and at most `in_burst` times. Measured: of H100, 0.89 under
/// 500 W instead of 700.
[[nodiscard]] constexpr double clock_share(const device_efficiency& reached, const gpu_spec& gpu) {
  if (reached.board_power <= power{} || !gpu.tdp) return 1;
  double ratio = *gpu.tdp / reached.board_power;
  if (reached.board_peak > compute_rate{} && gpu.dense.fp16 && *gpu.dense.fp16 > compute_rate{})
    ratio *= reached.board_peak / *gpu.dense.fp16;
  if (reached.board_clock_MHz > 0 && gpu.clock_MHz) {
    const double clock = reached.board_clock_MHz / *gpu.clock_MHz;
    ratio *= clock * clock;
  }
  return detail::smaller_of(reached.in_burst, detail::pow(ratio, 1.0 / 3));
}

}  // namespace gpuplan
