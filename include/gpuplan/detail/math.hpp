#pragma once

// The part of <cmath> that gpuplan needs, as constant expressions: clang has none of it. Private.
//
// All of it is IEEE double arithmetic in a fixed order, so the compilers agree on every bit, and so
// do compile time and run time under -ffp-contract=off. Where the compiler contracts, the bounds
// below still hold; the last bit of exp, log2 and pow may then differ from the one found at compile
// time.
//
// The bounds are the largest distances from glibc 2.36 that tests/run_time/math_against_libm.cpp
// meets, and that test enforces them. -ffast-math voids them. No function signals or sets errno.

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace gpuplan::detail {

constexpr double larger_of(double a, double b) { return a < b ? b : a; }
constexpr double smaller_of(double a, double b) { return b < a ? b : a; }

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// ---- sign, classes, integers

inline constexpr std::uint64_t sign_bit = std::uint64_t{1} << 63;

/// |x|; clears the sign of zero and NaN too. Exact.
[[nodiscard]] constexpr double abs(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~sign_bit);
}

/// |magnitude| with the sign of `sign`, zeros and NaN included. Exact.
[[nodiscard]] constexpr double copy_sign(double magnitude, double sign) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(abs(magnitude)) |
                               (std::bit_cast<std::uint64_t>(sign) & sign_bit));
}

/// Whether x is NaN, of either sign.
[[nodiscard]] constexpr bool is_nan(double x) {
  return std::bit_cast<std::uint64_t>(abs(x)) > std::bit_cast<std::uint64_t>(infinity);
}

/// Whether x is neither infinite nor NaN.
[[nodiscard]] constexpr bool is_finite(double x) {
  return std::bit_cast<std::uint64_t>(abs(x)) < std::bit_cast<std::uint64_t>(infinity);
}

// From here on a double has no fraction.
inline constexpr double two_to_52 = 0x1p52;

/// The largest integer not above x; keeps the sign of zero, gives infinities and NaN back. Exact.
[[nodiscard]] constexpr double floor(double x) {
  if (x == 0 || !(x > -two_to_52 && x < two_to_52)) return x;
  const double truncated = static_cast<double>(static_cast<std::int64_t>(x));
  return truncated > x ? truncated - 1 : truncated;
}

/// The smallest integer not below x; ceil(-0.5) is -0, infinities and NaN come back. Exact.
[[nodiscard]] constexpr double ceil(double x) { return -floor(-x); }

/// The nearest integer, halves away from zero; round(-0.4) is -0, infinities and NaN come back.
/// Exact.
[[nodiscard]] constexpr double round(double x) {
  if (!(abs(x) < two_to_52)) return x;
  const double truncated = static_cast<double>(static_cast<std::int64_t>(x));
  const double away = abs(x - truncated) >= 0.5 ? 1 : 0;
  return copy_sign(abs(truncated) + away, x);
}

// ---- mantissa and exponent

// x = mantissa * 2^exponent, 1 <= mantissa < 2.
struct mantissa_and_exponent {
  double mantissa;
  int exponent;
};

// For x > 0, finite, subnormal or not.
[[nodiscard]] constexpr mantissa_and_exponent decompose(double x) {
  const bool subnormal = x < std::numeric_limits<double>::min();
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(subnormal ? x * 0x1p54 : x);
  const std::uint64_t fraction = bits & 0x000f'ffff'ffff'ffff;
  return {std::bit_cast<double>(fraction | std::bit_cast<std::uint64_t>(1.0)),
          static_cast<int>(bits >> 52) - 1023 - (subnormal ? 54 : 0)};
}

// x * 2^exponent for 0.5 <= x <= 2 and |exponent| <= 1100; exact unless the result is subnormal.
// Works on the exponent's bits: a product that overflows is not a constant expression.
[[nodiscard]] constexpr double scale(double x, int exponent) {
  const std::int64_t bits = std::bit_cast<std::int64_t>(x);
  const std::int64_t biased = (bits >> 52) + exponent;
  const std::int64_t unit = std::int64_t{1} << 52;
  if (biased >= 2047) return infinity;
  if (biased > 0) return std::bit_cast<double>(bits + exponent * unit);
  return std::bit_cast<double>(bits + (exponent + 128) * unit) * 0x1p-128;
}

