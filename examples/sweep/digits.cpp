#include "sweep/digits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "sweep/random.hpp"

namespace sweep_examples {
namespace {

struct point {
  double x = 0;  // to the right, from 0 to 1
  double y = 0;  // down
};

using stroke = std::vector<point>;

// The strokes of 0 to 9.
const std::array<std::vector<stroke>, digits>& strokes() {
  static const std::array<std::vector<stroke>, digits> all{{
      {{{.5, .1},
        {.3, .2},
        {.22, .5},
        {.3, .8},
        {.5, .9},
        {.7, .8},
        {.78, .5},
        {.7, .2},
        {.5, .1}}},
      {{{.34, .28}, {.54, .1}, {.54, .9}}},
      {{{.26, .3}, {.34, .14}, {.54, .1}, {.72, .2}, {.72, .38}, {.26, .88}, {.76, .88}}},
      {{{.26, .18}, {.46, .1}, {.68, .18}, {.68, .38}, {.46, .48}},
       {{.46, .48}, {.72, .58}, {.72, .78}, {.5, .9}, {.26, .82}}},
      {{{.64, .9}, {.64, .1}, {.22, .64}, {.8, .64}}},
      {{{.72, .1},
        {.32, .1},
        {.28, .46},
        {.54, .42},
        {.74, .56},
        {.72, .78},
        {.5, .9},
        {.26, .82}}},
      {{{.66, .12},
        {.42, .24},
        {.28, .5},
        {.28, .76},
        {.48, .9},
        {.7, .8},
        {.7, .6},
        {.5, .5},
        {.3, .62}}},
      {{{.24, .1}, {.76, .1}, {.44, .9}}},
      {{{.5, .48}, {.3, .36}, {.32, .18}, {.5, .1}, {.68, .18}, {.7, .36}, {.5, .48}},
       {{.5, .48}, {.26, .62}, {.28, .82}, {.5, .9}, {.72, .82}, {.74, .62}, {.5, .48}}},
      {{{.7, .38},
        {.5, .5},
        {.3, .4},
        {.3, .2},
        {.52, .1},
        {.72, .24},
        {.72, .5},
        {.58, .76},
        {.34, .88}}},
  }};
  return all;
}

// How a hand holds the pen and the paper.
struct hand {
  double turned;  // the tangent of half the angle
  double slanted;
  double width;
  double height;
  double right;
  double down;
  double pen;  // half its breadth

  explicit hand(random_stream& random)
      : turned(random.between(-0.12, 0.12)),
        slanted(random.between(-0.25, 0.25)),
        width(random.between(0.6, 0.95)),
        height(random.between(0.65, 0.95)),
        right(random.between(-0.08, 0.08)),
        down(random.between(-0.08, 0.08)),
        pen(random.between(0.025, 0.06)) {}

  point operator()(point at) const {
    const double y = (at.y - 0.5) * height;
    const double x = (at.x - 0.5) * width - slanted * y;
    const double scale = 1 / (1 + turned * turned);
    const double cosine = (1 - turned * turned) * scale;
    const double sine = 2 * turned * scale;
    return {.x = 0.5 + right + cosine * x - sine * y, .y = 0.5 + down + sine * x + cosine * y};
  }
};

double distance(point at, point from, point to) {
  const double x = to.x - from.x;
  const double y = to.y - from.y;
  const double length = std::max(x * x + y * y, 1e-12);
  const double share = std::clamp(((at.x - from.x) * x + (at.y - from.y) * y) / length, 0.0, 1.0);
  const double off_x = at.x - from.x - share * x;
  const double off_y = at.y - from.y - share * y;
  return std::sqrt(off_x * off_x + off_y * off_y);
}

// The pixels along one axis that a line between `a` and `b` can reach.
struct reach {
  std::int64_t first;
  std::int64_t last;

  reach(double a, double b, double by)
      : first(pixel_of(std::min(a, b) - by)), last(pixel_of(std::max(a, b) + by)) {}

  static std::int64_t pixel_of(double at) {
    return static_cast<std::int64_t>(std::clamp(at, 0.0, 1.0) * (image_side - 1));
  }
};

void draw_line(point from, point to, double pen, std::span<double, pixels> ink) {
  constexpr double edge = 1.0 / image_side;  // over which the ink fades
  const reach columns(from.x, to.x, pen + 2 * edge);
  const reach rows(from.y, to.y, pen + 2 * edge);
  for (std::int64_t row = rows.first; row <= rows.last; ++row)
    for (std::int64_t column = columns.first; column <= columns.last; ++column) {
      const point at{.x = (static_cast<double>(column) + 0.5) / image_side,
                     .y = (static_cast<double>(row) + 0.5) / image_side};
      double& here = ink[static_cast<std::size_t>(row * image_side + column)];
      here = std::max(here, std::clamp(1 - (distance(at, from, to) - pen) / edge, 0.0, 1.0));
    }
}

}  // namespace

std::uint8_t draw_digit(std::uint64_t seed,
                        std::int64_t index,
                        std::span<std::uint8_t, pixels> picture) {
  random_stream random(seed, static_cast<std::uint64_t>(index));
  const auto digit = static_cast<std::uint8_t>(random.next() % digits);
  const hand writes(random);
  std::array<double, pixels> ink{};
  for (const stroke& one : strokes()[digit]) {
    point from;
    for (std::size_t i = 0; i < one.size(); ++i) {
      const double x = one[i].x + random.between(-0.035, 0.035);
      const double y = one[i].y + random.between(-0.035, 0.035);
      const point to = writes({.x = x, .y = y});
      if (i > 0) draw_line(from, to, writes.pen, ink);
      from = to;
    }
  }
  for (std::size_t i = 0; i < ink.size(); ++i) {
    const double grey = 230 * ink[i] + random.between(0, 50) - 12.5;
    picture[i] = static_cast<std::uint8_t>(std::clamp(grey, 0.0, 255.0));
  }
  return digit;
}

}  // namespace sweep_examples
