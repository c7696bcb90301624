#pragma once

// Latent attention of Hugging Face's transformers 5.23: DeepSeek-V2 and V3, and those made from
// them. Private.

#include <gpuplan/replay/codes/hugging_face_ernie_moe.hpp>
#include <gpuplan/replay/codes/hugging_face_gpt_oss.hpp>
#include <gpuplan/replay/codes/hugging_face_granite_moe.hpp>
#include <gpuplan/replay/codes/hugging_face_llama4.hpp>
#include <gpuplan/replay/codes/hugging_face_mixture.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Query, and key and value together, pass through narrow latent vectors.
class latent_code : public hugging_face_mixture {
 public:
  using hugging_face_mixture::hugging_face_mixture;
  constexpr ~latent_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr void build_attention(layer_modules& made, bool trains) override {
    const latent_attention& mla = model.mla;
    const std::int64_t width = model.hidden_size;
    const std::int64_t heads = model.num_attention_heads;
    const bool bias = model.attention_bias;
    const std::int64_t queries = heads * model.query_dim();
    if (mla.q_lora_rank != 0) {
      made.query_down =
          linear_module(operator_kind::query_down, mla.q_lora_rank, width, bias, trains);
      made.query_norm = norm_module(mla.q_lora_rank, trains);
    }
    const std::int64_t from = mla.q_lora_rank != 0 ? mla.q_lora_rank : width;
    made.query = linear_module(operator_kind::query, queries, from, false, trains);
    made.key_value_down = linear_module(operator_kind::key_value_down,
                                        mla.kv_lora_rank + mla.qk_rope_head_dim,
                                        width,
                                        bias,
                                        trains);
    made.key_norm = norm_module(mla.kv_lora_rank, trains);
    made.key_value_up = linear_module(operator_kind::key_value_up,
                                      heads * (mla.qk_nope_head_dim + mla.v_head_dim),
                                      mla.kv_lora_rank,
                                      false,
                                      trains);
    made.out =
        linear_module(operator_kind::attention_output, width, heads * mla.v_head_dim, bias, trains);
  }

  // DeepseekV3Attention
  constexpr attended attention_of(const layer_modules& by, const tensor& x) override {
    const latent_attention& mla = model.mla;
    const std::int64_t batch = x.size[0];
    const std::int64_t tokens = x.size[1];
    const std::int64_t heads = model.num_attention_heads;
    value states;
    if (mla.q_lora_rank != 0)
      states = linear(norm(linear(x, by.query_down), by.query_norm), by.query);
    else
      states = linear(x, by.query);
    states = heads_of(std::move(states), heads, model.query_dim());
    value passed, turned_q;
    split_in_two(states, 3, mla.qk_nope_head_dim, passed, turned_q);
    const value compressed = linear(x, by.key_value_down);
    value latent, turned_k;
    split_in_two(compressed, 2, mla.kv_lora_rank, latent, turned_k);
    latent = norm(latent, by.key_norm);
    latent = view(t, latent, {batch, 1, tokens, mla.kv_lora_rank});
    turned_k = view(t, turned_k, {batch, 1, tokens, mla.qk_rope_head_dim});
    turn(turned_q, turned_k);
    const value query = concatenate(t, passed, turned_q, 3);
    const value both =
        transpose(t,
                  view(t,
                       linear(latent, by.key_value_up),
                       {batch, tokens, heads, mla.qk_nope_head_dim + mla.v_head_dim}),
                  1,
                  2);
    value unturned, values;
    split_in_two(both, 3, mla.qk_nope_head_dim, unturned, values);
    const value turned = expand(t, turned_k, {batch, heads, tokens, mla.qk_rope_head_dim});
    const value key = copied_side_by_side(t, unturned, turned);
    return project_out(attend(query, key, values, beside[the_mask], true, {}), by.out);
  }
  constexpr void split_in_two(
      const tensor& of, int dimension, std::int64_t length, value& first, value& second) {
    const int parts = split(t, of);
    first = part(t, parts, of, dimension, length, 0);
    second = part(t, parts, of, dimension, of.size[dimension] - length, 1);
  }

  /// Rotates neighbours, which stand in halves then, or halves.
  constexpr virtual void turn(value& q, value& k) {
    if (!model.mla.rope_interleave) return rotate_both(q, k);
    const value first_q = every_second(t, q, 3);
    const value second_q = every_second(t, q, 3);
    const value first_k = every_second(t, k, 3);
    const value second_k = every_second(t, k, 3);
    value turned_q = turned(first_q, second_q);
    k = turned(first_k, second_k);
    q = std::move(turned_q);
  }
  /// [first * cos - second * sin, second * cos + first * sin]
  constexpr value turned(const tensor& first, const tensor& second) {
    value left = multiply(t, first, half_table(the_cosines));
    left = subtract(t, left, multiply(t, second, half_table(the_sines)));
    value right = multiply(t, second, half_table(the_cosines));
    right = add(t, right, multiply(t, first, half_table(the_sines)));
    return concatenate(t, left, right, 3);
  }
  constexpr tensor half_table(int which) const {
    tensor seen = table(which);
    seen.size[3] /= 2;
    return seen;
  }
};

/// DeepseekV2ForCausalLM, which rotates by products of complex numbers.
class deepseek_v2_code : public latent_code {
 public:
  using latent_code::latent_code;
  constexpr ~deepseek_v2_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr void rotary_tables(const tensor& inverse, element, value& turns, value&) override {
    turns = complex_table(inverse);
  }
  constexpr void turn(value& q, value& k) override { turn_pairs(q, k, 2, false); }
};

inline constexpr known_code codes_of_mixtures[] = {
    {&code_names::mixture, &code_of<hugging_face_mixture>},
    {&code_names::latent, &code_of<latent_code>},
    {&code_names::deepseek_v2, &code_of<deepseek_v2_code>},
    {&code_names::ernie_moe, &code_of<ernie_moe_code>},
    {&code_names::granite_moe, &code_of<granite_moe_code>},
    {&code_names::hunyuan_moe, &code_of<hunyuan_moe_code>},
    {&code_names::llama4, &code_of<llama4_code>},
    {&code_names::gpt_oss, &code_of<gpt_oss_code>}};

}  // namespace gpuplan::eager
