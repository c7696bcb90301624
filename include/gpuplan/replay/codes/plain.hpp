#pragma once

// Decoders as a person writes them with torch.nn. Private.

#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/replay/sharding/tensor_parallel.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class plain_decoder : public model_code {
 public:
  constexpr plain_decoder(tape& on, const training_setup& of, const batch_plan& with)
      : model_code(on, of, with),
        parts_(on, of.parallelism.tensor_parallel, of.parallelism.sequence_parallel) {}
  constexpr ~plain_decoder() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    const std::int64_t width = model.hidden_size;
    const bool tied = model.has_tied_head();
    tokens_ = token_table(model.vocab_size, width, trains_table());
    if (model.position_rows != 0)
      positions_ = table_module(model.position_rows, width, trains_all());
    make_rotary_tables();
    for (std::int64_t at = 0; at < layers; ++at) {
      layer_modules made;
      const auto built = t.building_unit(at);
      build_layer(made, trains_layer(at));
      modules_.push(made);
    }
    norm_ = norm_module(width, trains_final_norm());
    // a tied head is built like any, then replaced
    if (tied) {
      t.touch(t.parameters[tokens_.weight].data.bytes());
      add_shared_table();
      head_.weight = tokens_.weight;
      adapt(head_, operator_kind::head, model.vocab_size, width);
    } else {
      head_ = linear_module(operator_kind::head, model.vocab_size, width, false, trains_head());
    }
  }

  constexpr void divide_among_ranks() override {
    for (int at = 0; at < modules_.size(); ++at) {
      layer_modules& made = modules_[at];
      for (nn_module* by : {&made.query, &made.key, &made.value}) divide_rows(*by);
      divide_columns(made.out);
      for (nn_module* by : {&made.gate, &made.up}) divide_rows(*by);
      divide_columns(made.down);
      if (!parts_.divides_sequence()) continue;
      parts_.keep_whole(made.norm_1.weight);
      parts_.keep_whole(made.norm_2.weight);
    }
    // a tied head gets rows of its own
    if (head_.weight == tokens_.weight) head_.weight = parts_.divide_rows_again(tokens_.weight);
    parts_.divide_table(tokens_.weight);
    divide_rows(head_);
    if (parts_.divides_sequence()) parts_.keep_whole(norm_.weight);
  }

  constexpr void make_batch() override {
    const sizes all{plan.micro_batch, setup.sequence_length};
    const auto charged = t.charge(purpose::buffers);
    ids_ = t.make(all, element::int64, {"token ids"});
    labels_ = t.make(all, element::int64, {"labels"});
  }

  constexpr value forward() override {
    t.begin(moment::forward);
    value x;
    if (parts_.is_on())
      x = parts_.embed(ids_, tokens_.weight, model.vocab_size);
    else
      x = rows_of(ids_, tokens_);
    if (positions_.weight != none) {
      value of_positions;
      {
        const value range = full(t, sizes{setup.sequence_length}, element::int64);
        of_positions = embedding(t, range, positions_.weight);
      }
      x = add(t, x, of_positions);
    }
    x = dropout(t, x, drops);
    for (std::int64_t at = 0; at < layers; ++at) x = run_layer(at, x);
    t.begin(moment::loss);
    value logits;
    {
      const value normed = norm(x, norm_);
      if (parts_.is_on() && !setup.framework.implementation.loss_parallel)
        logits = parts_.by_rows(normed, head_.weight, head_.bias, model.vocab_size);
      else
        logits = linear(normed, head_);
    }
    if (setup.framework.implementation.logits == logits_kind::to_fp32)
      logits = cast(t, logits, element::fp32);
    const std::int64_t classes = logits->size[2];
    const value rows = view(t, logits, {ids_->count(), classes});
    const value labels = view(t, labels_, sizes{ids_->count()});
    if (parts_.is_on() && setup.framework.implementation.loss_parallel)
      return parts_.cross_entropy(rows, labels);
    return cross_entropy(t, rows, labels);
  }

 protected:
  struct layer_modules {
    nn_module norm_1, norm_2, qkv, query, key, value, out, gate, up, down, q_norm, k_norm;
  };

  // angle = outer(arange(tokens), 10000 ** (-arange(0, width, 2) / width)), and its cos and sin
  constexpr void make_rotary_tables() {
    if (setup.framework.layers().name == &code_names::gpt) return;
    const sizes half{model.query_dim() / 2};
    const sizes tokens{setup.sequence_length};
    value exponent = t.make(half, element::fp32);
    exponent = t.make(half, element::fp32);
    exponent = t.make(half, element::fp32);
    const value frequency = t.make(half, element::fp32);
    t.touch(bytes_of(element::int64));
    exponent.drop();
    const sizes table{tokens[0], half[0]};
    const value angle = compute(t, t.make(tokens, element::fp32), table, element::fp32);
    for (value* one : {&cos_, &sin_})
      *one = t.charge(purpose::buffers)->make(table, element::fp32, {"rotary table"});
    add_buffer(cos_);
    add_buffer(sin_);
  }

  constexpr void divide_rows(nn_module& by) {
    by.layout = layout::rows;
    parts_.divide_rows(by.weight);
  }
  constexpr void divide_columns(nn_module& by) {
    by.layout = layout::columns;
    parts_.divide_columns(by.weight);
  }
  constexpr value linear(argument given, const nn_module& by) {
    const held x(given);
    switch (by.layout) {
      case layout::rows:
        return parts_.by_rows(x, by.weight, by.bias);
      case layout::columns:
        return parts_.by_columns(x, by.weight, by.bias);
      case layout::whole:
        break;
    }
    return model_code::linear(x, by);
  }
  constexpr value norm(argument given, const nn_module& by) {
    if (!parts_.divides_sequence()) return model_code::norm(given, by);
    const held x(given);
    const auto distributed = t.on_distributed();
    const value part = parts_.pass(x);
    return model_code::norm(part, by);
  }

  constexpr void build_layer(layer_modules& made, bool trains) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t head = model.query_dim();
    const std::int64_t inner = model.num_attention_heads * head;
    const std::int64_t groups = model.key_value_heads() * head;
    const std::int64_t ffn = model.intermediate_size;
    made.norm_1 = norm_module(width, trains);
    made.norm_2 = norm_module(width, trains);
    if (setup.framework.layers().name == &code_names::gpt) {
      made.qkv = linear_module(
          operator_kind::query_key_value, inner + 2 * groups, width, model.attention_bias, trains);
      made.out = linear_module(
          operator_kind::attention_output, width, inner, model.attention_out_bias, trains);
    } else {
      made.query = linear_module(operator_kind::query, inner, width, model.attention_bias, trains);
      made.key = linear_module(operator_kind::key, groups, width, model.attention_bias, trains);
      made.value = linear_module(operator_kind::value, groups, width, model.attention_bias, trains);
      made.out = linear_module(
          operator_kind::attention_output, width, inner, model.attention_out_bias, trains);
      if (model.gated_mlp)
        made.gate = linear_module(operator_kind::gate, ffn, width, model.mlp_bias, trains);
    }
    made.up = linear_module(operator_kind::up, ffn, width, model.mlp_bias, trains);
    made.down = linear_module(operator_kind::down, width, ffn, model.mlp_bias, trains);
    if (model.qk_norm != qk_norm_scope::none) {
      made.q_norm = table_of_norm(head, trains);
      made.k_norm = table_of_norm(head, trains);
    }
  }
  constexpr nn_module table_of_norm(std::int64_t width, bool trains) {
    nn_module made;
    made.weight = parameter(sizes{width}, trains);
    name(made, "norm");
    return made;
  }

  constexpr value layer(int index, const tensor& x) override {
    if (setup.framework.layers().name == &code_names::gpt) return gpt_layer(modules_[index], x);
    return llama_layer(modules_[index], x);
  }

  constexpr value gpt_layer(const layer_modules& by, const tensor& input) {
    const std::int64_t head = model.query_dim();
    const std::int64_t heads = model.num_attention_heads;
    value q, k, v;
    split_in_three(linear(norm(input, by.norm_1), by.qkv), 2, heads * head, q, k, v);
    q = heads_of(q, heads, head);
    k = heads_of(k, heads, head);
    v = heads_of(v, heads, head);
    const value y = run_core(q, k, v);
    const value x = add(t, input, dropout(t, output_of_attention(y, by.out), drops));
    value hidden = activation(linear(norm(x, by.norm_2), by.up));
    hidden = dropout(t, linear(std::move(hidden), by.down), drops);
    return add(t, x, hidden);
  }

  constexpr value output_of_attention(const tensor& y, const nn_module& by) {
    const sizes flat{y.size[0], y.size[2], y.size[1] * y.size[3]};
    return linear(view(t, contiguous(t, transpose(t, y, 1, 2)), flat), by);
  }

  constexpr value rotate(const tensor& input) {
    const element work = setup.framework.implementation.rotary == rotary_kind::halves_fp32
                             ? element::fp32
                             : input.format;
    const value cos = table_for(*cos_, work);
    const value sin = table_for(*sin_, work);
    value first, second;
    {
      const value x = cast(t, input, work);
      const int halves = split(t, x);
      first = part(t, halves, x, 3, x->size[3] / 2, 0);
      second = part(t, halves, x, 3, x->size[3] / 2, 1);
    }
    value left = multiply(t, first, cos);
    left = subtract(t, left, multiply(t, second, sin));
    value right = multiply(t, second, cos);
    right = add(t, right, multiply(t, first, sin));
    left = concatenate(t, left, std::move(right), 3);
    return cast(t, left, input.format);
  }
  constexpr value table_for(const tensor& table, element format) {
    tensor seen = table;
    set_contiguous(seen, {table.size[0], 1, table.size[1]});
    seen.is_view = true;
    t.hold(seen.storage);
    return cast(t, value(t, seen), format);
  }

  constexpr value llama_attention(const layer_modules& by, argument given) {
    const held x(given);
    const std::int64_t head = model.query_dim();
    value q = linear(x, by.query);
    value k = linear(x, by.key);
    value v = linear(x, by.value);
    // of this rank
    const std::int64_t heads = q->size[2] / head;
    const std::int64_t groups = k->size[2] / head;
    const std::int64_t batch = q->size[0];
    const std::int64_t tokens = q->size[1];
    q = view(t, q, {batch, tokens, heads, head});
    k = view(t, k, {batch, tokens, groups, head});
    v = view(t, v, {batch, tokens, groups, head});
    if (model.qk_norm != qk_norm_scope::none) {
      value normed_q = rms_norm(t, q, by.q_norm.weight);
      value normed_k = rms_norm(t, k, by.k_norm.weight);
      q = std::move(normed_q);
      k = std::move(normed_k);
    }
    {
      value rotated_q = rotate(q);
      value rotated_k = rotate(k);
      q = std::move(rotated_q);
      k = std::move(rotated_k);
    }
    q = transpose(t, q, 1, 2);
    k = transpose(t, k, 1, 2);
    v = transpose(t, v, 1, 2);
    if (heads != groups &&
        (setup.framework.implementation.grouped_heads == grouped_heads_kind::repeated ||
         setup.attention == attention_kernel::eager)) {
      value all_k = repeat_heads(t, k, heads / groups);
      value all_v = repeat_heads(t, v, heads / groups);
      k = std::move(all_k);
      v = std::move(all_v);
    }
    const value y = run_core(q, k, v);
    return output_of_attention(y, by.out);
  }

  constexpr value llama_layer(const layer_modules& by, const tensor& input) {
    const value x = add(t, input, llama_attention(by, norm(input, by.norm_1)));
    const value normed = norm(x, by.norm_2);
    value hidden = activation(linear(normed, by.gate));
    hidden = multiply(t, hidden, linear(normed, by.up));
    return add(t, x, linear(std::move(hidden), by.down));
  }

  tensor_parallel parts_;
  nn_module tokens_{}, positions_{}, norm_{}, head_{};
  growing_array<layer_modules> modules_{};
  value cos_{}, sin_{}, ids_{}, labels_{};
};

}  // namespace gpuplan::eager
