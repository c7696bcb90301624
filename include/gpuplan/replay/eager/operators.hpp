#pragma once

// The operators of eager mode, by which a model's forward is written down. What an operator
// allocates and keeps for backward its comment says; where it says nothing, it allocates its result
// alone and keeps nothing. A view allocates nothing. Nothing is kept where no operand needs a
// gradient. How long operands live, `argument` says.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <limits>

namespace gpuplan::eager {

using gpuplan::detail::ceil_div;

// -- reductions

constexpr std::int64_t last_power_of_two(std::int64_t of) {
  std::int64_t power = 1;
  while (power * 2 <= of) power *= 2;
  return power;
}
constexpr std::int64_t at_most(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t at_least(std::int64_t a, std::int64_t b) { return a < b ? b : a; }

/// What a sum over `reduced` elements for each of `outputs` takes beside its result: where the
/// outputs are too few to occupy the device, several blocks of threads work on each, and meet in a
/// buffer (Reduce.cuh of PyTorch). `fastest`: the reduced elements are neighbours.
struct reduction_scratch {
  std::int64_t buffer = 0;
  std::int64_t semaphores = 0;
};
constexpr reduction_scratch scratch_of_reduction(const device_traits& device,
                                                 std::int64_t reduced,
                                                 std::int64_t outputs,
                                                 bool fastest) {
  constexpr std::int64_t most_threads = 512;
  constexpr std::int64_t warp = 32;
  std::int64_t vector = 1;  // outputs a thread
  std::int64_t dim0 = fastest ? reduced : outputs;
  const std::int64_t dim1 = fastest ? outputs : reduced;
  if (fastest && outputs == 1 && dim0 > 128) dim0 /= 4;
  if (!fastest) {
    vector = outputs % 4 == 0 ? 4 : outputs % 2 == 0 ? 2 : 1;
    dim0 /= vector;
  }
  const std::int64_t threads = most_threads / vector;
  const std::int64_t power0 = dim0 < threads ? last_power_of_two(dim0) : threads;
  const std::int64_t power1 = dim1 < threads ? last_power_of_two(dim1) : threads;
  std::int64_t width = at_most(power0, warp);
  const std::int64_t height = at_most(power1, threads / width);
  width = at_most(power0, threads / height);

  std::int64_t step_input = fastest ? width : 1;
  std::int64_t step_output = fastest ? 1 : width;
  const std::int64_t split_at = at_most(height * 16, 256);
  const bool across_warps = ceil_div(reduced, step_input) >= split_at;
  (across_warps ? step_input : step_output) *= height;
  const std::int64_t per_thread = ceil_div(reduced, step_input);
  const std::int64_t grid = ceil_div(outputs / vector, step_output);
  const std::int64_t target =
      device.multiprocessors * (device.threads_per_multiprocessor / (width * height));
  if (!across_warps || per_thread < 256 || grid > target) return {};
  const std::int64_t blocks = at_least(at_most(ceil_div(target, grid), ceil_div(per_thread, 16)),
                                       ceil_div(per_thread, 256));
  if (blocks <= 1) return {};
  return {4 * outputs * blocks * (fastest ? 1 : width * vector), 4 * grid};
}

constexpr void touch(tape& t, const reduction_scratch& scratch) {
  if (scratch.buffer == 0) return;
  const int buffer = t.new_storage(scratch.buffer, {"buffer of a sum"});
  const int semaphores = t.new_storage(scratch.semaphores, {"semaphores of a sum"});
  t.release(semaphores);
  t.release(buffer);
}

/// Likewise of a whole tensor, elements of `bytes`: the kernel counts bytes in 32 bits, so a longer
/// one is halved along its outer dimension (TensorIterator's with_32bit_indexing).
constexpr void touch_reduction(
    tape& t, std::int64_t bytes, std::int64_t reduced, std::int64_t outputs, bool fastest) {
  if ((reduced * outputs - 1) * bytes + 1 <= std::numeric_limits<std::int32_t>::max()) {
    touch(t, scratch_of_reduction(t.device, reduced, outputs, fastest));
    return;
  }
  const bool halves_outputs = fastest ? outputs > 1 : reduced == 1;
  const std::int64_t half = (halves_outputs ? outputs : reduced) / 2;
  if (halves_outputs) {
    touch_reduction(t, bytes, reduced, half, fastest);
    touch_reduction(t, bytes, reduced, outputs - half, fastest);
  } else {
    touch_reduction(t, bytes, half, outputs, fastest);
    touch_reduction(t, bytes, reduced - half, outputs, fastest);
  }
}

/// The sum over what the wanted sizes do not have, or have once.
constexpr value sum_to(tape& t, const tensor& of, const sizes& wanted) {
  value sum = t.make(wanted, of.format, {"sum over rows", none, &of});
  const std::int64_t outputs = wanted.count();
  const int more = of.size.rank - wanted.rank;
  std::int64_t nearest_summed = std::numeric_limits<std::int64_t>::max();
  std::int64_t nearest_left = nearest_summed;
  for (int at = 0; at < of.size.rank; ++at) {
    if (of.size[at] == 1) continue;
    std::int64_t& nearest =
        at >= more && wanted[at - more] == of.size[at] ? nearest_left : nearest_summed;
    nearest = at_most(nearest, of.stride[at]);
  }
  touch_reduction(
      t, bytes_of(of.format), of.count() / outputs, outputs, nearest_summed < nearest_left);
  return sum;
}

// -- views

/// A view of other sizes, whose product is the same; undefined where the strides allow none.
constexpr value view(tape& t, argument given, const sizes& wanted) {
  const held of(given);
  tensor seen = of;
  if (!set_view(seen, wanted)) return {};
  const int by = t.add_node(node_kind::view, {&of});
  if (node* made = t.at(by)) {
    made->argument[0] = 0;
    // the input's sizes, for the way back
    for (int at = 0; at < of.size.rank; ++at) made->size[1][at] = of.size[at];
    made->size[1].rank = of.size.rank;
  }
  seen.is_view = true;
  t.result_of(by, seen);
  t.hold(seen.storage);
  return {t, seen};
}

/// The same memory as elements of another format, neighbour by neighbour.
constexpr value view_as(tape& t, argument given, const sizes& wanted, element format) {
  const held of(given);
  const int by = t.add_node(node_kind::view, {&of});
  if (node* made = t.at(by)) {
    made->argument[1] = 1 + static_cast<std::int64_t>(of.format);
    made->size[1] = of.size;
  }
  tensor seen = of;
  seen.format = format;
  set_contiguous(seen, wanted);
  seen.is_view = true;
  t.result_of(by, seen);
  t.hold(seen.storage);
  return {t, seen};
}

constexpr void swap_dimensions(tensor& of, int a, int b) {
  const std::int64_t size = of.size[a];
  const std::int64_t stride = of.stride[a];
  of.size[a] = of.size[b];
  of.stride[a] = of.stride[b];
  of.size[b] = size;
  of.stride[b] = stride;
}

/// A view with two dimensions swapped.
constexpr value transpose(tape& t, argument given, int a, int b) {
  const held of(given);
  tensor seen = of;
  swap_dimensions(seen, a, b);
  const int by = t.add_node(node_kind::transpose, {&of});
  if (node* made = t.at(by)) {
    made->argument[0] = a;
    made->argument[1] = b;
  }
  seen.is_view = true;
  t.result_of(by, seen);
  t.hold(seen.storage);
  return {t, seen};
}

/// A copy in the order of its dimensions, where it is not in that order yet.
constexpr value clone(tape& t, argument given) {
  const held of(given);
  value copy = t.make(of.size, of.format, {"copy", none, &of});
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

/// A view where the strides allow that, else of a copy.
constexpr value reshape(tape& t, argument given, const sizes& wanted) {
  const held of(given);
  tensor seen = of;
  if (set_view(seen, wanted)) return view(t, of, wanted);
  return view(t, clone(t, of), wanted);
}

/// Repeats elements without copying them: `of` has size 1 where `wanted` has more.
constexpr value expand(tape& t, argument given, const sizes& wanted) {
  const held of(given);
  tensor seen = of;
  const int more = wanted.rank - of.size.rank;
  for (int at = 0; at < wanted.rank; ++at) {
    const bool is_old = at >= more && of.size[at - more] == wanted[at];
    seen.stride[at] = is_old ? of.stride[at - more] : 0;
  }
  seen.size = wanted;
  const int by = t.add_node(node_kind::expand, {&of});
  seen.is_view = true;
  t.result_of(by, seen);
  t.hold(seen.storage);
  return {t, seen};
}

/// A part along one dimension; `pads` says what its gradient becomes: a slice's is padded with
/// zeros on its own, those of a split are joined.
constexpr value slice(tape& t, argument given, int dimension, std::int64_t length) {
  const held of(given);
  tensor seen = of;
  seen.size[dimension] = length;
  const int by = t.add_node(node_kind::slice, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  seen.is_view = true;
  t.result_of(by, seen);
  t.hold(seen.storage);
  return {t, seen};
}

/// The node of a split; `part` makes each of its results.
constexpr int split(tape& t, const tensor& of) {
  const int by = t.add_node(node_kind::split, {&of});
  if (node* made = t.at(by)) {
    made->argument[0] = of.size.rank;
    for (int at = 0; at < of.size.rank; ++at) made->argument[1 + at] = of.size[at];
  }
  return by;
}
constexpr value part(
    tape& t, int by, argument given, int dimension, std::int64_t length, int which) {
  const held of(given);
  tensor seen = of;
  seen.size[dimension] = length;
  seen.is_view = true;
  t.result_of(by, seen, which);
  t.hold(seen.storage);
  return {t, seen};
}

/// One along a dimension, which is no more; its gradient is padded with zeros.
constexpr value select(tape& t, argument given, int dimension) {
  const held of(given);
  tensor seen = of;
  --seen.size.rank;
  for (int at = dimension; at < seen.size.rank; ++at) {
    seen.size[at] = of.size[at + 1];
    seen.stride[at] = of.stride[at + 1];
  }
  const int by = t.add_node(node_kind::slice, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  seen.is_view = true;
  t.result_of(by, seen);
  t.hold(seen.storage);
  return {t, seen};
}

/// Several along a dimension, at most as many as a node has inputs, in the widest format. The
/// gradients are views of the result's.
constexpr value concatenate(tape& t, std::initializer_list<const tensor*> parts, int dimension) {
  const int by = t.add_node(node_kind::concatenate, parts);
  const tensor& first = **parts.begin();
  sizes joined = first.size;
  joined[dimension] = 0;
  element format = first.format;
  bool are_turned = true;
  int at = 0;
  if (node* made = t.at(by)) made->argument[0] = dimension;
  for (const tensor* part : parts) {
    joined[dimension] += part->size[dimension];
    if (bytes_of(part->format) > bytes_of(format)) format = part->format;
    are_turned = are_turned && is_channels_last(*part);
    if (node* made = t.at(by)) made->argument[1 + at++] = part->size[dimension];
  }
  value all = t.make(joined, format, {"concatenation", none, &first});
  if (are_turned) set_channels_last(all.get());
  t.result_of(by, all.get());
  return all;
}
constexpr value concatenate(tape& t, argument given_a, argument given_b, int dimension) {
  const held a(given_a), b(given_b);
  return concatenate(t, {&a, &b}, dimension);
}

/// Several, at most as many as a node has inputs, of equal sizes along the first dimension.
constexpr value stack_rows(tape& t, const value* parts, int count) {
  const tensor* of[most_inputs]{};
  for (int at = 0; at < count; ++at) of[at] = &*parts[at];
  const tensor nothing;
  const int by = t.add_node(node_kind::concatenate,
                            {of[0],
                             count > 1 ? of[1] : &nothing,
                             count > 2 ? of[2] : &nothing,
                             count > 3 ? of[3] : &nothing});
  sizes joined = of[0]->size;
  joined[0] *= count;
  if (node* made = t.at(by))
    for (int at = 0; at < count; ++at) made->argument[1 + at] = of[at]->size[0];
  value all = t.make(joined, of[0]->format, {"stacked rows", none, of[0]});
  t.result_of(by, all.get());
  return all;
}

// -- casts

/// The tensor itself where it has the format, else a copy; the gradient is cast back.
constexpr value cast(tape& t, argument given, element format) {
  const held of(given);
  if (of.format == format) return t.share(of);
  const int by = t.add_node(node_kind::cast, {&of});
  if (node* made = t.at(by)) made->argument[0] = static_cast<std::int64_t>(of.format);
  value other = t.make_like(of.size, format, of, {}, "cast");
  t.result_of(by, other.get());
  return other;
}

/// As autocast hands a tensor to a matrix product.
constexpr value lowered(tape& t, argument given) {
  const held of(given);
  const element wanted = t.computes_in(of.format);
  if (of.format == wanted) return t.share(of);
  tensor* const cached = of.format == element::fp32 ? t.cached_cast_of_leaf(of) : nullptr;
  if (cached == nullptr) return cast(t, of, wanted);
  if (!cached->defined()) *cached = cast(t, of, wanted).take();
  return t.share(*cached);
}
/// As autocast hands a tensor to what computes in fp32.
constexpr value raised(tape& t, argument given) {
  const held of(given);
  if (t.autocasts()) return cast(t, of, element::fp32);
  return t.share(of);
}
/// A parameter likewise: the copy of one that trains serves the whole forward.
constexpr value lowered_parameter(tape& t, int index) {
  const tensor data = t.parameter(index);
  const element wanted = t.computes_in(data.format);
  if (data.format == wanted) return t.share(data);
  if (!t.parameters[index].trains || data.format != element::fp32) return cast(t, data, wanted);
  tensor& cached = t.cached_cast(index);
  if (!cached.defined()) cached = cast(t, data, wanted).take();
  return t.share(cached);
}

/// A tensor of other sizes or of another format, by an operator without gradient.
constexpr value compute(
    tape& t, argument given, const sizes& size, element format, const origin& as = {}) {
  const held of(given);
  return t.make(size, format, as);
}

// -- elementwise

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

// In which order would they run?
constexpr value add(tape&, value&&, value&&) = delete;
/// a - b, broadcast.
constexpr value subtract(tape&, value&&, value&&) = delete;
/// a * b, broadcast. Keeps each operand for the gradient of the other.
constexpr value multiply(tape&, value&&, value&&) = delete;
constexpr value matmul(tape&, value&&, value&&) = delete;
constexpr value concatenate(tape&, value&&, value&&, int) = delete;

/// a + b, broadcast, in the wider format.
constexpr value add(tape& t, argument given_a, argument given_b) {
  const held a(given_a), b(given_b);
  const int by = t.add_node(node_kind::pass, {&a, &b});
  value sum = t.make_like(broadcast(a.size, b.size), wider(a.format, b.format), a, b, "sum");
  t.result_of(by, sum.get());
  return sum;
}
/// a += b
constexpr value add_in_place(tape& t, argument given_a, argument given_b) {
  const held a(given_a), b(given_b);
  const int by = t.add_node(node_kind::pass, {&a, &b});
  value sum = t.share(a);
  t.result_of(by, sum.get());
  return sum;
}
constexpr value subtract(tape& t, argument given_a, argument given_b) {
  const held a(given_a), b(given_b);
  const int by = t.add_node(node_kind::pass, {&a, &b});
  if (node* made = t.at(by)) made->argument[0] = 1;  // the second gradient is negated
  value difference =
      t.make_like(broadcast(a.size, b.size), wider(a.format, b.format), a, b, "difference");
  t.result_of(by, difference.get());
  return difference;
}
/// Times a number, or the negative.
constexpr value scale(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::scale, {&of});
  value scaled = t.make_like(of.size, of.format, of, {}, "scaled");
  t.result_of(by, scaled.get());
  return scaled;
}
/// Plus a number: the gradient passes through.
constexpr value add_number(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::pass, {&of});
  value sum = t.make_like(of.size, of.format, of, {}, "sum");
  t.result_of(by, sum.get());
  return sum;
}
constexpr value multiply(tape& t, argument given_a, argument given_b) {
  const held a(given_a), b(given_b);
  const int by = t.add_node(node_kind::product, {&a, &b});
  if (b.needs_gradient()) t.keep(by, a);
  if (a.needs_gradient()) t.keep(by, b);
  value product =
      t.make_like(broadcast(a.size, b.size), wider(a.format, b.format), a, b, "product");
  t.result_of(by, product.get());
  return product;
}
/// Times complex numbers that need no gradient; backward makes a conjugate copy of them.
constexpr value multiply_complex(tape& t, argument given_a, argument given_by_what) {
  const held a(given_a), by_what(given_by_what);
  value product = multiply(t, a, by_what);
  if (node* made = t.at(product->node)) made->argument[0] = 1;
  return product;
}
/// An operator whose backward needs its input and makes one tensor.
constexpr value keeping_input(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::keeps_one, {&of});
  t.keep(by, of);
  value result = t.make_like(of.size, of.format, of, {}, "activation");
  t.result_of(by, result.get());
  return result;
}
/// An operator whose backward needs its result and makes one tensor.
constexpr value keeping_result(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::keeps_one, {&of});
  value result = t.make_like(of.size, of.format, of, {}, "activation");
  t.keep(by, result);
  t.result_of(by, result.get());
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
  t.keep(by, mask);
  t.result_of(by, result.get());
  return result;
}
/// A power above 1. Keeps the operand.
constexpr value power(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::power, {&of});
  t.keep(by, of);
  value result = t.make_like(of.size, of.format, of, {}, "power");
  t.result_of(by, result.get());
  return result;
}
/// Over the last dimension, which stays with size 1.
constexpr value mean(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::mean, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  sizes one = of.size;
  one[one.rank - 1] = 1;
  value result = t.make(one, of.format, {"mean"});
  t.result_of(by, result.get());
  return result;
}
/// Over one dimension, which is no more.
constexpr value sum_over(tape& t, argument given, int dimension) {
  const held of(given);
  const int by = t.add_node(node_kind::sum, {&of});
  sizes left = of.size;
  for (int at = dimension; at + 1 < left.rank; ++at) left[at] = left[at + 1];
  --left.rank;
  if (node* made = t.at(by)) {
    made->size[1] = of.size;
    made->argument[0] = dimension;
  }
  value result = t.make(left, of.format, {"sum"});
  touch(t,
        scratch_of_reduction(t.device, of.size[dimension], left.count(), dimension == left.rank));
  t.result_of(by, result.get());
  return result;
}
/// Over one dimension, which is no more.
constexpr value mean_over(tape& t, argument given, int dimension) {
  const held of(given);
  const int by = t.add_node(node_kind::mean, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  sizes left = of.size;
  for (int at = dimension; at + 1 < left.rank; ++at) left[at] = left[at + 1];
  --left.rank;
  value result = t.make(left, of.format, {"mean"});
  touch(t,
        scratch_of_reduction(t.device, of.size[dimension], left.count(), dimension == left.rank));
  t.result_of(by, result.get());
  return result;
}
/// Divided by what needs no gradient, which it keeps.
constexpr value divide(tape& t, argument given_of, argument given_by_what) {
  const held of(given_of), by_what(given_by_what);
  const int by = t.add_node(node_kind::keeps_one, {&of});
  t.keep(by, by_what);
  value quotient = t.make_like(of.size, of.format, of, by_what, "quotient");
  t.result_of(by, quotient.get());
  return quotient;
}
/// Rows of length 1: x / x.norm(keepdim).clamp_min(eps).expand_as(x)
constexpr value normalize(tape& t, argument given) {
  const held of(given);
  sizes one = of.size;
  one[one.rank - 1] = 1;
  int by = t.add_node(node_kind::vector_norm, {&of});
  t.keep(by, of);
  value length = t.make(one, of.format, {"lengths of rows"});
  t.keep(by, length);
  t.result_of(by, length.get());
  by = t.add_node(node_kind::clamp, {&*length});
  t.keep(by, length);
  value clamped = t.make(one, of.format, {"lengths of rows, clamped"});
  t.result_of(by, clamped.get());
  const value divisor = expand(t, clamped, of.size);
  by = t.add_node(node_kind::quotient, {&of, &*divisor});
  t.keep(by, of);
  t.keep(by, divisor);
  value result = t.make(of.size, of.format, {"rows of length 1", none, &of});
  t.result_of(by, result.get());
  return result;
}
/// 1 / sqrt(x). Keeps its result.
constexpr value reciprocal_root(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::reciprocal_root, {&of});
  value result = t.make_like(of.size, of.format, of, {}, "reciprocal root");
  t.keep(by, result);
  t.result_of(by, result.get());
  return result;
}
/// Over the last dimension, in the format named. Keeps its result.
constexpr value softmax(tape& t, argument given, element format) {
  const held of(given);
  const int by = t.add_node(node_kind::softmax, {&of});
  if (node* made = t.at(by)) made->argument[0] = static_cast<std::int64_t>(of.format);
  value result = t.make(of.size, format, {"softmax", none, &of});
  t.keep(by, result);
  t.result_of(by, result.get());
  return result;
}
/// As autocast computes it: in fp32, by a kernel that reads fp16 but not bf16.
constexpr value softmax_under_autocast(tape& t, argument given) {
  const held of(given);
  if (!t.autocasts() || of.format == element::fp32) return softmax(t, of, of.format);
  if (of.format == element::fp16) return softmax(t, of, element::fp32);
  return softmax(t, cast(t, of, element::fp32), element::fp32);
}
/// Keeps the mask.
constexpr value masked_fill(tape& t, argument given_of, argument given_mask) {
  const held of(given_of), mask(given_mask);
  const int by = t.add_node(node_kind::mask_fill, {&of});
  t.keep(by, mask);
  value result = t.make_like(of.size, of.format, of, {}, "masked scores");
  t.result_of(by, result.get());
  return result;
}

