#pragma once

// Random numbers from a seed, and the normal distribution, as constant expressions. Private.

#include <gpuplan/detail/math.hpp>

#include <cstdint>

namespace gpuplan::detail {

/// The logarithm of x to base e, within 3 ulp where x is no nearer to 1 than 1e-3. Zeros,
/// infinities and negative numbers as log2.
[[nodiscard]] constexpr double natural_log(double x) { return log2(x) * 0.69314718055994530942; }

/// e to the power x, less 1, within 2e-15 of itself: also where x is so small that the difference
/// would be lost.
[[nodiscard]] constexpr double exp_minus_1(double x) {
  if (!(abs(x) < 0.3)) return exp(x) - 1;
  double sum = 1;
  for (int n = 14; n > 1; --n) sum = 1 + x / n * sum;
  return x * sum;
}

/// The part of a standard normal distribution that lies below x, within 1e-15, and within 1e-11 of
/// itself. The series of Marsaglia, "Evaluating the normal distribution", Journal of Statistical
/// Software 11(4), 2004; beyond 4 the continued fraction of the tail.
[[nodiscard]] constexpr double normal_share(double x) {
  const double size = abs(x);
  if (!(size < 38)) return x < 0 ? 0 : 1;
  const double density = exp(-x * x / 2) * 0.39894228040143267794;
  if (size < 4) {
    double term = x;
    double sum = x;
    for (int n = 3; abs(term) > 1e-18 * abs(sum); n += 2) sum += term *= x * x / n;
    return 0.5 + sum * density;
  }
  double fraction = size;
  for (int n = 50; n > 0; --n) fraction = size + n / fraction;
  return x < 0 ? density / fraction : 1 - density / fraction;
}

/// The number that a part `share` of a standard normal distribution lies below, within 1.2e-9 of
/// itself: P. J. Acklam's rational approximation. Precondition: 0 < share < 1.
[[nodiscard]] constexpr double normal_quantile(double share) {
  // Of the smaller side.
  const double p = smaller_of(share, 1 - share);
  double x = 0;
  if (p < 0.02425) {
    const double q = sqrt(-2 * natural_log(p));
    x = (((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838) * q -
           2.549732539343734) *
              q +
          4.374664141464968) *
             q +
         2.938163982698783) /
        ((((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996) * q +
          3.754408661907416) *
             q +
         1);
  } else {
    const double q = p - 0.5;
    const double r = q * q;
    x = (((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
           1.383577518672690e+02) *
              r -
          3.066479806614716e+01) *
             r +
         2.506628277459239) *
        q /
        (((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
           6.680131188771972e+01) *
              r -
          1.328068155288572e+01) *
             r +
         1);
  }
  return share < 0.5 ? x : -x;
}

/// Random numbers that a seed determines, the same at compile time and at run time: splitmix64
/// (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
class random_stream {
 public:
  constexpr explicit random_stream(std::uint64_t seed) : state_(seed) {}

  /// Between 0 and 1, neither of both.
  [[nodiscard]] constexpr double share() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return (static_cast<double>(z >> 12) + 0.5) * 0x1p-52;
  }
  /// Of the exponential distribution with mean 1.
  [[nodiscard]] constexpr double exponential() { return -natural_log(share()); }
  /// Of the standard normal distribution.
  [[nodiscard]] constexpr double normal() { return normal_quantile(share()); }

 private:
  std::uint64_t state_;
};

}  // namespace gpuplan::detail
