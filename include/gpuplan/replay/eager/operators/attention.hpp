#pragma once

// Scaled dot-product attention: the kernels of PyTorch, and its own matmuls. Private.

#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators/casts.hpp>
#include <gpuplan/replay/eager/operators/elementwise.hpp>
#include <gpuplan/replay/eager/operators/products.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/eager/operators/views.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// How many parts of the keys FlashAttention works on apart, to occupy the device (its
/// num_splits_heuristic).
constexpr std::int64_t flash_splits(const device_traits& device,
                                    std::int64_t batch_heads,
                                    std::int64_t queries,
                                    std::int64_t keys,
                                    std::int64_t head_dim) {
  const std::int64_t block = head_dim <= 64 ? 256 : head_dim <= 128 ? 128 : 64;
  const std::int64_t key_blocks = ceil_div(keys, block);
  const std::int64_t work = batch_heads * ceil_div(queries, 64);
  const std::int64_t processors = 2 * device.multiprocessors;
  if (10 * work >= 8 * processors) return 1;
  const std::int64_t most = at_most(at_most(128, processors), key_blocks);
  const auto counts = [&](std::int64_t splits) {
    return splits == 1 || ceil_div(key_blocks, splits) != ceil_div(key_blocks, splits - 1);
  };
  const auto efficiency = [&](std::int64_t splits) {
    const double waves = static_cast<double>(work * splits) / static_cast<double>(processors);
    return waves / static_cast<double>(ceil_div(work * splits, processors));
  };
  double best = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits)
    if (counts(splits) && efficiency(splits) > best) best = efficiency(splits);
  for (std::int64_t splits = 1; splits <= most; ++splits)
    if (counts(splits) && efficiency(splits) >= 0.85 * best) return splits;
  return 1;
}

/// The result is (batch, heads, tokens, head_dim), in the order (batch, tokens, heads, head_dim).
constexpr value attention_result(tape& t, const tensor& q, std::int64_t value_dim) {
  value out = t.make({q.size[0], q.size[2], q.size[1], value_dim}, q.format, {"attention"});
  swap_dimensions(out.get(), 1, 2);
  return out;
}

/// FlashAttention takes heads as wide as a multiple of 8: narrower ones get zeros at their end.
inline constexpr std::int64_t flash_width_step = 8;

constexpr value with_flash_width(tape& t, value of) {
  sizes wide = of->size;
  wide[3] = round_up(wide[3], flash_width_step);
  if (wide == of->size) return of;
  const int by = t.add_node(node_kind::pad, {&*of});
  if (node* made = t.at(by)) made->size[1] = of->size;
  value padded = t.make(wide, of->format);
  t.executes({&*of, &*padded}, {.kernels = 2});
  t.result_of(by, padded.get());
  return padded;
}
constexpr void pad_backward(const node_backward& b) {
  b.out[0] = b.t.make_like(b.by.size[1], b.g.format, b.g);
  b.t.executes({&b.g, &*b.out[0]});
}
inline constexpr node_kind node_kind::pad{"padding", &pad_backward};

constexpr std::int64_t bytes_of_kept(const node_backward& b) {
  std::int64_t sum = 0;
  for (int which = 0; b.t.counts_work() && which < b.by.kept; ++which) sum += b.kept(which).bytes();
  return sum;
}

constexpr matrix_product scores_of(const tensor& q, const tensor& k) {
  return {q.size[2], q.size[3], k.size[2], q.size[0] * q.size[1]};
}

