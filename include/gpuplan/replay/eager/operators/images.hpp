#pragma once

// What works on images as points with channels: padding, shifts, windows. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/eager/operators/views.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

// A tensor of the input's sizes.
constexpr void remade_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  b.t.executes({&b.g, &*b.out[0]});
}
inline constexpr node_kind rearrangement{"elements in another order", &remade_backward};
inline constexpr node_kind image_padding{"padding", &remade_backward};

/// Elements in another order, as a copy: x.view(...).transpose(...).contiguous().view(wanted).
constexpr value rearrange(tape& t, argument given, const sizes& wanted) {
  const held x(given);
  const int by = t.add_node(rearrangement, {&x});
  if (node* made = t.at(by)) made->size[1] = x.size;
  value result = t.make(wanted, x.format, {"elements in another order", none, &x});
  t.executes({&x, &*result});
  t.result_of(by, result.get());
  return result;
}
/// Zeros at the ends of dimensions; a copy where there are none.
constexpr value pad_to(tape& t, argument given, const sizes& wanted) {
  const held x(given);
  const int by = t.add_node(image_padding, {&x});
  if (node* made = t.at(by)) made->size[1] = x.size;
  value result = t.make(wanted, x.format, {"padded", none, &x});
  t.executes({&x, &*result}, {.kernels = 2});
  t.result_of(by, result.get());
  return result;
}

// Of a gradient made contiguous; zeros, to which each point adds its share.
constexpr void average_of_squares_backward(const node_backward& b) {
  tape& t = b.t;
  value g = t.share(b.g);
  if (!g->is_contiguous()) {
    g = t.make(b.g.size, b.g.format);
    t.executes({&b.g, &*g});
  }
  b.out[0] = t.make(b.kept(0).size, b.g.format);
  t.executes({&*g, &*b.out[0]});
}
inline constexpr node_kind square_means{"means of squares", &average_of_squares_backward};
/// nn.AvgPool2d of (batch, channels, points, points) to `wanted`. Keeps what it reads.
constexpr value average_of_squares(tape& t, argument given, const sizes& wanted) {
  const held x(given);
  const int by = t.add_node(square_means, {&x});
  t.keep(by, x);
  value result = t.make(wanted, x.format, {"means of squares", none, &x});
  t.executes({&x, &*result});
  t.result_of(by, result.get());
  return result;
}

// as_strided, then the gradient of each point, whose channels stand before the points in memory.
constexpr void average_backward(const node_backward& b) {
  const value strided = b.t.make(b.g.size, b.g.format);
  const sizes& points = b.by.size[1];
  value made = b.t.make({points[0], points[2], points[1]}, b.g.format);
  swap_dimensions(made.get(), 1, 2);
  b.t.executes({&b.g, &*made});
  b.out[0] = std::move(made);
}
inline constexpr node_kind average_image{"mean of all points", &average_backward};
/// nn.AdaptiveAvgPool1d(1) of (batch, points, channels).
constexpr value average_of_points(tape& t, argument given) {
  const held x(given);
  value result = mean_over(t, x, 1);
  if (node* made = t.at(result->node)) made->kind = &average_image;
  return result;
}

// One dimension after the other.
constexpr value rolled(tape& t, const tensor& x) {
  value first;
  {
    value together;
    if (!x.is_contiguous()) together = t.make(x.size, x.format);
    first = t.make(x.size, x.format, {"shifted", none, &x});
  }
  value second = t.make(x.size, x.format, {"shifted", none, &x});
  t.executes({&x, &*second}, {.kernels = 2});
  return second;
}
constexpr void roll_backward(const node_backward& b) { b.out[0] = rolled(b.t, b.g); }
inline constexpr node_kind image_shift{"shift", &roll_backward};
/// torch.roll along two dimensions.
constexpr value roll(tape& t, argument given) {
  const held x(given);
  const int by = t.add_node(image_shift, {&x});
  value result = rolled(t, x);
  t.result_of(by, result.get());
  return result;
}

}  // namespace gpuplan::eager
