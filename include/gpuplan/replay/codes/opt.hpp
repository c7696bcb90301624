#pragma once

// OPTForCausalLM of Hugging Face's transformers 5.23. Private.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class opt_code : public causal_lm_code {
 public:
  using causal_lm_code::causal_lm_code;
  constexpr ~opt_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr void build_before_layers() override {
    positions_ = table_module(model.position_rows, model.hidden_size, trains_all());
    norm_ = norm_module(model.hidden_size, trains_final_norm());
  }
  constexpr layer_modules build_layer(bool trains) override {
    using its = layer_modules;
    return built(trains,
                 {&its::key,
                  &its::value,
                  &its::query,
                  &its::out,
                  &its::before_attention,
                  &its::up,
                  &its::down,
                  &its::before_mlp});
  }
  constexpr void build_behind_layers() override {}

  // OPTDecoder
  constexpr value run_model() override {
    const value embedded = embed_tokens(ids_, tokens_);
    value ones;
    if (!setup.padding_mask) ones = t.make(ids_->size, element::fp32);
    const value positions = positions_of(setup.padding_mask ? element::int64 : element::fp32);
    const value mask = causal_mask(embedded->format);
    const value places = embedding(t, t.make(ids_->size, element::int64), positions_.weight);
    return norm(run_layers(add(t, embedded, places), {&*mask, &*positions}), norm_);
  }
  /// (cumsum(mask) * mask - 1).long()
  constexpr value positions_of(element format) {
    const value sum = t.make(ids_->size, format);
    value less = compute(t, t.make(ids_->size, format), ids_->size, format);
    if (format == element::int64) return less;
    return t.make(ids_->size, element::int64);
  }

  // OPTDecoderLayer
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    value hidden = norm(x, by.before_attention);
    attended made = attention(by, hidden);
    hidden = std::move(made.output);
    hidden = add(t, x, dropout(t, std::move(hidden), drops));
    const sizes apart = hidden->size;
    hidden = view(t, hidden, {apart[0] * apart[1], apart[2]});
    const value residual = t.share(hidden);
    hidden = linear(norm(std::move(hidden), by.before_mlp), by.up);
    hidden = dropout(t, linear(act(std::move(hidden)), by.down), drops);
    hidden = add(t, residual, hidden);
    return view(t, hidden, apart);
  }

  // OPTAttention
  constexpr attended attention(const layer_modules& by, const tensor& x) {
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t head = model.query_dim();
    const value q = heads_of(scale(t, linear(x, by.query)), heads, head);
    value k = linear(x, by.key);
    value v = linear(x, by.value);
    k = heads_of(k, heads, head);
    v = heads_of(v, heads, head);
    attended made = attend(q, k, v, beside[0], true, {});
    made.output = linear(view(t, made.output, x.size), by.out);
    return made;
  }

  module positions_{};
};

}  // namespace gpuplan::eager
