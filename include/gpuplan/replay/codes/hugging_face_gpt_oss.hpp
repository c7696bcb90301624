#pragma once

// GptOssForCausalLM of Hugging Face's transformers 5.23: attention with sinks, always eager, and
// experts with biases and neighbouring gates. Private.

#include <gpuplan/replay/codes/hugging_face_mixture.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class gpt_oss_code : public hugging_face_mixture {
 public:
  using hugging_face_mixture::hugging_face_mixture;
  constexpr ~gpt_oss_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr void build_attention(layer_modules& made, bool trains) override {
    made.sinks = t.reserve_parameter(trains);
    hugging_face_mixture::build_attention(made, trains);
    t.build_parameter(made.sinks, sizes{model.num_attention_heads}, element::fp32);
    t.parameters[made.sinks].name = "sinks";
  }

  // GptOssRotaryEmbedding: of half the width
  [[nodiscard]] constexpr bool doubles_angles() const override { return false; }

  // GptOssAttention
  constexpr attended attention_of(const layer_modules& by, const tensor& x) override {
    auto [q, k, v] = project(by, x, false);
    {
      value turned_q = turned(q);
      k = turned(k);
      q = std::move(turned_q);
    }
    const std::int64_t times = q->size[1] / k->size[1];
    if (times != 1) {
      const value all_k = repeat_heads(t, k, times, true);
      const value all_v = repeat_heads(t, v, times, true);
      return project_out(attend_beside_sinks(by, q, all_k, all_v), by.out);
    }
    return project_out(attend_beside_sinks(by, q, k, v), by.out);
  }
  // _apply_rotary_emb
  constexpr value turned(const tensor& x) {
    const int parts = split(t, x);
    const std::int64_t half = x.size[3] / 2;
    const value first = part(t, parts, x, 3, half, 0);
    const value second = part(t, parts, x, 3, half, 1);
    value left = multiply(t, first, table(the_cosines));
    left = subtract(t, left, multiply(t, second, table(the_sines)));
    value right = multiply(t, second, table(the_cosines));
    right = add(t, right, multiply(t, first, table(the_sines)));
    return concatenate(t, left, right, 3);
  }
  constexpr attended attend_beside_sinks(const layer_modules& by,
                                         const tensor& q,
                                         const tensor& k,
                                         const tensor& v) {
    value weights = scale(t, matmul(t, q, transpose(t, k, 2, 3)));
    if (beside[the_mask].defined()) weights = add(t, weights, beside[the_mask]);
    const sizes& all = weights->size;
    value sinks = view(t, t.parameter(by.sinks), {1, all[1], 1, 1});
    sinks = expand(t, sinks, {all[0], all[1], all[2], 1});
    value logits = concatenate(t, weights, sinks, 3);
    logits = subtract(t, logits, std::move(top_k(t, logits, 1).elements));
    const value shares = softmax(t, logits, logits->format);
    const value scores = slice(t, shares, 3, all[3]);
    weights = cast(t, dropout(t, scores, drops_attention), v.format);
    attended made;
    const value result = matmul(t, weights, v);
    made.output = contiguous(t, transpose(t, result, 1, 2));
    made.weights = std::move(weights);
    return made;
  }

  // GptOssExperts._apply_gate: of neighbours
  constexpr value gate(argument given) override {
    const held both(given);
    value front = every_second(t, both, 1);
    value up = every_second(t, both, 1);
    front = clamp(t, front, 1);
    up = clamp(t, up, 2);
    value glu = scale(t, front);
    glu = multiply(t, front, keeping_result(t, std::move(glu)));
    return multiply(t, add_number(t, up), glu);
  }
};

}  // namespace gpuplan::eager