// ---- double-double: a number held as an unevaluated sum of two doubles, about 106 bits

struct double_double {
  double high;
  double low = 0;
};

// a + b without error (Knuth's two-sum).
[[nodiscard]] constexpr double_double exact_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// a + b without error where |a| >= |b| (Dekker's fast two-sum).
[[nodiscard]] constexpr double_double exact_sum_descending(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// The upper 26 bits of x, as a double.
[[nodiscard]] constexpr double upper_half(double x) {
  const double scaled = 0x8000001p0 * x;
  return scaled - (scaled - x);
}

// a * b without error, where nothing overflows and the error is no subnormal (Dekker, 1971).
[[nodiscard]] constexpr double_double exact_product(double a, double b) {
  const double product = a * b;
#if defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  // Where there is a fused multiply-add, compilers contract, and that breaks the splitting below.
  // The fused operation gives the same bits. It also keeps `product` from being contracted into a
  // later sum, since the product itself is used here.
  if (!std::is_constant_evaluated()) return {product, __builtin_fma(a, b, -product)};
#endif
  const double a_high = upper_half(a);
  const double b_high = upper_half(b);
  const double a_low = a - a_high;
  const double b_low = b - b_high;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

[[nodiscard]] constexpr double_double operator+(double_double a, double_double b) {
  const double_double sum = exact_sum(a.high, b.high);
  return exact_sum_descending(sum.high, sum.low + (a.low + b.low));
}

[[nodiscard]] constexpr double_double operator*(double_double a, double_double b) {
  const double_double product = exact_product(a.high, b.high);
  return exact_sum_descending(product.high, product.low + (a.high * b.low + a.low * b.high));
}

[[nodiscard]] constexpr double_double operator/(double_double a, double_double b) {
  const double quotient = a.high / b.high;
  const double_double product = exact_product(quotient, b.high);
  const double remainder = ((a.high - product.high) - product.low) + (a.low - quotient * b.low);
  return exact_sum_descending(quotient, remainder / b.high);
}

inline constexpr double_double ln_2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr double_double log2_e{0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
inline constexpr double_double two_log2_e{2 * log2_e.high, 2 * log2_e.low};
inline constexpr double_double third{0x1.5555555555555p-2, 0x1.5555555555555p-56};
inline constexpr double_double fifth{0x1.999999999999ap-3, -0x1.999999999999ap-57};

// log2(x) for x > 0, finite, to about 70 bits, which pow needs: its exponent multiplies the error.
// With x = m 2^e, sqrt(1/2) < m < sqrt(2), and s = (m - 1) / (m + 1), |s| < 0.172:
// ln m = 2 atanh s = 2 s (1 + s^2/3 + s^4/5 + ...), cut where the rest is below 2^-70.
[[nodiscard]] constexpr double_double log2_wide(double x) {
  auto [m, exponent] = decompose(x);
  if (m > 1.4142135623730951) {
    m /= 2;
    ++exponent;
  }
  const double_double s = double_double{m - 1} / exact_sum(m, 1);
  const double_double square = s * s;
  double rest = 0;
  for (int n = 25; n >= 7; n -= 2) rest = 1.0 / n + square.high * rest;
  const double_double series =
      double_double{1} + square * (third + square * (fifth + square * double_double{rest}));
  return double_double{static_cast<double>(exponent)} + two_log2_e * s * series;
}

// 1/13! to 1/3!
inline constexpr double inverse_factorials[] = {1.0 / 6227020800,
                                                1.0 / 479001600,
                                                1.0 / 39916800,
                                                1.0 / 3628800,
                                                1.0 / 362880,
                                                1.0 / 40320,
                                                1.0 / 5040,
                                                1.0 / 720,
                                                1.0 / 120,
                                                1.0 / 24,
                                                1.0 / 6};

// 2^x, infinity from x = 1024 on. With x = k + f, |f| <= 1/2, and r = f ln 2:
// 2^x = 2^k (1 + r + r^2/2 + r^3/6 + ...), cut where the rest is below 2^-57.
[[nodiscard]] constexpr double exp2_rounded(double_double x) {
  if (x.high > 1100) return infinity;
  if (x.high < -1100) return 0;
  const double k = round(x.high);
  const double_double r = (double_double{x.high - k} + double_double{x.low}) * ln_2;
  const double_double square = r * r;
  double rest = 0;
  for (const double inverse : inverse_factorials) rest = inverse + r.high * rest;
  const double_double half_square{square.high / 2, square.low / 2};
  const double_double sum =
      double_double{1} + (r + (half_square + double_double{square.high * r.high * rest}));
  return scale(sum.high, static_cast<int>(k));
}

// ---- roots, logarithms, powers

/// The square root of x, correctly rounded. sqrt(-0) is -0, of infinity infinity, of NaN and
/// negative numbers NaN.
[[nodiscard]] constexpr double sqrt(double x) {
  if (x == 0 || x == infinity || is_nan(x)) return x;
  if (x < 0) return not_a_number;
  auto [m, exponent] = decompose(x);
  if (exponent % 2 != 0) {
    m *= 2;
    --exponent;
  }
  double root = (m + 2) / 3;
  for (int i = 0; i < 4; ++i) root = (root + m / root) / 2;  // 6 %, 2e-3, 1e-6, 6e-13, rounding
  // Now exactly, in integers: digits = floor(sqrt(m 2^104)). Modulo 2^64 is enough for the
  // remainder, which is below 2^56.
  auto digits = static_cast<std::uint64_t>(root * two_to_52);
  auto remainder = static_cast<std::int64_t>((static_cast<std::uint64_t>(m * two_to_52) << 52) -
                                             digits * digits);
  while (remainder < 0) remainder += static_cast<std::int64_t>(2 * --digits + 1);
  while (remainder > static_cast<std::int64_t>(2 * digits))
    remainder -= static_cast<std::int64_t>(2 * digits++ + 1);
  if (remainder > static_cast<std::int64_t>(digits)) ++digits;
  return scale(static_cast<double>(digits) / two_to_52, exponent / 2);
}

/// The logarithm of x to base 2, within 1 ulp; exact for powers of two. log2(0) is -infinity, of
/// infinity infinity, of NaN and negative numbers NaN.
[[nodiscard]] constexpr double log2(double x) {
  if (x == 0) return -infinity;
  if (x < 0) return not_a_number;
  if (!is_finite(x)) return x;
  return log2_wide(x).high;
}

/// e to the power x, within 1 ulp, subnormal results included. Infinity above 709.78, zero below
/// -745.13, NaN for NaN.
[[nodiscard]] constexpr double exp(double x) {
  if (is_nan(x)) return x;
  if (x > 750) return infinity;
  if (x < -750) return 0;
  return exp2_rounded(log2_e * double_double{x});
}

// Of a finite or infinite number; from 2^53 on all are even.
[[nodiscard]] constexpr bool is_odd_integer(double x) {
  return abs(x) < 2 * two_to_52 && floor(x) == x && static_cast<std::int64_t>(x) % 2 != 0;
}

/// x to the power y, within 1 ulp over all doubles, subnormal results included. Special cases as
/// IEEE 754 pow: 1 where y is 0 or x is 1, whatever the other is, and where x is -1 and y infinite;
/// NaN for a negative finite x and a y that is no integer; a zero to a negative power is infinite;
/// zero and infinite results keep the sign of x where y is odd.
[[nodiscard]] constexpr double pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (is_nan(x)) return x;
  if (is_nan(y)) return y;
  const double base = abs(x);
  if (x < 0 && is_finite(x) && is_finite(y) && floor(y) != y) return not_a_number;
  const double sign = is_odd_integer(y) ? x : 1.0;
  if (base == 1) return copy_sign(1, sign);
  // From |y| = 2^64 on the result leaves the range for every base but 1.
  if (base == 0 || base == infinity || abs(y) > 0x1p64)
    return copy_sign((base > 1) == (y > 0) ? infinity : 0, sign);
  return copy_sign(exp2_rounded(log2_wide(base) * double_double{y}), sign);
}

}  // namespace gpuplan::detail
