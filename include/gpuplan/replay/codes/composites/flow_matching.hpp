#pragma once

// The head of GR00T N1.5, FlowmatchingActionHead of Isaac-GR00T: weights for each kind of robot,
// layers of its own over what was seen, and a diffusion transformer of diffusers' Attention and
// FeedForward. Recalled, with what diffusers 0.42 does read. Private.

#include <gpuplan/replay/codes/composites/action_head.hpp>
#include <gpuplan/replay/eager/operators/routing.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Images through SigLIP and one linear layer, before the text in a language model without head.
class flow_matching_code final : public vision_language_action_code {
 public:
  using vision_language_action_code::vision_language_action_code;
  constexpr ~flow_matching_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void make_batch() override {
    vision_language_action_code::make_batch();
    const auto charged = t.charge(purpose::buffers);
    mask_ = t.make(actions_->size, actions_->format, {"mask of actions"});
    robots_ = t.make(sizes{plan.micro_batch}, element::int64, {"kinds of robots"});
  }

  constexpr value forward() override {
    t.begin(moment::forward);
    return act_in(read());
  }

 protected:
  /// A matrix, and a bias, for each kind of robot.
  using of_robots = nn_module;
  struct attending_layer {
    nn_module scales, before_attention, query, key, value, out, before_mlp, up, down;
  };

  [[nodiscard]] constexpr std::int64_t seen_tokens() const override {
    return part(0).sequences * part(0).model.image.patches();
  }
  constexpr void build_seen_norm() override {}
  constexpr void cast_frozen() override {
    if (!part(0).frozen_in_compute_format || !setup.precision.autocast()) return;
    const element format = element_of(setup.precision.compute);
    for (int at = 0; at < t.parameters.size(); ++at) {
      parameter_record& record = t.parameters[at];
      record.is_moved = true;
      t.moved.push(at);
      t.convert(record.data, format);
    }
    cast_tables(format);
  }

  // -- construction

  constexpr of_robots matrices(std::int64_t in, std::int64_t out) {
    of_robots made;
    const value drawn =
        t.make({head().embodiments, in, out}, element::fp32);  // before it is scaled
    made.weight = parameter({head().embodiments, in, out}, true);
    made.bias = parameter({head().embodiments, out}, true);
    return made;
  }
  constexpr attending_layer build_block(std::int64_t width, std::int64_t read, bool by_time) {
    attending_layer made;
    if (by_time)
      made.scales = matrix(2 * width, width);
    else
      made.before_attention = norm_of(width);
    made.query = matrix(width, width);
    made.key = matrix(width, read);
    made.value = matrix(width, read);
    made.out = matrix(width, width);
    if (!by_time) made.before_mlp = norm_of(width);
    made.up = matrix(4 * width, width);
    made.down = matrix(width, 4 * width);
    return made;
  }
  constexpr void build_actions() override {
    const action_head& of = head();
    const std::int64_t width = of.hidden_size;
    const std::int64_t inner = of.encoder_size;
    const std::int64_t context = part(1).model.hidden_size;
    time_1_ = matrix(width, waves);
    time_2_ = matrix(width, width);
    for (std::int64_t at = 0; at < of.num_hidden_layers; ++at)
      layers_.push(build_block(width, at % 2 == 0 ? context : width, true));
    last_scales_ = matrix(2 * width, width);
    last_ = matrix(inner, width);
    state_1_ = matrices(of.state_dim, inner);
    state_2_ = matrices(inner, width);
    action_1_ = matrices(of.action_dim, width);
    action_2_ = matrices(2 * width, width);
    action_3_ = matrices(width, width);
    result_1_ = matrices(inner, inner);
    result_2_ = matrices(inner, of.action_dim);
    future_ = table_module(of.future_tokens, width, true);
    context_norm_ = norm_of(context);
    for (std::int64_t at = 0; at < of.context_layers; ++at)
      context_layers_.push(build_block(context, context, false));
    places_ = table_module(of.position_rows, width, true);
  }

  // -- FlowmatchingActionHead; what its functions name lives until they return