struct flash_results {
  value out{};
  value sums{};
  value seed{}, unused{};  // of dropout
};
constexpr flash_results flash_kernel(
    tape& t, const tensor& q, const tensor& k, const tensor& v, bool drops, double flops = 0) {
  const std::int64_t batch = q.size[0];
  const std::int64_t heads = q.size[1];
  const std::int64_t tokens = q.size[2];
  const std::int64_t width = q.size[3];
  flash_results made;
  made.out = t.make_like({batch, heads, tokens, v.size[3]}, q.format, q, {}, "attention");
  made.sums = t.make({batch, heads, tokens}, element::fp32, {"log-sums of scores"});
  const std::int64_t splits =
      drops ? 1 : flash_splits(t.device, batch * heads, tokens, k.size[2], width);
  int part_sums = none;
  int parts = none;
  if (splits > 1) {
    const std::int64_t rows = splits * batch * heads * tokens;
    part_sums = t.new_storage(4 * rows, {"log-sums of parts of the keys"});
    parts = t.new_storage(4 * rows * round_up(width, width > 128 ? 64 : 32),
                          {"attention to parts of the keys"});
  }
  made.seed = t.make({2}, element::int64, {"random state"});
  made.unused = t.make({1}, element::int64, {"random state"});
  if (drops) made.seed = t.make({2}, element::int64, {"random state"});
  t.release(part_sums);
  t.release(parts);
  t.executes({&q, &k, &v, &*made.out, &*made.sums, &*made.seed, &*made.unused},
             {.kernels = splits > 1 ? 2 : 1,
              .product = scores_of(q, k),
              .attention_flops = flops,
              .is_flash = true});
  return made;
}

// Scores and weighted values, of all pairs of a query and a key, whatever hides some. A kernel's
// backward computes the scores again.
struct attention_flops {
  double scores = 0;
  double values = 0;
};
constexpr attention_flops flops_of_attention(const tensor& q,
                                             const tensor& k,
                                             std::int64_t width,
                                             std::int64_t value_width) {
  const std::int64_t heads = q.size[0] * q.size[1];
  return {matrix_product{q.size[2], width, k.size[2], heads}.flops(),
          matrix_product{q.size[2], k.size[2], value_width, heads}.flops()};
}
// And what the kernel computes.
constexpr double count_attention(
    tape& t, int by, const tensor& q, const tensor& k, const tensor& v) {
  const attention_flops flops = flops_of_attention(q, k, q.size[3], v.size[3]);
  t.count_forward(flops.scores + flops.values);
  t.note(by, {q.size[3], v.size[3]});
  return flops.scores + flops.values;
}
constexpr double count_attention_backward(tape& t,
                                          const node& by,
                                          const tensor& q,
                                          const tensor& k) {
  const attention_flops flops = flops_of_attention(q, k, by.argument[0], by.argument[1]);
  t.products.backward += 2 * (flops.scores + flops.values);
  t.products.recomputed += flops.scores;
  return 3 * flops.scores + 2 * flops.values;
}

