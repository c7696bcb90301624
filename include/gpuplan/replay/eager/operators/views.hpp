#pragma once

// Views, and what copies to make one: reshapes, concatenations, repeated heads. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/elementwise.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace gpuplan::eager {

// The same memory as the node sees it.
constexpr value seen_by(tape& t, int node, tensor& seen, int output = 0) {
  seen.is_view = true;
  t.result_of(node, seen, output);
  return t.share(seen);
}

/// A view of other sizes, whose product is the same; undefined where the strides allow none.
constexpr value view(tape& t, argument given, const sizes& wanted) {
  const held of(given);
  tensor seen = of;
  if (!set_view(seen, wanted)) return {};
  const int by = t.add_node(node_kind::view, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  return seen_by(t, by, seen);
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
  return seen_by(t, by, seen);
}
constexpr void view_backward(const node_backward& b) {
  tensor seen = b.g;
  if (b.by.argument[1] != 0) seen.format = static_cast<element>(b.by.argument[1] - 1);
  if (set_view(seen, b.by.size[1])) {
    seen.is_view = true;
    b.out[0] = b.t.share(seen);
  } else {
    value copy = b.t.make(b.g.size, b.g.format);
    b.t.executes({&b.g, &*copy});
    set_view(copy.get(), b.by.size[1]);
    b.out[0] = std::move(copy);
  }
}
inline constexpr node_kind node_kind::view{"view", &view_backward};

/// A view where the strides allow that, else of a copy.
constexpr value reshape(tape& t, argument given, const sizes& wanted) {
  const held of(given);
  tensor seen = of;
  if (set_view(seen, wanted)) return view(t, of, wanted);
  return view(t, clone(t, of), wanted);
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
  t.note(by, {a, b});
  return seen_by(t, by, seen);
}
constexpr void transpose_backward(const node_backward& b) {
  tensor seen = b.g;
  swap_dimensions(seen, static_cast<int>(b.by.argument[0]), static_cast<int>(b.by.argument[1]));
  seen.is_view = true;
  b.out[0] = b.t.share(seen);
}
inline constexpr node_kind node_kind::transpose{"view", &transpose_backward};

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
  return seen_by(t, by, seen);
}
constexpr void expand_backward(const node_backward& b) { b.out[0] = b.t.share(b.g); }
inline constexpr node_kind node_kind::expand{"view", &expand_backward};

/// A part along one dimension; its gradient is padded with zeros.
constexpr value slice(tape& t, argument given, int dimension, std::int64_t length) {
  const held of(given);
  tensor seen = of;
  seen.size[dimension] = length;
  const int by = t.add_node(node_kind::slice, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  t.note(by, {dimension});
  return seen_by(t, by, seen);
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
  t.note(by, {dimension});
  return seen_by(t, by, seen);
}
constexpr void slice_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  std::int64_t before = 1;  // parts of it that are apart from each other
  for (int at = 0; at < b.by.argument[0]; ++at) before *= b.by.size[1][at];
  device_work work;
  if (before == 1) work = work_of_copy(b.g, b.out[0]);
  work.fills = 1;
  if (b.out[0]->count() < b.g.count()) work = {};  // the padding goes
  b.t.executes({&b.g, &*b.out[0]}, work);
}
inline constexpr node_kind node_kind::slice{"slice", &slice_backward};
/// Every second element along a dimension, from the first or the second on: a view.
constexpr value every_second(tape& t, argument given, int dimension) {
  const held of(given);
  value half = slice(t, of, dimension, of.size[dimension] / 2);
  half.get().stride[dimension] *= 2;
  return half;
}

/// The node of a split, whose gradients are joined; `part` makes each of its results.
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
  return seen_by(t, by, seen, which);
}
/// One along a dimension, which is no more, of all that are there (unbind).
constexpr value part_at(tape& t, int by, argument given, int dimension, int which) {
  const held of(given);
  tensor seen = of;
  --seen.size.rank;
  for (int at = dimension; at < seen.size.rank; ++at) {
    seen.size[at] = of.size[at + 1];
    seen.stride[at] = of.stride[at + 1];
  }
  return seen_by(t, by, seen, which);
}
constexpr void split_backward(const node_backward& b) {
  sizes whole;
  whole.rank = static_cast<int>(b.by.argument[0]);
  for (int at = 0; at < whole.rank; ++at) whole[at] = b.by.argument[1 + at];
  element format = element::fp32;
  bool is_turned = true;
  for (int at = 0; at < b.by.outputs; ++at) {
    if (!b.incoming[at]->defined()) continue;
    format = b.incoming[at]->format;
    is_turned = is_turned && is_channels_last(*b.incoming[at]);
  }
  b.out[0] = b.t.make(whole, format);
  if (is_turned) set_channels_last(b.out[0].get());
  b.t.executes({b.incoming[0].operator->(),
                b.incoming[1].operator->(),
                b.incoming[2].operator->(),
                &*b.out[0]});
}
inline constexpr node_kind node_kind::split{"split", &split_backward};

