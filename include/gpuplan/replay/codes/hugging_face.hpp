#pragma once

// Decoders of Hugging Face's transformers: LLaMA, and what was copied from it. Private.
// Transcribed from transformers 5.23, models/llama/modeling_llama.py and its kin: Mistral, Qwen2,
// Qwen3, Gemma 1 to 3, Phi, Phi-3, OLMo 1 and 2. Classes differ as `framework::decoder` and the
// model say.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>

namespace gpuplan::eager {

class hugging_face_decoder : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~hugging_face_decoder() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    tokens_ = token_table(model.vocab_size, model.hidden_size, trains_table());
    if (code().scales_embedding) {
      embedding_scale_ = t.charge(purpose::buffers)->make(sizes{}, element::fp32);
      add_buffer(embedding_scale_);
    }
    for (std::int64_t at = 0; at < layers; ++at) {
      layer_modules made;
      const auto built = t.building_unit(at);
      build_layer(made, trains_layer(at));
      modules_.push(made);
    }
    if (code().builds_rotary_first) build_rotary();
    if (model.norm_affine) norm_ = norm_module(model.hidden_size, trains_final_norm());
    if (!code().builds_rotary_first) build_rotary();
    initialize();
    head_ = head_module(tokens_);
  }

  constexpr void make_batch() override { make_token_batch(); }

  constexpr value forward() override {
    t.begin(moment::forward);
    const value hidden = run_model();
    t.begin(moment::loss);
    value logits = linear(hidden, head_);
    if (code().caps_logits) logits = capped(static_cast<value&&>(logits));
    return causal_lm_loss(logits, labels_);
  }

 protected:
  struct layer_modules {
    module query, key, value, qkv, out, query_norm, key_norm;
    module gate, up, gate_up, down;
    module before_attention, behind_attention, before_mlp, behind_mlp;  // norms
  };
  // Of what layers read beside their input.
  static constexpr int the_mask = 0;
  static constexpr int the_cosines = 1;
  static constexpr int the_sines = 2;
  static constexpr int the_positions = 3;

  [[nodiscard]] constexpr const decoder_code& code() const {
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

  /// 1 / base ** (arange(0, width, 2) / width)
  constexpr value inverse_frequencies() {
    const sizes half{rotary_width() / 2};
    if (t.gathers()) return t.make(half, element::fp32);  // the rest is without memory
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
    const auto charged = t.charge(purpose::buffers);
    for (int kind = 0; kind < kinds_of_tables(); ++kind) {
      value* const pair = frequencies_[kind];
      pair[0] = inverse_frequencies();
      pair[1] = t.make(pair[0]->size, element::fp32);
      add_buffer(pair[0]);
      add_buffer(pair[1]);
    }
  }
  // The frequencies are made once more where weights are initialised.
  constexpr void initialize() {
    if (t.gathers()) return;
    value again;
    for (int kind = 0; kind < kinds_of_tables(); ++kind) again = inverse_frequencies();
  }

  constexpr virtual void build_layer(layer_modules& made, bool trains) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t head = model.query_dim();
    const std::int64_t inner = model.num_attention_heads * head;
    const std::int64_t groups = model.key_value_heads() * head;
    const std::int64_t ffn = model.intermediate_size;
    const bool bias = model.attention_bias;
    const auto build_out = [&] {
      made.out = linear_module(
          operator_kind::attention_output, width, inner, model.attention_out_bias, trains);
    };
    if (model.fused_qkv) {
      build_out();
      made.qkv =
          linear_module(operator_kind::query_key_value, inner + 2 * groups, width, bias, trains);
    } else {
      made.query = linear_module(operator_kind::query, inner, width, bias, trains);
      made.key = linear_module(operator_kind::key, groups, width, bias, trains);
      made.value = linear_module(operator_kind::value, groups, width, bias, trains);
      build_out();
    }
    if (model.qk_norm != qk_norm_scope::none) {
      const bool is_whole = model.qk_norm == qk_norm_scope::full_width;
      made.query_norm = norm_module(is_whole ? inner : head, trains);
      made.key_norm = norm_module(is_whole ? groups : head, trains);
    }
    if (model.fused_gate_up) {
      made.gate_up = linear_module(operator_kind::gate_up, 2 * ffn, width, model.mlp_bias, trains);
    } else {
      if (model.gated_mlp)
        made.gate = linear_module(operator_kind::gate, ffn, width, model.mlp_bias, trains);
      made.up = linear_module(operator_kind::up, ffn, width, model.mlp_bias, trains);
    }
    made.down = linear_module(operator_kind::down, width, ffn, model.mlp_bias, trains);
    if (!model.norm_affine) return;
    const bool around = model.norm_at == norm_position::around;
    const bool before = around || model.norm_at == norm_position::before;
    const bool behind = around || model.norm_at == norm_position::after_sublayer;
    if (before) made.before_attention = norm_module(width, trains);
    if (behind) made.behind_attention = norm_module(width, trains);
    if (before && !model.parallel_attention) made.before_mlp = norm_module(width, trains);
    if (behind) made.behind_mlp = norm_module(width, trains);
  }

  // -- the model

  constexpr value run_model() {
    const std::int64_t batch = plan.micro_batch;
    const std::int64_t tokens = setup.sequence_length;
    enter();
    value embedded = embed();
    const value positions = shifted_range(tokens);
    const element format = embedded->format;
    // One mask that all layers read, or one for each kind.
    const bool by_kind = code().masks_by_kind;
    const value mask =
        mask_of(batch, tokens, tokens, format, true, by_kind ? 0 : model.sliding_window);
    value near_mask;
    if (by_kind && model.sliding_window != 0)
      near_mask = mask_of(batch, tokens, tokens, format, true, model.sliding_window);
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
      beside[the_positions] = positions;
      hidden = run_layer(at, hidden);
    }
    hidden = norm(hidden, norm_);
    leave(hidden);
    return hidden;
  }

  constexpr value embed() {
    if (!code().scales_embedding) return embed_tokens(ids_, tokens_);
    const value rows = embedding(t, ids_, tokens_.copy != none ? tokens_.copy : tokens_.weight);
    value scaled;
    {
      const value factor = cast(t, embedding_scale_, rows->format);
      scaled = multiply(t, rows, factor);
    }
    if (setup.recompute == recompute_mode::full) t.require_gradient(scaled.get());
    return adapters.add_to_rows(
        static_cast<value&&>(scaled), tokens_.adapter, ids_, embedding_scale_);
  }

  constexpr void rotary_tables(const tensor& inverse,
                               element format,
                               value& cosines,
                               value& sines) {
    const std::int64_t tokens = setup.sequence_length;
    const std::int64_t width = rotary_width();
    value angles;
    {
      const value positions = t.make({1, tokens, 1}, element::fp32);
      const value frequencies = cast(t, inverse, element::fp32);
      angles = t.make({1, tokens, width / 2}, element::fp32);
    }
    const sizes table{1, tokens, width};
    const value both = t.make(table, element::fp32, {"rotary angles"});
    const auto scaled = [&] {
      const value plain = t.make(table, element::fp32, {"rotary table"});
      return t.make(table, element::fp32, {"rotary table"});
    };
    const value cosine = scaled();
    const value sine = scaled();
    const element wanted = code().rotates_in_fp32 ? element::fp32 : format;
    cosines = cast(t, cosine, wanted);
    sines = cast(t, sine, wanted);
  }

  constexpr value layer(int index, const tensor& input) override {
    const layer_modules& by = modules_[index];
    if (model.parallel_attention) return parallel_layer(by, input);
    const bool before = model.norm_at != norm_position::after_sublayer;
    const bool behind = model.norm_at != norm_position::before;
    attended of_attention;
    {
      value normed;
      if (before)
        normed = norm(input, by.before_attention);
      else
        normed = t.share(input);
      enter();
      of_attention = attention(by, normed);
      leave(of_attention.output);
    }
    if (behind) of_attention.output = norm(of_attention.output, by.behind_attention);
    value x;
    {
      const value dropped = dropout(t, of_attention.output, drops_residual());
      x = add(t, input, dropped);
    }
    of_attention.output.drop();
    value out;
    {
      value normed;
      if (before)
        normed = norm(x, by.before_mlp);
      else
        normed = t.share(x);
      enter();
      out = mlp(by, normed);
      leave(out);
    }
    if (behind) out = norm(out, by.behind_mlp);
    const value dropped = dropout(t, out, drops_residual());
    return add(t, x, dropped);
  }
  // PhiDecoderLayer
  constexpr value parallel_layer(const layer_modules& by, const tensor& input) {
    const value normed = norm(input, by.before_attention);
    attended of_attention = attention(by, normed);
    of_attention.output = dropout(t, of_attention.output, drops_residual());
    value fed = mlp(by, normed);
    fed = dropout(t, fed, drops_residual());
    const value sum = add(t, of_attention.output, fed);
    return add(t, sum, input);
  }

  constexpr value norm(const tensor& x, const module& by) {
    if (!is_watched) return normed(x, by);
    const value input = shards->module_begins(x, watched(by));
    value result = normed(input, by);
    leave(result, by);
    return result;
  }
  constexpr value normed(const tensor& x, const module& by) {
    if (model.norm == norm_kind::layer_norm) {
      if (model.norm_affine) return layer_norm(t, x, by.weight, by.bias);
      // OlmoLayerNorm
      value wide = cast(t, x, element::fp32);
      const value normed = layer_norm(t, wide, none, none);
      wide.drop();
      return cast(t, normed, x.format);
    }
    switch (setup.framework.implementation.rms_norm) {
      case rms_norm_code::eager_shifted:
        return shifted_rms_norm(x, by);
      case rms_norm_code::eager_whole:
        return eager_rms_norm(x, by, false);
      default:
        return eager_rms_norm(x, by, true);
    }
  }
  // LlamaRMSNorm, Olmo2RMSNorm
  constexpr value eager_rms_norm(const tensor& input, const module& by, bool casts_first) {
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
    if (casts_first) {
      const value back = cast(t, x, input.format);
      return multiply(t, t.parameter(by.weight), back);
    }
    const value product = multiply(t, t.parameter(by.weight), x);
    return cast(t, product, input.format);
  }
  // GemmaRMSNorm: (1 + weight), all in fp32
  constexpr value shifted_rms_norm(const tensor& input, const module& by) {
    value output;
    {
      const value x = cast(t, input, element::fp32);
      value root;
      {
        value shifted;
        {
          value variance;
          {
            const value squares = power(t, x);
            variance = mean(t, squares);
          }
          shifted = add_number(t, variance);
        }
        root = reciprocal_root(t, shifted);
      }
      output = multiply(t, x, root);
    }
    {
      value factor;
      {
        const value weight = cast(t, t.parameter(by.weight), element::fp32);
        factor = add_number(t, weight);
      }
      output = multiply(t, output, factor);
    }
    return cast(t, output, input.format);
  }

  constexpr value mlp(const layer_modules& by, const tensor& x) {
    if (model.fused_gate_up) {
      value gate, up;
      {
        const value both = linear(x, by.gate_up);
        const int parts = split(t, both);
        gate = part(t, parts, both, 2, model.intermediate_size, 0);
        up = part(t, parts, both, 2, model.intermediate_size, 1);
      }
      {
        const value activated = activation(gate);
        up = multiply(t, up, activated);
      }
      return linear(up, by.down);
    }
    if (!model.gated_mlp) {
      value hidden = linear(x, by.up);
      if (model.hidden_act == activation_function::gelu_tanh)
        hidden = new_gelu(hidden);
      else
        hidden = activation(hidden);
      return linear(hidden, by.down);
    }
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
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t head = model.query_dim();
    value q, k, v;
    project(by, x, q, k, v);
    // PhiAttention: the parts are its own variables.
    value front_q, rest_q, front_k, rest_k;
    if (code().rotary_parts == rotary_parts_code::in_attention) {
      front_q = slice(t, q, 3, rotary_width());
      rest_q = slice(t, q, 3, head - rotary_width());
      front_k = slice(t, k, 3, rotary_width());
      rest_k = slice(t, k, 3, head - rotary_width());
      value rotated_q = rotate(front_q);
      value rotated_k = rotate(front_k);
      front_q = static_cast<value&&>(rotated_q);
      front_k = static_cast<value&&>(rotated_k);
      q = concatenate(t, front_q, rest_q, 3);
      k = concatenate(t, front_k, rest_k, 3);
    } else {
      if (code().rotary_parts == rotary_parts_code::in_rotation) {
        front_q = slice_or_alias(q, rotary_width());
        rest_q = slice(t, q, 3, head - rotary_width());
        front_k = slice_or_alias(k, rotary_width());
        rest_k = slice(t, k, 3, head - rotary_width());
      }
      value rotated_q = rotate_front(q, front_q, rest_q);
      value rotated_k = rotate_front(k, front_k, rest_k);
      front_q.drop();
      rest_q.drop();
      front_k.drop();
      rest_k.drop();
      if (code().rotates_in_fp32) {
        value back_q = cast(t, rotated_q, q->format);
        value back_k = cast(t, rotated_k, k->format);
        rotated_q = static_cast<value&&>(back_q);
        rotated_k = static_cast<value&&>(back_k);
      }
      q = static_cast<value&&>(rotated_q);
      k = static_cast<value&&>(rotated_k);
    }
    attended y = interface(q, k, v);
    y.output = view(t, y.output, {x.size[0], x.size[1], heads * head});
    y.output = linear(y.output, by.out);
    return y;
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
    value flat = linear(x, by);
    if (norm_of.weight == none || code().normalizes_turned_heads)
      return heads_of(flat, heads, head);
    const value apart = view(t, flat, {x.size[0], x.size[1], heads, head});
    flat.drop();
    const value normed = norm(apart, norm_of);
    return transpose(t, normed, 1, 2);
  }

  /// The front of each head is rotated, the rest passes.
  constexpr value rotate_front(const tensor& x, const tensor& front, const tensor& rest) {
    if (code().rotary_parts == rotary_parts_code::none) return rotate(x);
    const value rotated = rotate(front);
    return concatenate(t, rotated, rest, 3);
  }
  /// x[..., :width], which is x with another name where it has no more.
  constexpr value slice_or_alias(const tensor& x, std::int64_t width) {
    if (width != x.size[3]) return slice(t, x, 3, width);
    value same = t.share(x);
    const int by = t.add_node(node_kind::pass, {&x});
    t.result_of(by, same.get());
    return same;
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
    const eager_code as{.caps_scores = code().caps_scores};
    const std::int64_t times = q.size[1] / k.size[1];
    if (times == 1 || (!is_eager() && !mask.defined() && k.size[3] <= 256))
      return attend(q, k, v, mask, true, as);
    const value all_k = repeat_heads(t, k, times, true);
    const value all_v = repeat_heads(t, v, times, true);
    return attend(q, all_k, all_v, mask, true, as);
  }

  module tokens_{}, norm_{}, head_{};
  growing_array<layer_modules> modules_{};
  value embedding_scale_{};
  value frequencies_[2][2]{};  // of each kind of layer, and its copy
};

}  // namespace gpuplan::eager
