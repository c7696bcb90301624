#pragma once

// LitGPT's GPT with its low-rank adapters (litgpt/model.py, litgpt/lora.py of 0.5), and its loss by
// chunks of tokens. Private.

#include <gpuplan/replay/model_code.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// One linear layer for query, key and value, whose adapters are one too. Heads and tables are not
/// shared.
class lit_gpt final : public model_code {
 public:
  constexpr lit_gpt(tape& on, const training_setup& of, const batch_plan& with)
      : model_code(on, of, with), given_(of.trains.adapters) {}
  constexpr ~lit_gpt() override {  // NOLINT(modernize-use-equals-default)
    forget_logits();
  }

  constexpr void construct() override {
    const std::int64_t width = model.hidden_size;
    head_ = adapted(
        operator_kind::head, width, model.vocab_size, model.lm_head_bias, given_.targets.head);
    tokens_.weight = parameter({model.vocab_size, width}, trains_all());
    t.parameters[tokens_.weight].is_table = true;
    name(tokens_, "token table");
    for (std::int64_t at = 0; at < layers; ++at) {
      const auto built = t.building_unit(at);
      modules_.push(layer_of());
    }
    norm_ = norm_module(width, trains_all());
    const sizes table{setup.sequence_length, rotated()};
    const auto charged = t.charge(purpose::buffers);
    cos_ = t.make(table, element::fp32);
    sin_ = t.make(table, element::fp32);
  }

  constexpr void make_batch() override {
    const sizes all{plan.micro_batch, setup.sequence_length};
    const auto charged = t.charge(purpose::buffers);
    ids_ = t.make(all, element::int64);
    labels_ = t.make(all, element::int64);
  }

  /// The logits of the last micro-batch.
  constexpr void make_leftovers() override {
    const std::int64_t tokens = setup.sequence_length;
    const bool casts = setup.framework.implementation.logits == logits_kind::to_fp32;
    const element format = casts ? element::fp32 : weight_format;
    for (std::int64_t at = 0; at < tokens; at += chunk)
      logits_.push(
          kept(t.make({plan.micro_batch, at_most(chunk, tokens - at), model.vocab_size}, format)));
  }

  constexpr value forward() override {
    t.begin(moment::forward);
    value x = embedding(t, ids_, tokens_.weight);
    if (setup.framework.implementation.decoder.scales_embedding) x = scale(t, x);
    for (std::int64_t at = 0; at < layers; ++at) x = run_layer(at, x);
    t.begin(moment::loss);
    return loss_of(x);
  }

 protected:
  constexpr value core(const tensor& q, const tensor& k, const tensor& v) override {
    return flash_attention(t, q, k, v, false);
  }

  // Block
  constexpr value layer(int index, const tensor& input) override {
    const layer_modules& by = modules_[index];
    value normed = norm_of(input, by.norm_1);
    value x = attend(normed, by);
    if (model.parallel_attention) {
      if (by.norm_2.weight != none) normed = norm_of(input, by.norm_2);
      x = add(t, x, input);
    } else {
      x = add(t, x, input);
      normed = norm_of(x, by.norm_2);
    }
    const value fed = mlp(normed, by);
    return add(t, fed, x);
  }

 private:
  static constexpr std::int64_t chunk = 128;  // tokens, of the head and of the loss

  struct adapted_module {
    nn_module base{};
    int down = none;
    int up = none;
  };
  struct layer_modules {
    nn_module norm_1{}, norm_2{};
    adapted_module qkv{}, out{}, gate{}, up{}, down{};
  };

  // -- modules

