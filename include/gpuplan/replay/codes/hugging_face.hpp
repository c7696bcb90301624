#pragma once

// Decoders of Hugging Face's transformers: LLaMA, and what was copied from it. Private.
// Transcribed from transformers 5.23, models/llama/modeling_llama.py and its kin: Mistral, Qwen2,
// Qwen3, Gemma 1 to 3, Phi, Phi-3, OLMo 1 and 2. Classes differ as `framework::decoder` and the
// model say.

#include <gpuplan/replay/codes/hugging_face_rotary.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Keys and values of layers, which those of another stack read before their own (DynamicCache).
struct cached_layers {
  growing_array<tensor> keys{};
  growing_array<tensor> values{};

  /// Adds the layer's own behind what is there, and makes them what it reads.
  constexpr void update(tape& t, int layer, value& k, value& v) {
    if (layer == keys.size()) {
      tensor nothing = *k;
      nothing.storage = nothing.node = none;
      nothing.size[2] = 0;
      keys.push(nothing);
      values.push(nothing);
    }
    value all_keys = add(t, keys[layer], *k);
    value all_values = add(t, values[layer], *v);
    k = std::move(all_keys);
    v = std::move(all_values);
  }
  constexpr void drop(tape& t) {
    for (growing_array<tensor>* list : {&keys, &values}) {
      for (int at = 0; at < list->size(); ++at) t.release((*list)[at].storage);
      list->resize_down(0);
    }
  }

 private:
  static constexpr value add(tape& t, tensor& there, const tensor& more) {
    value all = concatenate(t, {&there, &more}, 2);
    t.release(there.storage);
    there = *all;
    t.hold(there.storage);
    return all;
  }
};

class hugging_face_decoder : public rotary_lm_code {
 public:
  using rotary_lm_code::rotary_lm_code;
  constexpr ~hugging_face_decoder() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  [[nodiscard]] constexpr bool drops_within() const { return drops && code().drops_within; }
  [[nodiscard]] constexpr bool drops_residual() const {
    return drops && code().drops_residual && !code().drops_within;
  }
  [[nodiscard]] constexpr bool drops_mlp_alone() const { return drops && code().drops_mlp_alone; }

  // -- construction