/// FlashAttention: (batch, heads, tokens, width) of each; the heads of key and value may be fewer.
/// Keeps the three, the result, and a number of each row in fp32.
constexpr value flash_attention(
    tape& t, argument given_query, argument given_key, argument given_val, bool drops) {
  const held query(given_query), key(given_key), val(given_val);
  value given_v = lowered(t, val);
  value given_k = lowered(t, key);
  value given_q = lowered(t, query);
  const value q = with_flash_width(t, t.share(given_q));
  const value k = with_flash_width(t, t.share(given_k));
  const value v = with_flash_width(t, t.share(given_v));
  const int by = t.add_node(node_kind::flash, {&*q, &*k, &*v});
  t.keep(by, q);
  t.keep(by, k);
  t.keep(by, v);
  const bool stays = t.stays(false);
  value out;
  if (stays && t.is_recomputing()) {
    out = t.saved_result();
    t.keep(by, out);
    for (int which = 0; which < 3; ++which) {
      const value other = t.saved_result();
      t.keep(by, other);
    }
  } else {
    const double flops = count_attention(t, by, query, key, val);
    flash_results made = flash_kernel(t, q, k, v, drops, flops);
    for (const value* result : {&made.out, &made.sums, &made.seed, &made.unused}) {
      t.keep(by, *result);
      if (stays) t.save_result(*result);
    }
    out = std::move(made.out);
  }
  t.result_of(by, out.get());
  if (val.size[3] != v->size[3]) return slice(t, out, 3, val.size[3]);
  return out;
}
constexpr void flash_gradients(tape& t,
                               const tensor& gradient,
                               const tensor& q,
                               const tensor& k,
                               const tensor& v,
                               const tensor& result,
                               std::int64_t kept_bytes,
                               value* out,
                               double flops = 0) {
  // The kernel reads both in the order (batch, tokens, heads, head_dim).
  const auto in_order = [&](const tensor& of) {
    tensor turned = of;
    swap_dimensions(turned, 1, 2);
    return turned.is_contiguous() ? none : t.new_storage(of.bytes(), {"copy in order", none, &of});
  };
  const auto like = [&](const tensor& of) { return t.make_like(of.size, of.format, of); };
  const int dense_gradient = in_order(gradient);
  const int dense_result = in_order(result);
  int kernels = 3 + (dense_gradient != none ? 1 : 0) + (dense_result != none ? 1 : 0);
  out[0] = like(q);
  out[1] = like(k);
  out[2] = like(v);
  const std::int64_t rows = q.size[0] * q.size[1] * round_up(q.size[2], 128);
  const int row_sums = t.new_storage(4 * rows, {"sums of rows"});
  const int sums = t.new_storage(4 * rows * round_up(q.size[3], q.size[3] > 128 ? 64 : 32),
                                 {"gradient of queries in fp32"});
  if (q.size[1] != k.size[1]) {
    const int all_k = t.new_storage(q.bytes(), {"gradients of keys of all heads"});
    const int all_v = t.new_storage(q.bytes(), {"gradients of values of all heads"});
    t.release(all_k);
    t.release(all_v);
    kernels += 2;
  }
  t.executes({&gradient, &*out[0], &*out[1], &*out[2]},
             {.kernels = kernels,
              .product = scores_of(q, k),
              .attention_flops = flops,
              .is_flash = true,
              .bytes = kept_bytes});
  t.release(row_sums);
  t.release(sums);
  t.release(dense_result);
  t.release(dense_gradient);
}
constexpr void flash_backward(const node_backward& b) {
  const double flops = count_attention_backward(b.t, b.by, b.kept(0), b.kept(1));
  flash_gradients(
      b.t, b.g, b.kept(0), b.kept(1), b.kept(2), b.kept(3), bytes_of_kept(b), b.out, flops);
}
inline constexpr node_kind node_kind::flash{"attention", &flash_backward};

constexpr void flex_backward(const node_backward& b) {
  tape& t = b.t;
  const double flops = count_attention_backward(t, b.by, b.kept(0), b.kept(1));
  const tensor q = b.kept(0), k = b.kept(1), v = b.kept(2);
  const std::int64_t kept_bytes = bytes_of_kept(b);
  const value products = t.make({q.size[0], q.size[1], q.size[2]}, element::fp32);
  t.executes(2 * b.g.bytes() + products->bytes());
  t.release_kept(b.index, 3);
  const auto like = [&](const tensor& of) { return t.make_like(of.size, of.format, of); };
  b.out[0] = like(q);
  b.out[2] = like(v);
  b.out[1] = like(k);
  t.executes({&b.g, &*products, &*b.out[0], &*b.out[1], &*b.out[2]},
             {.product = scores_of(q, k),
              .attention_flops = flops,
              .is_flash = true,
              .bytes = kept_bytes});
}
inline constexpr node_kind flex_node{"attention", &flex_backward};
/// FlexAttention, compiled alone: one kernel, in its backward one behind that of the products of
/// results and their gradients. Keeps the three, the result, and a number of each row in fp32.
constexpr value flex_attention(tape& t, const tensor& q, const tensor& k, const tensor& v) {
  const int by = t.add_node(flex_node, {&q, &k, &v});
  const bool stays = t.stays(false);
  value out;
  if (stays && t.is_recomputing()) {
    for (int which = 0; which < 3; ++which) {
      const value read = t.saved_result();
      t.keep(by, read);
    }
    out = t.saved_result();
    t.keep(by, out);
    const value sums = t.saved_result();
    t.keep(by, sums);
  } else {
    for (const tensor* one : {&q, &k, &v}) t.keep(by, *one);
    const double flops = count_attention(t, by, q, k, v);
    const sizes rows{q.size[0], q.size[1], q.size[2]};
    const value sums = t.make(rows, element::fp32, {"log-sums of scores"});
    {
      const value largest = t.make(rows, element::fp32, {"largest scores"});
      out = attention_result(t, q, v.size[3]);
      t.executes({&q, &k, &v, &*out, &*sums, &*largest},
                 {.product = scores_of(q, k), .attention_flops = flops, .is_flash = true});
    }
    t.keep(by, out);
    t.keep(by, sums);
    // what a compiled function hands out for its backward is among its results
    for (const tensor* one : {&q, &k, &v, &*out, &*sums})
      if (stays) t.save_result(*one);
  }
  t.result_of(by, out.get());
  return out;
}

