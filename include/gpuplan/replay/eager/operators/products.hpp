#pragma once

// Matrix products, linear layers and convolutions. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/casts.hpp>
#include <gpuplan/replay/eager/operators/elementwise.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/eager/operators/views.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

constexpr value matmul(tape&, value&&, value&&) = delete;  // which runs first?

// torch.nn.functional.linear of what autocast hands to it; `weight` is the parameter of the matrix.
constexpr value multiplied(tape& t, const tensor& x, const value& w, const value& b, int weight) {
  const std::int64_t in = x.size[x.size.rank - 1];
  const std::int64_t out = w->size[0];
  const std::int64_t rows = x.count() / in;
  const bool flat = x.size.rank == 2;
  const bool adds_bias = b->defined();
  if (adds_bias && !flat && !x.is_contiguous())
    return add_in_place(t, multiplied(t, x, w, {}, weight), b);
  value x2, w2;
  if (adds_bias) {
    if (!flat) x2 = reshape(t, x, {rows, in});
    w2 = transpose(t, w, 0, 1);
  } else {
    w2 = transpose(t, w, 0, 1);
    if (!flat) x2 = reshape(t, x, {rows, in});
  }
  const tensor& xs = flat ? x : *x2;
  const int by = adds_bias ? t.add_node(node_kind::addmm, {&*b, &xs, &*w2})
                           : t.add_node(node_kind::mm, {&xs, &*w2});
  if (w2->needs_gradient()) t.keep(by, xs);
  if (xs.needs_gradient()) t.keep(by, w2);
  if (node* made = t.at(by)) made->parameter = weight;
  t.note(by, {rows, in, out});
  // of products without a bias every other one
  const bool stays = adds_bias ? t.stays(false) : t.never_stays != sizes{in, out} && t.stays(true);
  value result;
  if (stays && t.is_recomputing()) {
    result = t.saved_result();
  } else {
    result = t.make({rows, out}, wider(x.format, w->format), {"output", weight});
    t.touch_workspace(adds_bias);
    t.count_product({rows, in, out}, {&*b, &xs, &*w2, &*result});
    if (stays) t.save_result(result);
  }
  t.result_of(by, result.get());
  if (flat) return result;
  sizes wanted = x.size;
  wanted[wanted.rank - 1] = out;
  value shaped = view(t, result, wanted);
  if (!adds_bias) shaped.get().is_view = false;
  return shaped;
}
/// torch.nn.functional.linear: casts of input, weight and bias under autocast, the result, and the
/// workspace of the product while it runs. Keeps the input for a weight that trains, and the
/// weight for an input that needs a gradient.
constexpr value linear(tape& t, argument given, int weight, int bias) {
  const held input(given);
  value b;
  if (bias != none) b = lowered_parameter(t, bias);
  const value w = lowered_parameter(t, weight);
  const value x = lowered(t, input);
  return multiplied(t, x, w, b, weight);
}
/// Likewise, by a matrix that is no parameter.
constexpr value linear_by(tape& t, argument given, argument given_matrix) {
  const held input(given), matrix(given_matrix);
  const value w = lowered(t, matrix);
  const value x = lowered(t, input);
  return multiplied(t, x, w, {}, none);
}
/// torch.addmm(bias, input, weight): the matrix is (in, out).
constexpr value addmm(tape& t, argument given, int weight, int bias) {
  const held input(given);
  const value w = lowered_parameter(t, weight);
  const value x = lowered(t, input);
  const value b = lowered_parameter(t, bias);
  const int by = t.add_node(node_kind::addmm, {&*b, &*x, &*w});
  if (w->needs_gradient()) t.keep(by, x);
  if (x->needs_gradient()) t.keep(by, w);
  if (node* made = t.at(by)) made->parameter = weight;
  t.note(by, {x->size[0], x->size[1], w->size[1], 1});
  value result = t.make({x->size[0], w->size[1]}, wider(x->format, w->format), {"output", weight});
  t.touch_workspace(true);
  t.count_product({x->size[0], x->size[1], w->size[1]}, {&*b, &*x, &*w, &*result});
  t.result_of(by, result.get());
  return result;
}

