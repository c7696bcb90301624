#pragma once

// A time that is not known for sure.

#include <gpuplan/detail/chance.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan {

/// A time with the range that holds it at the stated coverage.
struct time_interval {
  duration median{};
  duration low{};
  duration high{};
};

namespace detail {

// How many standard deviations on each side hold such a part of a normal distribution, within
// 0.4 % (Winitzki's approximation of the inverse error function).
constexpr double deviations_of(double coverage) {
  const double a = 0.147;
  const double log_rest = natural_log(1 - coverage * coverage);
  const double first = 2 / (3.14159265358979 * a) + log_rest / 2;
  return sqrt(2.0) * sqrt(sqrt(first * first - log_rest / a) - first);
}

}  // namespace detail
}  // namespace gpuplan
