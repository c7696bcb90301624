#pragma once

// How long kernels take on one device: matrix products, attention, and what moves bytes only.

#include <gpuplan/detail/math.hpp>

namespace gpuplan {

/// A device as its kernels see it, in base units: what its data sheet states, times the share that
/// kernels reach.
struct kernel_rates {
  double linear = 0;        // FLOP/s of linear layers, in the format that they multiply in
  double linear_bytes = 2;  // of an element that they read
  double half = 0;          // FLOP/s of other products, and of linear layers kept in 16 bits
  double attention_forward = 0;
  double attention_backward = 0;
  double bytes = 0;      // byte/s that products read and write,
  double elements = 0;   // and what moves bytes only
  bool in_waves = true;  // tiles come in whole waves over the SMs
  double sms = 1;
  double floor = 0;      // s that any kernel takes
  double odd = 1;        // share of the rate where a dimension is no multiple of 8 bytes,
  double unaligned = 1;  // or none of 16

  /// Of a device whose kernels all take so many times as long.
  [[nodiscard]] constexpr kernel_rates slowed(double by) const {
    kernel_rates rates = *this;
    for (double* const rate : {&rates.linear,
                               &rates.half,
                               &rates.attention_forward,
                               &rates.attention_backward,
                               &rates.bytes,
                               &rates.elements})
      *rate /= by;
    rates.floor *= by;
    return rates;
  }
};

namespace detail {

// A tile of a product's result, and the share of the rate that its reuse of operands allows.
struct product_tile {
  double rows, columns, share;
};
inline constexpr product_tile product_tiles[] = {
    {256, 128, 1}, {128, 256, 1}, {128, 128, 0.95}, {128, 64, 0.8}, {64, 128, 0.8}, {64, 64, 0.6}};

constexpr double ceil_div(double a, double b) { return ceil(a / b); }
constexpr double larger_of(double a, double b) { return a < b ? b : a; }
constexpr double smaller_of(double a, double b) { return b < a ? b : a; }
constexpr bool divides(double part, double whole) { return floor(whole / part) * part == whole; }

}  // namespace detail

/// A product of `batch` matrices, m x k by k x n.
struct matrix_product {
  double m = 0;
  double n = 0;
  double k = 0;
  double batch = 1;
};

/// The share of a product's rate that is left where a linear layer's `in` or `out` is no multiple of
/// 8 bytes, or of 16: what a load takes at once.
[[nodiscard]] constexpr double alignment_share(double in,
                                               double out,
                                               double element_bytes,
                                               const kernel_rates& on) {
  using detail::divides;
  const double elements = 16 / element_bytes;
  if (!divides(elements / 2, in) || !divides(elements / 2, out)) return on.odd;
  return divides(elements, in) && divides(elements, out) ? 1 : on.unaligned;
}

/// The time in seconds of a product at `rate`, its operands of `element_bytes` and its results of
/// `result_bytes` each. Formula: the longer of computing, in whole waves of the best of six tiles
/// over the SMs, and of reading the operands once; then the result is written, while nothing is
/// left to compute; never less than the floor.
[[nodiscard]] constexpr double product_time(const matrix_product& of,
                                            double rate,
                                            double element_bytes,
                                            double result_bytes,
                                            const kernel_rates& on) {
  using namespace detail;
  double least = on.in_waves ? infinity : of.m * of.n * of.batch / on.sms;
  for (const product_tile& tile : product_tiles) {
    const double tiles = ceil_div(of.m, tile.rows) * ceil_div(of.n, tile.columns) * of.batch;
    const double waves = ceil_div(tiles, on.sms);
    least = smaller_of(least, waves * tile.rows * tile.columns / tile.share);
  }
  const double computing = least * on.sms * 2 * of.k / rate;
  const double operands = (of.m + of.n) * of.k * of.batch * element_bytes;
  const double result = of.m * of.n * of.batch * result_bytes;
  return larger_of(larger_of(computing, operands / on.bytes) + result / on.bytes, on.floor);
}

}  // namespace gpuplan