/// (m, k) times (k, n), and a workspace while it runs. Keeps each for the gradient of the other.
constexpr value product(tape& t, argument given_left, argument given_right) {
  const held left(given_left), right(given_right);
  const value b = lowered(t, right);
  const value a = lowered(t, left);
  const int by = t.add_node(node_kind::mm, {&*a, &*b});
  if (b->needs_gradient()) t.keep(by, a);
  if (a->needs_gradient()) t.keep(by, b);
  t.note(by, {a->size[0], a->size[1], b->size[1]});
  value result = t.make({a->size[0], b->size[1]}, a->format, {"matrix product"});
  t.touch_workspace();
  t.count_product({a->size[0], a->size[1], b->size[1]}, {&*a, &*b, &*result});
  t.result_of(by, result.get());
  return result;
}
constexpr void linear_backward(const node_backward& b) {
  tape& t = b.t;
  const bool adds_bias = b.by.kind == &node_kind::addmm;
  const int first = adds_bias ? 1 : 0;
  const std::int64_t rows = b.by.argument[0];
  const std::int64_t in = b.by.argument[1];
  const std::int64_t to = b.by.argument[2];
  const bool is_upright = b.by.argument[3] == 1;  // the matrix is (in, to)
  const auto of_weight = [&] {
    if (!b.wants(first + 1)) return;
    value made = t.make(is_upright ? sizes{in, to} : sizes{to, in}, b.g.format);
    t.count_backward({to, rows, in}, {&b.g, &b.kept(0), &*made});
    if (!is_upright) {
      swap_dimensions(made.get(), 0, 1);
      made.get().is_view = true;
    }
    t.touch_workspace();
    b.out[first + 1] = std::move(made);
  };
  if (!adds_bias) of_weight();
  if (b.wants(first)) {
    b.out[first] = t.make({rows, in}, b.g.format);
    t.count_backward({rows, to, in}, {&b.g, &b.kept(b.needs(first + 1) ? 1 : 0), &*b.out[first]});
    t.touch_workspace();
  }
  if (!adds_bias) return;
  of_weight();
  if (b.wants(0)) b.out[0] = t.share(b.g);
}
inline constexpr node_kind node_kind::mm{"linear layer", &linear_backward};
inline constexpr node_kind node_kind::addmm{"linear layer", &linear_backward};

/// Batched, likewise: (batch, heads, m, k) times (batch, heads, k, n), or without heads, copied
/// where their strides need that. Outer products, where k is 1, take no workspace.
constexpr value matmul(tape& t, argument given_left, argument given_right) {
  const held left(given_left), right(given_right);
  const value b = lowered(t, right);
  const value a = lowered(t, left);
  const int r = a->size.rank;
  const std::int64_t m = a->size[r - 2];
  const std::int64_t k = a->size[r - 1];
  const std::int64_t n = b->size[r - 1];
  const std::int64_t batch = a->count() / (m * k);
  const value a2 = reshape(t, a, {batch, m, k});
  const value b2 = reshape(t, b, {batch, k, n});
  const int by = t.add_node(node_kind::bmm, {&*a2, &*b2});
  if (a2->needs_gradient()) t.keep(by, b2);  // which it lets go of first
  if (b2->needs_gradient()) t.keep(by, a2);
  t.note(by, {batch, m, k, n});
  value result = t.make({batch, m, n}, a->format, {"matrix product"});
  if (k != 1) t.touch_workspace();
  t.count_product({m, k, n, batch}, {&*a2, &*b2, &*result});
  t.result_of(by, result.get());
  sizes wanted = a->size;
  wanted[r - 1] = n;
  value shaped = view(t, result, wanted);
  shaped.get().is_view = false;
  return shaped;
}
constexpr void bmm_backward(const node_backward& b) {
  tape& t = b.t;
  const std::int64_t batch = b.by.argument[0];
  const std::int64_t m = b.by.argument[1];
  const std::int64_t k = b.by.argument[2];
  const std::int64_t n = b.by.argument[3];
  if (b.wants(1)) {
    b.out[1] = t.make({batch, k, n}, b.g.format);
    t.count_backward({k, m, n, batch}, {&b.g, &b.kept(b.needs(0) ? 1 : 0), &*b.out[1]});
    if (m != 1) t.touch_workspace();
  }
  if (b.wants(0)) {
    b.out[0] = t.make({batch, m, k}, b.g.format);
    t.count_backward({m, n, k, batch}, {&b.g, &b.kept(0), &*b.out[0]});
    if (n != 1) t.touch_workspace();
  }
}
inline constexpr node_kind node_kind::bmm{"matrix product", &bmm_backward};

