#pragma once

// OPTForCausalLM of Hugging Face's transformers 5.23. Private.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>

namespace gpuplan::eager {

class opt_code : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~opt_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    const std::int64_t width = model.hidden_size;
    const std::int64_t ffn = model.intermediate_size;
    const bool bias = model.attention_bias;
    tokens_ = token_table(model.vocab_size, width, trains_table());
    positions_ = table_module(model.position_rows, width, trains_all());
    norm_ = norm_module(width, trains_final_norm());
    for (std::int64_t at = 0; at < layers; ++at) {
      const bool trains = trains_layer(at);
      const auto built = t.building_unit(at);
      layer_modules made;
      made.key = linear_module(operator_kind::key, width, width, bias, trains);
      made.value = linear_module(operator_kind::value, width, width, bias, trains);
      made.query = linear_module(operator_kind::query, width, width, bias, trains);
      made.out = linear_module(
          operator_kind::attention_output, width, width, model.attention_out_bias, trains);
      made.norm_1 = norm_module(width, trains);
      made.up = linear_module(operator_kind::up, ffn, width, model.mlp_bias, trains);
      made.down = linear_module(operator_kind::down, width, ffn, model.mlp_bias, trains);
      made.norm_2 = norm_module(width, trains);
      layers_.push(made);
    }
    head_ = head_module(tokens_);
  }

  constexpr void make_batch() override { make_token_batch(); }

  constexpr value forward() override {
    t.begin(moment::forward);
    const value hidden = run_decoder();
    t.begin(moment::loss);
    const value logits = linear(hidden, head_);
    return causal_lm_loss(logits, labels_);
  }

 protected:
  struct layer_modules {
    module query, key, value, out, norm_1, up, down, norm_2;
  };

  // OPTDecoder
  constexpr value run_decoder() {
    const std::int64_t batch = ids_->size[0];
    const std::int64_t tokens = ids_->size[1];
    const value embedded = embed_tokens(ids_, tokens_);
    value ones;
    if (!setup.padding_mask) ones = t.make(ids_->size, element::fp32);
    const value positions = positions_of(setup.padding_mask ? element::int64 : element::fp32);
    const value mask = mask_of(batch, tokens, tokens, embedded->format, true);
    value places;
    {
      const value shifted = t.make(ids_->size, element::int64);
      places = embedding(t, shifted, positions_.weight);
    }
    value hidden = add(t, embedded, places);
    for (std::int64_t at = 0; at < layers; ++at) {
      beside[0] = mask;
      beside[1] = positions;
      hidden = run_layer(at, hidden);
    }
    return norm(hidden, norm_);
  }
  /// (cumsum(mask) * mask - 1).long()
  constexpr value positions_of(element format) {
    const value sum = t.make(ids_->size, format);
    value less;
    {
      const value product = t.make(ids_->size, format);
      less = t.make(ids_->size, format);
    }
    if (format == element::int64) return less;
    return t.make(ids_->size, element::int64);
  }

  // OPTDecoderLayer
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    value hidden = norm(x, by.norm_1);
    attended made = attention(by, hidden);
    hidden = static_cast<value&&>(made.output);
    hidden = dropout(t, hidden, drops);
    hidden = add(t, x, hidden);
    const sizes apart = hidden->size;
    hidden = view(t, hidden, {apart[0] * apart[1], apart[2]});
    const value residual = t.share(hidden);
    hidden = norm(hidden, by.norm_2);
    hidden = linear(hidden, by.up);
    hidden = activation(hidden);
    hidden = linear(hidden, by.down);
    hidden = dropout(t, hidden, drops);
    hidden = add(t, residual, hidden);
    return view(t, hidden, apart);
  }

  // OPTAttention
  constexpr attended attention(const layer_modules& by, const tensor& x) {
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t head = model.query_dim();
    value q;
    {
      const value flat = linear(x, by.query);
      q = scale(t, flat);
    }
    q = heads_of(q, heads, head);
    value k = linear(x, by.key);
    value v = linear(x, by.value);
    k = heads_of(k, heads, head);
    v = heads_of(v, heads, head);
    attended made = attend(q, k, v, beside[0], true, {});
    made.output = view(t, made.output, {x.size[0], x.size[1], heads * head});
    made.output = linear(made.output, by.out);
    return made;
  }

  module tokens_{}, positions_{}, norm_{}, head_{};
  growing_array<layer_modules> layers_{};
};

}  // namespace gpuplan::eager
