#pragma once

// Tensors cut into any number of pieces, and pieces joined again; rows that a mask chooses.
// Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/casts.hpp>
#include <gpuplan/replay/eager/operators/embedding.hpp>
#include <gpuplan/replay/eager/operators/placeholders.hpp>
#include <gpuplan/replay/eager/operators/views.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Tensors that are held together, like a list of Python's.
class held_tensors {
 public:
  constexpr explicit held_tensors(tape& t) : t_(t) {}
  held_tensors(const held_tensors&) = delete;
  held_tensors& operator=(const held_tensors&) = delete;
  constexpr ~held_tensors() { drop(); }

  constexpr void push(value one) { list_.push(one.take()); }
  [[nodiscard]] constexpr int size() const { return list_.size(); }
  [[nodiscard]] constexpr const tensor& operator[](int at) const { return list_[at]; }
  constexpr void drop() {
    for (int at = 0; at < list_.size(); ++at) t_.release(list_[at].storage);
    list_.resize_down(0);
  }

 private:
  tape& t_;
  growing_array<tensor> list_{};
};

// A node has few results, so each piece has one of its own. Its gradient stays with it until those
// of all pieces have arrived.
constexpr void piece_backward(const node_backward& b) {
  tensor seen = b.g;
  b.t.hold(seen.storage);
  b.t.nodes[b.index].gradient[1] = seen;
  tensor nothing = b.g;
  nothing.storage = nothing.node = none;
  nothing.size = b.by.size[1];
  b.out[0] = b.t.share(nothing);
}
inline constexpr node_kind piece_node{"piece", &piece_backward};
// Joins the gradients of the pieces, whose nodes follow its own.
constexpr void cut_backward(const node_backward& b) {
  tape& t = b.t;
  const auto count = static_cast<int>(b.by.argument[0]);
  b.out[0] = t.make(b.by.size[1], static_cast<element>(b.by.argument[1]));
  for (int at = 1; at <= count; ++at) {
    tensor& piece = t.nodes[b.index + at].gradient[1];
    t.release(piece.storage);
    piece = {};
  }
  t.executes(2 * b.out[0]->bytes());
}
inline constexpr node_kind cut_node{"split", &cut_backward};

/// torch.split by lengths along a dimension: `lengths` has at least one, and their sum is the
/// tensor's. The pieces are views; their gradients are joined.
constexpr void cut(tape& t,
                   const tensor& of,
                   int dimension,
                   const growing_array<std::int64_t>& lengths,
                   held_tensors& pieces) {
  const int by = t.add_node(cut_node, {&of});
  if (node* made = t.at(by)) {
    made->size[1] = of.size;
    t.note(by, {lengths.size(), static_cast<std::int64_t>(of.format)});
  }
  tensor all = of;
  t.result_of(by, all);
  for (int at = 0; at < lengths.size(); ++at) {
    const int own = t.add_node(piece_node, {&all});
    if (node* made = t.at(own)) made->size[1] = of.size;
    tensor seen = of;
    seen.size[dimension] = lengths[at];
    pieces.push(seen_by(t, own, seen));
  }
}

// Of a list that is longer than a node's inputs: those before it, and one piece more.
constexpr void listed_backward(const node_backward& b) {
  tensor seen = b.g;
  const auto dimension = static_cast<int>(b.by.argument[0]);
  if (b.by.inputs > 1) b.out[0] = b.t.share(b.g);
  seen.size[dimension] = b.by.argument[1];
  seen.is_view = seen.is_alone = true;
  b.out[b.by.inputs - 1] = b.t.share(seen);
}
inline constexpr node_kind listed_node{"list", &listed_backward};
constexpr void joined_backward(const node_backward& b) { b.out[0] = b.t.share(b.g); }
inline constexpr node_kind joined_node{"concatenation", &joined_backward};

/// torch.cat of any number of pieces, at least one. The gradients are views of the result's.
constexpr value join(tape& t, const held_tensors& pieces, int dimension) {
  sizes whole = pieces[0].size;
  whole[dimension] = 0;
  for (int at = 0; at < pieces.size(); ++at) whole[dimension] += pieces[at].size[dimension];
  tensor list;
  list.format = pieces[0].format;
  list.size = whole;
  for (int at = 0; at < pieces.size(); ++at) {
    const tensor& piece = pieces[at];
    const int by =
        at == 0 ? t.add_node(listed_node, {&piece}) : t.add_node(listed_node, {&list, &piece});
    t.note(by, {dimension, piece.size[dimension]});
    t.result_of(by, list);
  }
  const int by = t.add_node(joined_node, {&list});
  value all = t.make(whole, list.format, {"concatenation", none, &pieces[0]});
  t.executes(2 * all->bytes());
  t.result_of(by, all.get());
  return all;
}

