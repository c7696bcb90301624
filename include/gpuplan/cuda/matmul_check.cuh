#pragma once

// Whether a matrix product is right, in two ways that take little time beside it: some elements are
// computed again in double precision, and all rows are checked at once against a random vector.

#include <gpuplan/cuda/for_each.cuh>
#include <gpuplan/cuda/matmul.cuh>
#include <gpuplan/cuda/random_data.cuh>
#include <gpuplan/cuda/runtime.cuh>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace gpuplan::cuda {

/// What a product in a format is stored as: fp8's in bf16, int8's in 32-bit integers.
template <number_format Format>
using result_t = std::conditional_t<
    Format == number_format::fp8,
    __nv_bfloat16,
    std::conditional_t<Format == number_format::int8, std::int32_t, stored_t<Format>>>;

/// How far an element of a right product may be from the exact one, where it has the size of c and
/// is the sum of k products of elements of vectors with the lengths |a| and |b|: `stored |c| +
/// least
/// + sqrt(k) summed |a| |b|`.
struct rounding {
  double stored = 0;  // the largest relative error of a number of the result's format
  double least = 0;   // and its largest error beside 0
  double summed = 0;  // of adding up
};

/// Matrix units cut off what is below the last of 24 bits of the largest of 17 numbers that they
/// add at once: 2^-21 is above that in all directions. For fp8, Hopper's keep 14 bits (DeepSeek-V3,
/// arXiv 2412.19437, section 3.3.2): 2^-15. Integers are exact.
[[nodiscard]] constexpr rounding rounding_of(number_format format) {
  switch (format) {
    case number_format::fp64:
      return {.stored = 0x1p-53, .summed = 0x1p-51};
    case number_format::fp32:
    case number_format::tf32:
      return {.stored = 0x1p-24, .summed = 0x1p-21};
    case number_format::bf16:
      return {.stored = 0x1p-8, .summed = 0x1p-21};
    case number_format::fp16:
      return {.stored = 0x1p-11, .least = 0x1p-25, .summed = 0x1p-21};
    case number_format::fp8:
      return {.stored = 0x1p-8, .summed = 0x1p-15};
    case number_format::fp4:
    case number_format::int8:
      break;
  }
  return {};
}

namespace detail {

// Element (i, j) is at `from[i * row + j * column]`.
template <class Element>
struct matrix_view {
  const Element* from;
  std::int64_t row;
  std::int64_t column;

  [[nodiscard]] __host__ __device__ double at(std::int64_t i, std::int64_t j) const {
    return number_of(from[i * row + j * column]);
  }
};

template <class Element>
matrix_view<Element> view_by_rows(const Element* from,
                                  std::int64_t rows,
                                  std::int64_t columns,
                                  bool transposed) {
  return transposed ? matrix_view<Element>{from, 1, rows} : matrix_view<Element>{from, columns, 1};
}

template <class Operand, class Result>
struct matmul_to_check {
  matrix_view<Operand> a;
  matrix_view<Operand> b;
  matrix_view<Result> c;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  rounding error;

  // The error over its bound; infinity and NaN are beyond any.
  [[nodiscard]] static __host__ __device__ double share(double error, double bound) {
    return error == 0 ? 0 : fabs(error) / bound;
  }
};

// Shares[i] becomes the error of a random element of C over its bound; the first four are corners.
template <class Operand, class Result>
struct sampled_element {
  matmul_to_check<Operand, Result> of;
  std::uint64_t seed;
  double* shares;

  __host__ __device__ void operator()(std::int64_t index) const {
    const philox_words bits = random_words(seed, index);
    const bool corner = index < 4;
    const std::int64_t row = corner ? index / 2 * (of.m - 1) : below(bits.word, of.m);
    const std::int64_t column = corner ? index % 2 * (of.n - 1) : below(bits.word + 2, of.n);
    double sum = 0;
    double a_squares = 0;
    double b_squares = 0;
    for (std::int64_t i = 0; i < of.k; ++i) {
      const double a = of.a.at(row, i);
      const double b = of.b.at(i, column);
      sum += a * b;
      a_squares += a * a;
      b_squares += b * b;
    }
    const double bound =
        of.error.stored * fabs(sum) + of.error.least +
        of.error.summed * sqrt(static_cast<double>(of.k)) * sqrt(a_squares * b_squares);
    shares[index] = of.share(of.c.at(row, column) - sum, bound);
  }
  static __host__ __device__ std::int64_t below(const std::uint32_t* bits, std::int64_t end) {
    return static_cast<std::int64_t>((std::uint64_t{bits[0]} << 32 | bits[1]) %
                                     static_cast<std::uint64_t>(end));
  }
};

// 1 or -1.
[[nodiscard]] __host__ __device__ inline double random_sign(std::uint64_t seed,
                                                            std::int64_t index) {
  return (random_words(seed, index).word[0] & 1) == 0 ? 1 : -1;
}

// y = B x for random signs x, and the squares of B's rows.
template <class Operand, class Result>
struct signed_row_sum {
  matmul_to_check<Operand, Result> of;
  std::uint64_t seed;
  double* sums;
  double* squares;

