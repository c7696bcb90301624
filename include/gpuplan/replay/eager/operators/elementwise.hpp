#pragma once

// Operators of elements one by one, and what passes gradients on. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>

namespace gpuplan::eager {

constexpr element wider(element a, element b) {
  if (a == b) return a;
  return bytes_of(a) > bytes_of(b) ? a : bytes_of(a) < bytes_of(b) ? b : element::fp32;
}
constexpr sizes broadcast(const sizes& a, const sizes& b) {
  const sizes& longer = a.rank >= b.rank ? a : b;
  const sizes& shorter = a.rank >= b.rank ? b : a;
  sizes both = longer;
  const int more = longer.rank - shorter.rank;
  for (int at = 0; at < shorter.rank; ++at)
    if (both[at + more] == 1) both[at + more] = shorter[at];
  return both;
}

// The node's result: of both operands, broadcast, in the wider format,
constexpr value result_of_both(tape& t, int by, const tensor& a, const tensor& b, const char* as) {
  value result = t.make_like(broadcast(a.size, b.size), wider(a.format, b.format), a, b, as);
  t.executes({&a, &b, &*result});
  t.result_of(by, result.get());
  return result;
}
// or as the first is.
constexpr value result_like(tape& t,
                            int by,
                            const tensor& of,
                            const char* as,
                            const tensor& other = {},
                            kernel_kind kind = kernel_kind::elements) {
  value result = t.make_like(of.size, of.format, of, other, as);
  t.executes({&of, &other, &*result}, kind);
  t.result_of(by, result.get());
  return result;
}

// Of two calls it is not said which runs first.
constexpr value add(tape&, value&&, value&&) = delete;
constexpr value subtract(tape&, value&&, value&&) = delete;
constexpr value multiply(tape&, value&&, value&&) = delete;

// Whether an input gets the gradient itself, and no sum of it and no copy in another format.
constexpr bool arrives_as_it_is(const node_backward& b, int which) {
  const edge& to = b.by.input[which];
  const node& input = b.t.nodes[to.node];
  return (input.takes_any_format || input.format[to.output] == b.g.format) &&
         input.size[to.output] == b.g.size;
}
// The gradient itself, for every input; of a second that is subtracted, its negative.
constexpr void pass_backward(const node_backward& b) {
  if (b.wants(0)) b.out[0] = b.t.share(b.g);
  if (b.by.inputs == 1 || !b.wants(1)) return;
  if (b.wants(0)) b.out[0].get().is_alone = false;
  if (b.by.argument[0] == 1) {
    b.out[1] = b.like_gradient();
    b.t.executes({&b.g, &*b.out[1]});
  } else {
    b.out[1] = b.t.share(b.g);
    if (b.wants(0) && arrives_as_it_is(b, 0)) b.out[1].get().is_alone = false;
  }
}
inline constexpr node_kind node_kind::pass{"sum", &pass_backward};
/// a + b, broadcast, in the wider format.
constexpr value add(tape& t, argument given_a, argument given_b) {
  const held a(given_a), b(given_b);
  const int by = t.add_node(node_kind::pass, {&a, &b});
  return result_of_both(t, by, a, b, "sum");
}
/// a += b
constexpr value add_in_place(tape& t, argument given_a, argument given_b) {
  const held a(given_a), b(given_b);
  const int by = t.add_node(node_kind::pass, {&a, &b});
  value sum = t.share(a);
  t.executes({&a, &b, &a});
  t.result_of(by, sum.get());
  return sum;
}
/// a - b, broadcast.
constexpr value subtract(tape& t, argument given_a, argument given_b) {
  const held a(given_a), b(given_b);
  const int by = t.add_node(node_kind::pass, {&a, &b});
  t.note(by, {1});
  return result_of_both(t, by, a, b, "difference");
}
/// Plus a number: the gradient passes through.
constexpr value add_number(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::pass, {&of});
  return result_like(t, by, of, "sum");
}

/// A copy in the order of its dimensions, where it is not in that order yet.
constexpr value clone(tape& t, argument given) {
  const held of(given);
  value copy = t.make(of.size, of.format, {"copy", none, &of});
  t.executes({&of, &*copy}, work_of_copy(of, copy));
  const int by = t.add_node(node_kind::pass, {&of});
  t.result_of(by, copy.get());
  return copy;
}
/// The tensor itself where its dimensions are in order, else a copy.
constexpr value contiguous(tape& t, argument given) {
  const held of(given);
  if (of.is_contiguous()) return t.share(of);
  return clone(t, of);
}

// The gradients themselves, once the unit's backward is done.
constexpr void unit_backward(const node_backward& b) {
  if (b.by.argument[0] != none) b.t.end_backward_of(static_cast<int>(b.by.argument[0]));
  for (int at = 0; at < b.by.inputs; ++at)
    if (b.wants(at)) b.out[at] = b.t.share(*b.incoming[at]);
}
inline constexpr node_kind node_kind::unit{"unit", &unit_backward};

// One new tensor, from the gradient and what was kept.
constexpr void elementwise_backward(const node_backward& b) {
  b.out[0] = b.like_gradient();
  if (b.by.kept > 0)
    b.t.executes({&b.g, &b.kept(0), &*b.out[0]}, kernel_kind::functions);
  else
    b.t.executes({&b.g, &*b.out[0]});
}
inline constexpr node_kind node_kind::scale{"scaling", &elementwise_backward};
inline constexpr node_kind node_kind::keeps_one{"elementwise operator", &elementwise_backward};

