#pragma once

// GPTNeoXForCausalLM of Hugging Face's transformers 5.23. Private.

#include <gpuplan/replay/codes/hugging_face.hpp>

#include <cstdint>

namespace gpuplan::eager {

/// Attention and MLP read the same input, each through a norm of its own.
class gpt_neox_code : public hugging_face_decoder {
 public:
  using hugging_face_decoder::hugging_face_decoder;
  constexpr ~gpt_neox_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr void build_layer(layer_modules& made, bool trains) override {
    const std::int64_t width = model.hidden_size;
    const std::int64_t ffn = model.intermediate_size;
    const bool bias = model.attention_bias;
    made.before_attention = norm_module(width, trains);
    made.before_mlp = norm_module(width, trains);
    made.qkv = linear_module(operator_kind::query_key_value, 3 * width, width, bias, trains);
    made.out = linear_module(operator_kind::attention_output, width, width, bias, trains);
    made.up = linear_module(operator_kind::up, ffn, width, model.mlp_bias, trains);
    made.down = linear_module(operator_kind::down, width, ffn, model.mlp_bias, trains);
  }

  // GPTNeoXLayer
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = modules_[index];
    attended of_attention;
    {
      const value normed = norm(x, by.before_attention);
      of_attention = attend_to(by, normed);
    }
    of_attention.output = dropout(t, of_attention.output, drops);
    value fed;
    {
      const value normed = norm(x, by.before_mlp);
      fed = mlp(by, normed);
    }
    fed = dropout(t, fed, drops);
    const value sum = add(t, fed, of_attention.output);
    return add(t, sum, x);
  }

  // GPTNeoXAttention
  constexpr attended attend_to(const layer_modules& by, const tensor& x) {
    const std::int64_t head = model.query_dim();
    const std::int64_t heads = model.num_attention_heads;
    value q, k, v;
    {
      const value flat = linear(x, by.qkv);
      const value qkv = heads_of(flat, heads, 3 * head);
      const int parts = split(t, qkv);
      q = part(t, parts, qkv, 3, head, 0);
      k = part(t, parts, qkv, 3, head, 1);
      v = part(t, parts, qkv, 3, head, 2);
    }
    rotate_fronts(q, k);
    attended made = attend(q, k, v, beside[the_mask], true, {});
    made.output = view(t, made.output, {x.size[0], x.size[1], heads * head});
    made.output = linear(made.output, by.out);
    return made;
  }

  // apply_rotary_pos_emb
  constexpr void rotate_fronts(value& q, value& k) {
    const std::int64_t width = rotary_width();
    const std::int64_t rest = model.query_dim() - width;
    const value front_q = slice(t, q, 3, width);
    const value rest_q = slice(t, q, 3, rest);
    const value front_k = slice(t, k, 3, width);
    const value rest_k = slice(t, k, 3, rest);
    value rotated_q = rotate(front_q);
    value rotated_k = rotate(front_k);
    rotated_q = concatenate(t, rotated_q, rest_q, 3);
    rotated_k = concatenate(t, rotated_k, rest_k, 3);
    q = static_cast<value&&>(rotated_q);
    k = static_cast<value&&>(rotated_k);
  }
};

}  // namespace gpuplan::eager