  constexpr void build_before_layers() override {
    if (!code().scales_embedding) return;
    const element format = casts_tables() ? element::fp32 : weight_format;
    embedding_scale_ = t.charge(purpose::buffers)->make(sizes{}, format);
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
  constexpr layer_modules build_layer(bool trains) override {
    layer_modules made;
    const auto add = [&](bool is_there, std::initializer_list<nn_module its::*> which) {
      if (is_there) build(made, trains, which);
    };
    const bool behind = model.norm_at != norm_position::before;
    const bool before = model.norm_at != norm_position::after_sublayer;
    build_attention(made, trains);
    build_mlp(made, trains);
    add(before, {&its::before_attention});
    add(behind, {&its::behind_attention});
    add(before && !model.parallel_attention, {&its::before_mlp});
    add(behind, {&its::behind_mlp});
    return made;
  }
  constexpr virtual void build_attention(layer_modules& made, bool trains) {
    if (model.fused_qkv)
      build(made, trains, {&its::out, &its::qkv});
    else
      build(made, trains, {&its::query, &its::key, &its::value, &its::out});
    if (model.qk_norm != qk_norm_scope::none)
      build(made, trains, {&its::query_norm, &its::key_norm});
  }
  constexpr virtual void build_mlp(layer_modules& made, bool trains) {
    if (model.fused_gate_up) {
      build(made, trains, {&its::gate_up});
    } else {
      if (model.gated_mlp) build(made, trains, {&its::gate});
      build(made, trains, {&its::up});
    }
    build(made, trains, {&its::down});
  }

  // -- the model

  constexpr value run_model() override {
    enter();
    return run_embedded(embed(ids_));
  }

 public:
  cached_layers* cache = nullptr;
  bool counts_positions = true;  // and hands them to layers

  /// Of the last layer nothing is read but its keys and values, and nothing behind it.
  constexpr void leave_results_idle() {
    layer_modules& last = layers_[layers_.size() - 1];
    for (nn_module* one : {&last.query,
                           &last.out,
                           &last.query_norm,
                           &last.gate,
                           &last.up,
                           &last.gate_up,
                           &last.down,
                           &last.behind_attention,
                           &last.before_mlp,
                           &last.behind_mlp,
                           &norm_})
      leave_module_idle(*one);
  }
  constexpr void leave_tokens_idle() { leave_module_idle(tokens_); }
  constexpr value logits_of(const tensor& hidden) override {
    value logits = linear(hidden, head_);
    if (code().caps_logits) logits = capped(std::move(logits));
    if (code().multiplies_logits) logits = scale(t, logits);
    return logits;
  }
  constexpr value unscaled_logits(const tensor& hidden) { return linear(hidden, head_); }
  /// Rows of the table of tokens, scaled where the class does that.
  constexpr virtual value embed(const tensor& ids) {
    if (code().multiplies_embedding) return scale(t, embed_tokens(ids, tokens_));
    if (!code().scales_embedding) return embed_tokens(ids, tokens_);
    enter(tokens_, true);
    const value rows = embedding(t, ids, tokens_.copy != none ? tokens_.copy : tokens_.weight);
    value scaled = multiply(t, rows, cast(t, embedding_scale_, rows->format));
    if (setup.recompute == recompute_mode::full) t.require_gradient(scaled.get());
    leave(scaled, tokens_, true);
    return adapters.add_to_rows(std::move(scaled), tokens_.adapter, ids, embedding_scale_);
  }
  /// The mask of tokens of which those of a block see each other.
  constexpr value mask_of_blocks(const tensor& embedded,
                                 const tensor& blocks,
                                 std::int64_t window = 0) {
    const std::int64_t tokens = embedded.size[1];
    return mask_of(embedded.size[0], tokens, tokens, embedded.format, true, window, true, blocks);
  }
  /// What a tower of images makes, through a norm as the class's own.
  constexpr value norm_of_images(argument x, const nn_module& by) { return norm(x, by); }
  constexpr value seen_padding(const sizes& all) { return padding_seen(all); }
  /// Likewise of tokens behind cached ones: (batch, 1, queries, cached + queries).
  constexpr value mask_behind(const tensor& embedded, const tensor& blocks) {
    return mask_of(
        embedded.size[0], embedded.size[1], blocks.size[1], embedded.format, true, 0, true, blocks);
  }
  /// From the embedded tokens to the norm, as a part of a larger model too. `given`: the mask,
  /// where whoever calls has made it.
  constexpr value run_embedded(value embedded,
                               const tensor& given_mask = {},
                               const tensor& given_positions = {},
                               const tensor& given_near_mask = {}) {
    value positions = t.share(given_positions);
    if (!positions->defined() && counts_positions) positions = positions_of_row();
    const element format = embedded->format;
    const auto masked = [&](std::int64_t window) {
      if (given_mask.defined()) return t.share(given_mask);
      const std::int64_t tokens = setup.sequence_length;
      return mask_of(embedded->size[0], tokens, tokens, format, true, window);
    };
    // One mask that all layers read, or one for each kind.
    const bool by_kind = code().masks_by_kind;
    const value mask = masked(by_kind ? 0 : model.sliding_window);
    value near_mask;
    if (given_near_mask.defined())
      near_mask = t.share(given_near_mask);
    else if (by_kind && (model.sliding_window != 0 || code().makes_both_masks))
      near_mask = masked(at_least(model.sliding_window, 1));
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
      add_behind(at, hidden);
    }
    hidden = norm(hidden, norm_);
    leave(hidden);
    return hidden;
  }

