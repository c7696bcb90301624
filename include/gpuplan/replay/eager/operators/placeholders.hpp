#pragma once

// What puts the tokens of images in the places that a text keeps for them. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/casts.hpp>
#include <gpuplan/replay/eager/operators/embedding.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>

namespace gpuplan::eager {

// The temporary storage of CUB's sum of a whole tensor: a partial sum of each block.
constexpr std::int64_t partial_sums(const device_traits& device) {
  return round_up(4 * 10 * device.multiprocessors, 256) + 255;
}

// Of a single sample nothing is in another order.
constexpr device_work work_of_rearranging(const tensor& of) {
  return of.size[0] == 1 ? device_work::copy() : device_work{};
}
/// A copy of other sizes, in another order; its gradient is copied back.
constexpr value rearranged(tape& t, argument given, const sizes& wanted) {
  const held of(given);
  const int by = t.add_node(node_kind::rearranged, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  value all = t.make(wanted, of.format, {"rearranged", none, &of});
  t.executes({&of, &*all}, work_of_rearranging(of));
  t.result_of(by, all.get());
  return all;
}
/// Stacks what was a list of rows along the first dimension (torch.cat of a tensor's rows).
constexpr value join_rows(tape& t, argument given) {
  const held of(given);
  sizes joined;
  joined.rank = of.size.rank - 1;
  for (int at = 0; at < joined.rank; ++at) joined[at] = of.size[at + 1];
  joined[0] *= of.size[0];
  return rearranged(t, of, joined);
}
constexpr void rearranged_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  b.t.executes({&b.g, &*b.out[0]}, work_of_rearranging(*b.out[0]));
}
inline constexpr node_kind node_kind::rearranged{"copy", &rearranged_backward};

/// rows.masked_scatter(mask, source): as many places of `rows` as `source` has elements. Keeps the
/// mask, (batch, tokens).
constexpr value masked_scatter(tape& t,
                               argument given_rows,
                               argument given_mask,
                               argument given_source) {
  const held rows(given_rows), mask(given_mask), source(given_source);
  const int by = t.add_node(node_kind::masked_scatter, {&rows, &source});
  t.keep(by, mask);
  if (node* made = t.at(by)) made->size[1] = source.size;
  value result = t.make(rows.size, rows.format, {"text with images"});
  const value places = t.make(rows.size, element::int64, {"places counted"});
  const value wide = t.make(rows.size, element::boolean);
  t.touch(256 + tile_states(rows.count(), 896, 16));
  t.executes({&rows, &mask, &source, &*result}, {.kernels = 5, .copies = 1});
  t.result_of(by, result.get());
  return result;
}
// The rows' gradient with zeros there; the source's is what stands there, found by number.
constexpr void masked_scatter_backward(const node_backward& b) {
  tape& t = b.t;
  if (b.wants(0)) {
    b.out[0] = b.like_gradient();
    t.executes({&b.g, &b.kept(0), &*b.out[0]}, {.kernels = 1, .copies = 1});
  }
  if (!b.wants(1)) return;
  value places;
  {
    const value wide = t.make(b.g.size, element::boolean);
    const value count = t.make(sizes{1}, element::fp32);
    t.touch(partial_sums(t.device));
    places = t.make({b.by.size[1].count(), b.g.size.rank}, element::int64, {"places"});
    t.touch(256 + tile_states(b.g.count(), 4224, 8));
  }
  b.out[1] = t.make(b.by.size[1], b.g.format);
  t.executes({&b.g, &b.kept(0), &*b.out[1]}, {.kernels = 6, .fills = 1, .copies = 1});
}
inline constexpr node_kind node_kind::masked_scatter{"scatter", &masked_scatter_backward};

/// Rows of (batch, rows, width) by number, (batch, tokens): gather along the second dimension.
/// Keeps both.
constexpr value gather_rows(tape& t, argument given, argument given_index) {
  const held of(given), index(given_index);
  const int by = t.add_node(node_kind::rows_by_number, {&of});
  t.keep(by, index);
  t.keep(by, of);
  if (node* made = t.at(by)) made->size[1] = of.size;
  value rows = t.make({of.size[0], index.size[1], of.size[2]}, of.format, {"rows by number"});
  t.executes({&index, &*rows, &*rows});
  t.result_of(by, rows.get());
  return rows;
}
constexpr void rows_by_number_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  b.t.executes({&b.g, &b.kept(0), &*b.out[0]}, {.fills = 1});
}
inline constexpr node_kind node_kind::rows_by_number{"rows by number", &rows_by_number_backward};

/// torch.where(mask, a, b) of a mask for rows. Keeps the mask.
constexpr value choose(tape& t, argument given_mask, argument given_a, argument given_b) {
  const held mask(given_mask), a(given_a), b(given_b);
  const int by = t.add_node(node_kind::choice, {&a, &b});
  t.keep(by, mask);
  value result = t.make(a.size, a.format, {"chosen rows"});
  t.executes({&mask, &a, &b, &*result});
  t.result_of(by, result.get());
  return result;
}
// Each gradient with zeros where the other was chosen.
constexpr void choice_backward(const node_backward& b) {
  for (int which = 0; which < 2; ++which) {
    if (!b.wants(which)) continue;
    const value number = b.t.make(sizes{1}, b.g.format);
    b.out[which] = b.like_gradient();
    b.t.executes({&b.g, &b.kept(0), &*b.out[which]});
  }
}
inline constexpr node_kind node_kind::choice{"choice", &choice_backward};

}  // namespace gpuplan::eager
