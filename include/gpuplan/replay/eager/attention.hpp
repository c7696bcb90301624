#pragma once

// Scaled dot-product attention: the kernels of PyTorch and the products written out. Private.

#include <gpuplan/replay/eager/operators.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return ceil_div(n, to) * to; }

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
  t.result_of(by, padded.get());
  return padded;
}

struct flash_results {
  value out{};
  value sums{};
  value seed{}, unused{};  // of dropout
};
constexpr flash_results flash_kernel(
    tape& t, const tensor& q, const tensor& k, const tensor& v, bool drops) {
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
  const std::int64_t rows = q.size[0] * q.size[1] * q.size[2];
  return {flops_of_product(rows, width, k.size[2]), flops_of_product(rows, k.size[2], value_width)};
}
constexpr void count_attention(tape& t, int by, const tensor& q, const tensor& k, const tensor& v) {
  const attention_flops flops = flops_of_attention(q, k, q.size[3], v.size[3]);
  t.count_product(flops.scores + flops.values);
  if (node* made = t.at(by)) {
    made->argument[0] = q.size[3];
    made->argument[1] = v.size[3];
  }
}
constexpr void count_attention_backward(tape& t, const node& by, const tensor& q, const tensor& k) {
  const attention_flops flops = flops_of_attention(q, k, by.argument[0], by.argument[1]);
  t.products.backward += 2 * (flops.scores + flops.values);
  t.products.recomputed += flops.scores;
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
    count_attention(t, by, query, key, val);
    flash_results made = flash_kernel(t, q, k, v, drops);
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
  count_attention(t, by, q, k, v);
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
  // Wide values do not stay in registers: they add up in fp32 outside.
  if (v->size[3] > 128 && is_half(q->format)) t.touch(4 * out->count(), "attention in fp32");
  t.keep(by, out);
  t.keep(by, sums);
  if (seed->defined()) {
    t.keep(by, seed);
    t.keep(by, offset);
  }
  t.result_of(by, out.get());
  return out;
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
  apart_tensor.is_view = true;
  const int by = t.add_node(node_kind::view, {&of});
  if (node* made = t.at(by)) made->size[1] = s;
  t.result_of(by, apart_tensor);
  t.hold(apart_tensor.storage);
  value apart(t, apart_tensor);
  sizes repeated = apart_tensor.size;
  repeated[dimension + 1] = times;
  const value wide = expand(t, apart, repeated);
  apart.drop();
  sizes wanted = s;
  wanted[dimension] *= times;
  if (reshapes) return reshape(t, wide, wanted);
  return view(t, clone(t, wide), wanted);
}

/// _safe_softmax: 0 in rows whose scores are all hidden.
constexpr value safe_softmax(tape& t, argument given) {
  const held of(given);
  const int by = t.add_node(node_kind::softmax, {&of});
  if (node* made = t.at(by)) made->argument[0] = static_cast<std::int64_t>(of.format);
  value result = t.make(of.size, of.format, {"softmax", none, &of});
  const value hidden = t.make(of.size, element::boolean, {"hidden scores", none, &of});
  sizes rows = of.size;
  rows[rows.rank - 1] = 1;
  const value hidden_rows = t.make(rows, element::boolean, {"rows of hidden scores"});
  t.touch(bytes_of(of.format), "number");
  t.keep(by, result);
  t.result_of(by, result.get());
  return result;
}

/// The products written out by PyTorch where no kernel is for them: in fp32. Keeps their operands
/// and the weights.
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
    value ones = t.make({tokens, keys}, element::boolean, {"mask"});
    value lower = t.make({tokens, keys}, element::boolean, {"mask"});
    ones.drop();
    const value zero = t.make(sizes{1}, element::fp32, {"number"});
    const value lowest = t.make(sizes{1}, element::fp32, {"number"});
    mask = t.make({tokens, keys}, element::fp32, {"mask"});
  }
  value k_all;
  if (k->size[1] == heads)
    k_all = t.share(k);
  else
    k_all = repeat_heads(t, k, heads / k->size[1]);
  value v_all;
  if (v->size[1] == heads)
    v_all = t.share(v);
  else
    v_all = repeat_heads(t, v, heads / v->size[1]);
  value scores = matmul(t, scaled, scale(t, transpose(t, k_all, 2, 3)));
  // The mask is added in place.
  if (bias.defined()) scores = add_in_place(t, scores, bias);
  scores = safe_softmax(t, std::move(scores));
  if (drops) scores = dropout(t, scores, true);
  // The weights are a result too, which nobody reads.
  value unread;
  if (half)
    unread = t.make(scores->size, format, {"attention weights, unread", none, &*scores});
  else
    unread = value{};
  value out = matmul(t, scores, v_all);
  return cast(t, out, format);
}

}  // namespace gpuplan::eager
