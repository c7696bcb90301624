#pragma once

// Decoders of Hugging Face's transformers: LLaMA, and what was copied from it. Private.
// Transcribed from transformers 5.23, models/llama/modeling_llama.py and its kin.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>

namespace gpuplan::eager {

class hugging_face_decoder : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~hugging_face_decoder() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    tokens_ = table_module(model.vocab_size, model.hidden_size, trains_table());
    for (std::int64_t at = 0; at < layers; ++at) {
      layer_modules made;
      t.unit = static_cast<int>(at);
      build_layer(made, trains_layer(at));
      modules_.push(made);
    }
    t.unit = none;
    norm_ = norm_module(model.hidden_size, trains_end());
    build_rotary();
    head_ = head_module(tokens_);
  }

  constexpr void make_batch() override { make_token_batch(); }

  constexpr value forward() override {
    t.begin(moment::forward);
    const value hidden = run_model();
    t.begin(moment::loss);
    const value logits = linear(hidden, head_);
    value loss = causal_lm_loss(logits, labels_);
    return loss;
  }

 protected:
  struct layer_modules {
    module norm_1, norm_2, query, key, value, out, gate, up, down;
  };
  // What layers read beside their input.
  static constexpr int the_mask = 0;
  static constexpr int the_cosines = 1;
  static constexpr int the_sines = 2;
  static constexpr int the_positions = 3;

  // -- construction

  /// 1 / base ** (arange(0, width, 2) / width)
  constexpr value inverse_frequencies(std::int64_t width) {
    const sizes half{width / 2};
    if (t.shards > 1) return t.make(half, element::fp32);  // the rest is without memory
    value exponents;
    {
      const value range = t.make(half, element::fp32);
      exponents = t.make(half, element::fp32);
    }
    const value powers = t.make(half, element::fp32);
    t.touch(8);
    exponents.drop();
    const value reciprocals = t.make(half, element::fp32);
    return t.make(half, element::fp32);
  }
  constexpr void build_rotary() {
    t.what = purpose::buffers;
    frequencies_[0] = inverse_frequencies(model.query_dim());
    frequencies_[1] = t.make(frequencies_[0]->size, element::fp32);
    for (value& one : frequencies_) add_buffer(one);
    if (t.shards == 1) static_cast<void>(inverse_frequencies(model.query_dim()));  // where weights are initialised
    t.what = purpose::working;
  }

  constexpr void build_layer(layer_modules& made, bool trains) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t head = model.query_dim();
    const std::int64_t inner = model.num_attention_heads * head;
    const std::int64_t groups = model.key_value_heads() * head;
    const std::int64_t ffn = model.intermediate_size;
    made.query = linear_module(operator_kind::query, inner, width, model.attention_bias, trains);
    made.key = linear_module(operator_kind::key, groups, width, model.attention_bias, trains);
    made.value = linear_module(operator_kind::value, groups, width, model.attention_bias, trains);
    made.out = linear_module(
        operator_kind::attention_output, width, inner, model.attention_out_bias, trains);
    made.gate = linear_module(operator_kind::gate, ffn, width, model.mlp_bias, trains);
    made.up = linear_module(operator_kind::up, ffn, width, model.mlp_bias, trains);
    made.down = linear_module(operator_kind::down, width, ffn, model.mlp_bias, trains);
    made.norm_1 = norm_module(width, trains);
    made.norm_2 = norm_module(width, trains);
  }

  // -- the model

  constexpr value run_model() {
    const value embedded = embed_tokens(ids_, tokens_);
    value positions;
    {
      const value range = t.make(sizes{setup.sequence_length}, element::int64);
      positions = t.make(sizes{setup.sequence_length}, element::int64);
    }
    const std::int64_t tokens = setup.sequence_length;
    const value mask =
        mask_of(plan.micro_batch, tokens, tokens, embedded->format, true, model.sliding_window);
    value hidden = t.share(embedded);
    value cosines, sines;
    rotary_tables(embedded->format, cosines, sines);
    for (std::int64_t at = 0; at < layers; ++at) {
      beside[the_mask] = mask;
      beside[the_cosines] = cosines;
      beside[the_sines] = sines;
      beside[the_positions] = positions;
      hidden = run_layer(at, hidden);
    }
    return norm(hidden, norm_);
  }

  constexpr void rotary_tables(element format, value& cosines, value& sines) {
    const std::int64_t tokens = setup.sequence_length;
    const std::int64_t width = 2 * frequencies_[0]->count();
    value angles;
    {
      const value positions = t.make({1, tokens, 1}, element::fp32);
      const value frequencies = cast(t, frequencies_[0], element::fp32);
      angles = t.make({1, tokens, width / 2}, element::fp32);
    }
    const sizes table{1, tokens, width};
    const value both = t.make(table, element::fp32);
    const auto scaled = [&] {
      const value plain = t.make(table, element::fp32);
      return t.make(table, element::fp32);
    };
    const value cosine = scaled();
    const value sine = scaled();
    cosines = cast(t, cosine, format);
    sines = cast(t, sine, format);
  }

  constexpr value layer(int index, const tensor& input) override {
    const layer_modules& by = modules_[index];
    value x;
    attended of_attention;
    {
      const value normed = norm(input, by.norm_1);
      of_attention = attention(by, normed);
    }
    x = add(t, input, of_attention.output);
    of_attention.output.drop();
    value out;
    {
      const value normed = norm(x, by.norm_2);
      out = mlp(by, normed);
    }
    return add(t, x, out);
  }

  constexpr value norm(const tensor& input, const module& by) {
    value x = cast(t, input, element::fp32);
    value variance;
    {
      const value squares = power(t, x);
      variance = mean(t, squares);
    }
    {
      value root;
      {
        const value shifted = add_number(t, variance);
        root = reciprocal_root(t, shifted);
      }
      x = multiply(t, x, root);
    }
    const value back = cast(t, x, input.format);
    return multiply(t, t.parameter(by.weight), back);
  }

  constexpr value mlp(const layer_modules& by, const tensor& x) {
    value gated;
    {
      value activated;
      {
        const value gate = linear(x, by.gate);
        activated = activation(gate);
      }
      const value up = linear(x, by.up);
      gated = multiply(t, activated, up);
    }
    return linear(gated, by.down);
  }

  // -- attention

  constexpr attended attention(const layer_modules& by, const tensor& x) {
    const std::int64_t head = model.query_dim();
    value q, k, v;
    {
      const value flat = linear(x, by.query);
      q = heads_of(flat, model.num_attention_heads, head);
    }
    {
      const value flat = linear(x, by.key);
      k = heads_of(flat, model.key_value_heads(), head);
    }
    {
      const value flat = linear(x, by.value);
      v = heads_of(flat, model.key_value_heads(), head);
    }
    {
      value rotated_q = rotate(q);
      value rotated_k = rotate(k);
      q = static_cast<value&&>(rotated_q);
      k = static_cast<value&&>(rotated_k);
    }
    attended y = interface(q, k, v);
    y.output = view(t, y.output, {x.size[0], x.size[1], model.num_attention_heads * head});
    y.output = linear(y.output, by.out);
    return y;
  }

  /// x * cos + rotate_half(x) * sin
  constexpr value rotate(const tensor& x) {
    const value straight = multiply(t, x, table(the_cosines));
    value turned;
    {
      const value half_turned = rotate_half(x);
      turned = multiply(t, half_turned, table(the_sines));
    }
    return add(t, straight, turned);
  }
  constexpr tensor table(int which) const {
    tensor seen = beside[which];
    set_contiguous(seen, {1, 1, seen.size[1], seen.size[2]});
    return seen;
  }
  constexpr value rotate_half(const tensor& x) {
    const std::int64_t half = x.size[3] / 2;
    const value first = slice(t, x, 3, half);
    const value second = slice(t, x, 3, half);
    const value negative = scale(t, second);
    return concatenate(t, negative, first, 3);
  }

  constexpr attended interface(const tensor& q, const tensor& k, const tensor& v) {
    const tensor& mask = beside[the_mask];
    const std::int64_t times = q.size[1] / k.size[1];
    if (times == 1 || (!is_written_out() && !mask.defined() && k.size[3] <= 256))
      return attend(q, k, v, mask, true, {});
    const value all_k = repeat_heads(t, k, times, true);
    const value all_v = repeat_heads(t, v, times, true);
    return attend(q, all_k, all_v, mask, true, {});
  }

  module tokens_{}, norm_{}, head_{};
  growing_array<layer_modules> modules_{};
  value frequencies_[2]{};
};

}  // namespace gpuplan::eager
