#pragma once

// Ernie4_5_MoeForCausalLM of Hugging Face's transformers 5.23. Private.

#include <gpuplan/replay/codes/hugging_face_mixture.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class ernie_moe_code : public hugging_face_mixture {
 public:
  using hugging_face_mixture::hugging_face_mixture;
  constexpr ~ernie_moe_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  // Ernie4_5_MoeStatics: a parameter that never trains
  constexpr void build_router(expert_modules& made, bool trains) override {
    made.router.weight = parameter({model.moe.num_experts, model.hidden_size}, trains);
    name(made.router, "router");
    made.router.bias = parameter({1, model.moe.num_experts}, false);
  }

  constexpr attended attention_of(const layer_modules& by, const tensor& x) override {
    auto [q, k, v] = project(by, x, false);
    turn(q, k);
    return project_out(attend_in_groups(q, k, v, beside[the_mask], {}), by.out);
  }
  // apply_rotary_pos_emb: neighbours, in fp32
  constexpr void turn(value& q, value& k) {
    const auto repeated = [&](int which) {
      const tensor seen = table(which);
      return compute(t, seen, seen.size, seen.format);
    };
    const value cosines = repeated(the_cosines);
    const value sines = repeated(the_sines);
    const auto turned = [&](const tensor& x) {
      value straight = multiply(t, cast(t, x, element::fp32), cosines);
      return add(t, straight, multiply(t, cast(t, rotate_every_two(x), element::fp32), sines));
    };
    const value turned_q = turned(q);
    const value turned_k = turned(k);
    value cast_q = cast(t, turned_q, q->format);
    k = cast(t, turned_k, k->format);
    q = std::move(cast_q);
  }

  // Ernie4_5_MoeTopKRouter
  constexpr routes routes_of(const expert_modules& by, const tensor& rows) override {
    const std::int64_t chosen = model.moe.num_experts_per_tok;
    routes made;
    {
      const auto in_fp32 = t.without_autocast();
      made.logits = fp32_logits(by, rows);
      made.weights = softmax_in_fp32(made.logits);
      {
        const auto unrecorded = t.without_graph();
        const value wanted = add(t, made.weights, t.parameter(by.router.bias));
        made.places = std::move(top_k(t, view(t, wanted, made.weights->size), chosen).places);
      }
      made.weights = take_along(t, made.weights, made.places);
      const value sum = clamp(t, sum_of_rows(made.weights), 1);
      made.weights = quotient(t, made.weights, sum);
    }
    made.weights = cast(t, made.weights, rows.format);
    return made;
  }
};

}  // namespace gpuplan::eager
