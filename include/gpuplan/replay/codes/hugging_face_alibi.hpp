#pragma once

// Decoders of Hugging Face's transformers 5.23 whose attention is biased by distance (ALiBi, arXiv
// 2108.12409): Falcon, BLOOM, MPT. Private.

#include <gpuplan/catalog/frameworks/hugging_face_decoders.hpp>
#include <gpuplan/replay/codes/hugging_face_parts.hpp>
#include <gpuplan/replay/codes/hugging_face_rotary.hpp>
#include <gpuplan/replay/model_code.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

// BloomGelu, whose forward and backward are operators.
constexpr void bloom_gelu_backward(const node_backward& b) {
  tape& t = b.t;
  const tensor& x = b.kept(0);
  const auto of = [&](const tensor& first, const tensor& second = {}) {
    value made = t.make(x.size, x.format);
    t.executes({&first, &second, &*made});
    return made;
  };
  value curve;
  {
    value inner;
    {
      const value scaled = of(x);
      value cubic;
      {
        value square;
        {
          const value part = of(x);
          square = of(part, x);
        }
        cubic = of(square);
      }
      inner = of(scaled, cubic);
    }
    curve = of(inner);
  }
  value left;
  {
    const value half = of(x);
    value slope;
    {
      value rest;
      {
        const value square = of(curve, curve);
        rest = of(square);
      }
      value inner;
      {
        value square;
        {
          const value part = of(x);
          square = of(part, x);
        }
        inner = of(square);
      }
      slope = of(rest, inner);
    }
    left = of(half, slope);
  }
  value sum;
  {
    value right;
    {
      const value more = of(curve);
      right = of(more);
    }
    sum = of(left, right);
    left.drop();
  }
  b.out[0] = of(sum, b.g);
}
inline constexpr node_kind bloom_gelu_node{"activation", &bloom_gelu_backward};

/// What the three have in common.
class alibi_code : public rotary_lm_code {
 public:
  using rotary_lm_code::rotary_lm_code;
  constexpr ~alibi_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  static constexpr int the_biases = 3;  // of what layers read beside their input

  constexpr layer_modules build_layer(bool trains) override {
    return built(
        trains,
        {&its::before_attention, &its::qkv, &its::out, &its::before_mlp, &its::up, &its::down});
  }
  constexpr value filled(const sizes& size, element format) { return full(t, size, format); }
  /// A slope for each head: those of a power of two of heads, and some of twice as many.
  constexpr value slopes() {
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t power = last_power_of_two(heads);
    const value base = filled(sizes{}, element::fp32);
    const value powers = filled(sizes{power}, element::fp32);
    value made = compute(t, {&*base, &*powers}, sizes{power}, element::fp32);
    if (power == heads) return made;
    const value extra_base = filled(sizes{}, element::fp32);
    const value extra_powers = filled(sizes{heads - power}, element::fp32);
    const value extra =
        compute(t, {&*extra_base, &*extra_powers}, sizes{heads - power}, element::fp32);
    return compute(t, {&*made, &*extra}, sizes{heads}, element::fp32);
  }
  /// ((mask.cumsum(-1) - 1) * mask)[:, None, :]
  constexpr value distances(const tensor& mask) {
    value less;
    {
      const value sum = compute(t, mask, mask.size, element::int64);
      less = compute(t, sum, mask.size, element::int64);
    }
    return compute(t, {&*less, &mask}, {mask.size[0], 1, mask.size[1]}, element::int64);
  }
  [[nodiscard]] constexpr sizes of_heads() const {
    return {ids_->size[0] * model.num_attention_heads, 1, ids_->size[1]};
  }
  /// Query, key and value of each head lie together: views.
  constexpr projections split_heads(const tensor& qkv) {
    const sizes apart{qkv.size[0], qkv.size[1], model.num_attention_heads, 3, model.query_dim()};
    const value all = view(t, qkv, apart);
    projections made;
    made.q = select(t, all, 3);
    made.k = select(t, all, 3);
    made.v = select(t, all, 3);
    made.q = transpose(t, made.q, 1, 2);
    made.k = transpose(t, made.k, 1, 2);
    made.v = transpose(t, made.v, 1, 2);
    return made;
  }
  /// (batch * heads, tokens, width) or (batch, heads, tokens, width) to (batch, tokens, hidden)
  constexpr value merged(argument given) {
    const held x(given);
    const std::int64_t heads = model.num_attention_heads;
    value apart = view(t, x, {ids_->size[0], heads, ids_->size[1], model.query_dim()});
    apart = transpose(t, apart, 1, 2);
    return reshape(t, apart, {ids_->size[0], ids_->size[1], heads * model.query_dim()});
  }
  value weights_{};  // of the last layer that ran, as long as the model runs
  constexpr void hold_weights(value weights) {
    if (!t.is_recomputing()) weights_ = std::move(weights);
  }
};