/// Times a number, or the negative.
constexpr value scale(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::scale, {&of});
  return result_like(t, by, of, "scaled");
}
/// Likewise, in place.
constexpr value scale_in_place(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::scale, {&of});
  value scaled = t.share(of);
  t.executes({&of, &of});
  t.result_of(by, scaled.get());
  return scaled;
}
/// An operator whose backward needs its input and makes one tensor.
constexpr value keeping_input(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::keeps_one, {&of});
  t.keep(by, of);
  return result_like(t, by, of, "activation", {}, kernel_kind::functions);
}
/// An operator whose backward needs its result and makes one tensor.
constexpr value keeping_result(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::keeps_one, {&of});
  value result = result_like(t, by, of, "activation", {}, kernel_kind::functions);
  t.keep(by, result);
  return result;
}
constexpr value gelu(tape& t, argument x) { return keeping_input(t, x); }
constexpr value silu(tape& t, argument x) { return keeping_input(t, x); }
constexpr value relu(tape& t, argument x) { return keeping_result(t, x); }
/// The tensor itself where nothing drops, else a mask of one byte an element, which it keeps, and
/// the result.
constexpr value dropout(tape& t, argument given, bool drops) {
  const held of(given);
  if (!drops) return t.share(of);
  const int by = t.add_node(node_kind::keeps_one, {&of});
  value mask = t.make_like(of.size, element::boolean, of, {}, "dropout mask");
  value result = t.make_like(of.size, of.format, of, {}, "dropout");
  t.executes({&of, &*result, &*mask}, device_work{});
  t.result_of(by, result.get());
  t.keep(by, mask);
  return result;
}
/// Divided by what needs no gradient, which it keeps.
constexpr value divide(tape& t, argument given_of, argument given_by_what) {
  const held of(given_of), by_what(given_by_what);
  const int by = t.add_node(node_kind::keeps_one, {&of});
  t.keep(by, by_what);
  return result_like(t, by, of, "quotient", by_what);
}

// torch.where makes a tensor of its number first.
constexpr void mask_fill_backward(const node_backward& b) {
  const int number = b.by.argument[0] == 0 ? none : b.t.new_storage(bytes_of(b.g.format));
  b.out[0] = b.like_gradient();
  const int kernels = kernels_of_elements({&b.g});
  b.t.executes({&b.g, &b.kept(0), &*b.out[0]}, {.kernels = kernels, .copies = 1});
  b.t.release(number);
}
inline constexpr node_kind node_kind::mask_fill{"mask", &mask_fill_backward};
/// Keeps the mask.
constexpr value masked_fill(tape& t, argument given_of, argument given_mask) {
  const held of(given_of), mask(given_mask);
  const int by = t.add_node(node_kind::mask_fill, {&of});
  t.keep(by, mask);
  value result = t.make_like(of.size, of.format, of, {}, "masked scores");
  t.executes({&of, &mask, &*result}, {.kernels = kernels_of_elements({&of}), .copies = 1});
  t.result_of(by, result.get());
  return result;
}

/// a * b, broadcast. Keeps each operand for the gradient of the other.
constexpr value multiply(tape& t, argument given_a, argument given_b) {
  const held a(given_a), b(given_b);
  const int by = t.add_node(node_kind::product, {&a, &b});
  if (b.needs_gradient()) t.keep(by, a);
  if (a.needs_gradient()) t.keep(by, b);
  return result_of_both(t, by, a, b, "product");
}
/// Times complex numbers that need no gradient; backward makes a conjugate copy of them.
constexpr value multiply_complex(tape& t, argument given_a, argument given_by_what) {
  const held a(given_a), by_what(given_by_what);
  value product = multiply(t, a, by_what);
  t.note(product->node, {1});
  return product;
}
constexpr void product_backward(const node_backward& b) {
  tape& t = b.t;
  value conjugate;
  if (b.by.argument[0] == 1) {
    conjugate = t.make(b.kept(0).size, b.g.format);
    t.executes({&b.kept(0), &*conjugate});
  }
  const auto times = [&](const tensor& other) {
    value made = t.make_like(b.g.size, b.g.format, b.g, other);
    t.executes({&b.g, &other, &*made});
    return made;
  };
  if (b.wants(1)) b.out[1] = times(b.kept(0));
  if (b.wants(0)) b.out[0] = times(b.kept(b.needs(1) ? 1 : 0));
}
inline constexpr node_kind node_kind::product{"product", &product_backward};

/// A power above 1. Keeps the operand.
constexpr value power(tape& t, argument given, int exponent = 2) {
  const held of(given);
  const int by = t.add_node(node_kind::power, {&of});
  t.note(by, {exponent});
  t.keep(by, of);
  return result_like(t, by, of, "power");
}
// exponent * x^(exponent - 1) * gradient; of squares the power in it is a copy.
constexpr void power_backward(const node_backward& b) {
  const value one = b.t.make(b.g.size, b.g.format);
  if (b.by.argument[0] == 2)
    b.t.executes({&b.kept(0), &*one}, device_work::copy());
  else
    b.t.executes({&b.kept(0), &*one});
  const value two = b.t.make(b.g.size, b.g.format);
  b.t.executes({&*one, &*two});
  b.out[0] = b.t.make(b.g.size, b.g.format);
  b.t.executes({&b.g, &*two, &*b.out[0]});
}
inline constexpr node_kind node_kind::power{"power", &power_backward};

/// 1 / sqrt(x). Keeps its result.
constexpr value reciprocal_root(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::reciprocal_root, {&of});
  value result = result_like(t, by, of, "reciprocal root");
  t.keep(by, result);
  return result;
}
inline constexpr node_kind node_kind::reciprocal_root{"reciprocal root", &power_backward};

}  // namespace gpuplan::eager