// -- matrix products

/// torch.nn.functional.linear: casts of input, weight and bias under autocast, the result, and the
/// workspace of the product while it runs. Keeps the input for a weight that trains, and the
/// weight for an input that needs a gradient.
constexpr value linear(tape& t, argument given, int weight, int bias) {
  const held input(given);
  value b;
  if (bias != none) b = lowered_parameter(t, bias);
  const value w = lowered_parameter(t, weight);
  const value x = lowered(t, input);
  const std::int64_t in = x->size[x->size.rank - 1];
  const std::int64_t out = w->size[0];
  const std::int64_t rows = x->count() / in;
  const bool flat = x->size.rank == 2;
  value x2, w2;
  if (bias != none) {
    if (!flat) x2 = reshape(t, x, {rows, in});
    w2 = transpose(t, w, 0, 1);
  } else {
    w2 = transpose(t, w, 0, 1);
    if (!flat) x2 = reshape(t, x, {rows, in});
  }
  const tensor& xs = flat ? *x : *x2;
  const int by = bias != none ? t.add_node(node_kind::addmm, {&*b, &xs, &*w2})
                              : t.add_node(node_kind::mm, {&xs, &*w2});
  if (w2->needs_gradient()) t.keep(by, xs);
  if (xs.needs_gradient()) t.keep(by, w2);
  if (node* made = t.at(by)) {
    made->parameter = weight;
    made->argument[0] = rows;
    made->argument[1] = in;
    made->argument[2] = out;
  }
  const bool stays = bias == none && t.stays(true);
  value result;
  if (stays && t.is_recomputing()) {
    result = t.saved_result();
  } else {
    result = t.make({rows, out}, wider(x->format, w->format), {"output", weight});
    t.touch_workspace(bias != none);
    t.count_product(flops_of_product(rows, in, out));
    if (stays) t.save_result(result);
  }
  t.result_of(by, result.get());
  if (flat) return result;
  sizes wanted = x->size;
  wanted[wanted.rank - 1] = out;
  value shaped = view(t, result, wanted);
  if (bias == none) shaped.get().is_view = false;
  return shaped;
}