  /// Images and text, to the language model's states.
  constexpr value read() {
    value seen;
    {
      auto features = tower_.code.encode(given_input, tower_.code.layers);
      if (part(0).model.attention_pooling) {
        const value unread = tower_.code.pool_by_query(features.states);
      }
      seen = connect(part(0).next, std::move(features.states));
    }
    const std::int64_t width = part(1).model.hidden_size;
    seen = view(t, std::move(seen), {plan.micro_batch, seen_tokens(), width});
    value x;
    {
      const value text = language_.code.embed(ids_);
      x = concatenate(t, seen, text, 1);
    }
    return language_.code.run_embedded(t.share(x));
  }
  constexpr value act_in(value features) {
    const action_head& of = head();
    const std::int64_t batch = plan.micro_batch;
    const std::int64_t width = of.hidden_size;
    value context = layer_norm(t, std::move(features), context_norm_.weight, context_norm_.bias);
    for (int at = 0; at < context_layers_.size(); ++at)
      context = run_layer_of(context_layers_[at], context, none_such, none_such);
    const value state = multilayer(state_, state_1_, state_2_);
    const value at = view(t, time_, {batch, 1, 1});
    value noised;
    {
      const value noise = multiply(t, add_number(t, at), noise_);
      const value kept = multiply(t, at, actions_);
      noised = add(t, noise, kept);
    }
    const value velocity = subtract(t, actions_, noise_);
    value bucket;
    {
      const value scaled = scale(t, view(t, at, sizes{batch}));
      bucket = compute(t, scaled, sizes{batch}, element::int64);
    }
    value action = encode_actions(noised, bucket);
    const value places = full(t, sizes{of.horizon}, element::int64);
    const value rows = embedding(t, places, places_.weight);
    action = add(t, action, view(t, rows, {1, of.horizon, width}));
    const tensor table = t.parameter(future_.weight);
    const value future =
        expand(t, view(t, table, {1, of.future_tokens, width}), {batch, of.future_tokens, width});
    const value all = concatenate(t, {&*state, &*future, &*action}, 1);
    const value transformed = transform(all, context, bucket);
    t.begin(moment::loss);
    const value decoded = multilayer(transformed, result_1_, result_2_);
    const value wanted = slice(t, decoded, 1, of.horizon);
    const value errors = multiply(t, squared_errors(t, wanted, velocity), mask_);
    const auto total = [&](const tensor& x) {
      return sum_over(t, view(t, x, sizes{x.count()}), 0);
    };
    const value sum = total(errors);
    return divide(t, sum, total(mask_));
  }

  // CategorySpecificLinear
  constexpr value linear_of(const tensor& x, const of_robots& by) {
    value bias, weight;  // in the order in which Python would not let go of them
    weight = rows_at(t, t.parameter(by.weight), robots_);
    bias = rows_at(t, t.parameter(by.bias), robots_);
    const value made = matmul(t, x, weight);
    return add(t, made, view(t, bias, {plan.micro_batch, 1, bias->size[1]}));
  }
  // CategorySpecificMLP
  constexpr value multilayer(const tensor& x, const of_robots& first, const of_robots& second) {
    const value hidden = relu(t, linear_of(x, first));
    return linear_of(hidden, second);
  }
  // MultiEmbodimentActionEncoder
  constexpr value encode_actions(const tensor& noised, const tensor& bucket) {
    const std::int64_t batch = plan.micro_batch;
    const std::int64_t horizon = head().horizon;
    const std::int64_t half = head().hidden_size / 2;
    const value action = linear_of(noised, action_1_);
    value wave;
    {
      const sizes all{batch, horizon, half};
      value cosine, sine, angle, exponent, times;
      times = compute(t, bucket, {batch, horizon}, element::fp32);
      exponent = full(t, sizes{half}, element::fp32);
      exponent = compute(t, exponent, sizes{half}, element::fp32);
      exponent = compute(t, exponent, sizes{half}, element::fp32);
      {
        const value frequency = compute(t, exponent, sizes{half}, element::fp32);
        angle = compute(t, {&*times, &*frequency}, all, element::fp32);
      }
      sine = compute(t, angle, all, element::fp32);
      cosine = compute(t, angle, all, element::fp32);
      wave = concatenate(t, sine, cosine, 2);
    }
    wave = cast(t, std::move(wave), action->format);
    value x = concatenate(t, action, wave, 2);
    {
      const value hidden = linear_of(x, action_2_);
      const value gate = keeping_result(t, hidden);
      x = multiply(t, hidden, gate);
    }
    x = linear_of(x, action_3_);
    return x;
  }