  __host__ __device__ void operator()(std::int64_t row) const {
    double sum = 0;
    double square = 0;
    for (std::int64_t j = 0; j < of.n; ++j) {
      const double b = of.b.at(row, j);
      sum += random_sign(seed, j) * b;
      square += b * b;
    }
    sums[row] = sum;
    squares[row] = square;
  }
};

// Shares[i] becomes the error of row i of C x = A y over its bound.
template <class Operand, class Result>
struct checked_row {
  matmul_to_check<Operand, Result> of;
  std::uint64_t seed;
  const double* sums;
  double b_squares;  // of all elements of B
  double* shares;

  __host__ __device__ void operator()(std::int64_t row) const {
    double expected = 0;
    double a_squares = 0;
    for (std::int64_t i = 0; i < of.k; ++i) {
      const double a = of.a.at(row, i);
      expected += a * sums[i];
      a_squares += a * a;
    }
    double found = 0;
    double c_squares = 0;
    for (std::int64_t j = 0; j < of.n; ++j) {
      const double c = of.c.at(row, j);
      found += random_sign(seed, j) * c;
      c_squares += c * c;
    }
    const auto count = [](std::int64_t of_what) { return static_cast<double>(of_what); };
    // Signs are independent of errors, so a sum of signed errors e exceeds 8 sqrt(sum e^2) once in
    // 10^13 rows at most (Hoeffding 1963). The last part is of this check itself.
    const double stored = of.error.stored * sqrt(c_squares) + of.error.least * sqrt(count(of.n));
    const double added = (of.error.summed * sqrt(count(of.k)) + 0x1p-51 * sqrt(count(of.n))) *
                         sqrt(a_squares * b_squares);
    shares[row] = of.share(found - expected, 8 * sqrt(2 * (stored * stored + added * added)));
  }
};

// The largest, and infinity where one is no number.
inline double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values)
    most = std::isnan(value) ? std::numeric_limits<double>::infinity() : std::fmax(most, value);
  return most;
}

}  // namespace detail

/// What checks found: the largest errors, over the bounds that a right product keeps.
struct matmul_errors {
  double elements = 0;  // of those computed again
  double rows = 0;      // of C x = A (B x) (Freivalds 1977)

  [[nodiscard]] constexpr bool are_within_bounds() const { return elements <= 1 && rows <= 1; }
};

/// Memory of the device that checks of products up to a shape need.
class matmul_checker {
 public:
  static constexpr std::int64_t elements = 256;  // that are computed again

  explicit matmul_checker(const matmul_shape& largest)
      : sums_(count(largest.k)),
        squares_(count(largest.k)),
        shares_(count(std::max(elements, largest.m))) {}

  /// Checks C, which lies in the device's memory with its operands and was made by earlier work on
  /// the stream. Waits for the stream. Takes the time of some passes over the three matrices.
  template <number_format Format>
  [[nodiscard]] matmul_errors check(const matmul& matmul,
                                    const stored_t<Format>* a,
                                    const stored_t<Format>* b,
                                    const result_t<Format>* c,
                                    std::uint64_t seed,
                                    cudaStream_t on) {
    using operand = stored_t<Format>;
    using result = result_t<Format>;
    const auto [m, n, k] = matmul.shape;
    const detail::matmul_to_check<operand, result> of{
        detail::view_by_rows(a, m, k, matmul.a_is_transposed()),
        detail::view_by_rows(b, k, n, matmul.b_is_transposed()),
        detail::view_by_rows(c, m, n, false),
        m,
        n,
        k,
        rounding_of(Format)};
    matmul_errors errors;
    for_each(elements, detail::sampled_element<operand, result>{of, seed, shares_.data()}, on);
    errors.elements = detail::largest(copy(shares_, elements, on));
    for_each(
        k, detail::signed_row_sum<operand, result>{of, seed, sums_.data(), squares_.data()}, on);
    double b_squares = 0;
    for (const double of_row : copy(squares_, k, on)) b_squares += of_row;
    for_each(
        m,
        detail::checked_row<operand, result>{of, seed, sums_.data(), b_squares, shares_.data()},
        on);
    errors.rows = detail::largest(copy(shares_, m, on));
    return errors;
  }

 private:
  device_buffer<double> sums_;
  device_buffer<double> squares_;
  device_buffer<double> shares_;

  static std::size_t count(std::int64_t of) { return static_cast<std::size_t>(of); }

  // The first `size` numbers, once they are there.
  static std::vector<double> copy(const device_buffer<double>& from,
                                  std::int64_t size,
                                  cudaStream_t on) {
    std::vector<double> to(count(size));
    GPUPLAN_CUDA_CALL(cudaMemcpyAsync(
        to.data(), from.data(), to.size() * sizeof(double), cudaMemcpyDeviceToHost, on));
    GPUPLAN_CUDA_CALL(cudaStreamSynchronize(on));
    return to;
  }
};

}  // namespace gpuplan::cuda