// The numbers of the rows that a mask chooses (nonzero), which are read back.
constexpr value chosen_numbers(tape& t, std::int64_t places, std::int64_t chosen) {
  const value count = t.make(sizes{1}, element::int32);
  t.touch(partial_sums(t.device));
  value numbers = t.make({2, chosen}, element::int64, {"numbers of rows"});
  t.touch(256 + tile_states(places, 4224, 8));
  return numbers;
}
// Into zeros, by the sorted numbers.
constexpr void rows_of_mask_backward(const node_backward& b) {
  tape& t = b.t;
  b.out[0] = t.make(b.by.size[1], b.g.format);
  const std::int64_t chosen = b.g.size[0];
  const auto list = [&] { return t.make(sizes{chosen}, element::int64); };
  value linear;
  {
    const value numbers = chosen_numbers(t, b.kept(0).count(), chosen);
    const value row = list();
    linear = list();
  }
  const value sorted = list();
  const value order = list();
  { const value range = list(); }
  t.executes({&b.g, &*b.out[0]}, {.kernels = 8});
}
inline constexpr node_kind rows_of_mask_node{"rows by mask", &rows_of_mask_backward};
/// x[mask], of (batch, tokens, width) and (batch, tokens), so many rows. Keeps the mask.
constexpr value rows_of_mask(tape& t, argument given, const tensor& mask, std::int64_t chosen) {
  const held x(given);
  const int by = t.add_node(rows_of_mask_node, {&x});
  if (node* made = t.at(by)) made->size[1] = x.size;
  t.keep(by, mask);
  const value numbers = chosen_numbers(t, mask.count(), chosen);
  value rows = t.make({chosen, x.size[2]}, x.format, {"rows by mask", none, &x});
  t.executes({&x, &*numbers, &*rows});
  t.result_of(by, rows.get());
  return rows;
}
constexpr void put_rows_backward(const node_backward& b) {
  tape& t = b.t;
  if (b.wants(0)) {
    const value zeros = t.make(b.by.size[1], b.g.format);
    b.out[0] = t.make(b.g.size, b.g.format);
    const value numbers = chosen_numbers(t, b.kept(0).count(), b.by.size[1][0]);
    t.executes({&b.g, &*b.out[0]}, {.kernels = 3});
  }
  if (!b.wants(1)) return;
  const value numbers = chosen_numbers(t, b.kept(0).count(), b.by.size[1][0]);
  b.out[1] = t.make(b.by.size[1], b.g.format);
  t.executes({&b.g, &*b.out[1]});
}
inline constexpr node_kind put_rows_node{"rows by mask", &put_rows_backward};
/// x[mask] = rows, in place. Keeps the mask.
constexpr value put_rows(tape& t, const tensor& x, const tensor& mask, const tensor& rows) {
  const int by = t.add_node(put_rows_node, {&x, &rows});
  if (node* made = t.at(by)) made->size[1] = rows.size;
  t.keep(by, mask);
  const value numbers = chosen_numbers(t, mask.count(), rows.size[0]);
  value put = t.share(x);
  t.executes({&rows, &*numbers, &x});
  t.result_of(by, put.get());
  return put;
}

// Adds up in zeros what belongs to a row, by the sorted numbers.
constexpr void reordered_backward(const node_backward& b) {
  tape& t = b.t;
  const std::int64_t rows = b.g.size[0];
  b.out[0] = t.make(b.by.size[1], b.g.format);
  const auto numbers = [&] { return t.make(sizes{rows}, element::int64); };
  const value copied = numbers();
  const value linear = numbers();
  value together;  // of a gradient in another order
  if (!b.g.is_contiguous()) together = t.make(b.g.size, b.g.format);
  const value order = numbers();
  const value sorted = numbers();
  { const value range = numbers(); }
  t.executes({&b.g, &*b.out[0]}, {.kernels = 8});
}
inline constexpr node_kind reordered_node{"rows in another order", &reordered_backward};
/// x[numbers] of all rows, by numbers of the host.
constexpr value reordered(tape& t, argument given) {
  const held x(given);
  const int by = t.add_node(reordered_node, {&x});
  if (node* made = t.at(by)) made->size[1] = x.size;
  const value numbers = t.make(sizes{x.size[0]}, element::int64, {"numbers of rows"});
  value made = t.make(x.size, x.format, {"rows in another order", none, &x});
  t.executes({&x, &*numbers, &*made});
  t.result_of(by, made.get());
  return made;
}

}  // namespace gpuplan::eager
