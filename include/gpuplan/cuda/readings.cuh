#pragma once

// What was sampled, as measured_device.hpp keeps it. What power the device drew is not known here.

#include <gpuplan/cuda/sampling.cuh>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/units.hpp>

#include <cmath>
#include <optional>

namespace gpuplan::cuda {

namespace detail {

inline known<int> whole_MHz(const std::optional<double>& clock) {
  if (!clock) return {};
  return static_cast<int>(std::lround(*clock));
}

}  // namespace detail

/// The time of one launch.
[[nodiscard]] inline reading<duration> reading_of(const sampled& timing) {
  return {.median = timing.median,
          .lower_quartile = timing.first_quartile,
          .upper_quartile = timing.third_quartile,
          .samples = timing.samples,
          .clock_MHz = detail::whole_MHz(timing.clock_MHz)};
}

/// The rate at which a launch works whose median time makes it `median`: high where the time is
/// short.
template <any_quantity Rate>
[[nodiscard]] reading<Rate> reading_of(Rate median, const sampled& timing) {
  return {.median = median,
          .lower_quartile = median * (timing.median / timing.third_quartile),
          .upper_quartile = median * (timing.median / timing.first_quartile),
          .samples = timing.samples,
          .clock_MHz = detail::whole_MHz(timing.clock_MHz)};
}

}  // namespace gpuplan::cuda
