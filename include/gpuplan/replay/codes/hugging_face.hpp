#pragma once

// Decoders of Hugging Face's transformers: LLaMA, and what was copied from it. Private.
// Transcribed from transformers 5.23, models/llama/modeling_llama.py and its kin: Mistral, Qwen2,
// Qwen3, Gemma 1 to 3, Phi, Phi-3, OLMo 1 and 2. Classes differ as `framework::decoder` and the
// model say.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class hugging_face_decoder : public causal_lm_code {
 public:
  using causal_lm_code::causal_lm_code;
  constexpr ~hugging_face_decoder() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  // Of what layers read beside their input.
  static constexpr int the_mask = 0;
  static constexpr int the_cosines = 1;
  static constexpr int the_sines = 2;

  [[nodiscard]] constexpr const decoder_options& code() const {
    return setup.framework.implementation.decoder;
  }
  [[nodiscard]] constexpr std::int64_t rotary_width() const {
    return model.query_dim() * code().rotary_percent / 100;
  }
  [[nodiscard]] constexpr bool drops_residual() const { return drops && code().drops_residual; }
  /// How many tables of angles there are: one, or one for each kind of layer.
  [[nodiscard]] constexpr int kinds_of_tables() const {
    if (!code().rotates_by_kind) return 1;
    const std::int64_t windowed = model.windowed_layers_before(layers);
    return windowed != 0 && windowed != layers ? 2 : 1;
  }

  // -- construction

  constexpr void build_before_layers() override {
    if (!code().scales_embedding) return;
    embedding_scale_ = t.charge(purpose::buffers)->make(sizes{}, element::fp32);
    add_buffer(embedding_scale_);
  }
  constexpr void build_behind_layers() override {
    if (code().builds_rotary_first) build_rotary();
    if (model.norm_affine) causal_lm_code::build_behind_layers();
    if (!code().builds_rotary_first) build_rotary();
    // The frequencies are made once more where weights are initialised.
    value again;
    if (!t.gathers())
      for (int kind = 0; kind < kinds_of_tables(); ++kind) again = frequencies();
  }
  constexpr value frequencies() {
    if (t.gathers()) return t.make(sizes{rotary_width() / 2}, element::fp32);  // without memory
    return inverse_frequencies(rotary_width(), element::fp32);
  }
  constexpr void build_rotary() {
    const auto charged = t.charge(purpose::buffers);
    for (int kind = 0; kind < kinds_of_tables(); ++kind) {
      value* const pair = frequencies_[kind];
      pair[0] = frequencies();
      pair[1] = t.make(pair[0]->size, element::fp32);
      add_buffer(pair[0]);
      add_buffer(pair[1]);
    }
  }
  constexpr layer_modules build_layer(bool trains) override {
    using its = layer_modules;
    layer_modules made;
    const auto build = [&](bool is_there, std::initializer_list<module its::*> which) {
      if (!is_there) return;
      for (module its::*const one : which) made.*one = module_of_layer(one, trains);
    };
    const bool behind = model.norm_at != norm_position::before;
    const bool before = model.norm_at != norm_position::after_sublayer;
    build(model.fused_qkv, {&its::out, &its::qkv});
    build(!model.fused_qkv, {&its::query, &its::key, &its::value, &its::out});
    build(model.qk_norm != qk_norm_scope::none, {&its::query_norm, &its::key_norm});
    build(model.fused_gate_up, {&its::gate_up});
    build(!model.fused_gate_up && model.gated_mlp, {&its::gate});
    build(!model.fused_gate_up, {&its::up});
    build(true, {&its::down});
    build(before, {&its::before_attention});
    build(behind, {&its::behind_attention});
    build(before && !model.parallel_attention, {&its::before_mlp});
    build(behind, {&its::behind_mlp});
    return made;
  }

  // -- the model

  constexpr value logits_of(const tensor& hidden) override {
    value logits = linear(hidden, head_);
    if (code().caps_logits) logits = capped(std::move(logits));
    return logits;
  }

  constexpr value run_model() override {
    enter();
    value embedded = embed();
    const value positions = shifted_range(setup.sequence_length);
    const element format = embedded->format;
    // One mask that all layers read, or one for each kind.
    const bool by_kind = code().masks_by_kind;
    const value mask = causal_mask(format, by_kind ? 0 : model.sliding_window);
    value near_mask;
    if (by_kind && model.sliding_window != 0) near_mask = causal_mask(format, model.sliding_window);
    value hidden = dropout(t, embedded, drops && code().drops_embedding);
    if (!code().holds_undropped_embedding) embedded = t.share(hidden);
    value cosines[2], sines[2];
    enter();  // the module of the tables, which no gradient leaves
    for (int kind = 0; kind < kinds_of_tables(); ++kind)
      rotary_tables(frequencies_[kind][0], format, cosines[kind], sines[kind]);
    for (std::int64_t at = 0; at < layers; ++at) {
      const bool windowed = model.is_windowed(at);
      const int kind = kinds_of_tables() == 2 && windowed ? 1 : 0;
      beside[the_mask] = by_kind && windowed ? near_mask : mask;
      beside[the_cosines] = cosines[kind];
      beside[the_sines] = sines[kind];
      beside[the_sines + 1] = positions;
      hidden = run_layer(at, hidden);
    }
    hidden = norm(hidden, norm_);
    leave(hidden);
    return hidden;
  }

  constexpr value embed() {
    if (!code().scales_embedding) return embed_tokens(ids_, tokens_);
    const value rows = embedding(t, ids_, tokens_.copy != none ? tokens_.copy : tokens_.weight);
    value scaled = multiply(t, rows, cast(t, embedding_scale_, rows->format));
    if (setup.recompute == recompute_mode::full) t.require_gradient(scaled.get());
    return adapters.add_to_rows(std::move(scaled), tokens_.adapter, ids_, embedding_scale_);
  }

  constexpr void rotary_tables(const tensor& inverse,
                               element format,
                               value& cosines,
                               value& sines) {
    const std::int64_t tokens = setup.sequence_length;
    const sizes table{1, tokens, rotary_width()};
    value angles;
    {
      const value positions = t.make({1, tokens, 1}, element::fp32);
      const value frequencies = cast(t, inverse, element::fp32);
      angles = t.make({1, tokens, rotary_width() / 2}, element::fp32);
    }
    const value both = t.make(table, element::fp32, {"rotary angles"});
    const auto made = [&] { return t.make(table, element::fp32, {"rotary table"}); };
    const value cosine = compute(t, made(), table, element::fp32, {"rotary table"});
    const value sine = compute(t, made(), table, element::fp32, {"rotary table"});
    const element wanted = code().rotates_in_fp32 ? element::fp32 : format;
    cosines = cast(t, cosine, wanted);
    sines = cast(t, sine, wanted);
  }

  constexpr value layer(int index, const tensor& input) override {
    const layer_modules& by = layers_[index];
    if (model.parallel_attention) return parallel_layer(by, input);
    const bool before = model.norm_at != norm_position::after_sublayer;
    const bool behind = model.norm_at != norm_position::before;
    const auto norm_before = [&](const tensor& x, const module& norm_by) {
      if (!before) return t.share(x);
      return norm(x, norm_by);
    };
    attended attention = attend_to(by, norm_before(input, by.before_attention));
    if (behind) attention.output = norm(attention.output, by.behind_attention);
    value x = add(t, input, dropout(t, attention.output, drops_residual()));
    attention.output.drop();
    value out = feed_forward(by, norm_before(x, by.before_mlp));
    if (behind) out = norm(out, by.behind_mlp);
    return add(t, x, dropout(t, out, drops_residual()));
  }
  // PhiDecoderLayer
  constexpr value parallel_layer(const layer_modules& by, const tensor& input) {
    const value normed = norm(input, by.before_attention);
    attended attention = attention_of(by, normed);
    attention.output = dropout(t, attention.output, drops_residual());
    const value fed = dropout(t, mlp(by, normed), drops_residual());
    return add(t, add(t, attention.output, fed), input);
  }

  // Norms of their own.
  constexpr value normed(argument given, const module& by) override {
    const held x(given);
    if (model.norm == norm_kind::layer_norm) {
      if (model.norm_affine) return layer_norm(t, x, by.weight, by.bias);
      // OlmoLayerNorm
      return cast(t, layer_norm(t, cast(t, x, element::fp32), none, none), x.format);
    }
    switch (setup.framework.implementation.rms_norm) {
      case rms_norm_kind::eager_shifted:
        return shifted_rms_norm(x, by);
      case rms_norm_kind::eager_whole:
        return eager_rms_norm(x, by, false);
      default:
        return eager_rms_norm(x, by, true);
    }
  }
  // LlamaRMSNorm, Olmo2RMSNorm: their variance is a variable
  constexpr value eager_rms_norm(const tensor& input, const module& by, bool casts_first) {
    value x = cast(t, input, element::fp32);
    const value variance = mean(t, power(t, x));
    x = multiply(t, x, reciprocal_root(t, add_number(t, variance)));
    const tensor weight = t.parameter(by.weight);
    if (casts_first) return multiply(t, weight, cast(t, x, input.format));
    return cast(t, multiply(t, weight, x), input.format);
  }
  // GemmaRMSNorm: (1 + weight), all in fp32
  constexpr value shifted_rms_norm(const tensor& input, const module& by) {
    value output = cast(t, input, element::fp32);
    output = multiply(t, output, inverse_spread(output));
    const tensor weight = t.parameter(by.weight);
    output = multiply(t, output, add_number(t, cast(t, weight, element::fp32)));
    return cast(t, output, input.format);
  }

  constexpr value feed_forward(const layer_modules& by, argument given) {
    const held x(given);
    enter();
    value out = mlp(by, x);
    leave(out);
    return out;
  }
  constexpr value mlp(const layer_modules& by, argument given) {
    if (!model.fused_gate_up && !model.gated_mlp) return causal_lm_code::mlp(by, given, false);
    const held x(given);
    if (!model.fused_gate_up) {
      value hidden = activation(linear(x, by.gate));
      hidden = multiply(t, hidden, linear(x, by.up));
      return linear(hidden, by.down);
    }
    value gate, up;
    {
      const value both = linear(x, by.gate_up);
      const int parts = split(t, both);
      gate = part(t, parts, both, 2, model.intermediate_size, 0);
      up = part(t, parts, both, 2, model.intermediate_size, 1);
    }
    up = multiply(t, up, activation(gate));
    return linear(up, by.down);
  }

  // -- attention

  constexpr attended attend_to(const layer_modules& by, argument given) {
    const held x(given);
    enter();
    attended made = attention_of(by, x);
    leave(made.output);
    return made;
  }
  constexpr attended attention_of(const layer_modules& by, const tensor& x) {
    value q, k, v;
    project(by, x, q, k, v);
    const auto turn = [&](const tensor& front) { return rotate(front); };
    head_parts parts;
    if (code().rotary_parts == rotary_parts_kind::in_attention)  // variables of PhiAttention
      parts = rotate_fronts(q, k, rotary_width(), turn);
    else
      rotate_both(q, k);
    attended y = interface(q, k, v);
    y.output = view(t, y.output, {x.size[0], x.size[1], q->size[1] * q->size[3]});
    y.output = linear(y.output, by.out);
    return y;
  }
  // apply_rotary_pos_emb
  constexpr void rotate_both(value& q, value& k) {
    const bool is_whole = code().rotary_parts == rotary_parts_kind::none;
    head_parts of;
    if (!is_whole) of = parts_of(q, k, rotary_width());
    const auto rotated = [&](const tensor& x, const tensor& front, const tensor& rest) {
      if (is_whole) return rotate(x);
      return concatenate(t, rotate(front), rest, 3);
    };
    value rotated_q = rotated(q, of.front_q, of.rest_q);
    value rotated_k = rotated(k, of.front_k, of.rest_k);
    if (code().rotates_in_fp32) {
      value back_q = cast(t, rotated_q, q->format);
      rotated_k = cast(t, rotated_k, k->format);
      rotated_q = std::move(back_q);
    }
    q = std::move(rotated_q);
    k = std::move(rotated_k);
  }

  /// Query, key and value, (batch, heads, tokens, head_dim).
  constexpr void project(const layer_modules& by, const tensor& x, value& q, value& k, value& v) {
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t groups = model.key_value_heads();
    const std::int64_t head = model.query_dim();
    if (model.fused_qkv) {
      const value qkv = linear(x, by.qkv);
      const value flat_q = slice(t, qkv, 2, heads * head);
      const value flat_k = slice(t, qkv, 2, groups * head);
      const value flat_v = slice(t, qkv, 2, groups * head);
      q = heads_of(flat_q, heads, head);
      k = heads_of(flat_k, groups, head);
      v = heads_of(flat_v, groups, head);
      return;
    }
    if (code().views_behind_projections) {
      // as they are rebound
      q = linear(x, by.query);
      if (model.qk_norm == qk_norm_scope::full_width) q = norm(q, by.query_norm);
      k = linear(x, by.key);
      if (model.qk_norm == qk_norm_scope::full_width) k = norm(k, by.key_norm);
      v = linear(x, by.value);
      q = heads_of(q, heads, head);
      k = heads_of(k, groups, head);
      v = heads_of(v, groups, head);
      return;
    }
    q = projected(x, by.query, by.query_norm, heads);
    k = projected(x, by.key, by.key_norm, groups);
    v = projected(x, by.value, {}, groups);
    if (!code().normalizes_turned_heads || model.qk_norm == qk_norm_scope::none) return;
    q = norm(q, by.query_norm);
    k = norm(k, by.key_norm);
  }
  constexpr value projected(const tensor& x,
                            const module& by,
                            const module& norm_of,
                            std::int64_t heads) {
    const std::int64_t head = model.query_dim();
    if (norm_of.weight == none || code().normalizes_turned_heads)
      return heads_of(linear(x, by), heads, head);
    const sizes apart{x.size[0], x.size[1], heads, head};
    return transpose(t, norm(view(t, linear(x, by), apart), norm_of), 1, 2);
  }

  /// x * cos + rotate_half(x) * sin
  constexpr value rotate(const tensor& x) {
    const value straight = multiply(t, x, table(the_cosines));
    return add(t, straight, multiply(t, rotate_half(x), table(the_sines)));
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
    return concatenate(t, scale(t, second), first, 3);
  }

  constexpr attended interface(const tensor& q, const tensor& k, const tensor& v) {
    const tensor& mask = beside[the_mask];
    const eager_attention_options as{.caps_scores = code().caps_scores};
    const std::int64_t times = q.size[1] / k.size[1];
    if (times == 1 || (!is_eager() && !mask.defined() && k.size[3] <= 256))
      return attend(q, k, v, mask, true, as);
    const value all_k = repeat_heads(t, k, times, true);
    const value all_v = repeat_heads(t, v, times, true);
    return attend(q, all_k, all_v, mask, true, as);
  }

  value embedding_scale_{};
  value frequencies_[2][2]{};  // of each kind of layer, and its copy
};

}  // namespace gpuplan::eager