/// Square patches of images, (batch, channels, side, side), through one linear map: a convolution
/// as wide as its stride, which lays the patches of one image after the other in rows.
constexpr value convolve(tape& t, argument given, int weight, int bias) {
  const held images(given);
  value b;
  if (bias != none) b = lowered_parameter(t, bias);
  const value w = lowered_parameter(t, weight);
  const value x = lowered(t, images);
  const int by = t.add_node(node_kind::convolution, {&*x, &*w, &*b});
  t.keep(by, x);
  t.keep(by, w);
  const std::int64_t side = x->size[2] / w->size[2];
  const std::int64_t row = w->count() / w->size[0];
  if (node* made = t.at(by)) {
    made->argument[0] = row;
    made->argument[1] = side * side;
  }
  value result = t.make({x->size[0], w->size[0], side, side}, x->format, {"output", weight});
  const value rows = t.make({row, side * side}, x->format, {"patches in rows", weight});
  t.touch_workspace();  // for each image the same
  t.count_product(flops_of_product(x->size[0] * side * side, row, w->size[0]));
  t.result_of(by, result.get());
  return result;
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
  if (node* made = t.at(by)) {
    made->parameter = weight;
    made->argument[0] = x->size[0];
    made->argument[1] = x->size[1];
    made->argument[2] = w->size[1];
    made->argument[3] = 1;
  }
  value result = t.make({x->size[0], w->size[1]}, wider(x->format, w->format), {"output", weight});
  t.touch_workspace(true);
  t.count_product(flops_of_product(x->size[0], x->size[1], w->size[1]));
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
  if (node* made = t.at(by)) {
    made->argument[0] = a->size[0];
    made->argument[1] = a->size[1];
    made->argument[2] = b->size[1];
  }
  value result = t.make({a->size[0], b->size[1]}, a->format, {"matrix product"});
  t.touch_workspace();
  t.count_product(flops_of_product(a->size[0], a->size[1], b->size[1]));
  t.result_of(by, result.get());
  return result;
}

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
  if (b2->needs_gradient()) t.keep(by, a2);
  if (a2->needs_gradient()) t.keep(by, b2);
  if (node* made = t.at(by)) {
    made->argument[0] = batch;
    made->argument[1] = m;
    made->argument[2] = k;
    made->argument[3] = n;
  }
  value result = t.make({batch, m, n}, a->format, {"matrix product"});
  if (k != 1) t.touch_workspace();
  t.count_product(flops_of_product(batch * m, k, n));
  t.result_of(by, result.get());
  sizes wanted = a->size;
  wanted[r - 1] = n;
  value shaped = view(t, result, wanted);
  shaped.get().is_view = false;
  return shaped;
}

