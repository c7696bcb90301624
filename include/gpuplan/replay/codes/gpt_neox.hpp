#pragma once

// GPTNeoXForCausalLM of Hugging Face's transformers 5.23. Private.

#include <gpuplan/replay/codes/hugging_face.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Attention and MLP read the same input, each through a norm of its own.
class gpt_neox_code : public hugging_face_decoder {
 public:
  using hugging_face_decoder::hugging_face_decoder;
  constexpr ~gpt_neox_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr layer_modules build_layer(bool trains) override {
    using its = layer_modules;
    return built(
        trains,
        {&its::before_attention, &its::before_mlp, &its::qkv, &its::out, &its::up, &its::down});
  }

  // GPTNeoXLayer
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    attended attention = attend_to(by, norm(x, by.before_attention));
    attention.output = dropout(t, attention.output, drops);
    const value fed = dropout(t, mlp(by, norm(x, by.before_mlp)), drops);
    return add(t, add(t, fed, attention.output), x);
  }

  // GPTNeoXAttention
  constexpr attended attend_to(const layer_modules& by, argument given) {
    const held x(given);
    const std::int64_t head = model.query_dim();
    const std::int64_t heads = model.num_attention_heads;
    value q, k, v;
    split_in_three(heads_of(linear(x, by.qkv), heads, 3 * head), 3, head, q, k, v);
    {
      head_parts of = parts_of(q, k, rotary_width());
      of.front_q = rotate(of.front_q);
      of.front_k = rotate(of.front_k);
      q = concatenate(t, std::move(of.front_q), of.rest_q, 3);
      k = concatenate(t, std::move(of.front_k), of.rest_k, 3);
    }
    attended made = attend(q, k, v, beside[the_mask], true, {});
    made.output = linear(view(t, made.output, x.size), by.out);
    return made;
  }
};

}  // namespace gpuplan::eager