  [[nodiscard]] constexpr bool has_adapters() const {
    return setup.trains.what == training::adapters;
  }
  [[nodiscard]] constexpr std::int64_t rotated() const {
    return detail::rotated_width(model, setup.framework.implementation.decoder);
  }
  constexpr nn_module plain(operator_kind kind, std::int64_t in, std::int64_t out, bool bias) {
    nn_module made;
    made.is_quantised = quantised.hold(kind);
    made.weight = made.is_quantised ? quantised.add(out, in) : parameter({out, in}, trains_all());
    if (bias) made.bias = parameter(sizes{out}, trains_all());
    name(made, text(kind));
    return made;
  }
  constexpr adapted_module adapted(
      operator_kind kind, std::int64_t in, std::int64_t out, bool bias, bool is_target) {
    adapted_module made;
    made.base = plain(kind, in, out, bias);
    if (!has_adapters() || !is_target) return made;
    made.down = parameter({given_.rank, in}, true);
    made.up = parameter({out, given_.rank}, true);
    name_adapter(made.down, made.up);
    return made;
  }
  constexpr void name_adapter(int down, int up) {
    t.parameters[down].name = "adapter, down";
    t.parameters[up].name = "adapter, up";
  }
  [[nodiscard]] constexpr std::int64_t adapted_parts() const {
    const lora_targets& targets = given_.targets;
    return (targets.query ? 1 : 0) + (targets.key ? 1 : 0) + (targets.value ? 1 : 0);
  }
  [[nodiscard]] constexpr std::int64_t adapted_width() const {
    const std::int64_t inner = model.num_attention_heads * model.query_dim();
    const std::int64_t groups = model.key_value_heads() * model.query_dim();
    return (given_.targets.query ? inner : 0) + (given_.targets.key ? groups : 0) +
           (given_.targets.value ? groups : 0);
  }
  constexpr layer_modules layer_of() {
    const std::int64_t width = model.hidden_size;
    const std::int64_t ffn = model.intermediate_size;
    const std::int64_t inner = model.num_attention_heads * model.query_dim();
    const std::int64_t groups = model.key_value_heads() * model.query_dim();
    const lora_targets& targets = given_.targets;
    layer_modules made;
    made.norm_1 = norm_module(width, trains_all());
    if (!model.parallel_attention || model.norms_per_layer == 2)
      made.norm_2 = norm_module(width, trains_all());
    made.qkv.base =
        plain(operator_kind::query_key_value, width, inner + 2 * groups, model.attention_bias);
    if (has_adapters() && adapted_parts() > 0) {
      made.qkv.down = parameter({given_.rank * adapted_parts(), width}, true);
      made.qkv.up = parameter({adapted_width(), given_.rank}, true);
      name_adapter(made.qkv.down, made.qkv.up);
    }
    made.out = adapted(operator_kind::attention_output,
                       inner,
                       width,
                       model.attention_out_bias,
                       targets.attention_out);
    if (model.gated_mlp)
      made.gate = adapted(operator_kind::gate, width, ffn, model.mlp_bias, targets.gate);
    made.up = adapted(operator_kind::up, width, ffn, model.mlp_bias, targets.up);
    made.down = adapted(operator_kind::down, ffn, width, model.mlp_bias, targets.down);
    return made;
  }

  // -- LoRALinear: linear(x) + dropout(x) @ A^T @ B^T * scaling

  constexpr value base_of(const tensor& x, const nn_module& by) {
    if (by.is_quantised) return quantised.linear(x, by.weight, by.bias);
    return eager::linear(t, x, by.weight, by.bias);
  }
  constexpr value linear_of(argument given, const adapted_module& by) {
    const held x(given);
    value result = base_of(x, by.base);
    if (by.down == none) return result;
    value low = eager::linear(t, dropout(t, x, given_.dropout > 0), by.down, none);
    return add(t, result, scale(t, eager::linear(t, std::move(low), by.up, none)));
  }