// -- norms

/// torch.nn.functional.layer_norm, in fp32 under autocast. Allocates two numbers of each row in
/// fp32; keeps these, the input, weight and bias.
constexpr value layer_norm(tape& t, argument given, int weight, int bias) {
  const held input(given);
  value b;
  if (bias == none)
    b = value{};
  else
    b = raised(t, t.parameter(bias));
  value w;
  if (weight == none)
    w = value{};
  else
    w = raised(t, t.parameter(weight));
  const value x = raised(t, input);
  const int by = t.add_node(node_kind::layer_norm, {&*x, &*w, &*b});
  const std::int64_t width = x->size[x->size.rank - 1];
  const std::int64_t rows = x->count() / width;
  t.keep(by, x);
  if (weight != none) t.keep(by, w);
  if (bias != none) t.keep(by, b);
  value together;  // of an input in another order
  if (!x->is_contiguous()) together = t.make(x->size, x->format, {"input in order", weight});
  value result = t.make(x->size, x->format, {weight == none ? "normed" : "output", weight, &*x});
  sizes one = x->size;
  one[one.rank - 1] = 1;
  const element of_statistics = element::fp32;
  const value average = t.make(one, of_statistics, {"means of rows", weight});
  const value spread = t.make(one, of_statistics, {"spreads of rows", weight});
  t.keep(by, average);
  t.keep(by, spread);
  if (node* made = t.at(by)) {
    made->parameter = weight;
    made->argument[0] = rows;
    made->argument[1] = width;
  }
  t.result_of(by, result.get());
  return result;
}

