#pragma once

// What sends rows to experts and back: the largest of each row, sorted numbers, rows in another
// order, and products of groups of rows, each with a matrix of its own. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/embedding.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/eager/operators/views.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// The largest elements of each row, and where they stand, which it keeps.
struct chosen_elements {
  value elements, places;
};
constexpr chosen_elements top_k(tape& t, argument given, std::int64_t count) {
  const held of(given);
  const int by = t.add_node(node_kind::chosen, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  sizes wanted = of.size;
  wanted[wanted.rank - 1] = count;
  chosen_elements made{t.make(wanted, of.format, {"largest of rows", none, &of}),
                       t.make(wanted, element::int64, {"places of the largest"})};
  t.executes({&of, &*made.elements, &*made.places}, device_work{});
  t.keep(by, made.places);
  t.result_of(by, made.elements.get());
  return made;
}
/// The elements of each row at these places: torch.gather. Keeps both.
constexpr value take_along(tape& t, argument given, argument given_places) {
  const held of(given), places(given_places);
  const int by = t.add_node(node_kind::chosen, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  t.keep(by, of);
  t.keep(by, places);
  value made = t.make(places.size, of.format, {"chosen of rows", none, &of});
  t.executes({&of, &places, &*made});
  t.result_of(by, made.get());
  return made;
}
// Zeros, and the gradient where it belongs.
constexpr void chosen_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  b.t.executes({&b.g, &b.kept(b.by.kept - 1), &*b.out[0]}, {.kernels = 2});
}
inline constexpr node_kind node_kind::chosen{"choice", &chosen_backward};

/// Elements where they belong in rows of one number: torch.scatter_ into a new tensor, which is
/// made already. Keeps the places.
constexpr value scattered(tape& t, argument given, argument given_places, const sizes& wanted) {
  const held of(given), places(given_places);
  value made = full(t, wanted, of.format);
  const int by = t.add_node(node_kind::scattered, {&of});
  if (node* to = t.at(by)) to->size[1] = of.size;
  t.keep(by, places);
  t.executes({&of, &places, &*made});
  t.result_of(by, made.get());
  return made;
}
constexpr void scattered_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  b.t.executes({&b.g, &b.kept(0), &*b.out[0]});
}
inline constexpr node_kind node_kind::scattered{"choice", &scattered_backward};

/// All rows, so often after each other: x.repeat(times, 1).
constexpr value repeat_rows(tape& t, argument given, std::int64_t times) {
  const held of(given);
  const int by = t.add_node(node_kind::repeated, {&of});
  t.note(by, {times, of.size[0], of.size[1]});
  value made = t.make({times * of.size[0], of.size[1]}, of.format, {"repeated rows", none, &of});
  t.executes({&of, &*made});
  t.result_of(by, made.get());
  return made;
}
constexpr void repeated_backward(const node_backward& b) {
  tensor seen = b.g;
  set_view(seen, {b.by.argument[0], b.by.argument[1], b.by.argument[2]});
  b.out[0] = sum_to(b.t, seen, {1, b.by.argument[1], b.by.argument[2]});
  set_view(b.out[0].get(), {b.by.argument[1], b.by.argument[2]});
}
inline constexpr node_kind node_kind::repeated{"repeated rows", &repeated_backward};

// What CUB's sort of so many numbers of so many bits takes, two for each of them (as Thrust's does
// in `embedding_gradient`).
constexpr std::int64_t scratch_of_sorting(std::int64_t count, int passes) {
  return 2 * round_up(8 * count, 256) + 1024 * ceil_div(count, 4608) + 2048 * passes + 511;
}
/// Integers sorted, and the order that they had: torch.sort of one dimension.
struct sorted_numbers {
  value numbers, order;
};
constexpr sorted_numbers sort_numbers(tape& t, argument given) {
  constexpr std::int64_t most_in_one_block = 4096;
  const held of(given);
  const std::int64_t count = of.count();
  sorted_numbers made{t.make(of.size, element::int64, {"sorted numbers"}),
                      t.make(of.size, element::int64, {"order"})};
  const int range = t.new_storage(8 * count, {"numbers in order"});
  if (count > most_in_one_block) t.touch(scratch_of_sorting(count, 8));
  t.release(range);
  t.executes({&of, &*made.numbers, &*made.order}, device_work{});
  return made;
}
/// Of each number of four bytes the sum with those before it: torch.cumsum.
constexpr value running_sum(tape& t, argument given) {
  const held of(given);
  value sums = t.make(of.size, of.format, {"running sums"});
  t.touch(tile_states(of.count(), 2464, 16));
  t.executes({&of, &*sums}, device_work{});
  return sums;
}

