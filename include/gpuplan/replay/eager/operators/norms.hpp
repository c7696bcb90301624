#pragma once

// Norms of rows. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/casts.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/eager/operators/views.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>

namespace gpuplan::eager {

// The result of a norm, and what it keeps of each row in fp32: its spread, and its mean if that is
// taken away.
constexpr value normed(tape& t,
                       int by,
                       const tensor& x,
                       const tensor& w,
                       const tensor& b,
                       int weight,
                       bool takes_mean) {
  value result = t.make(x.size, x.format, {weight == none ? "normed" : "output", weight, &x});
  sizes one = x.size;
  const std::int64_t width = one[one.rank - 1];
  one[one.rank - 1] = 1;
  value average;
  if (takes_mean) average = t.make(one, element::fp32, {"means of rows", weight});
  const value spread = t.make(one, element::fp32, {"spreads of rows", weight});
  t.executes({&x, &w, &b, &*result, &*average, &*spread},
             {.kernels = x.is_contiguous() ? 1 : 2,
              .kind = takes_mean ? kernel_kind::norms : kernel_kind::rms_norms});
  if (takes_mean) t.keep(by, average);
  t.keep(by, spread);
  if (node* made = t.at(by)) made->parameter = weight;
  t.note(by, {one.count(), width});
  t.result_of(by, result.get());
  return result;
}
// In the format of the input. What a weight is made of, if anything, is for people.
constexpr value layer_norm_of(
    tape& t, const tensor& x, const tensor& w, const tensor& b, int weight = none) {
  const int by = t.add_node(node_kind::layer_norm, {&x, &w, &b});
  t.keep(by, x);
  if (w.defined()) t.keep(by, w);
  if (b.defined()) t.keep(by, b);
  value together;  // of an input in another order
  if (!x.is_contiguous()) together = t.make(x.size, x.format, {"input in order", weight});
  return normed(t, by, x, w, b, weight, true);
}
/// torch.nn.functional.layer_norm, in fp32 under autocast. Allocates two numbers of each row in
/// fp32; keeps these, the input, weight and bias.
constexpr value layer_norm(tape& t, argument given, int weight, int bias) {
  const held input(given);
  value b, w;
  if (bias != none) b = raised(t, t.parameter(bias));
  if (weight != none) w = raised(t, t.parameter(weight));
  const value x = raised(t, input);
  return layer_norm_of(t, x, w, b, weight);
}
/// torch.nn.functional.rms_norm, likewise with one number of each row.
constexpr value rms_norm(tape& t, argument given, int weight) {
  const held input(given);
  const value w = raised(t, t.parameter(weight));
  const value x = raised(t, input);
  const int by = t.add_node(node_kind::rms_norm, {&*x, &*w});
  t.keep(by, x);
  t.keep(by, w);
  value together;  // of an input in another order
  if (!x->is_contiguous()) together = t.make(x->size, x->format, {"input in order", weight});
  return normed(t, by, x, w, {}, weight, false);
}

// Of the input, then of weight and bias; of many short rows those are summed in two steps
// (layer_norm_kernel.cu of PyTorch).
constexpr void norm_backward(const node_backward& b) {
  tape& t = b.t;
  value input_together;  // of an input in another order
  if (const tensor& x = b.kept(0); !x.is_contiguous()) input_together = t.make(x.size, x.format);
  const std::int64_t rows = b.by.argument[0];
  const std::int64_t width = b.by.argument[1];
  if (b.wants(0)) b.out[0] = t.make(b.g.size, b.g.format);
  for (int which = 1; which < b.by.inputs; ++which)
    if (b.wants(which)) b.out[which] = t.make({width}, b.g.format);
  value together;
  if (!b.g.is_contiguous()) together = t.make(b.g.size, b.g.format);
  device_work work{.kernels = (b.wants(0) ? 1 : 0) + (b.wants(1) || b.wants(2) ? 1 : 0) +
                              (b.g.is_contiguous() ? 0 : 1) + (b.kept(0).is_contiguous() ? 0 : 1),
                   .kind = kernel_kind::norms};
  for (int which = 0; which < b.by.kept; ++which) work.bytes += b.kept(which).bytes();
  for (int which = 0; which < b.by.inputs; ++which)
    if (b.wants(which)) work.bytes += b.out[which]->bytes();
  const std::int64_t warps = ceil_div(width, 32);
  if (rows <= 65'536 || warps >= t.device.multiprocessors / 2) {
    t.executes({&b.g}, work);
    return;
  }
  const std::int64_t parts = at_most(32'768 / warps, ceil_div(rows, 32));
  value part[most_inputs];
  for (int which = 1; which < b.by.inputs; ++which)
    if (b.wants(which)) part[which] = t.make({parts, width}, b.g.format, {"gradient in parts"});
  for (int which = 1; which < b.by.inputs; ++which)
    if (b.wants(which)) b.out[which] = summed(t, part[which], sizes{width}, work);
  t.executes({&b.g}, work);
}
inline constexpr node_kind node_kind::rms_norm{"norm", &norm_backward};
inline constexpr node_kind node_kind::layer_norm{"norm", &norm_backward};

/// Rows of length 1: x / x.norm(keepdim).clamp_min(eps).expand_as(x)
constexpr value normalize(tape& t, argument given) {
  const held of(given);
  sizes one = of.size;
  one[one.rank - 1] = 1;
  int by = t.add_node(node_kind::vector_norm, {&of});
  t.keep(by, of);
  value length = t.make(one, of.format, {"lengths of rows"});
  t.executes({&of, &*length}, device_work{});
  t.keep(by, length);
  t.result_of(by, length.get());
  by = t.add_node(node_kind::clamp, {&*length});
  t.keep(by, length);
  value clamped = t.make(one, of.format, {"lengths of rows, clamped"});
  t.executes({&*length, &*clamped});
  t.result_of(by, clamped.get());
  const value divisor = expand(t, clamped, of.size);
  by = t.add_node(node_kind::quotient, {&of, &*divisor});
  t.keep(by, of);
  t.keep(by, divisor);
  value result = t.make(of.size, of.format, {"rows of length 1", none, &of});
  t.executes({&of, &*divisor, &*result});
  t.result_of(by, result.get());
  return result;
}
constexpr void vector_norm_backward(const node_backward& b) {
  const tensor& x = b.kept(0);
  const tensor& length = b.kept(1);
  const value direction = b.t.make(x.size, b.g.format);
  b.t.executes({&x, &length, &*direction});
  const value is_zero = b.t.make(b.g.size, element::boolean);
  b.t.executes({&length, &*is_zero});
  b.t.executes({&*direction, &*is_zero, &*direction}, {.in_place = direction->bytes()});
  b.out[0] = b.t.make(x.size, b.g.format);
  b.t.executes({&*direction, &b.g, &*b.out[0]});
}
inline constexpr node_kind node_kind::vector_norm{"length of rows", &vector_norm_backward};
constexpr void clamp_backward(const node_backward& b) {
  const value zero = full(b.t, sizes{1}, b.g.format);
  const auto asked = [&] { return compute(b.t, b.kept(0), b.g.size, element::boolean); };
  const value passes = asked();
  value passes_both;
  if (b.by.argument[0] == 2) {
    passes_both = asked();
    b.t.executes({&*passes, &*passes_both, &*passes_both});
  }
  b.out[0] = compute(b.t, {&*passes, &b.g, &*zero}, b.g.size, b.g.format);
}
inline constexpr node_kind node_kind::clamp{"clamping", &clamp_backward};
/// Between so many bounds. Keeps what it reads.
constexpr value clamp(tape& t, argument given, int bounds) {
  const held of(given);
  const int by = t.add_node(node_kind::clamp, {&of});
  t.note(by, {bounds});
  t.keep(by, of);
  return result_like(t, by, of, "clamped");
}
/// Likewise within its own memory: keeps a copy of what it read, where a gradient needs that.
constexpr value clamp_in_place(tape& t, argument given, int bounds) {
  const held of(given);
  const int by = t.add_node(node_kind::clamp, {&of});
  t.note(by, {bounds});
  if (by != none) {
    tensor bare = of;
    bare.node = none;
    const value read = clone(t, bare);
    t.keep(by, read);
  }
  value made = t.share(of);
  t.executes({&of, &of});
  t.result_of(by, made.get());
  return made;
}
constexpr void quotient_backward(const node_backward& b) {
  const tensor& divisor = b.kept(1);
  const auto dense = [&](std::initializer_list<const tensor*> of) {
    return compute(b.t, of, b.g.size, b.g.format);
  };
  {
    const value divided = dense({&b.kept(0), &divisor});
    const value divided_twice = dense({&*divided, &divisor});
    const value negative = dense({&b.g});
    b.out[1] = dense({&*negative, &*divided_twice});
  }
  b.out[0] = dense({&b.g, &divisor});
}
inline constexpr node_kind node_kind::quotient{"quotient", &quotient_backward};

}  // namespace gpuplan::eager
