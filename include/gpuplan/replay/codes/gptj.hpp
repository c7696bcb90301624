#pragma once

// GPTJForCausalLM of Hugging Face's transformers 5.23, which writes its attention out. Private.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>

namespace gpuplan::eager {

class gptj_code : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~gptj_code() override {
    for (int at = 0; at < tables_.size(); ++at) t.release(tables_[at].storage);
  }

  constexpr void construct() override {
    const std::int64_t width = model.hidden_size;
    const std::int64_t ffn = model.intermediate_size;
    const bool bias = model.attention_bias;
    tokens_ = token_table(model.vocab_size, width, trains_table());
    for (std::int64_t at = 0; at < layers; ++at) {
      const bool trains = trains_layer(at);
      const auto built = t.building_unit(at);
      block made;
      made.norm = norm_module(width, trains);
      made.key = linear_module(operator_kind::key, width, width, bias, trains);
      made.value = linear_module(operator_kind::value, width, width, bias, trains);
      made.query = linear_module(operator_kind::query, width, width, bias, trains);
      made.out = linear_module(
          operator_kind::attention_output, width, width, model.attention_out_bias, trains);
      add_table();
      made.up = linear_module(operator_kind::up, ffn, width, model.mlp_bias, trains);
      made.down = linear_module(operator_kind::down, width, ffn, model.mlp_bias, trains);
      blocks_.push(made);
    }
    norm_ = norm_module(width, trains_final_norm());
    // The tables are made once more where weights are initialised.
    for (std::int64_t at = 0; at < layers; ++at) static_cast<void>(sinusoids());
    for (int at = 0; at < tables_.size(); ++at) add_buffer(tables_[at], blocks_[at].up.weight);
    head_ = head_module(tokens_);
  }

  constexpr void make_batch() override { make_token_batch(); }

  constexpr value forward() override {
    t.begin(moment::forward);
    const value hidden = run_model();
    t.begin(moment::loss);
    const value logits = linear(hidden, head_);
    return causal_lm_loss(logits, labels_);
  }

 protected:
  struct block {
    module norm, query, key, value, out, up, down;
  };

  [[nodiscard]] constexpr std::int64_t rotary_width() const {
    const std::int64_t most = setup.framework.implementation.decoder.most_rotated;
    return most == 0 ? model.query_dim() : at_most(most, model.query_dim());
  }

  // create_sinusoidal_positions
  constexpr value sinusoids() {
    const std::int64_t rows = setup.sequence_length;
    const std::int64_t width = rotary_width();
    const sizes half{width / 2};
    value inverse;
    {
      value exponents;
      {
        const value range = t.make(half, element::int64);
        exponents = t.make(half, element::fp32);
      }
      const value powers = t.make(half, element::fp32);
      t.touch(8);
      exponents.drop();
      const value reciprocals = t.make(half, element::fp32);
      inverse = t.make(half, element::fp32);
    }
    value angles;
    {
      value positions;
      {
        const value range = t.make(sizes{rows}, element::int64);
        positions = t.make(sizes{rows}, element::fp32);
      }
      angles = t.make({rows, width / 2}, element::fp32);
    }
    const value sines = t.make({rows, width / 2}, element::fp32);
    const value cosines = t.make({rows, width / 2}, element::fp32);
    return t.make({rows, width}, element::fp32);
  }

  constexpr void add_table() {
    const auto charged = t.charge(purpose::buffers);
    tables_.push(sinusoids().take());
  }

  // GPTJModel
  constexpr value run_model() {
    const std::int64_t batch = ids_->size[0];
    const std::int64_t tokens = ids_->size[1];
    const value embedded = embed_tokens(ids_, tokens_);
    const value positions = shifted_range(tokens);
    const value mask = mask_of(batch, tokens, tokens, embedded->format, true);
    value hidden = dropout(t, embedded, drops);
    value weights;  // of the last layer that ran
    for (std::int64_t at = 0; at < layers; ++at) {
      beside[0] = mask;
      beside[1] = positions;
      hidden = run_layer(at, hidden);
      weights = static_cast<value&&>(weights_);
    }
    hidden = norm(hidden, norm_);
    return view(t, hidden, {batch, tokens, model.hidden_size});
  }

  // GPTJBlock
  constexpr value layer(int index, const tensor& x) override {
    const block& by = blocks_[index];
    const value normed = norm(x, by.norm);
    attended of_attention = attention(index, normed);
    const value fed = feed_forward(by, normed);
    value sum = add(t, of_attention.output, fed);
    sum = add(t, sum, x);
    if (!t.is_recomputing()) weights_ = static_cast<value&&>(of_attention.weights);
    return sum;
  }

