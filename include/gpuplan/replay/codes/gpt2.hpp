#pragma once

// GPT2LMHeadModel of Hugging Face's transformers 5.23. Private.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>

namespace gpuplan::eager {

class gpt2_code : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~gpt2_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    const std::int64_t width = model.hidden_size;
    const std::int64_t ffn = model.intermediate_size;
    tokens_ = token_table(model.vocab_size, width, trains_table());
    positions_ = table_module(model.position_rows, width, trains_all());
    for (std::int64_t at = 0; at < layers; ++at) {
      const bool trains = trains_layer(at);
      const auto built = t.building_unit(at);
      block made;
      made.ln_1 = norm_module(width, trains);
      made.c_attn = conv1d_module(operator_kind::query_key_value, width, 3 * width, trains);
      made.c_proj = conv1d_module(operator_kind::attention_output, width, width, trains);
      made.ln_2 = norm_module(width, trains);
      made.mlp_c_fc = conv1d_module(operator_kind::up, width, ffn, trains);
      made.mlp_c_proj = conv1d_module(operator_kind::down, ffn, width, trains);
      blocks_.push(made);
    }
    ln_f_ = norm_module(width, trains_final_norm());
    lm_head_ = head_module(tokens_);
  }

  constexpr void make_batch() override { make_token_batch(); }

  constexpr value forward() override {
    t.begin(moment::forward);
    const value hidden = transformer_forward();
    t.begin(moment::loss);
    const value logits = linear(hidden, lm_head_);
    return causal_lm_loss(logits, labels_);
  }

 protected:
  struct block {
    module ln_1, c_attn, c_proj, ln_2, mlp_c_fc, mlp_c_proj;
  };

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
  constexpr value conv1d(const tensor& x, const module& by) {
    if (by.is_quantised) return linear(x, by);
    if (!is_watched) return conv1d_of(x, by);
    const value input = shards->module_begins(x, watched(by));
    value result = conv1d_of(input, by);
    leave(result, by);
    return result;
  }
  constexpr value conv1d_of(const tensor& x, const module& by) {
    sizes wanted = x.size;
    const std::int64_t in = wanted[wanted.rank - 1];
    const std::int64_t rows = x.count() / in;
    const value flat = view(t, x, {rows, in});
    value made;
    {
      const value w = lowered_parameter(t, by.weight);
      const value xs = lowered(t, flat);
      const value b = lowered_parameter(t, by.bias);
      const std::int64_t out = w->size[1];
      wanted[wanted.rank - 1] = out;
      const int node = t.add_node(node_kind::addmm, {&*b, &*xs, &*w});
      if (w->needs_gradient()) t.keep(node, xs);
      if (xs->needs_gradient()) t.keep(node, w);
      if (eager::node* of = t.at(node)) {
        of->parameter = by.weight;
        of->argument[0] = rows;
        of->argument[1] = in;
        of->argument[2] = out;
        of->argument[3] = 1;
      }
      made = t.make({rows, out}, wider(xs->format, w->format), {"output", by.weight});
      t.touch_workspace(true);
      t.result_of(node, made.get());
    }
    value shaped = view(t, made, wanted);
    made.drop();
    return adapters.add_to(static_cast<value&&>(shaped), by.adapter, x);
  }

  // GPT2Model
  constexpr value transformer_forward() {
    const std::int64_t batch = ids_->size[0];
    const std::int64_t tokens = ids_->size[1];
    enter();
    const value inputs_embeds = embed_tokens(ids_, tokens_);
    value position_ids = shifted_range(tokens);
    set_contiguous(position_ids.get(), {1, tokens});
    const value position_embeds = rows_of(position_ids, positions_);
    value hidden = add(t, inputs_embeds, position_embeds);
    const value mask = mask_of(batch, tokens, tokens, inputs_embeds->format, true);
    beside[0] = *mask;
    beside[1] = *position_ids;
    hidden = drop_out(hidden);
    for (std::int64_t at = 0; at < layers; ++at) hidden = run_layer(at, hidden);
    hidden = norm(hidden, ln_f_);
    hidden = view(t, hidden, {batch, tokens, model.hidden_size});
    leave(hidden);
    return hidden;
  }

  // GPT2Block
  constexpr value layer(int index, const tensor& x) override {
    const block& by = blocks_[index];
    value hidden = norm(x, by.ln_1);
    enter();
    attended attention = attend_to(by, hidden);
    leave(attention.output);
    hidden = add(t, attention.output, x);
    const value residual = t.share(hidden);
    hidden = norm(hidden, by.ln_2);
    enter();
    value fed = feed_forward(by, hidden);
    leave(fed);
    return add(t, residual, fed);
  }

  // GPT2Attention
  constexpr attended attend_to(const block& by, const tensor& x) {
    const std::int64_t head = model.query_dim();
    const std::int64_t heads = model.num_attention_heads;
    value q, k, v;
    {
      const value qkv = conv1d(x, by.c_attn);
      const int parts = split(t, qkv);
      q = part(t, parts, qkv, 2, heads * head, 0);
      k = part(t, parts, qkv, 2, heads * head, 1);
      v = part(t, parts, qkv, 2, heads * head, 2);
    }
    k = heads_of(k, heads, head);
    v = heads_of(v, heads, head);
    q = heads_of(q, heads, head);
    constexpr eager_code code{.softmax_in_fp32 = false, .makes_contiguous = false};
    attended made = attend(q, k, v, beside[0], true, code);
    made.output = reshape(t, made.output, {x.size[0], x.size[1], heads * head});
    made.output = conv1d(made.output, by.c_proj);
    made.output = drop_out(made.output);
    return made;
  }

  // GPT2MLP
  constexpr value feed_forward(const block& by, const tensor& x) {
    value hidden = conv1d(x, by.mlp_c_fc);
    if (model.hidden_act == activation_function::gelu_tanh) {
      enter();
      hidden = new_gelu(hidden);
      leave(hidden);
    } else {
      hidden = activation(hidden);
    }
    hidden = conv1d(hidden, by.mlp_c_proj);
    return drop_out(hidden);
  }

  module tokens_{}, positions_{}, ln_f_{}, lm_head_{};
  growing_array<block> blocks_{};
};

}  // namespace gpuplan::eager