/// BloomForCausalLM, whose attention is always eager.
class bloom_code : public alibi_code {
 public:
  using alibi_code::alibi_code;
  constexpr ~bloom_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr void build_before_layers() override {
    embedding_norm_ = norm_module(model.hidden_size, trains_all());
  }
  // BloomModel
  constexpr value run_model() override {
    const value embedded = embed_tokens(ids_, tokens_);
    value hidden = norm(embedded, embedding_norm_);
    value own_slopes;
    value biases;
    if (setup.padding_mask) {
      const value by_head = slopes();
      const value places = distances(padding_);
      biases = compute(t, {&*by_head, &*places}, of_heads(), element::fp32);
      biases = cast(t, biases, hidden->format);
    } else {
      own_slopes = slopes();
      const std::int64_t tokens = ids_->size[1];
      biases = compute(t,
                       filled(sizes{tokens}, element::int64),
                       {model.num_attention_heads, 1, tokens},
                       element::fp32);
      value repeated = compute(t, biases, of_heads(), element::fp32);
      biases = cast_behind(std::move(biases), std::move(repeated), hidden->format);
    }
    const value mask = causal_mask(embedded->format);
    hidden = norm(run_layers(std::move(hidden), {&*mask, &*biases}), norm_);
    weights_.drop();
    return hidden;
  }
  // biases.repeat(...).to(format): what they were goes when both are done.
  constexpr value cast_behind(value were, value repeated, element format) {
    value made = cast(t, repeated, format);
    repeated.drop();
    were.drop();
    return made;
  }
  // BloomBlock
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    value normed = norm(x, by.before_attention);
    attended attention = attend_to(by, normed, x);
    normed = norm(attention.output, by.before_mlp);
    value sum;
    {
      const value inner = bloom_gelu(linear(normed, by.up));
      const value fed = linear(inner, by.down);
      sum = add(t, attention.output, dropout(t, fed, drops));
    }
    hold_weights(std::move(attention.weights));
    return sum;
  }
  // BloomAttention, which adds the residual
  constexpr attended attend_to(const layer_modules& by, const tensor& x, const tensor& residual) {
    const value qkv = linear(x, by.qkv);
    projections of = split_heads(qkv);
    const std::int64_t heads = x.size[0] * model.num_attention_heads;
    const sizes flat{heads, x.size[1], model.query_dim()};
    of.q = reshape(t, of.q, flat);
    of.k = transpose(t, reshape(t, of.k, flat), 1, 2);
    of.v = reshape(t, of.v, flat);
    const value scores = baddbmm(t, beside[1], of.q, of.k);
    const sizes apart{x.size[0], model.num_attention_heads, x.size[1], x.size[1]};
    value weights = view(t, scores, apart);
    if (beside[the_mask].defined()) weights = add(t, weights, beside[the_mask]);
    value probabilities = cast(t, softmax_in_fp32(weights), of.q->format);
    probabilities = dropout(t, probabilities, drops_attention);
    value mixed = matmul(t, view(t, probabilities, {heads, x.size[1], x.size[1]}), of.v);
    mixed = merged(mixed);
    attended made;
    const value projected = linear(mixed, by.out);
    made.output = add(t, residual, dropout(t, projected, drops));
    made.weights = std::move(probabilities);
    return made;
  }
  // GeLUFunction
  constexpr value bloom_gelu(argument given) {
    const held x(given);
    const int by = t.add_node(bloom_gelu_node, {&x});
    t.keep(by, x);
    const auto of = [&](const tensor& first, const tensor& second = {}) {
      value made = t.make(x.size, x.format);
      t.executes({&first, &second, &*made});
      return made;
    };
    value result;
    {
      const value half = of(x);
      value inner;
      {
        const value scaled = of(x);
        value cubic;
        {
          value square;
          {
            const value part = of(x);
            square = of(part, x);
          }
          cubic = of(square);
        }
        inner = of(scaled, cubic);
      }
      value more;
      {
        const value curve = of(inner);
        inner.drop();
        more = of(curve);
      }
      result = of(half, more);
    }
    t.result_of(by, result.get());
    return result;
  }

  nn_module embedding_norm_{};
};

