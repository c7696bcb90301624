#pragma once

// SigLIP's tower of images with its head. Private.
// Transcribed from transformers 5.23, models/siglip/modeling_siglip.py.

#include <gpuplan/replay/codes/vit.hpp>
#include <gpuplan/replay/eager/operators/images.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// A tower of images whose points a learned query attends to: SiglipMultiheadAttentionPoolingHead.
class pooled_images_code final : public vit_code {
 public:
  using vit_code::vit_code;
  constexpr ~pooled_images_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct_pooling() {
    const std::int64_t width = model.hidden_size;
    const bool trains = trains_end();
    probe_ = parameter({1, 1, width}, trains);
    inputs_.weight = parameter({3 * width, width}, trains);
    inputs_.bias = parameter(sizes{3 * width}, trains);
    out_ = linear_module(width, width, true, trains);
    pooled_norm_ = norm_module(width, trains);
    const std::int64_t inner = model.intermediate_size;
    up_ = linear_module(operator_kind::up, inner, width, true, trains);
    down_ = linear_module(operator_kind::down, width, inner, true, trains);
  }
  constexpr value pool_by_query(const tensor& states) {
    const std::int64_t batch = states.size[0];
    const std::int64_t width = model.hidden_size;
    value hidden;
    {
      const value probe = clone(t, expand(t, t.parameter(probe_), {batch, 1, width}));
      hidden = attend_from(probe, states);
    }
    const value normed = norm(hidden, pooled_norm_);
    const value fed = linear(activation(linear(normed, up_)), down_);
    return select(t, add(t, hidden, fed), 1);
  }

 private:
  // nn.MultiheadAttention of one query: (batch, 1, width), (batch, tokens, width)
  constexpr value attend_from(const tensor& query, const tensor& states) {
    const std::int64_t batch = states.size[0];
    const std::int64_t tokens = states.size[1];
    const std::int64_t width = model.hidden_size;
    const std::int64_t heads = model.num_attention_heads;
    value q, k, v;
    project_packed(query, states, q, k, v);
    const auto in_heads = [&](argument x, std::int64_t rows) {
      return transpose(t, view(t, x, {rows, batch * heads, width / heads}), 0, 1);
    };
    q = in_heads(std::move(q), 1);
    k = in_heads(std::move(k), tokens);
    v = in_heads(std::move(v), tokens);
    const value scaled = scale(t, q);
    const value weights = softmax_under_autocast(t, matmul(t, scaled, transpose(t, k, 1, 2)));
    value out = matmul(t, weights, v);
    out = linear(view(t, transpose(t, out, 0, 1), {batch, width}), out_);
    const value unread = mean_over(t, view(t, weights, {batch, heads, 1, tokens}), 1);
    return view(t, out, {batch, 1, width});
  }
  // _in_projection_packed
  constexpr void project_packed(
      const tensor& query, const tensor& states, value& q, value& k, value& v) {
    const std::int64_t batch = states.size[0];
    const std::int64_t tokens = states.size[1];
    const std::int64_t width = model.hidden_size;
    const tensor weight = t.parameter(inputs_.weight);
    const tensor bias = t.parameter(inputs_.bias);
    const int weights = split(t, weight);
    const value of_query = part(t, weights, weight, 0, width, 0);
    const value of_both = part(t, weights, weight, 0, 2 * width, 1);
    const int biases = split(t, bias);
    const value bias_of_query = part(t, biases, bias, 0, width, 0);
    const value bias_of_both = part(t, biases, bias, 0, 2 * width, 1);
    q = add_product(transpose(t, query, 0, 1), of_query, bias_of_query);
    value both;
    const value turned = transpose(t, states, 0, 1);
    if (turned->is_contiguous()) {
      both = add_product(turned, of_both, bias_of_both);
    } else {
      const value b = lowered(t, bias_of_both);
      const value w = lowered(t, of_both);
      const value x = lowered(t, turned);
      const value rows = reshape(t, x, {tokens * batch, width});
      both = view(t, product(t, rows, transpose(t, w, 0, 1)), {tokens, batch, 2 * width});
      both = add_in_place(t, both, b);
    }
    both = rearrange(t, both, {2, tokens, batch, width});
    k = select(t, both, 0);
    v = select(t, both, 0);
  }
  // torch.nn.functional.linear with parts of a matrix
  constexpr value add_product(argument given, const tensor& weight, const tensor& bias) {
    const held input(given);
    const value b = lowered(t, bias);
    const value w = lowered(t, weight);
    const value x = lowered(t, input);
    const std::int64_t in = weight.size[1];
    const std::int64_t out = weight.size[0];
    const std::int64_t rows = x->count() / in;
    const value x2 = reshape(t, x, {rows, in});
    const value w2 = transpose(t, w, 0, 1);
    const int by = t.add_node(node_kind::addmm, {&*b, &*x2, &*w2});
    if (w2->needs_gradient()) t.keep(by, x2);
    if (x2->needs_gradient()) t.keep(by, w2);
    t.note(by, {rows, in, out});
    value result = t.make({rows, out}, x->format, {"output"});
    t.touch_workspace(true);
    t.count_product({rows, in, out}, {&*b, &*x2, &*w2, &*result});
    t.result_of(by, result.get());
    return view(t, result, {input.size[0], input.size[1], out});
  }

  int probe_ = none;
  nn_module inputs_{}, out_{}, pooled_norm_{}, up_{}, down_{};
};

}  // namespace gpuplan::eager