 protected:
  /// What a model does to the result of a layer.
  constexpr virtual void add_behind(std::int64_t /*layer*/, value& /*hidden*/) {}
  constexpr value layer(int index, const tensor& input) override {
    const layer_modules& by = layers_[index];
    at_layer_ = index;
    if (model.parallel_attention) return parallel_layer(by, input);
    const bool before = model.norm_at != norm_position::after_sublayer;
    const bool behind = model.norm_at != norm_position::before;
    const auto norm_before = [&](const tensor& x, const nn_module& norm_by) {
      if (!before) return t.share(x);
      return norm(x, norm_by);
    };
    value normed = norm_before(input, by.before_attention);
    value own_input;
    if (code().holds_attention) own_input = t.share(normed);
    attended attention = attend_to(by, std::move(normed));
    if (behind) attention.output = norm(attention.output, by.behind_attention);
    value x = add_dropped(input, attention.output);
    if (!code().holds_attention) attention.output.drop();
    value out = feed_forward(by, norm_before(x, by.before_mlp));
    if (behind) out = norm(out, by.behind_mlp);
    out = dropout(t, out, drops_mlp_alone());
    value sum = add_dropped(x, out);
    own_input.drop();
    attention.output.drop();
    return sum;
  }
  /// residual + x, or x times a number
  constexpr value add_to(const tensor& residual, const tensor& x) {
    if (code().multiplies_residual) return add(t, residual, scale(t, x));
    return add(t, residual, x);
  }
  // Phi3DecoderLayer has what it drops elements of until the sum is there.
  constexpr value add_dropped(const tensor& residual, const tensor& x) {
    const value dropped = dropout(t, t.share(x), drops_residual());
    return add_to(residual, dropped);
  }
  // PhiDecoderLayer
  constexpr value parallel_layer(const layer_modules& by, const tensor& input) {
    const value normed = norm(input, by.before_attention);
    attended attention = attention_of(by, normed);
    attention.output = dropout(t, attention.output, drops_residual());
    const value fed = dropout(t, mlp(by, normed), drops_residual() || drops_mlp_alone());
    if (code().adds_to_residual) return add(t, add(t, input, attention.output), fed);
    return add(t, add(t, attention.output, fed), input);
  }

  constexpr virtual value feed_forward(const layer_modules& by, argument given) {
    const held x(given);
    enter();
    value out = dropout(t, mlp(by, x), drops_within());
    leave(out);
    return out;
  }

  // -- attention

  constexpr virtual attended attend_to(const layer_modules& by, argument given) {
    const held x(given);
    enter();
    attended made = attention_of(by, x);
    leave(made.output);
    return made;
  }
  constexpr virtual attended attention_of(const layer_modules& by, const tensor& x) {
    auto [q, k, v] = project_all(by, x);
    const auto turn = [&](const tensor& front) { return rotate(front); };
    head_parts parts;
    if (code().rotary_parts == rotary_parts_kind::in_attention)  // variables of PhiAttention
      parts = rotate_fronts(q, k, rotary_width(), turn);
    else if (model.has_rope(at_layer_))
      rotate_both(q, k);
    if (cache != nullptr) cache->update(t, at_layer_, k, v);
    if (code().normalizes_rotated_heads && model.qk_norm != qk_norm_scope::none) {
      q = norm(q, by.query_norm);
      k = norm(k, by.key_norm);
    }
    if (code().scales_queries) q = multiply(t, q, scales_of_queries(q->format));
    const eager_attention_options as{.caps_scores = code().caps_scores};
    attended made = project_out(attend_in_groups(q, k, v, beside[the_mask], as), by.out);
    made.output = dropout(t, made.output, drops_within());
    // Python lets go of a function's variables in the order in which they came.
    for (value* one : {&q, &k, &v, &parts.front_q, &parts.rest_q, &parts.front_k, &parts.rest_k})
      one->drop();
    return made;
  }
  /// 1 + beta * log(1 + floor(position / length)): Ministral 3's
  constexpr value scales_of_queries(element format) {
    const sizes one{1, 1, setup.sequence_length, 1};
    value scales = compute(t, beside[the_sines + 1], one, element::fp32);
    for (int operation = 0; operation < 5; ++operation)
      scales = compute(t, scales, one, element::fp32);
    return cast(t, scales, format);
  }
  // By no conditional operator: g++ 12 gives up what it makes too early, while compiling.
  constexpr projections project_all(const layer_modules& by, const tensor& x) {
    if (model.fused_qkv) return project_fused(by, x);
    return project(by, x, code().views_behind_projections);
  }
  // Phi3Attention
  constexpr projections project_fused(const layer_modules& by, const tensor& x) {
    const std::int64_t head = model.query_dim();
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t groups = model.key_value_heads();
    const value qkv = linear(x, by.qkv);
    const value q = slice(t, qkv, 2, heads * head);
    const value k = slice(t, qkv, 2, groups * head);
    const value v = slice(t, qkv, 2, groups * head);
    return {heads_of(q, heads, head), heads_of(k, groups, head), heads_of(v, groups, head)};
  }

  value embedding_scale_{};
  int at_layer_ = none;
};

}  // namespace gpuplan::eager
