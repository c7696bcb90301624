#pragma once

// Rows of tables. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// Rows of a table: (..., width). Keeps the numbers.
constexpr value embedding(tape& t, argument given_ids, argument given_w) {
  const held ids(given_ids), w(given_w);
  const int by = t.add_node(node_kind::embedding, {&w});
  t.keep(by, ids);
  value together;  // of ids that are repeated without a copy
  if (!ids.is_contiguous()) together = t.make(ids.size, ids.format, {"numbers in order"});
  sizes wanted = ids.size;
  wanted[wanted.rank++] = w.size[1];
  t.note(by, {ids.count(), w.size[0], w.size[1]});
  value result = t.make(wanted, w.format, {"rows", none, &w});
  t.executes({&w, &ids, &*result}, {.kernels = ids.is_contiguous() ? 1 : 2});
  t.result_of(by, result.get());
  return result;
}
constexpr value embedding(tape& t, argument given, int weight) {
  const held ids(given);
  value rows = embedding(t, ids, t.parameter(weight));
  if (node* by = t.at(rows->node)) by->parameter = weight;
  return rows;
}

// What CUB's one-pass algorithms note of each tile they work on.
constexpr std::int64_t tile_states(std::int64_t items, std::int64_t tile, std::int64_t bytes) {
  return round_up(bytes * (ceil_div(items, tile) + 32), 256) + 255;
}

// Of 8 bits each.
constexpr int passes_of_sorting(std::int64_t rows) {
  int passes = 1;
  while (rows >> (8 * passes) != 0) ++passes;
  return passes;
}
// Many parts of few rows are added up where they belong, in fp32.
constexpr bool adds_rows_in_place(const device_traits& device,
                                  std::int64_t tokens,
                                  std::int64_t rows) {
  const std::int64_t most = at_most(tokens, rows);
  return tokens / 10 + most > 4 * most && rows < 4 * device.multiprocessors;
}
inline constexpr std::int64_t most_unsorted_tokens = 3072;
// The sort has a histogram, its sum, and a kernel and a fill a pass.
constexpr device_work work_of_embedding_gradient(const device_traits& device,
                                                 std::int64_t tokens,
                                                 std::int64_t rows,
                                                 bool is_half) {
  if (tokens <= most_unsorted_tokens) return {.fills = 1};
  const int casts = is_half && adds_rows_in_place(device, tokens, rows) ? 1 : 0;
  const int passes = passes_of_sorting(rows);
  return {.kernels = 12 + passes + casts, .fills = 3 + passes + casts};
}
// Sorts, then sums what belongs to one row (EmbeddingBackwardKernel.cu of PyTorch, over Thrust and
// CUB); few tokens take no detour.
constexpr value embedding_gradient(
    tape& t, std::int64_t tokens, std::int64_t rows, std::int64_t width, element format) {
  if (tokens <= most_unsorted_tokens) return t.make({rows, width}, format);
  const int sorted = t.new_storage(8 * tokens, {"sorted rows"});
  const int original = t.new_storage(8 * tokens, {"order of rows"});
  const int range = t.new_storage(8 * tokens, {"numbers of tokens"});
  const std::int64_t passes = passes_of_sorting(rows);
  t.touch((passes > 1 ? 2 * round_up(8 * tokens, 256) : 0) + 1024 * ceil_div(tokens, 4608) +
          2048 * passes + 511);
  t.release(range);
  value gradient = t.make({rows, width}, format);
  const int offsets = t.new_storage(8 * tokens, {"segments of rows"});
  const int segments = t.new_storage(8, {"number of segments"});
  const int unused_keys = t.new_storage(8 * tokens, {"keys of segments"});
  t.touch(512 + tile_states(tokens, 2464, 8));
  t.release(unused_keys);
  const std::int64_t most = at_most(tokens, rows);
  const std::int64_t parts = tokens / 10 + most;
  const int per_segment = t.new_storage(8 * most, {"parts of segments"});
  const int segment_offset = t.new_storage(8 * most, {"parts before segments"});
  t.touch(256 + tile_states(most, 896, 16));
  const int count = t.new_storage(8, {"number of parts"});
  const int part_offset = t.new_storage(8 * parts, {"first tokens of parts"});
  const bool adds_in_place = adds_rows_in_place(t.device, tokens, rows);
  const int row_of_part = adds_in_place ? t.new_storage(8 * parts, {"rows of parts"}) : none;
  const int sums = !adds_in_place    ? t.new_storage(4 * parts * width, {"sums of parts"})
                   : is_half(format) ? t.new_storage(4 * rows * width, {"gradient in fp32"})
                                     : none;
  for (const int storage : {sums,
                            row_of_part,
                            part_offset,
                            count,
                            segment_offset,
                            per_segment,
                            segments,
                            offsets,
                            original,
                            sorted})
    t.release(storage);
  return gradient;
}
constexpr void embedding_backward(const node_backward& b) {
  value ids;
  value rows;
  if (!b.kept(0).is_contiguous()) ids = b.t.make(b.kept(0).size, element::int64);
  if (!b.g.is_contiguous()) rows = b.t.make(b.g.size, b.g.format);
  b.out[0] =
      embedding_gradient(b.t, b.by.argument[0], b.by.argument[1], b.by.argument[2], b.g.format);
  device_work work = work_of_embedding_gradient(
      b.t.device, b.by.argument[0], b.by.argument[1], is_half(b.g.format));
  work.kernels += (ids->defined() ? 1 : 0) + (rows->defined() ? 1 : 0);
  b.t.executes({&b.g, &b.kept(0), &*b.out[0]}, work);
}
inline constexpr node_kind node_kind::embedding{"embedding", &embedding_backward};

}  // namespace gpuplan::eager
