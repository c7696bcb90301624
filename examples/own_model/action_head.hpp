#pragma once

// A model that the library does not have, in one file: GR00T N1's action head, as action_head.py
// has it. What a line of Python allocates, the line here allocates.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/replay/model_code.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <utility>

namespace action_head {

using namespace gpuplan;
using namespace gpuplan::eager;

inline constexpr std::int64_t seen_tokens = 64, seen_width = 512;
inline constexpr std::int64_t state_width = 64, action_width = 32, robots = 8;
inline constexpr std::int64_t actions = 16, free_tokens = 32, time_width = 256;
inline constexpr std::int64_t tokens = 1 + free_tokens + actions;

class code final : public model_code {
 public:
  using model_code::model_code;
  constexpr ~code() override {}  // NOLINT(modernize-use-equals-default): g++ 12 knows no other

  constexpr void construct() override {
    time_1_ = matrix(width, time_width);
    time_2_ = matrix(width, width);
    for (of_robot* one : {&state_1_, &state_2_})
      *one = matrix_of_robot(one == &state_1_ ? state_width : width, width);
    action_1_ = matrix_of_robot(action_width, width);
    action_2_ = matrix_of_robot(2 * width, width);
    action_3_ = matrix_of_robot(width, width);
    positions_ = table_module(actions, width, true);
    free_ = table_module(free_tokens, width, true);
    for (std::int64_t at = 0; at < layers; ++at) {
      const auto built = t.building_unit(at);
      const std::int64_t read = at % 2 == 0 ? seen_width : width;
      block made;
      made.norm = matrix(2 * width, width);
      made.query = matrix(width, width);
      made.key = matrix(width, read);
      made.value = matrix(width, read);
      made.out = matrix(width, width);
      made.up = matrix(4 * width, width);
      made.down = matrix(width, 4 * width);
      blocks_.push(made);
    }
    last_ = matrix(2 * width, width);
    out_1_ = matrix_of_robot(width, width);
    out_2_ = matrix_of_robot(width, action_width);
  }

  constexpr void make_batch() override {
    const auto charged = t.charge(purpose::buffers);
    seen_ = t.make({batch, seen_tokens, seen_width}, element::fp32, {"what is seen"});
    state_ = t.make({batch, 1, state_width}, element::fp32, {"state"});
    actions_ = t.make({batch, actions, action_width}, element::fp32, {"actions"});
    robot_ = t.make(sizes{batch}, element::int64, {"robot"});
  }

  constexpr value forward() override {
    const value noise = t.make(actions_->size, element::fp32);
    const value drawn = t.make(sizes{batch}, element::fp32);
    const value at = view(t, drawn, {batch, 1, 1});
    value noisy = multiply(t, scale(t, at), noise);
    {
      const value clean = multiply(t, at, actions_);
      noisy = add(t, std::move(noisy), clean);
    }
    const value velocity = subtract(t, actions_, noise);
    const value steps = cast(t, cast(t, scale(t, drawn), element::int64), element::fp32);

    const value time = linear(silu(t, linear(waves(steps, time_width), time_1_)), time_2_);
    value state = linear(relu(t, linear(state_, state_1_)), state_2_);
    value x = linear(noisy, action_1_);
    {
      const value wave = view(t, waves(steps, width), {batch, 1, width});
      x = concatenate(t, x, expand(t, wave, {batch, actions, width}), 2);
    }
    x = linear(silu(t, linear(x, action_2_)), action_3_);
    x = add(t, x, embedding(t, t.make(sizes{actions}, element::int64), positions_.weight));
    {
      const value free = expand(t, t.parameter(free_.weight), {batch, free_tokens, width});
      x = concatenate(t, {&*state, &*free, &*x}, 1);
    }
    state.drop();

    beside[0] = seen_;
    beside[1] = time;
    for (std::int64_t index = 0; index < layers; ++index) x = run_layer(index, x);

    t.begin(moment::loss);
    x = adapted_norm(x, time, last_);
    x = linear(relu(t, linear(x, out_1_)), out_2_);
    return mse_loss(t, slice(t, x, 1, actions), velocity);
  }