/// The memory-efficient kernel, likewise. `bias`, where there is one, is added to the scores and
/// kept: (batch, 1 or heads, queries, keys).
constexpr value efficient_attention(tape& t,
                                    argument given_query,
                                    argument given_key,
                                    argument given_val,
                                    bool drops,
                                    argument given_bias = tensor{}) {
  const held query(given_query), key(given_key), val(given_val), bias(given_bias);
  const value v = lowered(t, val);
  const value k = lowered(t, key);
  const value q = lowered(t, query);
  const int by = t.add_node(node_kind::efficient, {&*q, &*k, &*v, &bias});
  t.keep(by, q);
  t.keep(by, k);
  t.keep(by, v);
  if (bias.defined()) t.keep(by, bias);
  const double flops = count_attention(t, by, q, k, v);
  value seed, offset;
  if (!drops && !t.software.random_states_on_host) {
    seed = t.make({1}, element::int64, {"random state"});
    offset = t.make({1}, element::int64, {"random state"});
  }
  value out = attention_result(t, q, v->size[3]);
  // Without a backward there are no sums.
  const std::int64_t summed = by == none ? 0 : round_up(q->size[2], 32);
  const value sums =
      t.make({q->size[0], q->size[1], summed}, element::fp32, {"log-sums of scores"});
  // Results of wide heads do not stay in registers: they add up in fp32 outside.
  if (at_least(q->size[3], v->size[3]) > 128 && is_half(q->format))
    t.touch(4 * out->count(), "attention in fp32");
  t.executes(
      {&*q, &*k, &*v, &bias, &*out, &*sums, &*seed, &*offset},
      {.fills = seed->defined() ? 2 : 0, .product = scores_of(*q, *k), .attention_flops = flops});
  t.keep(by, out);
  t.keep(by, sums);
  if (seed->defined()) {
    t.keep(by, seed);
    t.keep(by, offset);
  }
  t.result_of(by, out.get());
  return out;
}
constexpr void efficient_backward(const node_backward& b) {
  tape& t = b.t;
  const tensor& q = b.kept(0);
  const tensor& k = b.kept(1);
  const tensor& v = b.kept(2);
  const double flops = count_attention_backward(t, b.by, q, k);
  const auto like = [&](const tensor& of) {
    value made = t.make({of.size[0], of.size[2], of.size[1], of.size[3]}, of.format);
    swap_dimensions(made.get(), 1, 2);
    return made;
  };
  b.out[0] = like(q);
  b.out[1] = like(k);
  b.out[2] = like(v);
  if (b.by.inputs > 3 && b.wants(3)) {  // of the bias, in rows of whole sixteens
    value rows = t.make({q.size[0], q.size[1], q.size[2], round_up(k.size[2], 16)}, q.format);
    rows.get().size[3] = k.size[2];
    rows.get().is_view = k.size[2] % 16 != 0;
    b.out[3] = std::move(rows);
  }
  int all_k = none;
  int all_v = none;
  if (q.size[1] != k.size[1]) {
    all_k = t.new_storage(q.bytes(), {"gradients of keys of all heads"});
    all_v = t.new_storage(q.bytes(), {"gradients of values of all heads"});
  }
  const std::int64_t heads = q.size[0] * q.size[1];
  const std::int64_t tokens = q.size[2];
  const std::int64_t width = q.size[3];
  int row_sums = none;
  if (is_half(q.format)) {
    row_sums = t.new_storage(4 * heads * tokens, {"sums of rows"});
  } else {
    const int products = t.new_storage(4 * heads * tokens * width, {"gradient times result"});
    row_sums = t.new_storage(4 * heads * tokens, {"sums of rows"});
    if (tokens > 1 && q.size[1] > 1) {  // in the order of the heads
      const int turned = t.new_storage(4 * heads * tokens, {"sums of rows"});
      t.release(row_sums);
      row_sums = turned;
    }
    t.release(products);
  }
  // The kernels' blocks of queries and of keys; halves wider than two blocks sum the gradients of
  // keys and values apart too, in as many parts as leave 200 for all heads.
  const bool is_wide = width > 64;
  const std::int64_t rows = is_wide ? 128 : 64;
  const std::int64_t columns = is_wide && width <= 128 && is_half(q.format) ? 128 : 64;
  std::int64_t workspace = ceil_div(tokens, rows) * ceil_div(width, columns) * (rows * columns + 4);
  if (width > 128 && is_half(q.format)) {
    const std::int64_t parts = at_most(ceil_div(k.size[2], columns), 200 / heads);
    workspace += 2 * at_least(parts, 1) * columns * round_up(width, rows);
  }
  t.touch(4 * heads * workspace);
  const int kernels = (is_half(q.format) ? 1 : 4) + (all_k != none ? 2 : 0);
  const std::int64_t key_blocks = ceil_div(k.size[2], columns);
  const bool is_zeroed =
      key_blocks > 2 || (key_blocks == 2 && heads < 2 * t.device.multiprocessors);
  t.executes({&b.g, &*b.out[0], &*b.out[1], &*b.out[2]},
             {.kernels = kernels,
              .fills = is_zeroed ? 1 : 0,
              .product = scores_of(q, k),
              .attention_flops = flops,
              .bytes = bytes_of_kept(b)});
  t.release(row_sums);
  t.release(all_k);
  t.release(all_v);
}
inline constexpr node_kind node_kind::efficient{"attention", &efficient_backward};

