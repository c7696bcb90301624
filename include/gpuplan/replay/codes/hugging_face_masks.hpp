#pragma once

// The masks of Hugging Face's transformers 5.23: which keys a query sees. Private.

#include <gpuplan/replay/model_code.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class hugging_face_masks : public model_code {
 public:
  using model_code::model_code;
  constexpr ~hugging_face_masks() override {}  // NOLINT(modernize-use-equals-default)

  bool reads_whole_mask = false;  // of padding, one that hides nothing
  tensor boolean_mask{};          // of padding, where it comes as such; else as numbers

 protected:
  [[nodiscard]] constexpr bool is_eager() const {
    return setup.attention == attention_kernel::eager;
  }

  // -- masking_utils.py

  /// torch.arange(n) + 0
  constexpr value shifted_range(std::int64_t n) {
    const value range = full(t, sizes{n}, element::int64);
    return compute(t, range, sizes{n}, element::int64);
  }
  /// Whether any or all of them are true, read back.
  constexpr void ask_about_any(std::int64_t count) {
    const value answer = t.make(sizes{1}, element::boolean);
    reduction_scratch scratch = scratch_of_reduction(t.device, count, 1, true);
    scratch.buffer /= 4;  // of one byte each
    t.executes(count + answer->bytes(), touch(t, scratch));
    t.executes(answer->bytes(), device_work::copy());
  }
  /// The numbers of the tokenizer as booleans.
  constexpr value padding_seen(const sizes& all) {
    value seen = t.make(all, element::boolean);
    t.executes(9 * all.count());
    return seen;
  }
  /// Written out as integers first, by the same operator.
  constexpr device_work sum_of_booleans(std::int64_t count) {
    device_work work = touch(t, scratch_of_reduction(t.device, count, 1, true));
    ++work.kernels;
    return work;
  }
  /// tensor.sum() == tensor.numel(), read back
  constexpr void ask_whether_all(std::int64_t count) {
    const value sum = t.make(sizes{1}, element::int64);
    {
      const value wide = t.make(sizes{count}, element::int64);
      t.executes(count + sum->bytes(), sum_of_booleans(count));
    }
    t.touch(1);
    t.executes(sum->bytes() + 1);
    t.executes(1, device_work::copy());
  }
  /// The mask of keys that queries see, as the attention reads it: (batch, 1, queries, keys),
  /// boolean, or written out in the format of the embeddings. None where attention does without.
  /// `window`: how many keys a query sees, itself included; 0: all before it. Without causality:
  /// how many to either side. `blocks`: a number for each token, (batch, keys), of which those of a
  /// block see each other. `is_wanted`: whatever
  /// attention needs.
  constexpr value mask_of(std::int64_t batch,
                          std::int64_t queries,
                          std::int64_t keys,
                          element format,
                          bool causal,
                          std::int64_t window = 0,
                          bool may_pad = true,
                          const tensor& blocks = {},
                          bool is_wanted = false) {
    const bool pads = may_pad && (setup.padding_mask || reads_whole_mask);
    // transformers hands the window itself to FlashAttention's package, chosen by its name.
    const bool masks_window =
        window != 0 && keys >= window && setup.attention != attention_kernel::flash;
    value texts;
    if (setup.padding_free) texts = numbers_of_texts();
    if (setup.padding_free && setup.attention == attention_kernel::flash) return {};
    const bool is_needed =
        is_wanted || (is_eager() && causal) || masks_window || blocks.defined() || texts->defined();
    if (!pads && !is_needed) return {};
    value padding;
    if (boolean_mask.defined())
      padding = t.share(boolean_mask);
    else if (pads)
      padding = padding_seen({batch, keys});
    value mask;
    {
      if (pads && (!is_needed || !causal)) {
        if (causal) {
          ask_whether_all(batch * keys);
          if (!setup.padding_mask) return {};
          ask_whether_all(batch * keys);
        } else {
          ask_about_any(batch * keys);
        }
      }
      const value of_batch = full(t, sizes{batch}, element::int64);
      const value of_head = full(t, sizes{1}, element::int64);
      const value of_query = shifted_range(queries);
      const value of_key = shifted_range(keys);
      if (texts->defined())
        mask = visible_in_text(texts, of_batch, of_query, of_key, window != 0);
      else
        mask = visible(of_batch, of_query, of_key, padding, causal, window != 0, blocks);
    }
    if (!is_eager()) return mask;
    const value zero = t.make(sizes{1}, format);
    t.executes({&*zero}, {.kernels = 0, .fills = 1});
    const value least = full(t, sizes{1}, format);
    const sizes whole{batch, 1, queries, keys};
    value numbers = t.make(whole, format, {"mask"});
    t.executes(whole.count() + numbers->bytes() + 2 * zero->bytes());
    return numbers;
  }
  /// The mask functions over index tensors, and what they are joined with.
  constexpr value visible(const tensor& of_batch,
                          const tensor& of_query,
                          const tensor& of_key,
                          const tensor& padding,
                          bool causal,
                          bool is_windowed,
                          const tensor& blocks) {
    const std::int64_t batch = of_batch.count();
    const std::int64_t queries = of_query.count();
    const std::int64_t keys = of_key.count();
    const bool is_square = causal || is_windowed;
    const sizes by_position = is_square ? sizes{1, 1, queries, keys} : sizes{1, 1, queries, 1};
    if (blocks.defined() && is_windowed) {
      // (causal | blocks) & (keys > queries - window)
      value joined;
      {
        const value one = compute(t, of_query, sizes{1}, element::boolean);
        const value seen = visible(of_batch, of_query, of_key, {}, causal, false, blocks);
        joined = compute(t, {&*one, &*seen}, seen->size, element::boolean);
      }
      {
        value near;
        {
          const value first = compute(t, of_query, {1, 1, queries, 1}, element::int64);
          near = compute(t, {&*first, &of_key}, by_position, element::boolean);
        }
        joined = compute(t, {&*joined, &*near}, joined->size, element::boolean);
      }
      if (!padding.defined()) return joined;
      const value one = compute(t, of_query, sizes{1}, element::boolean);
      joined = compute(t, {&*one, &*joined}, joined->size, element::boolean);
      const value read = read_at(padding, of_batch, of_key, {batch, 1, 1, keys});
      return compute(t, {&*joined, &*read}, {batch, 1, queries, keys}, element::boolean, {"mask"});
    }
    const auto by_position_alone = [&] {
      if (is_windowed && !causal) return near_on_both_sides(of_query, of_key, by_position);
      if (is_windowed) return near_and_before(of_query, of_key, by_position);
      if (!causal) return compute(t, of_query, by_position, element::boolean);
      return compute(t, {&of_query, &of_key}, by_position, element::boolean);
    };
    const auto seen_at_all = [&] {
      value seen;
      {
        value at_once;
        if (blocks.defined()) at_once = compute(t, of_query, sizes{1}, element::boolean);
        seen = by_position_alone();
        if (blocks.defined()) seen = compute(t, seen, by_position, element::boolean);
      }
      if (!blocks.defined()) return seen;
      return in_blocks(std::move(seen), blocks, of_batch, of_query, of_key);
    };
    if (!padding.defined()) return seen_at_all();
    value joined;
    {
      const value one = compute(t, of_query, sizes{1}, element::boolean);
      const value seen = seen_at_all();
      joined = compute(t, {&*one, &*seen}, seen->size, element::boolean);
    }
    const value read = read_at(padding, of_batch, of_key, {batch, 1, 1, keys});
    return compute(t, {&*joined, &*read}, {batch, 1, queries, keys}, element::boolean, {"mask"});
  }

  /// find_packed_sequence_indices: of each token which text it is of, by positions that begin anew.
  constexpr value numbers_of_texts() {
    const sizes row = positions_->size;
    const std::int64_t tokens = row[1];
    const value before = full(t, {row[0], 1}, element::int64);
    value steps;
    {
      const value longer =
          compute(t, {&*before, &*positions_}, {row[0], tokens + 1}, element::int64);
      steps = compute(t, longer, row, element::int64);
    }
    value numbers;
    {
      const value begins = compute(t, steps, row, element::boolean);
      numbers = compute(t, begins, row, element::int64);
    }
    const value is_one = full(t, sizes{row[0]}, element::boolean);
    const value are_all = full(t, sizes{}, element::boolean);
    t.executes(1, device_work::copy());
    return numbers;
  }
  /// packed_sequence_compatibility_function: tokens of a text, by their positions in it.
  constexpr value visible_in_text(const tensor& texts,
                                  const tensor& of_batch,
                                  const tensor& of_query,
                                  const tensor& of_key,
                                  bool is_windowed) {
    const std::int64_t batch = of_batch.count();
    const sizes rows{batch, 1, of_query.count(), 1};
    const sizes columns{batch, 1, 1, of_key.count()};
    const sizes square{batch, 1, of_query.count(), of_key.count()};
    value joined = full(t, sizes{}, element::boolean);
    {
      const value of_queries = read_at(texts, of_batch, of_query, rows);
      const value of_keys = read_at(texts, of_batch, of_key, columns);
      const value same = compute(t, {&*of_queries, &*of_keys}, square, element::boolean);
      joined = compute(t, {&*joined, &*same}, square, element::boolean);
    }
    value seen;
    {
      const value query = read_at(positions_, of_batch, of_query, rows);
      const value key = read_at(positions_, of_batch, of_key, columns);
      if (is_windowed)
        seen = near_and_before(query, key, square);
      else
        seen = compute(t, {&*query, &*key}, square, element::boolean);
    }
    return compute(t, {&*joined, &*seen}, square, element::boolean, {"mask"});
  }

  /// (abs(queries - keys) <= window) & (queries >= 0)
  constexpr value near_on_both_sides(const tensor& of_query,
                                     const tensor& of_key,
                                     const sizes& square) {
    const element truth = element::boolean;
    value joined = compute(t, of_query, sizes{1}, truth);
    {
      value distance = compute(t, {&of_query, &of_key}, square, element::int64);
      distance = compute(t, distance, square, element::int64);
      const value near = compute(t, std::move(distance), square, truth);
      joined = compute(t, {&*joined, &*near}, square, truth);
    }
    const value any = compute(t, of_query, {1, 1, square[2], 1}, truth);
    return compute(t, {&*joined, &*any}, square, truth);
  }
  /// of[batch, tokens], where the numbers of both stand in dimensions of their own.
  constexpr value read_at(const tensor& of,
                          const tensor& of_batch,
                          const tensor& of_token,
                          const sizes& places) {
    const bool copies_batch = of_token.count() > 1;
    const bool copies_token = of_batch.count() > 1;
    value batch_index, token_index;
    if (copies_batch) batch_index = t.make(places, element::int64);
    if (copies_token) token_index = t.make(places, element::int64);
    value read = t.make(places, of.format);
    const int copies = (copies_batch ? 1 : 0) + (copies_token ? 1 : 0);
    t.executes({&of, &of_batch, &of_token, &*read}, {.kernels = 1 + copies});
    return read;
  }
  /// seen | (q_group == kv_group) & (q_group >= 0)
  constexpr value in_blocks(value seen,
                            const tensor& blocks,
                            const tensor& of_batch,
                            const tensor& of_query,
                            const tensor& of_key) {
    const std::int64_t batch = of_batch.count();
    const std::int64_t queries = of_query.count();
    const std::int64_t keys = of_key.count();
    const sizes square{batch, 1, queries, keys};
    value together;
    {
      const value of_queries = read_at(blocks, of_batch, of_query, {batch, 1, queries, 1});
      const value of_keys = read_at(blocks, of_batch, of_key, {batch, 1, 1, keys});
      const value same = compute(t, {&*of_queries, &*of_keys}, square, element::boolean);
      const value is_block = compute(t, of_queries, of_queries->size, element::boolean);
      together = compute(t, {&*same, &*is_block}, square, element::boolean);
    }
    return compute(t, {&*seen, &*together}, square, element::boolean);
  }

  /// (keys > queries - window) & (keys <= queries)
  constexpr virtual value near_and_before(const tensor& of_query,
                                          const tensor& of_key,
                                          const sizes& square) {
    const element truth = element::boolean;
    value joined = compute(t, of_query, sizes{1}, truth);
    {
      value near;
      {
        const value first = compute(t, of_query, {1, 1, square[2], 1}, element::int64);
        near = compute(t, {&*first, &of_key}, square, truth);
      }
      joined = compute(t, {&*joined, &*near}, square, truth);
    }
    const value before = compute(t, {&of_query, &of_key}, square, truth);
    return compute(t, {&*joined, &*before}, square, truth);
  }

  value positions_{};  // of the batch's tokens, where samples lie in one row
};

}  // namespace gpuplan::eager