// A copy of matrices whose neighbours lie apart, which no product takes, while it runs.
constexpr value in_order(tape& t, const tensor& of) {
  if (of.stride[1] == 1 || of.stride[2] == 1) return {};
  value copy = t.make(of.size, of.format, {"matrices in order"});
  t.executes({&of, &*copy});
  return copy;
}
// alpha * (batch1 x batch2), each product scaled by an operator of its own.
constexpr void baddbmm_backward(const node_backward& b) {
  tape& t = b.t;
  const std::int64_t batch = b.by.argument[0];
  const std::int64_t m = b.by.argument[1];
  const std::int64_t k = b.by.argument[2];
  const std::int64_t n = b.by.argument[3];
  const auto scaled = [&](const sizes& size, const matrix_product& product, const tensor& other) {
    const value made = t.make(size, b.g.format);
    {
      const value dense = in_order(t, other);
      t.count_backward(product, {&b.g, &other, &*made});
      t.touch_workspace();
    }
    value result = t.make(size, b.g.format);
    t.executes({&*made, &*result});
    return result;
  };
  if (b.wants(0)) b.out[0] = scaled({batch, m, k}, {m, n, k, batch}, b.kept(1));
  if (b.wants(1)) b.out[1] = scaled({batch, k, n}, {k, m, n, batch}, b.kept(0));
}
inline constexpr node_kind baddbmm_node{"matrix product", &baddbmm_backward};
/// added + alpha * (left x right) of (batch, m, k) and (batch, k, n), where `added` needs no
/// gradient. Keeps left and right.
constexpr value baddbmm(tape& t, argument given_added, argument given_left, argument given_right) {
  const held added(given_added), left(given_left), right(given_right);
  const value b = lowered(t, right);
  const value a = lowered(t, left);
  const value c = lowered(t, added);
  const std::int64_t batch = a->size[0];
  const std::int64_t m = a->size[1];
  const std::int64_t k = a->size[2];
  const std::int64_t n = b->size[2];
  const int by = t.add_node(baddbmm_node, {&*a, &*b});
  t.keep(by, a);
  t.keep(by, b);
  t.note(by, {batch, m, k, n});
  value result = t.make({batch, m, n}, a->format, {"matrix product"});
  {
    const value dense_b = in_order(t, *b);
    const value dense_a = in_order(t, *a);
    t.touch_workspace();
    t.count_product({m, k, n, batch}, {&*c, &*a, &*b, &*result});
  }
  t.result_of(by, result.get());
  return result;
}