 protected:
  struct of_robot {
    nn_module weight, bias;
    std::int64_t out = 0;
  };
  struct block {
    nn_module norm, query, key, value, out, up, down;
  };

  constexpr nn_module matrix(std::int64_t out, std::int64_t in) {
    return linear_module(out, in, true, true);
  }
  constexpr of_robot matrix_of_robot(std::int64_t in, std::int64_t out) {
    of_robot made;
    made.out = out;
    made.weight = table_module(robots, in * out, true);
    made.bias = table_module(robots, out, true);
    return made;
  }
  using model_code::linear;
  constexpr value linear(argument given, const of_robot& by) {
    const held x(given);
    const value weight =
        view(t, embedding(t, robot_, by.weight.weight), {batch, x.size[2], by.out});
    value product = matmul(t, x, weight);
    const value bias = view(t, embedding(t, robot_, by.bias.weight), {batch, 1, by.out});
    return add(t, std::move(product), bias);
  }
  constexpr value waves(const tensor& at, std::int64_t of_width) {
    const sizes half{of_width / 2};
    const value exponent = scale(t, t.make(half, element::fp32));
    const value column = view(t, at, {batch, 1});
    const value angle = multiply(t, column, compute(t, exponent, half, element::fp32));
    const value sine = compute(t, angle, angle->size, element::fp32);
    const value cosine = compute(t, angle, angle->size, element::fp32);
    return concatenate(t, sine, cosine, 1);
  }
  constexpr value adapted_norm(const tensor& x, const tensor& time, const nn_module& by) {
    value scales, shifts;
    {
      const value both = linear(silu(t, time), by);
      const int halves = split(t, both);
      scales = part(t, halves, both, 1, width, 0);
      shifts = part(t, halves, both, 1, width, 1);
    }
    const value shift = view(t, shifts, {batch, 1, width});
    value normed = layer_norm(t, x, none, none);
    const value factor = add_number(t, view(t, scales, {batch, 1, width}));
    normed = multiply(t, std::move(normed), factor);
    return add(t, std::move(normed), shift);
  }

  constexpr value attend(const tensor& x, const tensor& read, const block& by) {
    const std::int64_t heads = model.num_attention_heads;
    const value query = heads_of(linear(x, by.query), heads, width / heads);
    const value key = heads_of(linear(read, by.key), heads, width / heads);
    const value val = heads_of(linear(read, by.value), heads, width / heads);
    const value y = attention(query, key, val, false, false);
    return dropout(t, linear(reshape(t, transpose(t, y, 1, 2), x.size), by.out), drops);
  }
  constexpr value layer(int index, const tensor& input) override {
    const block& by = blocks_[index];
    value y = adapted_norm(input, beside[1], by.norm);
    const value x = add(t, input, attend(y, index % 2 == 0 ? beside[0] : *y, by));
    y = dropout(t, gelu(t, linear(layer_norm(t, x, none, none), by.up)), drops);
    return add(t, x, dropout(t, linear(y, by.down), drops));
  }

  const std::int64_t batch = plan.micro_batch;
  const std::int64_t width = model.hidden_size;
  nn_module time_1_{}, time_2_{}, positions_{}, free_{}, last_{};
  of_robot state_1_{}, state_2_{}, action_1_{}, action_2_{}, action_3_{}, out_1_{}, out_2_{};
  growing_array<block> blocks_{};
  value seen_{}, state_{}, actions_{}, robot_{};
};

inline constexpr code_name name{"action_head"};
inline constexpr layer_class classes{.name = &name,
                                     .kind = model_kind::encoder,
                                     .code = &code_of<code>,
                                     .has_gradients_beside = true,
                                     .trains_parts = false,
                                     .trains_adapters = false,
                                     .layer_period = 2};
inline constexpr framework torch{.name = "PyTorch", .implementation = {.layers = &classes}};

/// As wide as `width`, heads of 64.
constexpr transformer shape(std::int64_t depth, std::int64_t width) {
  return {.name = "action head",
          .kind = model_kind::encoder,
          .num_hidden_layers = depth,
          .hidden_size = width,
          .intermediate_size = 4 * width,
          .num_attention_heads = width / 64,
          .head = head_kind::none};
}

}  // namespace action_head