  // LoRAQKVLinear: the parts that have adapters by a convolution with as many groups, and zeros
  // between.
  struct convolution_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      const tensor low = on.kept_by(index, 0);
      const tensor up = on.kept_by(index, 1);
      const value dense = on.make(incoming[0]->size, incoming[0]->format);
      out.of[0] = on.make(low.size, low.format);
      out.of[1] = on.make(up.size, up.format);
    }
  };
  struct padding_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      sizes narrow = incoming[0]->size;
      narrow[2] = on.nodes[index].argument[0];
      out.of[0] = on.make(narrow, incoming[0]->format);
    }
  };
  constexpr value query_key_value(const tensor& x, const adapted_module& by) {
    value result = base_of(x, by.base);
    if (by.down == none) return result;
    const value low = eager::linear(t, dropout(t, x, given_.dropout > 0), by.down, none);
    const tensor up = t.parameter(by.up);
    const int by_parts = t.add_node(convolution_backward_, {&*low, &up});
    t.keep(by_parts, low);
    t.keep(by_parts, up);
    const std::int64_t batch = x.size[0];
    const std::int64_t tokens = x.size[1];
    value high;
    if (model.key_value_heads() == model.num_attention_heads) {
      high = t.make({batch, tokens, adapted_width()}, low->format);
    } else {
      const value pieces = t.make({batch, tokens, adapted_width()}, low->format);
      high = t.make({batch, tokens, adapted_width()}, low->format);
    }
    t.result_of(by_parts, high.get());
    if (adapted_parts() == 3) return add(t, result, scale(t, high));
    return add(t, result, scale(t, padded(high, result)));
  }
  constexpr value padded(const tensor& high, const tensor& like) {
    const value places = t.make(sizes{adapted_width()}, element::int64);
    const int by = t.add_node(padding_backward_, {&high});
    t.note(by, {adapted_width()});
    t.keep(by, places);
    t.keep(by, high);
    value made = t.make(like.size, like.format);
    t.result_of(by, made.get());
    return made;
  }

  // -- CausalSelfAttention

  constexpr value table_for(const tensor& table) {
    tensor seen = table;
    set_contiguous(seen, {1, 1, table.size[0], table.size[1]});
    seen.is_view = true;
    t.hold(seen.storage);
    return {t, seen};
  }
  // (x * cos + rotate_half(x) * sin).to(x.dtype), by tables in fp32
  constexpr value rotate(const tensor& input) {
    const value x = slice(t, input, 3, rotated());
    const std::int64_t half = x->size[3] / 2;
    const value cos = table_for(cos_);
    const value sin = table_for(sin_);
    const value first = slice(t, x, 3, half);
    const value second = slice(t, x, 3, half);
    const value turned = concatenate(t, scale(t, second), first, 3);
    value sum = multiply(t, x, cos);
    sum = add(t, sum, multiply(t, turned, sin));
    return cast(t, sum, input.format);
  }
  constexpr value with_rest(const tensor& turned, const tensor& input) {
    return concatenate(t, turned, slice(t, input, 3, input.size[3] - turned.size[3]), 3);
  }

  constexpr value attend(const tensor& x, const layer_modules& by) {
    const std::int64_t head = model.query_dim();
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t groups = model.key_value_heads();
    const value qkv = query_key_value(x, by.qkv);
    const int parts = split(t, qkv);
    value q = part(t, parts, qkv, 2, heads * head, 0);
    value k = part(t, parts, qkv, 2, groups * head, 1);
    value v = part(t, parts, qkv, 2, groups * head, 2);
    q = heads_of(q, heads, head);
    k = heads_of(k, groups, head);
    v = heads_of(v, groups, head);
    const value turned_q = rotate(q);
    const value turned_k = rotate(k);
    q = with_rest(turned_q, q);
    k = with_rest(turned_k, k);
    if (groups != heads) {
      k = repeat_heads(t, k, heads / groups);
      v = repeat_heads(t, v, heads / groups);
    }
    value y = run_core(q, k, v);
    y = reshape(t, transpose(t, y, 1, 2), {x.size[0], x.size[1], heads * head});
    return linear_of(y, by.out);
  }

  // -- norms and MLP

  constexpr value norm_of(const tensor& input, const nn_module& by) {
    if (model.norm == norm_kind::layer_norm) return layer_norm(t, input, by.weight, by.bias);
    const value x = cast(t, input, element::fp32);
    const value average = mean(t, multiply(t, x, x));
    const value normed = multiply(t, x, reciprocal_root(t, add_number(t, average)));
    value weight = t.share(t.parameter(by.weight));
    if (setup.framework.implementation.rms_norm == rms_norm_kind::eager_shifted)
      weight = add_number(t, weight);
    weight = cast(t, weight, element::fp32);
    const value product = multiply(t, normed, std::move(weight));
    return cast(t, product, input.format);
  }

  constexpr value mlp(const tensor& x, const layer_modules& by) {
    if (!model.gated_mlp) return linear_of(activated(linear_of(x, by.up)), by.down);
    const value gate = linear_of(x, by.gate);
    const value up = linear_of(x, by.up);
    return linear_of(multiply(t, activated(gate), up), by.down);
  }

  // -- the head and the loss; whoever calls holds the logits until the next are there

  constexpr void forget_logits() {
    for (int at = 0; at < logits_.size(); ++at) t.release(logits_[at].storage);
    logits_.resize_down(0);
  }
  // The tensor with its place in the graph, held from now on.
  static constexpr tensor kept(value made) {
    const tensor seen = *made;
    static_cast<void>(made.take());
    return seen;
  }
  constexpr value converted(const tensor& logits) {
    const bool casts = setup.framework.implementation.logits == logits_kind::to_fp32;
    return cast(t, logits, casts ? element::fp32 : logits.format);
  }
  constexpr value loss_of(const tensor& x) {
    const std::int64_t tokens = setup.sequence_length;
    const auto count = static_cast<int>(ceil_div(tokens, chunk));
    {
      const value normed = norm_of(x, norm_);
      growing_array<tensor> made;
      for (int at = 0; at < count; ++at) {
        const std::int64_t length = at_most(chunk, tokens - at * chunk);
        const value piece = slice(t, normed, 1, length);
        made.push(kept(linear_of(piece, head_)));
      }
      // Fabric's precision converts what a model returns
      growing_array<tensor> wide;
      for (int at = 0; at < count; ++at) wide.push(kept(converted(made[at])));
      for (int at = 0; at < count; ++at) t.release(made[at].storage);
      forget_logits();
      for (int at = 0; at < count; ++at) logits_.push(wide[at]);
    }
    value total;
    for (int at = 0; at < count; ++at) {
      const tensor& logits = logits_[at];
      const std::int64_t rows = logits.count() / model.vocab_size;
      const value flat = reshape(t, logits, {rows, model.vocab_size});
      const value labels = t.make(sizes{rows}, element::int64);
      value loss = cross_entropy(t, flat, labels);
      if (total->defined())
        total = add(t, total, loss);
      else
        total = std::move(loss);
    }
    return total;
  }

  const lora& given_;
  nn_module tokens_{}, norm_{};
  adapted_module head_{};
  growing_array<layer_modules> modules_{};
  growing_array<tensor> logits_{};
  value cos_{}, sin_{}, ids_{}, labels_{};
  convolution_backward convolution_backward_{};
  padding_backward padding_backward_{};
};

}  // namespace gpuplan::eager
