#pragma once

// ModernBERT of Hugging Face's transformers 5.23. Private.

#include <gpuplan/replay/codes/hugging_face_encoder.hpp>
#include <gpuplan/replay/eager/operators/recurrences.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class modernbert_code final : public text_encoder_code {
 public:
  using text_encoder_code::text_encoder_code;
  constexpr ~modernbert_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr value forward() override {
    if (model.head != head_kind::classifier) return text_encoder_code::forward();
    const value hidden = encode(inputs_[0]);
    t.begin(moment::loss);
    value x, mask;
    if (model.classified != classified_kind::sequences) {
      x = transform(hidden);
    } else if (!model.classifier_reads_mean) {
      x = transform(select(t, hidden, 1));
    } else {
      const sizes tokens{hidden->size[0], hidden->size[1]};
      if (!setup.padding_mask) mask = full(t, tokens, element::boolean);
      x = transform(mean_of_tokens(hidden, setup.padding_mask ? inputs_[2] : *mask));
    }
    if (finds_spans()) return span_loss(x);
    return token_loss(x);
  }

 protected:
  // What layers read beside their input, behind the mask.
  static constexpr int the_cosines = 1;
  static constexpr int the_sines = 2;

  [[nodiscard]] constexpr bool has_windows() const {
    return layers > model_layers_without_window();
  }
  [[nodiscard]] constexpr std::int64_t model_layers_without_window() const {
    return layers - model.windowed_layers_before(layers);
  }
  [[nodiscard]] constexpr int kinds_of_layers() const { return has_windows() ? 2 : 1; }

  // -- construction

  constexpr layer_modules build_layer(bool trains) override {
    layer_modules made;
    if (layers_.size() != 0) build(made, trains, {&its::before_attention});
    build(made, trains, {&its::qkv, &its::out, &its::before_mlp, &its::gate_up, &its::down});
    return made;
  }
  constexpr void build_behind_layers() override {
    last_norm_ = norm_module(model.hidden_size, trains_final_norm());
    const auto charged = t.charge(purpose::buffers);
    for (int kind = 0; kind < kinds_of_layers(); ++kind) {
      frequencies_[kind][0] = frequencies();
      frequencies_[kind][1] = t.make(frequencies_[kind][0]->size, element::fp32);
      add_buffer(frequencies_[kind][0]);
      add_buffer(frequencies_[kind][1]);
    }
    initialize(tokens_);
    for (int at = 0; at < layers_.size(); ++at)
      for (const nn_module* one :
           {&layers_[at].qkv, &layers_[at].out, &layers_[at].gate_up, &layers_[at].down})
        initialize(*one);
    value again;
    for (int kind = 0; kind < kinds_of_layers(); ++kind) again = frequencies();
  }
  constexpr void build_head() override {
    text_encoder_code::build_head();
    if (model.head == head_kind::none) return;
    initialize(dense_);
    initialize(model.head == head_kind::classifier ? classes_ : head_);
  }
  constexpr void initialize(const nn_module& one) {
    truncate(t.parameters[one.weight].data.count());
  }
  /// 1 / base ** (arange(0, width, 2) / width)
  constexpr value frequencies() {
    const sizes half{model.query_dim() / 2};
    value exponents = compute(t, full(t, half, element::fp32), half, element::fp32);
    const value powers = full(t, half, element::fp32);
    t.touch(8);
    exponents.drop();
    const value reciprocals = full(t, half, element::fp32);
    return full(t, half, element::fp32);
  }

  // -- the model

  constexpr value encode(const tensor& ids) override {
    const std::int64_t batch = ids.size[0];
    const std::int64_t tokens = ids.size[1];
    const value positions = full(t, sizes{tokens}, element::int64);
    const value embedded = drop_out(norm(embed_tokens(ids, tokens_), norm_));
    const element format = embedded->format;
    const value mask = mask_of(batch, tokens, tokens, format, false);
    const value near_mask =
        mask_of(batch, tokens, tokens, format, false, (model.sliding_window - 1) / 2);
    value cosines[2], sines[2];
    for (int kind = 0; kind < kinds_of_layers(); ++kind)
      rotary_tables(frequencies_[kind][0], format, cosines[kind], sines[kind]);
    value hidden = t.share(embedded);
    for (std::int64_t at = 0; at < layers; ++at) {
      const bool windowed = model.is_windowed(at);
      beside[the_mask] = windowed ? near_mask : mask;
      beside[the_cosines] = cosines[windowed ? 1 : 0];
      beside[the_sines] = sines[windowed ? 1 : 0];
      hidden = run_layer(at, hidden);
    }
    return norm(hidden, last_norm_);
  }
  constexpr value run_layers(value hidden, const tensor&) override { return hidden; }
  /// Of those that the mask, of integers or truth values, leaves.
  constexpr value mean_of_tokens(const tensor& hidden, const tensor& mask) {
    tensor seen = mask;
    set_contiguous(seen, {mask.size[0], mask.size[1], 1});
    const value sums = sum_over(t, times_mask(t, hidden, seen), 1);
    value wide;
    if (mask.format != element::int64) wide = compute(t, mask, mask.size, element::int64);
    const value counts = compute(t, mask, {mask.size[0], 1}, element::int64);
    wide.drop();
    return divide(t, sums, counts);
  }
  constexpr void rotary_tables(const tensor& inverse,
                               element format,
                               value& cosines,
                               value& sines) {
    const std::int64_t tokens = setup.sequence_length;
    const sizes table{1, tokens, model.query_dim()};
    value angles;
    {
      const value positions = full(t, {1, tokens, 1}, element::fp32);
      const value frequencies = cast(t, inverse, element::fp32);
      angles = compute(
          t, {&*positions, &*frequencies}, {1, tokens, model.query_dim() / 2}, element::fp32);
    }
    const value both = compute(t, {&*angles, &*angles}, table, element::fp32, {"rotary angles"});
    const auto made = [&] { return compute(t, both, table, element::fp32, {"rotary table"}); };
    const value cosine = compute(t, made(), table, element::fp32, {"rotary table"});
    const value sine = compute(t, made(), table, element::fp32, {"rotary table"});
    cosines = cast(t, cosine, format);
    sines = cast(t, sine, format);
  }

  // ModernBertEncoderLayer
  constexpr value layer(int index, const tensor& input) override {
    const layer_modules& by = layers_[index];
    value hidden;
    attended attention;
    if (index != 0)
      attention = attend_to(by, norm(input, by.before_attention));
    else
      attention = attend_to(by, input);
    hidden = add(t, input, attention.output);
    value fed = gated(by, norm(hidden, by.before_mlp));
    return add(t, hidden, fed);
  }
  // ModernBertMLP
  constexpr value gated(const layer_modules& by, argument given) {
    const held x(given);
    value front, gate;
    {
      const value both = linear(x, by.gate_up);
      const int parts = split(t, both);
      front = part(t, parts, both, 2, model.intermediate_size, 0);
      gate = part(t, parts, both, 2, model.intermediate_size, 1);
    }
    return linear(dropout(t, multiply(t, act(front), gate), drops_activation), by.down);
  }
  // ModernBertAttention
  constexpr attended attend_to(const layer_modules& by, argument given) {
    const held x(given);
    const std::int64_t heads = model.num_attention_heads;
    value qkv = linear(x, by.qkv);
    qkv = view(t, qkv, {x.size[0], x.size[1], 3, heads, model.query_dim()});
    const int parts = split(t, qkv);
    value q = part_at(t, parts, qkv, 2, 0);
    value k = part_at(t, parts, qkv, 2, 1);
    value v = part_at(t, parts, qkv, 2, 2);
    q = transpose(t, q, 1, 2);
    k = transpose(t, k, 1, 2);
    v = transpose(t, v, 1, 2);
    {
      const value turned_q = rotate(q);
      const value turned_k = rotate(k);
      value cast_q = cast(t, turned_q, q->format);
      k = cast(t, turned_k, k->format);
      q = std::move(cast_q);
    }
    attended made = attend(q, k, v, beside[the_mask], false, {});
    made.output = view(t, made.output, x.size);
    made.output = dropout(t, linear(made.output, by.out), drops_attention);
    return made;
  }
  /// x * cos + rotate_half(x) * sin, in fp32
  constexpr value rotate(const tensor& x) {
    const value straight = multiply(t, cast(t, x, element::fp32), table(the_cosines));
    value turned = rotate_half(cast(t, x, element::fp32));
    return add(t, straight, multiply(t, std::move(turned), table(the_sines)));
  }
  constexpr tensor table(int which) const {
    tensor seen = beside[which];
    set_contiguous(seen, {1, 1, seen.size[1], seen.size[2]});
    return seen;
  }
  constexpr value normed(argument given, const nn_module& by) override {
    return layer_norm(t, given, by.weight, by.bias);
  }

  nn_module last_norm_{};
  value frequencies_[2][2]{};  // of each kind of layer, and its copy
};

}  // namespace gpuplan::eager