/// torch.nn.functional.rms_norm, likewise with one number of each row.
constexpr value rms_norm(tape& t, argument given, int weight) {
  const held input(given);
  const value w = raised(t, t.parameter(weight));
  const value x = raised(t, input);
  const int by = t.add_node(node_kind::rms_norm, {&*x, &*w});
  const std::int64_t width = x->size[x->size.rank - 1];
  const std::int64_t rows = x->count() / width;
  t.keep(by, x);
  t.keep(by, w);
  value result = t.make(x->size, x->format, {weight == none ? "normed" : "output", weight, &*x});
  sizes one = x->size;
  one[one.rank - 1] = 1;
  const value spread = t.make(one, element::fp32, {"spreads of rows", weight});
  t.keep(by, spread);
  if (node* made = t.at(by)) {
    made->parameter = weight;
    made->argument[0] = rows;
    made->argument[1] = width;
  }
  t.result_of(by, result.get());
  return result;
}

// -- embeddings

/// Rows of a table: (..., width). Keeps the numbers.
constexpr value embedding(tape& t, argument given_ids, argument given_w) {
  const held ids(given_ids), w(given_w);
  const int by = t.add_node(node_kind::embedding, {&w});
  t.keep(by, ids);
  value together;  // of ids that are repeated without a copy
  if (!ids.is_contiguous()) together = t.make(ids.size, ids.format, {"numbers in order"});
  sizes wanted = ids.size;
  wanted[wanted.rank++] = w.size[1];
  if (node* made = t.at(by)) {
    made->argument[0] = ids.count();
    made->argument[1] = w.size[0];
    made->argument[2] = w.size[1];
  }
  value result = t.make(wanted, w.format, {"rows", none, &w});
  t.result_of(by, result.get());
  return result;
}
constexpr value embedding(tape& t, argument given, int weight) {
  const held ids(given);
  value rows = embedding(t, ids, t.parameter(weight));
  if (node* by = t.at(rows->node)) by->parameter = weight;
  return rows;
}