/// MptForCausalLM, likewise.
class mpt_code : public alibi_code {
 public:
  using alibi_code::alibi_code;
  constexpr ~mpt_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  // MptModel
  constexpr value run_model() override {
    const value embedded = embed_tokens(ids_, tokens_);
    const value biases = mpt_biases();
    value mask = causal_mask(embedded->format);
    mask = compute(t, mask, mask->size, element::boolean);
    value hidden = norm(run_layers(t.share(embedded), {&*mask, &*biases}), norm_);
    weights_.drop();
    return hidden;
  }
  // build_mpt_alibi_tensor
  constexpr value mpt_biases() {
    const std::int64_t heads = model.num_attention_heads;
    std::int64_t power = last_power_of_two(heads);
    if (power != heads) power *= 2;
    const sizes all{power};
    const value places = filled({1, 1, 1, model.alibi_positions}, element::fp32);
    value base = compute(t, filled(all, element::int64), all, element::fp32);
    base = compute(t, base, all, element::fp32);
    value by_head;
    {
      const value powers = t.make(all, element::fp32);
      t.touch(8);
      const value reciprocals = compute(t, powers, all, element::fp32);
      by_head = compute(t, reciprocals, all, element::fp32);
    }
    if (power != heads) by_head = compute(t, by_head, all, element::fp32);
    return compute(t, {&*places, &*by_head}, {heads, 1, model.alibi_positions}, element::fp32);
  }
  // MptBlock
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    value normed = norm(x, by.before_attention);
    attended attention = attend_to(by, normed);
    const value hidden = add(t, dropout(t, attention.output, drops), x);
    normed = norm(hidden, by.before_mlp);
    value sum;
    {
      const value inner = keeping_input(t, linear(normed, by.up));
      const value fed = linear(inner, by.down);
      sum = add(t, dropout(t, fed, drops), hidden);
    }
    hold_weights(std::move(attention.weights));
    return sum;
  }
  // MptAttention
  constexpr attended attend_to(const layer_modules& by, const tensor& x) {
    value qkv = linear(x, by.qkv);
    if (model.clip_qkv) qkv = clamp(t, std::move(qkv), 2);
    projections of;
    split_in_three(qkv, 2, model.hidden_size, of.q, of.k, of.v);
    of.q = heads_of(of.q);
    of.k = heads_of(of.k);
    of.v = heads_of(of.v);
    value scores = scale(t, matmul(t, of.q, transpose(t, of.k, 2, 3)));
    tensor biases = beside[1];
    biases.size[2] = x.size[1];
    scores = add(t, scores, biases);
    scores = masked_fill(t, scores, beside[the_mask]);
    value weights = softmax(t, cast(t, scores, element::fp32), element::fp32);
    weights = cast(t, weights, of.v->format);
    weights = dropout(t, weights, drops_attention);
    attended made;
    const value mixed = merged_in_order(matmul(t, weights, of.v));
    made.output = linear(mixed, by.out);
    made.weights = std::move(weights);
    return made;
  }
  constexpr value merged_in_order(argument given) {
    const held x(given);
    const value turned = contiguous(t, transpose(t, x, 1, 2));
    return view(t, turned, {x.size[0], x.size[2], x.size[1] * x.size[3]});
  }
};

