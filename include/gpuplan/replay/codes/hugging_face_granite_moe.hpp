#pragma once

// GraniteMoeForCausalLM, GraniteMoeSharedForCausalLM and HunYuanMoEV1ForCausalLM of Hugging Face's
// transformers 5.23. Private.

#include <gpuplan/replay/codes/hugging_face_mixture.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Granite multiplies embeddings, what attention and experts add, and logits by numbers. Its shared
/// expert stands beside the others in the layer.
class granite_moe_code : public hugging_face_mixture {
 public:
  using hugging_face_mixture::hugging_face_mixture;
  constexpr ~granite_moe_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr void build_shared(expert_modules&, bool) override {}
  constexpr layer_modules build_layer(bool trains) override {
    layer_modules made = hugging_face_mixture::build_layer(trains);
    const std::int64_t width = model.hidden_size;
    const std::int64_t inner = model.moe.shared_expert_intermediate_size;
    if (inner == 0) return made;
    made.gate_up = linear_module(operator_kind::shared_gate_up, 2 * inner, width, false, trains);
    made.down = linear_module(operator_kind::shared_down, width, inner, false, trains);
    return made;
  }

  constexpr value embed(const tensor& ids) override {
    return scale(t, hugging_face_mixture::embed(ids));
  }
  constexpr value logits_of(const tensor& hidden) override {
    return scale(t, linear(hidden, head_));
  }

  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    attended attention = attend_to(by, norm(x, by.before_attention));
    const value sum = add(t, x, scale(t, attention.output));
    attention.output.drop();
    const value hidden = norm(sum, by.before_mlp);
    value out = feed_forward(by, hidden);
    if (by.gate_up.weight != none) out = add(t, out, shared_mlp(by, hidden));
    return add(t, sum, scale(t, out));
  }
  // GraniteMoeSharedMLP
  constexpr value shared_mlp(const layer_modules& by, const tensor& x) {
    const std::int64_t inner = model.moe.shared_expert_intermediate_size;
    value gate, up;
    {
      const value both = linear(x, by.gate_up);
      const int parts = split(t, both);
      gate = part(t, parts, both, 2, inner, 0);
      up = part(t, parts, both, 2, inner, 1);
    }
    return linear(multiply(t, activation(gate), up), by.down);
  }
};

/// HunYuan normalises query and key once they are rotated.
class hunyuan_moe_code : public hugging_face_mixture {
 public:
  using hugging_face_mixture::hugging_face_mixture;
  constexpr ~hunyuan_moe_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr attended attention_of(const layer_modules& by, const tensor& x) override {
    const std::int64_t head = model.query_dim();
    value q = heads_of(linear(x, by.query), model.num_attention_heads, head);
    value k = heads_of(linear(x, by.key), model.key_value_heads(), head);
    const value v = heads_of(linear(x, by.value), model.key_value_heads(), head);
    rotate_both(q, k);
    q = norm(q, by.query_norm);
    k = norm(k, by.key_norm);
    return project_out(attend_in_groups(q, k, v, beside[the_mask], {}), by.out);
  }
};

}  // namespace gpuplan::eager