/// Rows, or elements of one dimension, by number: x[numbers]. Keeps the numbers.
constexpr value rows_at(tape& t, argument given, argument given_numbers) {
  const held of(given), numbers(given_numbers);
  const int by = t.add_node(node_kind::rows_at, {&of});
  if (node* made = t.at(by)) made->size[1] = of.size;
  t.keep(by, numbers);
  sizes wanted = of.size;
  wanted[0] = numbers.count();
  value made = t.make(wanted, of.format, {"rows by number", none, &of});
  t.executes({&of, &numbers, &*made});
  t.result_of(by, made.get());
  return made;
}
// index_put_, which adds what belongs to one row of so many: it sorts the numbers first. Among
// deterministic algorithms the numbers in order are filled by a kernel of their own.
struct sorted_rows {
  std::int64_t count = 0;
  std::int64_t rows = 0;
  bool is_deterministic = false;
};
constexpr void add_rows(
    tape& t, const tensor& from, const tensor& numbers, const tensor& to, const sorted_rows& by) {
  constexpr std::int64_t most_in_one_tile = 2304;
  const auto count_of = [&](const char* as) { return t.new_storage(8 * by.count, {as}); };
  const int wrapped = count_of("numbers of rows");
  const int rows = count_of("numbers of rows");
  t.release(wrapped);
  value together;  // of a gradient in another order
  if (!from.is_contiguous()) together = t.make(from.size, from.format);
  const int order = count_of("order of rows");
  const int sorted = count_of("sorted rows");
  const int range = count_of("numbers in order");
  if (by.is_deterministic) t.touch(8);
  const int passes = passes_of_sorting(by.rows);
  t.touch(by.count <= most_in_one_tile ? 1 : scratch_of_sorting(by.count, passes));
  t.release(range);
  t.release(sorted);
  t.release(order);
  t.release(rows);
  t.executes({&from, &numbers, &to}, {.kernels = 4 + passes, .fills = 1 + passes});
}
constexpr void rows_at_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  add_rows(b.t, b.g, b.kept(0), b.out[0], {.count = b.kept(0).count(), .rows = b.by.size[1][0]});
}
inline constexpr node_kind node_kind::rows_at{"rows by number", &rows_at_backward};

// CUTLASS's grouped kernels of bf16 have lists of matrices, their strides and sizes, and for each
// multiprocessor four tensor maps; others take a product of cuBLAS for each group (GroupMM.cu,
// GroupedBlas.cpp of PyTorch).
constexpr void run_grouped(tape& t, element format, std::int64_t groups) {
  if (format != element::bf16) return t.touch_workspace();  // for each group the same
  const int lists =
      t.new_storage(24 * round_up(groups, 2) + 36 * groups, {"matrices of a grouped product"});
  t.touch(512 * t.device.multiprocessors);
  t.release(lists);
}
constexpr device_work work_of_groups(element format, std::int64_t groups) {
  if (format == element::bf16) return {.kernels = 2};
  return {.kernels = 0, .products = static_cast<int>(groups)};
}
/// Groups of rows, (rows, in), each times a matrix of its own, of (groups, in, out): torch.nn's
/// grouped_mm. Keeps each for the gradient of the other.
constexpr value grouped_product(tape& t,
                                argument given,
                                argument given_matrices,
                                const tensor& ends) {
  const held x(given), w(given_matrices);
  const int by = t.add_node(node_kind::grouped, {&x, &w});
  if (w.needs_gradient()) t.keep(by, x);
  if (x.needs_gradient()) t.keep(by, w);
  t.keep(by, ends);
  const std::int64_t groups = w.size[0];
  const std::int64_t rows = x.size[0];
  t.note(by, {groups, rows, x.size[1], w.size[2], w.stride[1] == 1 ? 1 : 0});
  value made = t.make({rows, w.size[2]}, x.format, {"output of groups"});
  run_grouped(t, x.format, groups);
  t.count_forward(matrix_product{rows, x.size[1], w.size[2]}.flops());
  t.executes({&x, &w, &ends, &*made}, work_of_groups(x.format, groups));
  t.result_of(by, made.get());
  return made;
}
constexpr void grouped_backward(const node_backward& b) {
  tape& t = b.t;
  const std::int64_t groups = b.by.argument[0];
  const std::int64_t rows = b.by.argument[1];
  const std::int64_t in = b.by.argument[2];
  const std::int64_t to = b.by.argument[3];
  const auto run = [&](const tensor& other, const tensor& made) {
    run_grouped(t, b.g.format, groups);
    t.products.backward += matrix_product{rows, in, to}.flops();
    t.executes({&b.g, &other, &made}, work_of_groups(b.g.format, groups));
  };
  if (b.wants(1)) {
    const bool is_turned = b.by.argument[4] == 1;  // in the order of the matrices
    value made = t.make(is_turned ? sizes{groups, to, in} : sizes{groups, in, to}, b.g.format);
    if (is_turned) swap_dimensions(made.get(), 1, 2);
    run(b.kept(0), made);
    b.out[1] = std::move(made);
  }
  if (b.wants(0)) {
    b.out[0] = t.make({rows, in}, b.g.format);
    run(b.kept(b.needs(1) ? 1 : 0), b.out[0]);
  }
}
inline constexpr node_kind node_kind::grouped{"products of groups", &grouped_backward};

/// a / b, broadcast: keeps both.
constexpr value quotient(tape& t, argument given_of, argument given_by_what) {
  const held of(given_of), by_what(given_by_what);
  const int by = t.add_node(node_kind::quotient, {&of, &by_what});
  t.keep(by, of);
  t.keep(by, by_what);
  return result_of_both(t, by, of, by_what, "quotient");
}
/// a /= b, broadcast: keeps a copy of what was there, and the divisor.
constexpr value divide_in_place(tape& t, argument given_of, argument given_by_what) {
  const held of(given_of), by_what(given_by_what);
  const int by = t.add_node(node_kind::quotient, {&of, &by_what});
  value result = t.share(of);
  if (by != none && by_what.needs_gradient()) {
    const value copy = t.make(of.size, of.format, {"copy", none, &of});
    t.executes({&of, &*copy}, work_of_copy(of, copy));
    t.keep(by, copy);
  }
  t.keep(by, by_what);
  t.executes({&of, &by_what, &of});
  t.result_of(by, result.get());
  return result;
}

}  // namespace gpuplan::eager
