#pragma once

// Megatron-Core's MLP, its activation fused with the bias before it or not. Private.

#include <gpuplan/replay/codes/megatron/latent_attention.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class megatron_mlp : public megatron_latent_attention {
 public:
  using megatron_latent_attention::megatron_latent_attention;
  constexpr ~megatron_mlp() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  struct mlp_modules {
    nn_module norm{}, fc1{}, fc2{};
    low_rank beside_fc1{}, beside_fc2{};
  };

  // y + b, then x * 0.5 * (1.0 + tanh(0.79788456 * x * (1 + 0.044715 * x * x)))
  constexpr value fused_gelu(const tensor& y, int bias) {
    const tensor b = t.parameter(bias);
    const int by = t.add_node(fused_gelu_backward_, {&y, &b});
    t.note(by, {is_compiled() ? 1 : 0});
    t.keep(by, y);
    t.keep(by, b);
    const auto like = [&] { return t.make(y.size, y.format); };
    value result;
    if (is_compiled()) {
      result = like();
    } else {
      const value x = like();
      const value half_x = like();
      value inner = like();
      {
        value scaled = like();
        scaled = like();
        scaled = like();
        inner = like();
      }
      inner = like();
      inner = like();
      result = like();
    }
    t.result_of(by, result.get());
    return result;
  }
  struct fused_gelu_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      const auto like = [&] { return on.make(g.size, g.format); };
      value result;
      if (on.nodes[index].argument[0] == 1) {
        result = like();
      } else {
        const value x = like();
        value angle = like();
        {
          value scaled = like();
          scaled = like();
          scaled = like();
          angle = like();
        }
        angle = like();
        value sum;
        {
          const value half_x = like();
          value product;
          {
            value square = like();
            value rest = like();
            square.drop();
            value scaled = like();
            scaled = like();
            scaled = like();
            product = like();
            rest.drop();
          }
          sum = like();
        }
        value plus = like();
        plus = like();
        sum = like();
        plus.drop();
        result = like();
      }
      out.of[0] = on.share(result);
      out.of[1] = std::move(result);
    }
  };

  // silu(y1) * y2 of the halves, with a bias added first where there is one
  constexpr value fused_swiglu(const tensor& input, int bias) {
    const tensor b = bias == none ? tensor{} : t.parameter(bias);
    const value y = view(t, input, {input.size[0] * input.size[1], input.size[2]});
    const int by = t.add_node(fused_swiglu_backward_, {&*y, &b});
    t.note(by, {is_compiled() ? 1 : 0});
    t.keep(by, y);
    if (bias != none) t.keep(by, b);
    const sizes half{y->size[0], y->size[1] / 2};
    value result;
    if (is_compiled()) {
      result = t.make(half, y->format);
    } else {
      value sum;
      if (bias != none) sum = t.make(y->size, y->format);
      const value activated = t.make(half, y->format);
      result = t.make(half, y->format);
    }
    t.result_of(by, result.get());
    return view(t, result, {input.size[0], input.size[1], half[1]});
  }
  struct fused_swiglu_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      const tensor y = on.kept_by(index, 0);
      const bool has_bias = on.nodes[index].input[1].node != none;
      const auto like = [&] { return on.make(g.size, g.format); };
      value result;
      if (on.nodes[index].argument[0] == 1) {
        result = on.make(y.size, y.format);
      } else {
        value sum;
        if (has_bias) sum = on.make(y.size, y.format);
        // g * sigmoid(y1) * (1 + y1 * (1 - sigmoid(y1))) * y2, and g * silu(y1)
        value left, right;
        {
          value product = like();
          product = like();
          value rest = like();
          rest = like();
          rest = like();
          rest = like();
          left = like();
        }
        left = like();
        right = like();
        right = like();
        result = on.make(y.size, y.format);
      }
      if (has_bias) out.of[1] = on.share(result);
      out.of[0] = std::move(result);
    }
  };

  constexpr value mlp(const tensor& x, const mlp_modules& by) {
    value hidden = adapted_linear(x, by.norm, by.fc1, false, by.beside_fc1);
    // Without a gate Megatron-Core fuses only where there is a bias (transformer_config.py).
    if (setup.framework.implementation.fuses_bias_activation &&
        (model.gated_mlp || by.fc1.bias != none)) {
      if (model.gated_mlp)
        hidden = fused_swiglu(hidden, by.fc1.bias);
      else
        hidden = fused_gelu(hidden, by.fc1.bias);
    } else {
      if (by.fc1.bias != none) hidden = add(t, hidden, t.parameter(by.fc1.bias));
      if (model.gated_mlp)
        hidden = gated(hidden);
      else
        hidden = activation(hidden);
    }
    return adapted_row_linear(hidden, by.fc2, by.beside_fc2);
  }
  constexpr value gated(const tensor& hidden) {
    const int halves = split(t, hidden);
    const value gate = part(t, halves, hidden, 2, hidden.size[2] / 2, 0);
    const value up = part(t, halves, hidden, 2, hidden.size[2] / 2, 1);
    const value activated = activation(gate);
    return multiply(t, activated, add_number(t, up));
  }

 private:
  fused_gelu_backward fused_gelu_backward_{};
  fused_swiglu_backward fused_swiglu_backward_{};
};

}  // namespace gpuplan::eager