/// The tensor so many times, one behind the other along the first dimension.
constexpr value repeat(tape& t, argument given, std::int64_t times) {
  const held of(given);
  const int by = t.add_node(node_kind::repeat, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  t.note(by, {times});
  sizes wide = of.size;
  wide[0] *= times;
  value made = t.make(wide, of.format, {"repeated", none, &of});
  t.executes({&of, &*made});
  t.result_of(by, made.get());
  return made;
}
constexpr void repeat_backward(const node_backward& b) {
  const sizes& one = b.by.size[1];
  if (b.by.argument[0] == 1) {
    b.out[0] = b.t.share(b.g);
    return;
  }
  b.out[0] = b.t.make(one, b.g.format);
  const device_work work =
      touch(b.t, scratch_of_reduction(b.t.device, b.by.argument[0], one.count(), false));
  b.t.executes({&b.g, &*b.out[0]}, work);
}
inline constexpr node_kind node_kind::repeat{"repeated", &repeat_backward};

/// Elements of the last dimension by number. Keeps both.
constexpr value gather(tape& t, argument given, argument given_numbers) {
  const held of(given), numbers(given_numbers);
  const int by = t.add_node(node_kind::gather, {&of});
  t.keep(by, of);
  t.keep(by, numbers);
  value made = t.make(numbers.size, of.format, {"gathered", none, &of});
  t.executes({&of, &numbers, &*made});
  t.result_of(by, made.get());
  return made;
}
constexpr void gather_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.kept(0).size, b.g.format);
  b.t.executes({&b.g, &b.kept(1), &*b.out[0]}, {.kernels = 2});
}
inline constexpr node_kind node_kind::gather{"gathered", &gather_backward};

constexpr value concatenate(tape&, value&&, value&&, int) = delete;  // which runs first?
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
  t.note(by, {dimension});
  for (const tensor* part : parts) {
    joined[dimension] += part->size[dimension];
    if (bytes_of(part->format) > bytes_of(format)) format = part->format;
    are_turned = are_turned && is_channels_last(*part);
    if (node* made = t.at(by)) made->argument[1 + at++] = part->size[dimension];
  }
  value all = t.make(joined, format, {"concatenation", none, &first});
  if (are_turned) set_channels_last(all.get());
  device_work work{.bytes = all->bytes()};
  bool are_alike = true;
  for (const tensor* part : parts) are_alike = are_alike && part->format == format;
  if (!are_alike) {  // each is copied to its place
    work.kernels = 0;
    const bool is_apart = all->size[0] > 1 && dimension > 0;
    for (const tensor* part : parts) {
      const device_work own = is_apart ? device_work{} : work_of_copy(*part, all);
      work.kernels += own.kernels;
      work.copies += own.copies;
    }
  }
  t.executes(parts, work);
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
  t.executes(2 * all->bytes());
  t.result_of(by, all.get());
  return all;
}
constexpr void concatenate_backward(const node_backward& b) {
  for (int which = 0; which < b.by.inputs; ++which) {
    if (!b.wants(which)) continue;
    tensor seen = b.g;
    seen.size[static_cast<int>(b.by.argument[0])] = b.by.argument[1 + which];
    seen.is_view = true;
    seen.is_alone = true;
    b.out[which] = b.t.share(seen);
  }
}
inline constexpr node_kind node_kind::concatenate{"concatenation", &concatenate_backward};

