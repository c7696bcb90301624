#pragma once

// Llama4ForCausalLM of Hugging Face's transformers 5.23: every expert reads every token, weighted
// by zero where it was not chosen. Private.

#include <gpuplan/replay/codes/hugging_face_mixture.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class llama4_code : public hugging_face_mixture {
 public:
  using hugging_face_mixture::hugging_face_mixture;
  constexpr ~llama4_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr void rotary_tables(const tensor& inverse, element, value& turns, value&) override {
    turns = complex_table(inverse);
  }
  /// Chunks begin where the padding of each text ends.
  constexpr value near_and_before(const tensor& of_query,
                                  const tensor& of_key,
                                  const sizes& square) override {
    const std::int64_t batch = ids_->size[0];
    const sizes all{batch, 1, square[2], square[3]};
    const element truth = element::boolean;
    value joined = compute(t, of_query, sizes{1}, truth);
    {
      value within;
      {
        const value chunk_of_key = compute(t, of_key, {batch, 1, 1, square[3]}, element::int64);
        const value chunk = compute(t, of_query, {batch, 1, square[2], 1}, element::int64);
        within = compute(t, {&*chunk_of_key, &*chunk}, all, truth);
      }
      joined = compute(t, {&*joined, &*within}, all, truth);
    }
    const value before = compute(t, {&of_query, &of_key}, square, truth);
    return compute(t, {&*joined, &*before}, all, truth);
  }
  // Llama4TextDecoderLayer: what attention makes lives as long as the layer runs
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    turns_ = model.is_windowed(index);
    attended attention = attend_to(by, norm(x, by.before_attention));
    const value sum = add(t, x, attention.output);
    return add(t, sum, feed_forward(by, norm(sum, by.before_mlp)));
  }
  // Llama4TextRMSNorm: its weight comes last
  constexpr value normed(argument given, const nn_module& by) override {
    const held x(given);
    return multiply(t, even(x), t.parameter(by.weight));
  }
  // Llama4TextL2Norm
  constexpr value even(argument given) {
    const held x(given);
    value wide = cast(t, x, element::fp32);
    wide = multiply(t, wide, inverse_spread(wide));
    return cast(t, wide, x.format);
  }

  // Llama4TextAttention
  constexpr attended attention_of(const layer_modules& by, const tensor& x) override {
    const std::int64_t head = model.query_dim();
    const auto apart = [&](const nn_module& dense, std::int64_t heads) {
      return view(t, linear(x, dense), {x.size[0], x.size[1], heads, head});
    };
    value q = apart(by.query, model.num_attention_heads);
    value k = apart(by.key, model.key_value_heads());
    const value v = transpose(t, apart(by.value, model.key_value_heads()), 1, 2);
    value scales;
    if (turns_) {
      turn_pairs(q, k, 1, true);
      if (model.chunks.use_qk_norm) {
        q = even(q);
        k = even(k);
      }
    } else if (model.chunks.attn_temperature_tuning) {
      scales = temperatures(x.size[1]);
      tensor seen = scales;
      set_contiguous(seen, {1, x.size[1], 1, 1});
      q = cast(t, multiply(t, q, seen), q->format);
    }
    q = transpose(t, q, 1, 2);
    k = transpose(t, k, 1, 2);
    constexpr eager_attention_options as{.softmax_in_fp32 = false, .casts_weights = false};
    return project_out(attend_in_groups(q, k, v, beside[the_mask], as), by.out);
  }
  /// log1p(floor((positions + 1) / floor_scale)) * attn_scale + 1
  constexpr value temperatures(std::int64_t tokens) {
    const value positions = shifted_range(tokens);
    value scales = compute(t, positions, sizes{tokens}, element::fp32);
    for (int operation = 0; operation < 6; ++operation)
      scales = compute(t, std::move(scales), sizes{tokens}, element::fp32);
    return scales;
  }

  // Llama4TextMoe
  constexpr value mixture(const expert_modules& by, argument given) override {
    const held x(given);
    const std::int64_t count = model.moe.num_experts;
    const value rows = view(t, x, {x.size[0] * x.size[1], x.size[2]});
    const std::int64_t tokens = rows->size[0];
    const value logits = linear(rows, by.router);
    value scores;
    {
      chosen_elements largest = top_k(t, logits, model.moe.num_experts_per_tok);
      scores = scattered(t, largest.elements, largest.places, logits->size);
      scores = cast(t, keeping_result(t, cast(t, scores, element::fp32)), logits->format);
    }
    hand_out(logits);
    value routed = repeat_rows(t, rows, count);
    const sizes column{count * tokens, 1};
    routed = multiply(t, routed, reshape(t, transpose(t, scores, 0, 1), column));
    const value answers = run_all_experts(by, routed);
    const value out = shared_experts(by, rows);
    const value apart = view(t, answers, {count, tokens, x.size[2]});
    return view(t, add_in_place(t, out, sum_over(t, apart, 0)), x.size);
  }
  // Llama4TextExperts
  constexpr value run_all_experts(const expert_modules& by, const tensor& routed) {
    const std::int64_t count = model.moe.num_experts;
    const std::int64_t inner = model.moe.moe_intermediate_size;
    const value rows = view(t, routed, {count, routed.size[0] / count, routed.size[1]});
    const value both = matmul(t, rows, t.parameter(by.up.weight));
    const int parts = split(t, both);
    const value front = part(t, parts, both, 2, inner, 0);
    const value up = part(t, parts, both, 2, inner, 1);
    const value out = matmul(t, multiply(t, up, activation(front)), t.parameter(by.down.weight));
    return view(t, out, routed.size);
  }

 private:
  bool turns_ = true;
};

}  // namespace gpuplan::eager
