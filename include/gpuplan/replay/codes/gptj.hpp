#pragma once

// GPTJForCausalLM of Hugging Face's transformers 5.23, which writes its attention out. Private.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class gptj_code : public causal_lm_code {
 public:
  using causal_lm_code::causal_lm_code;
  constexpr ~gptj_code() override {
    for (int at = 0; at < tables_.size(); ++at) t.release(tables_[at].storage);
  }

 protected:
  constexpr layer_modules build_layer(bool trains) override {
    using its = layer_modules;
    layer_modules made =
        built(trains, {&its::before_attention, &its::key, &its::value, &its::query, &its::out});
    {
      const auto charged = t.charge(purpose::buffers);
      tables_.push(sinusoids().take());
    }
    for (module its::*const which : {&its::up, &its::down})
      made.*which = module_of_layer(which, trains);
    return made;
  }
  constexpr void build_behind_layers() override {
    causal_lm_code::build_behind_layers();
    // The tables are made once more where weights are initialised.
    for (std::int64_t at = 0; at < layers; ++at) static_cast<void>(sinusoids());
    for (int at = 0; at < tables_.size(); ++at) add_buffer(tables_[at], layers_[at].up.weight);
  }

  [[nodiscard]] constexpr std::int64_t rotary_width() const {
    const std::int64_t most = setup.framework.implementation.decoder.most_rotated;
    return most == 0 ? model.query_dim() : at_most(most, model.query_dim());
  }

  // create_sinusoidal_positions
  constexpr value sinusoids() {
    const sizes rows{setup.sequence_length};
    const sizes half{rows[0], rotary_width() / 2};
    const value inverse = inverse_frequencies(rotary_width(), element::int64);
    const value angles = compute(
        t, compute(t, t.make(rows, element::int64), rows, element::fp32), half, element::fp32);
    const value sines = t.make(half, element::fp32);
    const value cosines = t.make(half, element::fp32);
    return t.make({rows[0], rotary_width()}, element::fp32);
  }

  // GPTJModel
  constexpr value run_model() override {
    const value embedded = embed_tokens(ids_, tokens_);
    const value positions = shifted_range(ids_->size[1]);
    const value mask = causal_mask(embedded->format);
    const value hidden =
        norm(run_layers(dropout(t, embedded, drops), {&*mask, &*positions}), norm_);
    weights_.drop();
    return view(t, hidden, hidden->size);
  }

  // GPTJBlock
  constexpr value layer(int index, const tensor& x) override {
    const layer_modules& by = layers_[index];
    const value normed = norm(x, by.before_attention);
    attended of_attention = attention(index, normed);
    const value fed = mlp(by, normed, drops);
    value sum = add(t, add(t, of_attention.output, fed), x);
    if (!t.is_recomputing()) weights_ = std::move(of_attention.weights);
    return sum;
  }

  // GPTJAttention
  constexpr attended attention(int index, const tensor& x) {
    const layer_modules& by = layers_[index];
    const sizes apart{x.size[0], x.size[1], model.num_attention_heads, model.query_dim()};
    value q = linear(x, by.query);
    value k = linear(x, by.key);
    value v = linear(x, by.value);
    q = view(t, q, apart);
    k = view(t, k, apart);
    v = heads_of(v, apart[2], apart[3]);
    // Each layer reads its own table.
    const tensor& table = tables_[index];
    const value rows = t.make({1, table.size[0], rotary_width()}, table.format);
    const value places = t.make({1, apart[1], rotary_width()}, element::int64);
    value angles = t.make({1, apart[1], rotary_width()}, table.format);
    angles = cast(t, angles, k->format);
    const head_parts parts = rotate_fronts(
        k, q, rotary_width(), [&](const tensor& front) { return rotate(front, angles->format); });
    k = transpose(t, k, 1, 2);
    q = transpose(t, q, 1, 2);
    attended made = attend_to(q, k, v);
    made.output = contiguous(t, made.output);
    made.output = linear(view(t, made.output, x.size), by.out);
    made.output = dropout(t, made.output, drops);
    return made;
  }
  /// x * cos + rotate_every_two(x) * sin, of which each element stands for two neighbours.
  constexpr value rotate(const tensor& x, element format) {
    const sizes table{1, x.size[1], 1, x.size[3]};
    const value sines = t.make(table, format);
    const value cosines = t.make(table, format);
    const value straight = multiply(t, x, cosines);
    return add(t, straight, multiply(t, rotate_every_two(x), sines));
  }
  constexpr value rotate_every_two(const tensor& x) {
    const sizes pairs{x.size[0], x.size[1], x.size[2], x.size[3] / 2, 1};
    const value first = every_second(x);
    const value second = every_second(x);
    const value left = view(t, scale(t, second), pairs);
    const value right = view(t, first, pairs);
    return view(t, concatenate(t, left, right, 4), x.size);
  }
  constexpr value every_second(const tensor& x) {
    value seen = slice(t, x, 3, x.size[3] / 2);
    seen.get().stride[3] *= 2;
    return seen;
  }

  // _attn
  constexpr attended attend_to(const tensor& given_query,
                               const tensor& given_key,
                               const tensor& v) {
    const value q = cast(t, given_query, element::fp32);
    const value k = cast(t, given_key, element::fp32);
    constexpr eager_attention_options code{.softmax_in_fp32 = false, .makes_contiguous = false};
    return eager_attention(q, k, v, beside[0], code);
  }

  growing_array<tensor> tables_{};  // of angles, one a layer
  value weights_{};                 // of the last layer that ran, as long as the model runs
};

}  // namespace gpuplan::eager