/// Pairs of neighbours in the last dimension as complex numbers, (..., 2n) to (..., n): the same
/// memory; view_as_complex of them as (..., n, 2), whose gradient is one of dense numbers.
constexpr value as_complex(tape& t, argument given) {
  const held of(given);
  tensor seen = of;
  const int last = of.size.rank - 1;
  for (int at = 0; at < last; ++at) seen.stride[at] /= 2;
  seen.size[last] /= 2;
  seen.format = element::complex64;
  const int by = t.add_node(node_kind::as_complex, {&of});
  return seen_by(t, by, seen);
}
// Complex numbers as neighbours, and the other way: copied where they do not lie side by side.
constexpr value neighbours_of(tape& t, const tensor& of) {
  value dense = t.share(of);
  if (!of.is_contiguous()) {
    dense = t.make(of.size, of.format);
    t.executes({&of, &*dense});
  }
  const bool was_complex = of.format == element::complex64;
  sizes wanted = of.size;
  wanted[wanted.rank - 1] = was_complex ? 2 * wanted[wanted.rank - 1] : wanted[wanted.rank - 1] / 2;
  dense.get().format = was_complex ? element::fp32 : element::complex64;
  set_contiguous(dense.get(), wanted);
  dense.get().is_view = true;
  return dense;
}
constexpr void complex_backward(const node_backward& b) { b.out[0] = neighbours_of(b.t, b.g); }
inline constexpr node_kind node_kind::as_complex{"view", &complex_backward};
/// The other way: view_as_real, with the pairs side by side in the last dimension.
constexpr value as_real(tape& t, argument given) {
  const held of(given);
  tensor seen = of;
  const int last = of.size.rank - 1;
  for (int at = 0; at < last; ++at) seen.stride[at] *= 2;
  seen.size[last] *= 2;
  seen.format = element::fp32;
  const int by = t.add_node(node_kind::as_complex, {&of});
  return seen_by(t, by, seen);
}

// CopySlices: the whole gradient, in which what was overwritten becomes zero, and a copy of that
// part, of which autograd makes a gradient of what was there before, too, if that has one.
constexpr void copied_backward(const node_backward& b) {
  tape& t = b.t;
  value whole = t.make(b.g.size, b.g.format);
  t.executes({&b.g, &*whole});
  value own = t.make(b.by.size[1], b.g.format);
  t.executes({&*own, &*own});
  value zeros;
  if (b.wants(0)) zeros = t.make(b.by.size[1], b.g.format);
  t.executes({&*own}, {.fills = 1});
  if (b.wants(0)) b.out[0] = std::move(whole);
  if (b.wants(1)) b.out[1] = std::move(own);
}
inline constexpr node_kind node_kind::copied{"copy into a part", &copied_backward};
/// A new tensor into which two are copied, next to each other in the last dimension.
constexpr value copied_side_by_side(tape& t, argument given_a, argument given_b) {
  const held a(given_a), b(given_b);
  sizes joined = a.size;
  joined[joined.rank - 1] += b.size[b.size.rank - 1];
  value all = t.make(joined, a.format, {"copies side by side", none, &a});
  for (const tensor* one : {static_cast<const tensor*>(&a), static_cast<const tensor*>(&b)}) {
    const int by = t.add_node(node_kind::copied, {&*all, one});
    if (node* made = t.at(by)) made->size[1] = one->size;
    t.executes({one, one});
    t.result_of(by, all.get());
  }
  return all;
}

/// (batch, groups, ...) to (batch, groups * times, ...), or likewise along another dimension, as a
/// copy; a reshape makes none of one group.
constexpr value repeat_heads(
    tape& t, argument given, std::int64_t times, bool reshapes = false, int dimension = 1) {
  const held of(given);
  const sizes s = of.size;
  tensor apart_tensor = of;
  // unsqueeze
  for (int at = s.rank; at > dimension + 1; --at) {
    apart_tensor.size[at] = apart_tensor.size[at - 1];
    apart_tensor.stride[at] = apart_tensor.stride[at - 1];
  }
  apart_tensor.size[dimension + 1] = 1;
  apart_tensor.size.rank = s.rank + 1;
  const int by = t.add_node(node_kind::view, {&of});
  if (node* made = t.at(by)) made->size[1] = s;
  value apart = seen_by(t, by, apart_tensor);
  sizes repeated = apart->size;
  repeated[dimension + 1] = times;
  const value wide = expand(t, apart, repeated);
  apart.drop();
  sizes wanted = s;
  wanted[dimension] *= times;
  if (reshapes) return reshape(t, wide, wanted);
  return view(t, clone(t, wide), wanted);
}

}  // namespace gpuplan::eager
