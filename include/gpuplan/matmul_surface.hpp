#pragma once

// The rate of a matrix product by its shape, between the points that were measured.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

namespace detail {

// The points of one format, and the grid among them. There may be others beside it, of the shapes
// of a model: a number is on the grid's axis where at least half as many points have it as the most
// frequent one of that axis.
class surface_points {
 public:
  constexpr surface_points(std::span<const measured_point> points,
                           number_format format,
                           accumulator sum)
      : points_(points), format_(format), sum_(sum) {}

  using axis = std::int64_t matmul_shape::*;

  // The numbers of the axis on either side of `value`, the largest on both sides above it.
  struct neighbours {
    std::int64_t below = 0;  // 0: none
    std::int64_t above = 0;
    double share = 0;  // of the way from one to the other, in powers
  };
  [[nodiscard]] constexpr neighbours around(axis which, std::int64_t value) const {
    std::int64_t most = 0;
    for (const measured_point& point : points_)
      if (is_meant(point)) most = larger(most, count(which, point.shape.*which));
    neighbours found;
    for (const measured_point& point : points_) {
      const std::int64_t here = point.shape.*which;
      if (!is_meant(point) || 2 * count(which, here) < most) continue;
      if (here <= value && here > found.below) found.below = here;
      if (here >= value && (found.above == 0 || here < found.above)) found.above = here;
    }
    if (found.above == 0) found.above = found.below;
    if (found.below != 0 && found.below < found.above)
      found.share =
          (log2(static_cast<double>(value)) - log2(static_cast<double>(found.below))) /
          (log2(static_cast<double>(found.above)) - log2(static_cast<double>(found.below)));
    return found;
  }
  [[nodiscard]] constexpr const measured_point* find(const matmul_shape& shape) const {
    for (const measured_point& point : points_)
      if (is_meant(point) && point.shape == shape) return &point;
    return nullptr;
  }

 private:
  std::span<const measured_point> points_;
  number_format format_;
  accumulator sum_;

  [[nodiscard]] static constexpr std::int64_t larger(std::int64_t a, std::int64_t b) {
    return a < b ? b : a;
  }
  [[nodiscard]] constexpr bool is_meant(const measured_point& point) const {
    return point.format == format_ && point.sum == sum_;
  }
  [[nodiscard]] constexpr std::int64_t count(axis which, std::int64_t value) const {
    std::int64_t found = 0;
    for (const measured_point& point : points_)
      if (is_meant(point) && point.shape.*which == value) ++found;
    return found;
  }
};

}  // namespace detail

/// The rate of a product of this shape on `gpu`: the measured point's where there is one; else
/// between the eight around it on the measured grid, linear in the logarithms of m, n, k and rate,
/// so that a rate which follows a power of each number is met exactly. Beyond the largest numbers
/// of the grid it is taken to be the rate at them. Errors: `not_known` where nothing was measured
/// in this format, below the smallest numbers, and beside a point that is missing. Precondition:
/// the shape's numbers are positive.
[[nodiscard]] constexpr result<ceiling<compute_rate>> matmul_rate(
    const gpu_spec& gpu,
    number_format format,
    const matmul_shape& shape,
    accumulator sum = accumulator::fp32) {
  const failure unknown = failure(errc::not_known).about(fact::surface);
  if (!gpu.measured) return unknown;
  const detail::surface_points points((*gpu.measured)->surface, format, sum);
  if (const measured_point* exact = points.find(shape); exact != nullptr)
    return ceiling<compute_rate>{exact->rate, ceiling_origin::measured};
  const auto m = points.around(&matmul_shape::m, shape.m);
  const auto n = points.around(&matmul_shape::n, shape.n);
  const auto k = points.around(&matmul_shape::k, shape.k);
  if (m.below == 0 || n.below == 0 || k.below == 0) return unknown;
  double logarithm = 0;
  for (int corner = 0; corner < 8; ++corner) {
    double weight = 1;
    const auto pick = [&](const detail::surface_points::neighbours& beside, int bit) {
      const bool above = (corner >> bit & 1) != 0;
      weight *= above ? beside.share : 1 - beside.share;
      return above ? beside.above : beside.below;
    };
    const matmul_shape at{.m = pick(m, 0), .n = pick(n, 1), .k = pick(k, 2)};
    if (weight == 0) continue;
    const measured_point* found = points.find(at);
    if (found == nullptr) return unknown;
    logarithm += weight * detail::log2(found->rate.value());
  }
  return ceiling<compute_rate>{compute_rate::from_value(detail::pow(2, logarithm)),
                               ceiling_origin::measured};
}

}  // namespace gpuplan