  // -- DiT

  constexpr value transform(const tensor& tokens, const tensor& context, const tensor& bucket) {
    const value time = encode_time(bucket);
    value x = t.share(tokens);
    for (int at = 0; at < layers_.size(); ++at)
      x = run_layer_of(layers_[at], x, at % 2 == 0 ? context : none_such, time);
    x = scaled_norm(x, last_scales_, time);
    return linear(x, last_);
  }
  // TimestepEncoder: get_timestep_embedding of diffusers, and its MLP
  constexpr value encode_time(const tensor& bucket) {
    const std::int64_t batch = plan.micro_batch;
    const sizes half{waves / 2};
    const sizes all{batch, waves / 2};
    const auto number = [&](argument of, const sizes& size) {
      return compute(t, of, size, element::fp32);
    };
    value wave;
    {
      value exponent = full(t, half, element::fp32);
      exponent = number(std::move(exponent), half);
      exponent = number(std::move(exponent), half);
      wave = number(exponent, half);
      {
        const value times = number(bucket, {batch, 1});
        wave = compute(t, {&*times, &*wave}, all, element::fp32);
      }
      wave = number(std::move(wave), all);
      const auto halves = [&] {
        const value first = number(wave, all);
        const value second = number(wave, all);
        return concatenate(t, first, second, 1);
      };
      wave = halves();
      wave = number(std::move(wave), {batch, waves});
    }
    wave = cast(t, std::move(wave), weight_format);
    const value inner = silu(t, linear(wave, time_1_));
    return linear(inner, time_2_);
  }
  // BasicTransformerBlock: with the time, or with norms of its own
  constexpr value run_layer_of(const attending_layer& by,
                               const tensor& input,
                               const tensor& context,
                               const tensor& time) {
    const bool by_time = time.defined();
    const auto drop = [&](value x) { return dropout(t, std::move(x), head().drops); };
    value inner, attended, normed;
    if (by_time)
      normed = scaled_norm(input, by.scales, time);
    else
      normed = layer_norm(t, input, by.before_attention.weight, by.before_attention.bias);
    attended = drop(attend(by, normed, context.defined() ? context : *normed));
    const value x = add(t, attended, input);
    if (by_time)
      normed = layer_norm(t, x, none, none);
    else
      normed = layer_norm(t, x, by.before_mlp.weight, by.before_mlp.bias);
    inner = drop(gelu(t, linear(normed, by.up)));
    inner = drop(linear(std::move(inner), by.down));
    return add(t, inner, x);
  }
  // Attention, which divides by 1 in the end
  constexpr value attend(const attending_layer& by, const tensor& x, const tensor& read) {
    const std::int64_t heads = head().num_attention_heads;
    const std::int64_t width = x.size[2];
    const value query = heads_of(linear(x, by.query), heads, width / heads);
    const value key = heads_of(linear(read, by.key), heads, width / heads);
    const value val = heads_of(linear(read, by.value), heads, width / heads);
    value y = attend_to(query, key, val);
    y = linear(reshape(t, transpose(t, y, 1, 2), x.size), by.out);
    y = dropout(t, std::move(y), head().drops);
    return scale(t, std::move(y));
  }

  static constexpr tensor none_such{};

  growing_array<attending_layer> layers_{}, context_layers_{};
  nn_module context_norm_{}, last_scales_{}, last_{}, future_{}, places_{};
  of_robots state_1_{}, state_2_{}, action_1_{}, action_2_{}, action_3_{}, result_1_{}, result_2_{};
  value mask_{}, robots_{};
};

}  // namespace gpuplan::eager