/// PyTorch's own matmuls, where no kernel is for them: in fp32. Keeps their operands and the
/// weights.
constexpr value math_attention(tape& t,
                               argument given_query,
                               argument given_key,
                               argument given_val,
                               bool causal,
                               bool drops,
                               argument given_bias = tensor{}) {
  const held query(given_query), key(given_key), val(given_val), bias(given_bias);
  const element format = t.computes_in(query.format);
  const value given_v = lowered(t, val);
  const value given_k = lowered(t, key);
  const value given_q = lowered(t, query);
  const auto as_given = t.without_autocast();
  const bool half = is_half(format);
  const value q = cast(t, given_q, element::fp32);
  const value k = cast(t, given_k, element::fp32);
  const value v = cast(t, given_v, element::fp32);
  const std::int64_t heads = q->size[1];
  const std::int64_t tokens = q->size[2];
  const std::int64_t keys = k->size[2];
  value scaled = scale(t, q);
  value mask;
  if (causal) {
    value ones = full(t, {tokens, keys}, element::boolean, {"mask"});
    value lower = compute(t, ones, {tokens, keys}, element::boolean, {"mask"});
    ones.drop();
    const value zero = full(t, sizes{1}, element::fp32, {"number"});
    const value lowest = full(t, sizes{1}, element::fp32, {"number"});
    mask = t.make({tokens, keys}, element::fp32, {"mask"});
    t.executes({&*lower, &*zero, &*lowest, &*mask});
  }
  const auto of_all_heads = [&](const tensor& of) {
    if (of.size[1] == heads) return t.share(of);
    return repeat_heads(t, of, heads / of.size[1]);
  };
  const value k_all = of_all_heads(k);
  const value v_all = of_all_heads(v);
  value scores = matmul(t, scaled, scale(t, transpose(t, k_all, 2, 3)));
  // The mask is added in place.
  if (mask->defined()) t.executes({&*scores, &*mask, &*scores});
  if (bias.defined()) scores = add_in_place(t, scores, bias);
  scores = safe_softmax(t, std::move(scores));
  if (drops) scores = dropout(t, scores, true);
  // The weights are a result too, which nobody reads.
  value unread;
  if (half) {
    unread = t.make(scores->size, format, {"attention weights, unread", none, &*scores});
    t.executes({&*scores, &*unread});
  }
  value out = matmul(t, scores, v_all);
  return cast(t, out, format);
}

}  // namespace gpuplan::eager
