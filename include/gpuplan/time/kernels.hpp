#pragma once

// How long kernels take on one device: matrix products, attention, and what moves bytes only.

#include <gpuplan/detail/math.hpp>

#include <initializer_list>

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
  double odd = 1;        // share of the rate where a dimension is no multiple of 4 bytes,
  double unaligned = 1;  // or none of 16

  /// Of a device whose kernels all take so many times as long.
  [[nodiscard]] constexpr kernel_rates slowed(double slowdown) const {
    kernel_rates rates = *this;
    for (double* const rate : {&rates.linear,
                               &rates.half,
                               &rates.attention_forward,
                               &rates.attention_backward,
                               &rates.bytes,
                               &rates.elements})
      *rate /= slowdown;
    rates.floor *= slowdown;
    return rates;
  }
};

namespace detail {

// A tile of a product's result, in sides of `tile_sides`, and what it takes over what its FLOPs
// would at the full rate: the smaller it is, the less it reuses operands.
struct matmul_tile {
  int rows, columns;
  double time;
};
inline constexpr double tile_sides[] = {64, 128, 256};
inline constexpr matmul_tile matmul_tiles[] = {{2, 1, 256 * 128},
                                               {1, 2, 128 * 256},
                                               {1, 1, 128 * 128 / 0.95},
                                               {1, 0, 128 * 64 / 0.8},
                                               {0, 1, 64 * 128 / 0.8},
                                               {0, 0, 64 * 64 / 0.6}};

constexpr double ceil_div(double a, double b) { return ceil(a / b); }
constexpr bool divides(double part, double whole) { return floor(whole / part) * part == whole; }

}  // namespace detail

/// A product of `batch` matrices, m x k by k x n.
struct matmul_size {
  double m = 0;
  double n = 0;
  double k = 0;
  double batch = 1;
};

/// The share of a product's rate that is left where a linear layer's `in` or `out` is no multiple
/// of 4 bytes, or of 16: what a load takes at once.
[[nodiscard]] constexpr double alignment_share(double in,
                                               double out,
                                               double element_bytes,
                                               const kernel_rates& on) {
  using detail::divides;
  const double elements = 16 / element_bytes;
  if (divides(elements, in) && divides(elements, out)) return 1;
  const double fewer = elements / 4;
  return divides(fewer, in) && divides(fewer, out) ? on.unaligned : on.odd;
}

/// The time in seconds of a product at `rate`, its operands of `element_bytes` and its results of
/// `result_bytes` each. Formula: the longer of computing, in whole waves of the best of six tiles
/// over the SMs, and of reading the operands once; then the result is written, while nothing is
/// left to compute; never less than the floor.
[[nodiscard]] constexpr double matmul_time(const matmul_size& product,
                                           double rate,
                                           double element_bytes,
                                           double result_bytes,
                                           const kernel_rates& on) {
  using namespace detail;
  double least = on.in_waves ? infinity : product.m * product.n * product.batch / on.sms;
  double rows[3] = {};
  double columns[3] = {};
  for (int side = 0; side < 3; ++side) {
    rows[side] = ceil_div(product.m, tile_sides[side]);
    columns[side] = ceil_div(product.n, tile_sides[side]) * product.batch;
  }
  for (const matmul_tile& tile : matmul_tiles)
    least =
        smaller_of(least, ceil_div(rows[tile.rows] * columns[tile.columns], on.sms) * tile.time);
  const double computing = least * on.sms * 2 * product.k / rate;
  const double operands = (product.m + product.n) * product.k * product.batch * element_bytes;
  const double result = product.m * product.n * product.batch * result_bytes;
  return larger_of(larger_of(computing, operands / on.bytes) + result / on.bytes, on.floor);
}

}  // namespace gpuplan