  // GPTJMLP
  constexpr value feed_forward(const block& by, const tensor& x) {
    value hidden = linear(x, by.up);
    if (model.hidden_act == activation_function::gelu_tanh)
      hidden = new_gelu(hidden);
    else
      hidden = activation(hidden);
    hidden = linear(hidden, by.down);
    return dropout(t, hidden, drops);
  }

  // GPTJAttention
  constexpr attended attention(int index, const tensor& x) {
    const block& by = blocks_[index];
    const std::int64_t batch = x.size[0];
    const std::int64_t tokens = x.size[1];
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t head = model.query_dim();
    const std::int64_t width = rotary_width();
    value query = linear(x, by.query);
    value key = linear(x, by.key);
    value val = linear(x, by.value);
    query = view(t, query, {batch, tokens, heads, head});
    key = view(t, key, {batch, tokens, heads, head});
    val = heads_of(val, heads, head);
    // Each layer reads its own table.
    const tensor& table = tables_[index];
    const value rows = t.make({1, table.size[0], width}, table.format);
    const value places = t.make({1, tokens, width}, element::int64);
    value angles = t.make({1, tokens, width}, table.format);
    angles = cast(t, angles, key->format);
    value front_key = front_of(key);
    const value rest_key = slice(t, key, 3, head - width);
    value front_query = front_of(query);
    const value rest_query = slice(t, query, 3, head - width);
    front_key = rotate(front_key, angles->format);
    front_query = rotate(front_query, angles->format);
    key = concatenate(t, front_key, rest_key, 3);
    query = concatenate(t, front_query, rest_query, 3);
    key = transpose(t, key, 1, 2);
    query = transpose(t, query, 1, 2);
    attended made = attend_to(query, key, val);
    {
      const value turned = transpose(t, made.output, 1, 2);
      made.output = contiguous(t, turned);
    }
    made.output = view(t, made.output, {batch, tokens, heads * head});
    made.output = linear(made.output, by.out);
    made.output = dropout(t, made.output, drops);
    return made;
  }
  /// What is rotated: a slice, or another name for all.
  constexpr value front_of(const tensor& x) {
    if (rotary_width() < x.size[3]) return slice(t, x, 3, rotary_width());
    const int by = t.add_node(node_kind::pass, {&x});
    value same = t.share(x);
    t.result_of(by, same.get());
    return same;
  }
  /// x * cos + rotate_every_two(x) * sin, of which each element stands for two neighbours.
  constexpr value rotate(const tensor& x, element format) {
    const sizes table{1, x.size[1], 1, x.size[3]};
    const value sines = t.make(table, format);
    const value cosines = t.make(table, format);
    const value straight = multiply(t, x, cosines);
    value turned;
    {
      const value apart = rotate_every_two(x);
      turned = multiply(t, apart, sines);
    }
    return add(t, straight, turned);
  }
  constexpr value rotate_every_two(const tensor& x) {
    const sizes pairs{x.size[0], x.size[1], x.size[2], x.size[3] / 2, 1};
    const value first = every_second(x);
    const value second = every_second(x);
    value stacked;
    {
      const value negative = scale(t, second);
      const value left = view(t, negative, pairs);
      const value right = view(t, first, pairs);
      stacked = concatenate(t, left, right, 4);
    }
    return view(t, stacked, x.size);
  }
  constexpr value every_second(const tensor& x) {
    value seen = slice(t, x, 3, x.size[3] / 2);
    seen.get().stride[3] *= 2;
    return seen;
  }

  // _attn
  constexpr attended attend_to(const tensor& given_query,
                               const tensor& given_key,
                               const tensor& v) {
    const value q = cast(t, given_query, element::fp32);
    const value k = cast(t, given_key, element::fp32);
    attended made;
    value weights;
    {
      const value turned = transpose(t, k, 2, 3);
      weights = matmul(t, q, turned);
    }
    weights = scale(t, weights);
    if (beside[0].defined()) weights = add(t, weights, beside[0]);
    weights = softmax_under_autocast(t, weights);
    weights = cast(t, weights, v.format);
    weights = dropout(t, weights, drops);
    made.output = matmul(t, weights, v);
    made.weights = static_cast<value&&>(weights);
    return made;
  }

  module tokens_{}, norm_{}, head_{};
  growing_array<block> blocks_{};
  growing_array<tensor> tables_{};  // of angles, one a layer
  value weights_{};
};

}  // namespace gpuplan::eager
