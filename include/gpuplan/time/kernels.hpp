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
  double scalar = detail::infinity;  // of products that tensor cores do not take
  double attention_forward = 0;
  double attention_backward = 0;
  double bytes = 0;     // byte/s that products read and write,
  double elements = 0;  // and what moves bytes only
  // How many times as long others take for as many bytes, of eager PyTorch, where that is more than
  // once: see device_efficiency.
  double functions = 1;
  double sums = 1;
  double softmaxes = 1;
  double norms = 1;
  double rms_norms = 1;
  double norm_gradients = 1;
  double reorders = 1;
  bool in_waves = true;  // tiles come in whole waves over the SMs,
  double reuse = 1;      // and keep these so many times as busy as those of an A100
  double sms = 1;
  double floor = 0;      // s that any kernel takes
  double odd = 1;        // share of the rate where a dimension is no multiple of 4 bytes,
  double unaligned = 1;  // or none of 16

  /// Of a device whose kernels all take so many times as long.
  [[nodiscard]] constexpr kernel_rates slowed(double slowdown) const {
    kernel_rates rates = *this;
    for (double* const rate : {&rates.linear,
                               &rates.half,
                               &rates.scalar,
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
// would at the full rate: the smaller it is, the less it reuses operands. cuBLAS has these, as
// names of its kernels say. Shares of 96, 160 and 192 columns lie between those of their
// neighbours.
struct matmul_tile {
  int rows, columns;
  double results;
  double share;  // of the rate, on an A100
};
inline constexpr int tile_side_count = 6;
inline constexpr double tile_sides[tile_side_count] = {64, 96, 128, 160, 192, 256};
inline constexpr matmul_tile matmul_tiles[] = {{5, 2, 256 * 128, 1},
                                               {2, 5, 128 * 256, 1},
                                               {2, 4, 128 * 192, 0.98},
                                               {2, 3, 128 * 160, 0.96},
                                               {2, 2, 128 * 128, 0.95},
                                               {2, 1, 128 * 96, 0.88},
                                               {2, 0, 128 * 64, 0.8},
                                               {0, 2, 64 * 128, 0.8},
                                               {0, 0, 64 * 64, 0.6}};
// FLOP/s of one of its SMs in half formats. Where an SM computes less while it is handed operands
// as fast, smaller tiles keep it busy.
inline constexpr double flops_of_ampere_sm = 312e12 / 108;

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

namespace detail {

// Computing a product at `rate`, in whole waves of the best of nine tiles over the SMs.
constexpr double computing_time(const matmul_size& product, double rate, const kernel_rates& on) {
  double least = on.in_waves ? infinity : product.m * product.n * product.batch / on.sms;
  double rows[tile_side_count] = {};
  double columns[tile_side_count] = {};
  for (int side = 0; side < tile_side_count; ++side) {
    rows[side] = ceil_div(product.m, tile_sides[side]);
    columns[side] = ceil_div(product.n, tile_sides[side]) * product.batch;
  }
  for (const matmul_tile& tile : matmul_tiles)
    least = smaller_of(least,
                       ceil_div(rows[tile.rows] * columns[tile.columns], on.sms) * tile.results /
                           smaller_of(1, tile.share * on.reuse));
  return least * on.sms * 2 * product.k / rate;
}
constexpr double operand_bytes(const matmul_size& product, double element_bytes) {
  return (product.m + product.n) * product.k * product.batch * element_bytes;
}
constexpr double result_bytes_of(const matmul_size& product, double each) {
  return product.m * product.n * product.batch * each;
}

}  // namespace detail

/// The time in seconds of a product at `rate`, its operands of `element_bytes` and its results of
/// `result_bytes` each. Formula: the longer of computing, in whole waves of the best of nine tiles
/// over the SMs, and of reading the operands once; then the result is written, while nothing is
/// left to compute; never less than the floor.
[[nodiscard]] constexpr double matmul_time(const matmul_size& product,
                                           double rate,
                                           double element_bytes,
                                           double result_bytes,
                                           const kernel_rates& on) {
  using namespace detail;
  const double computing = computing_time(product, rate, on);
  const double operands = operand_bytes(product, element_bytes);
  const double result = result_bytes_of(product, result_bytes);
  return larger_of(larger_of(computing, operands / on.bytes) + result / on.bytes, on.floor);
}

/// What kernels take, by what bounds them.
struct bounded_kernels {
  double flops = 0;
  double tiles = 0;  // s beyond these: tiles that do not fill the device, odd dimensions
  double bytes = 0;  // that move while nothing computes
  double floor = 0;  // s by which kernels are shorter than any takes

  [[nodiscard]] constexpr double seconds(double flop_rate, double byte_rate) const {
    return flops / flop_rate + tiles + bytes / byte_rate + floor;
  }
};
[[nodiscard]] constexpr bounded_kernels operator+(const bounded_kernels& a,
                                                  const bounded_kernels& b) {
  return {a.flops + b.flops, a.tiles + b.tiles, a.bytes + b.bytes, a.floor + b.floor};
}
[[nodiscard]] constexpr bounded_kernels operator*(double count, const bounded_kernels& a) {
  return {count * a.flops, count * a.tiles, count * a.bytes, count * a.floor};
}

namespace detail {

// A kernel that computes and moves at once, and moves more behind that.
constexpr bounded_kernels bounded(double flops,
                                  double rate,
                                  double computing,
                                  double moving,
                                  double behind,
                                  double bytes_per_s,
                                  double floor) {
  const double exposed = larger_of(0, moving - computing);
  const double all = larger_of(computing, moving) + behind / bytes_per_s;
  return {.flops = flops,
          .tiles = computing - flops / rate,
          .bytes = behind + (exposed > 0 ? exposed * bytes_per_s : 0),
          .floor = larger_of(0, floor - all)};
}

}  // namespace detail

/// What adds up to `matmul_time` at `full_rate` of its FLOPs, of which alignment leaves `rate`.
[[nodiscard]] constexpr bounded_kernels bounds_of_matmul(const matmul_size& product,
                                                         double full_rate,
                                                         double rate,
                                                         double element_bytes,
                                                         double result_bytes,
                                                         const kernel_rates& on) {
  return detail::bounded(2 * product.m * product.n * product.k * product.batch,
                         full_rate,
                         detail::computing_time(product, rate, on),
                         detail::operand_bytes(product, element_bytes) / on.bytes,
                         detail::result_bytes_of(product, result_bytes),
                         on.bytes,
                         on.floor);
}

}  // namespace gpuplan
