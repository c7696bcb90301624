#pragma once

// A time that is not known for sure.

#include <gpuplan/detail/chance.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan {

/// A time with the range that holds it at the stated coverage.
struct time_interval {
  duration median{};
  duration low{};
  duration high{};
};

namespace detail {

// How many standard deviations on each side hold such a part of a normal distribution.
// Precondition: between 0 and 1.
constexpr double deviations_of(double coverage) {
  if (!(coverage >= 0 && coverage < 1))
    precondition_violated(failure(errc::out_of_bounds).about("coverage"));
  return normal_quantile((1 + coverage) / 2);
}

}  // namespace detail
}  // namespace gpuplan
