#pragma once

// GPT2LMHeadModel of Hugging Face's transformers 5.23. Private.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class gpt2_code : public causal_lm_code {
 public:
  using causal_lm_code::causal_lm_code;
  constexpr ~gpt2_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr void build_before_layers() override {
    positions_ = table_module(model.position_rows, model.hidden_size, trains_all());
  }
  constexpr layer_modules build_layer(bool trains) override {
    const std::int64_t width = model.hidden_size;
    const std::int64_t ffn = model.intermediate_size;
    layer_modules made;
    made.before_attention = norm_module(width, trains);
    made.qkv = conv1d_module(operator_kind::query_key_value, width, 3 * width, trains);
    made.out = conv1d_module(operator_kind::attention_output, width, width, trains);
    made.before_mlp = norm_module(width, trains);
    made.up = conv1d_module(operator_kind::up, width, ffn, trains);
    made.down = conv1d_module(operator_kind::down, ffn, width, trains);
    return made;
  }

  /// Conv1D: its matrix is (in, out).
  constexpr module conv1d_module(operator_kind kind,
                                 std::int64_t in,
                                 std::int64_t out,
                                 bool trains) {
    module made;
    made.is_quantised = quantised.hold(kind);
    made.weight = made.is_quantised ? quantised.add(out, in) : parameter({in, out}, trains);
    made.bias = parameter(sizes{out}, trains || adapters.trains_bias(kind));
    adapt(made, kind, out, in);
    return made;
  }
  /// torch.addmm(bias, x.view(-1, in), weight).view(...)
  constexpr value conv1d(argument given, const module& by) {
    if (by.is_quantised) return linear(given, by);
    const held x(given);
    if (!is_watched) return conv1d_of(x, by);
    const value input = shards->module_begins(x, watched(by));
    value result = conv1d_of(input, by);
    leave(result, by);
    return result;
  }
  constexpr value conv1d_of(const tensor& x, const module& by) {
    sizes wanted = x.size;
    std::int64_t& width = wanted[wanted.rank - 1];
    value made = addmm(t, view(t, x, {x.count() / width, width}), by.weight, by.bias);
    width = made->size[1];
    return adapters.add_to(view(t, std::move(made), wanted), by.adapter, x);
  }

  // GPT2Model
  constexpr value run_model() override {
    const std::int64_t tokens = ids_->size[1];
    enter();
    const value inputs_embeds = embed_tokens(ids_, tokens_);
    value position_ids = shifted_range(tokens);
    set_contiguous(position_ids.get(), {1, tokens});
    const value position_embeds = rows_of(position_ids, positions_);
    value hidden = add(t, inputs_embeds, position_embeds);
    const value mask = causal_mask(inputs_embeds->format);
    hidden = drop_out(hidden);
    hidden = norm(run_layers(std::move(hidden), {&*mask, &*position_ids}), norm_);
    hidden = view(t, hidden, hidden->size);
    leave(hidden);
    return hidden;
  }

  // GPT2Block
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    value hidden = norm(x, by.before_attention);
    enter();
    attended attention = attend_to(by, hidden);
    leave(attention.output);
    hidden = add(t, attention.output, x);
    const value residual = t.share(hidden);
    hidden = norm(hidden, by.before_mlp);
    enter();
    value fed = drop_out(conv1d(act(conv1d(hidden, by.up)), by.down));
    leave(fed);
    return add(t, residual, fed);
  }

  // GPT2Attention
  constexpr attended attend_to(const layer_modules& by, const tensor& x) {
    const std::int64_t head = model.query_dim();
    const std::int64_t heads = model.num_attention_heads;
    value q, k, v;
    split_in_three(conv1d(x, by.qkv), 2, heads * head, q, k, v);
    k = heads_of(k, heads, head);
    v = heads_of(v, heads, head);
    q = heads_of(q, heads, head);
    constexpr eager_attention_options code{.softmax_in_fp32 = false, .makes_contiguous = false};
    attended made = attend(q, k, v, beside[0], true, code);
    made.output = drop_out(conv1d(reshape(t, std::move(made.output), x.size), by.out));
    return made;
  }

  module positions_{};
};

}  // namespace gpuplan::eager