// -- losses

/// (rows, classes) and int64 labels to a number. Allocates and keeps the logarithms of the softmax,
/// of the logits' size; under autocast in fp32 too.
constexpr value cross_entropy(tape& t, argument given_logits, argument given_labels) {
  const held logits(given_logits), labels(given_labels);
  int by = t.add_node(node_kind::log_softmax, {&logits});
  value logs = t.make(logits.size, logits.format, {"log-softmax", none, &logits});
  t.keep(by, logs);
  t.result_of(by, logs.get());
  const value x = raised(t, logs);
  logs.drop();
  by = t.add_node(node_kind::nll, {&*x});
  t.keep(by, x);
  t.keep(by, labels);
  value loss = t.make(sizes{1}, x->format, {"loss"});
  loss.get().size.rank = 0;
  const value weight = t.make(sizes{1}, x->format, {"number of labels"});
  t.keep(by, weight);
  t.result_of(by, loss.get());
  return loss;
}

/// The mean of (x - target)^2, in fp32 under autocast. The loss has memory for all of them.
constexpr value mse_loss(tape& t, argument given, argument given_target) {
  const held input(given), wanted(given_target);
  const value target = raised(t, wanted);
  const value x = raised(t, input);
  const int by = t.add_node(node_kind::mean_square, {&*x, &*target});
  t.keep(by, x);
  t.keep(by, target);
  const element format = wider(x->format, target->format);
  value loss = t.make_like(x->size, format, x, target, "loss");
  set_contiguous(loss.get(), {});
  const value squares = t.make_like(x->size, format, x, target, "squares");
  touch_reduction(t, bytes_of(format), x->count(), 1, true);
  t.result_of(by, loss.get());
  return loss;
}

}  // namespace gpuplan::eager