/// Whether a convolution reads each point alone, which then need no order of their own.
constexpr bool is_of_points(const tensor& weight) {
  return weight.size.rank == 4 && weight.size[2] == 1 && weight.size[3] == 1;
}
/// Square patches of images, (batch, channels, side, side), through one linear map: a convolution
/// as wide as its stride, which lays the patches of one image after the other in rows.
constexpr value convolve(tape& t, argument given, int weight, int bias) {
  const held given_images(given);
  value b;
  if (bias != none) b = lowered_parameter(t, bias);
  const value w = lowered_parameter(t, weight);
  const value x = lowered(t, given_images);
  const int by = t.add_node(node_kind::convolution, {&*x, &*w, &*b});
  t.keep(by, x);
  t.keep(by, w);
  const std::int64_t side = x->size[2] / w->size[2];
  const std::int64_t row = w->count() / w->size[0];
  t.note(by, {row, side * side});
  value together;
  if (!x->is_contiguous()) together = t.make(x->size, x->format, {"input in order"});
  value result = t.make({x->size[0], w->size[0], side, side}, x->format, {"output", weight});
  value rows;
  if (!is_of_points(*w)) rows = t.make({row, side * side}, x->format, {"patches in rows", weight});
  t.touch_workspace();  // for each image the same
  const auto images = static_cast<int>(x->size[0]);
  t.count_product({side * side, row, w->size[0]},
                  {&*x, &*w, &*b, &*result},
                  {.kernels = images + (bias != none ? 1 : 0),
                   .products = images,
                   .fills = bias != none ? 0 : 1,
                   .unfolds = row});
  t.result_of(by, result.get());
  return result;
}
/// Along the last dimension of (batch, channels, length), with so many zeros at either end: a
/// kernel's worth of inputs for each place, laid in rows, times the weight, one sample after the
/// other (slow_conv2d).
constexpr value convolve_1d(
    tape& t, argument given, int weight, int bias, std::int64_t stride, std::int64_t zeros) {
  const held input(given);
  value b;
  if (bias != none) b = lowered_parameter(t, bias);
  const value w = lowered_parameter(t, weight);
  const value x = lowered(t, input);
  const int by = t.add_node(node_kind::convolution, {&*x, &*w, &*b});
  t.keep(by, x);
  t.keep(by, w);
  const std::int64_t places = (x->size[2] + 2 * zeros - w->size[2]) / stride + 1;
  const std::int64_t row = w->count() / w->size[0];
  t.note(by, {row, places});
  value together;
  if (!x->is_contiguous()) together = t.make(x->size, x->format, {"input in order"});
  value result = t.make({x->size[0], w->size[0], places}, x->format, {"output", weight});
  const value rows = t.make({row, places}, x->format, {"inputs in rows", weight});
  t.touch_workspace();  // for each sample the same
  const auto samples = static_cast<int>(x->size[0]);
  t.count_product({places, row, w->size[0]},
                  {&*x, &*w, &*b, &*result},
                  {.kernels = samples + (bias != none ? 1 : 0),
                   .products = samples,
                   .fills = bias != none ? 0 : 1,
                   .unfolds = row});
  t.result_of(by, result.get());
  return result;
}
constexpr void convolution_backward(const node_backward& b) {
  tape& t = b.t;
  const tensor& weight = b.kept(1);
  const tensor& x = b.kept(0);
  value input, together;
  if (!x.is_contiguous()) input = t.make(x.size, x.format);
  if (!b.g.is_contiguous()) together = t.make(b.g.size, b.g.format);
  const std::int64_t images = b.g.size[0];
  const std::int64_t width = b.g.size[1];
  const std::int64_t row = b.by.argument[0];
  const std::int64_t patches = b.by.argument[1];
  const auto calls = static_cast<int>(images);
  value rows;
  if (b.wants(0)) {
    b.out[0] = t.make(b.kept(0).size, b.g.format);
    rows = t.make({row, patches}, b.g.format);
    t.touch_workspace();  // for each image the same
    t.count_backward({row, width, patches},
                     {&b.g, &weight, &*b.out[0]},
                     {.kernels = calls, .products = calls, .fills = 1});
  }
  if (b.wants(2)) {
    b.out[2] = t.make(sizes{width}, b.g.format);
    touch(t, scratch_of_reduction(t.device, images * patches, width, true));
  }
  if (!b.wants(1)) return;
  b.out[1] = t.make(weight.size, b.g.format);
  if (!rows->defined() && !is_of_points(weight)) rows = t.make({row, patches}, b.g.format);
  t.touch_workspace();  // for each image the same
  t.count_backward(
      {width, patches, row},
      {&b.g, &b.kept(0), &weight, &*b.out[1], &*b.out[2]},
      {.kernels = calls + 1 + (b.wants(2) ? 1 : 0), .products = calls, .fills = 1, .unfolds = row});
}
inline constexpr node_kind node_kind::convolution{"convolution", &convolution_backward};

}  // namespace gpuplan::eager
