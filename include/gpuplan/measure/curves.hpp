#pragma once

// What series of bandwidths and times over sizes say: where a cache ends, and what a transfer costs
// however small it is. Host code, without CUDA.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace gpuplan::measure {

/// How fast an array of this size was read again and again.
struct footprint_rate {
  bytes footprint{};
  bandwidth rate{};
};

/// A cache, seen from outside.
struct cache_knee {
  bytes footprint{};   // at which the rate is the geometric mean of the two below
  bandwidth inside{};  // the mean over footprints of at most half of that
  bandwidth beyond{};  // at the largest footprint
};

/// Where the rate falls from a cache's to that of the memory behind it: the last crossing of the
/// geometric mean of the highest rate and that at the largest footprint, on a line through the
/// logarithms of its neighbours. Between two footprints, so as exact as they are near (a factor of
/// sqrt(2): 20 %). Precondition: footprints ascend, all are positive. Nothing where there are fewer
/// than three points, none at half the knee or less, or the highest rate is less than 1.25 times
/// the last.
[[nodiscard]] constexpr std::optional<cache_knee> knee_of(std::span<const footprint_rate> curve) {
  if (curve.size() < 3) return std::nullopt;
  double highest = 0;
  for (const footprint_rate& point : curve)
    if (point.rate.value() > highest) highest = point.rate.value();
  const double last = curve.back().rate.value();
  if (!(highest >= 1.25 * last)) return std::nullopt;
  const double level = gpuplan::detail::sqrt(highest * last);
  std::size_t above = curve.size() - 1;
  while (curve[above].rate.value() < level) --above;  // the highest is not below it
  const auto log_rate = [&](std::size_t i) { return gpuplan::detail::log2(curve[i].rate.value()); };
  const double share =
      (log_rate(above) - gpuplan::detail::log2(level)) / (log_rate(above) - log_rate(above + 1));
  const double ratio = curve[above + 1].footprint / curve[above].footprint;
  const bytes knee = curve[above].footprint * gpuplan::detail::pow(ratio, share);
  double sum = 0;
  double count = 0;
  for (const footprint_rate& point : curve) {
    if (2 * point.footprint > knee) break;
    sum += point.rate.value();
    ++count;
  }
  if (count == 0) return std::nullopt;
  return cache_knee{
      .footprint = knee, .inside = bandwidth::from_value(sum / count), .beyond = curve.back().rate};
}

/// How long a transfer of this size took.
struct transfer_time {
  bytes size{};
  duration time{};
};

/// t = latency + size / rate.
struct transfer_line {
  duration latency{};
  bandwidth rate{};
  double farthest = 0;  // of |t - measured| / measured

  [[nodiscard]] constexpr duration time(bytes size) const { return latency + size / rate; }
};

/// The line through times with the least sum of squares of (line - measured) / measured, so that
/// small transfers count as much as large ones; libraries that change their algorithm with the
/// size do not lie on one line, which `farthest` tells. Nothing where sizes do not differ, or the
/// line has no positive rate or a negative latency. Precondition: sizes and times are positive.
[[nodiscard]] constexpr std::optional<transfer_line> line_through(
    std::span<const transfer_time> times) {
  // With u = 1 / t and v = size / t: the least sum of (latency u + v / rate - 1)^2.
  double uu = 0;
  double uv = 0;
  double vv = 0;
  double sum_u = 0;
  double sum_v = 0;
  for (const transfer_time& point : times) {
    const double u = 1 / point.time.value();
    const double v = point.size.value() * u;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    sum_u += u;
    sum_v += v;
  }
  const double determinant = uu * vv - uv * uv;
  if (!(determinant > 1e-12 * uu * vv)) return std::nullopt;
  const double latency = (sum_u * vv - sum_v * uv) / determinant;
  const double per_byte = (sum_v * uu - sum_u * uv) / determinant;
  if (!(per_byte > 0) || !(latency >= 0)) return std::nullopt;
  transfer_line line{.latency = duration::from_value(latency),
                     .rate = bandwidth::from_value(1 / per_byte)};
  for (const transfer_time& point : times) {
    const double off = gpuplan::detail::abs((line.time(point.size) - point.time) / point.time);
    if (off > line.farthest) line.farthest = off;
  }
  return line;
}

}  // namespace gpuplan::measure