/// FalconForCausalLM: with rotary positions, or ALiBi. Its first models have one head of key and
/// value, or as many as of query; later ones groups.
class falcon_code : public alibi_code {
 public:
  using alibi_code::alibi_code;
  constexpr ~falcon_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  [[nodiscard]] constexpr bool has_alibi() const { return model.alibi_positions != 0; }
  [[nodiscard]] constexpr bool has_groups() const {
    const std::int64_t groups = model.key_value_heads();
    return model.parallel_attention &&
           (model.norms_per_layer == 2 || (groups != 1 && groups != model.num_attention_heads));
  }
  constexpr layer_modules build_layer(bool trains) override {
    layer_modules made = built(trains, {&its::qkv, &its::out, &its::up, &its::down});
    build(made, trains, {&its::before_attention});
    if (model.norms_per_layer == 2) build(made, trains, {&its::before_mlp});
    return made;
  }
  constexpr void build_behind_layers() override {
    causal_lm_code::build_behind_layers();
    build_rotary();
    value again;
    if (!t.gathers()) again = frequencies();
  }
  // FalconModel
  constexpr value run_model() override {
    const value embedded = embed_tokens(ids_, tokens_);
    const element format = embedded->format;
    const std::int64_t batch = ids_->size[0];
    const std::int64_t tokens = ids_->size[1];
    value ones, biases;
    if (has_alibi()) {
      if (!setup.padding_mask) ones = filled(ids_->size, element::int64);
      biases = falcon_biases(setup.padding_mask ? padding_ : ones, format);
    }
    const value positions = shifted_range(tokens);
    value mask = mask_of(batch, tokens, tokens, format, true, 0, true, {}, true);
    if (has_alibi()) mask = joined_biases(std::move(mask), biases);
    value cosines, sines;
    rotary_tables(frequencies_[0][0], format, cosines, sines);
    value hidden = norm(
        run_layers(t.share(embedded), {&*mask, &*cosines, &*sines, &*biases, &*positions}), norm_);
    weights_.drop();
    return hidden;
  }
  // build_alibi_tensor
  constexpr value falcon_biases(const tensor& mask, element format) {
    const value by_head = slopes();
    const value places = distances(mask);
    const value made =
        compute(t, compute(t, by_head, by_head->size, element::bf16), of_heads(), element::bf16);
    return cast(t, made, format);
  }
  /// The biases where a query sees the key, else the least number.
  constexpr value joined_biases(value mask, const tensor& biases) {
    const sizes square{ids_->size[0], 1, ids_->size[1], ids_->size[1]};
    if (mask->format == element::boolean) {
      const value zero = full(t, sizes{1}, biases.format);
      const value least = full(t, sizes{1}, biases.format);
      mask = compute(t, {&*mask, &*zero, &*least}, square, biases.format);
    }
    const value scaled = compute(t, biases, biases.size, biases.format);
    const value hidden = compute(t, mask, square, element::boolean);
    const sizes all{square[0], model.num_attention_heads, square[2], square[3]};
    return compute(t, {&*scaled, &*hidden}, all, biases.format, {"mask"});
  }
  /// FalconLinear: input @ weight.T + bias
  constexpr value falcon_linear(argument given, const nn_module& by) {
    const held x(given);
    nn_module bare = by;
    bare.bias = bare.adapter = none;
    value made = linear(x, bare);
    t.forget_cast(by.weight);  // of a view, which autocast does not keep
    if (by.bias != none) made = add(t, made, t.parameter(by.bias));
    return adapters.add_to(std::move(made), by.adapter, x);
  }
  // FalconDecoderLayer
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    value normed = norm(x, by.before_attention);
    value normed_for_mlp;
    if (has_groups() && model.norms_per_layer == 2) normed_for_mlp = norm(x, by.before_mlp);
    attended attention = attend_to(by, normed);
    value residual = t.share(x);
    if (!model.parallel_attention) {
      residual = add(t, x, dropout(t, attention.output, drops_attention));
      normed_for_mlp = norm(residual, by.before_mlp);
    } else if (!normed_for_mlp->defined()) {
      normed_for_mlp = t.share(normed);
    }
    value fed = falcon_linear(activation(falcon_linear(normed_for_mlp, by.up)), by.down);
    if (model.parallel_attention) fed = add_in_place(t, fed, attention.output);
    value sum = add(t, residual, dropout(t, fed, drops));
    for (value* one : {&residual, &normed, &normed_for_mlp, &attention.output, &fed}) one->drop();
    hold_weights(std::move(attention.weights));
    return sum;
  }
  // FalconAttention
  constexpr attended attend_to(const layer_modules& by, const tensor& x) {
    value qkv = falcon_linear(x, by.qkv);
    projections of = parts_of_qkv(qkv);
    if (!has_alibi()) rotate_both(of.q, of.k);
    attended made = attend_by(of, by, x);
    for (value* one : {&qkv, &of.q, &of.k, &of.v}) one->drop();
    return made;
  }
  constexpr attended attend_by(const projections& of, const layer_modules& by, const tensor& x) {
    attended made;
    if (!is_eager()) {
      value mixed = scaled_dot_product(
          of.q, of.k, of.v, beside[the_mask], true, drops_attention && has_alibi());
      mixed = merged(mixed);
      made.output = falcon_linear(mixed, by.out);
      return made;
    }
    value scores = times_of_all(of.q, transpose(t, of.k, 2, 3));
    if (has_alibi()) {
      const value raised_scores = cast(t, scores, element::fp32);
      tensor biases = beside[the_biases];
      set_contiguous(biases, {x.size[0], model.num_attention_heads, 1, x.size[1]});
      const value logits = scale_in_place(t, add(t, raised_scores, biases));
      made.weights =
          dropout(t, softmax_as(add(t, logits, beside[the_mask]), x.format), drops_attention);
      value mixed = times_of_all(made.weights, of.v);
      mixed = merged(mixed);
      made.output = falcon_linear(mixed, by.out);
      return made;
    }
    scores = scale_in_place(t, scores);
    scores = softmax_as(add(t, scores, beside[the_mask]), x.format);
    value mixed = times_of_all(scores, of.v);
    mixed = merged(mixed);
    made.output = falcon_linear(mixed, by.out);
    made.weights = std::move(scores);
    return made;
  }
  /// softmax(x, dtype=format)
  constexpr value softmax_as(argument given, element format) {
    const held x(given);
    if (x.format == element::fp16 && format == element::fp32) return softmax(t, x, format);
    return softmax(t, cast(t, x, format), format);
  }
  /// A product of which the second has fewer heads, or one.
  constexpr value times_of_all(const tensor& left, argument given) {
    const held right(given);
    const value lowered_right = lowered(t, right);
    sizes all = right.size;
    all[1] = left.size[1];
    if (all == right.size) return matmul(t, left, lowered_right);
    return matmul(t, left, expand(t, lowered_right, all));
  }
  /// _split_heads, and heads before tokens
  constexpr projections parts_of_qkv(const tensor& qkv) {
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t groups = model.key_value_heads();
    const std::int64_t width = model.query_dim();
    const std::int64_t batch = qkv.size[0];
    const std::int64_t tokens = qkv.size[1];
    if (!has_groups() && groups == heads) return split_heads(qkv);
    projections made;
    if (!has_groups()) {
      const value all = view(t, qkv, {batch, tokens, heads + 2, width});
      made.q = slice(t, all, 2, heads);
      made.k = pick(t, all, 2);
      made.v = pick(t, all, 2);
    } else {
      const std::int64_t times = heads / groups;
      const value all = view(t, qkv, {batch, tokens, groups, times + 2, width});
      const sizes apart{batch, tokens, groups, times, width};
      const sizes flat{batch, tokens, heads, width};
      value q = slice(t, all, 3, times);
      value k = pick(t, all, 3);
      value v = pick(t, all, 3);
      k = expand(t, k, apart);
      v = expand(t, v, apart);
      made.q = reshape(t, q, flat);
      made.k = reshape(t, k, flat);
      made.v = reshape(t, v, flat);
    }
    made.q = transpose(t, made.q, 1, 2);
    made.k = transpose(t, made.k, 1, 2);
    made.v = transpose(t, made.v, 1, 2);
    return made;
  }
};

inline constexpr known_code codes_with_alibi[] = {{&code_names::falcon, &code_of<falcon_code>},
                                                  {&code_names::bloom, &code_of<bloom_code>},
                                                  {&code_names::mpt, &code_of<mpt_code>}};

}  // namespace gpuplan::eager
