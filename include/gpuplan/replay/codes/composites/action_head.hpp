#pragma once

// A language model that sees images, and a diffusion transformer of actions, as GR00T N1 has them,
// written with torch.nn around transformers' models. Private.

#include <gpuplan/replay/codes/composites/composite.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Images through SigLIP, four patches a token, and a connector, before the text in a language
/// model without head; its states are the context of the actions.
class vision_language_action_code : public composite_code {
 public:
  constexpr vision_language_action_code(tape& on, const training_setup& of, const batch_plan& with)
      : composite_code(on, of, with),
        tower_(on, as_kernels_are(of, false), with, 0),
        language_(on, of, with, 1) {}
  constexpr ~vision_language_action_code() override {}  // NOLINT(modernize-use-equals-default)

  // The language model is there before the tower, which stands before it.
  constexpr void construct() override {
    add_parts({&tower_.code, &language_.code});
    tower_.code.reserve(tower_.code.parameters_of_tower());
    language_.code.construct_stack();
    // which nothing reads
    if (part(1).model.head == head_kind::language_model) language_.code.construct_head();
    tower_.code.construct_tower(tower_.code.layers);
    tower_.code.end_reserved();
    if (part(0).model.attention_pooling) tower_.code.construct_pooling();
    build_seen_norm();
    build_connector(part(0).next);
    cast_frozen();
    build_actions();
  }
  constexpr void cast_model() override {
    tower_.code.move_patches();
    composite_code::cast_model();
  }
  constexpr void make_batch() override {
    const auto charged = t.charge(purpose::buffers);
    ids_ = t.make(
        {plan.micro_batch, setup.sequence_length - seen_tokens()}, element::int64, {"token ids"});
    make_image_batch(part(0));
    const element format = images_->format;
    state_ = t.make({plan.micro_batch, 1, head().state_dim}, format, {"state"});
    const sizes all{plan.micro_batch, head().horizon, head().action_dim};
    actions_ = t.make(all, format, {"actions"});
    noise_ = t.make(all, format, {"noise"});
    time_ = t.make(sizes{plan.micro_batch}, format, {"time"});
  }

  constexpr value forward() override {
    t.begin(moment::forward);
    const component& tower = part(0);
    const std::int64_t side = tower.model.image.image_size / tower.model.image.patch_size;
    const std::int64_t width = 4 * tower.model.hidden_size;
    value seen;
    {
      auto features = tower_.code.encode(given_input, tower_.code.layers);
      seen = std::move(features.states);
    }
    seen = rearranged(
        t, std::move(seen), {plan.micro_batch, tower.sequences * (side / 2) * (side / 2), width});
    value projected = layer_norm(t, seen, seen_norm_.weight, seen_norm_.bias);
    projected = connect(tower.next, std::move(projected));
    value x;
    {
      const value text = language_.code.embed(ids_);
      x = concatenate(t, projected, text, 1);
      projected.drop();
    }
    const value context = language_.code.run_embedded(t.share(x));
    return act_on(context);
  }

 protected:
  struct block {
    nn_module scales, norm, query, key, value, out, up, down;
  };
  [[nodiscard]] constexpr const action_head& head() const { return setup.composite->actions; }
  /// Of one sample.
  [[nodiscard]] constexpr virtual std::int64_t seen_tokens() const {
    return part(0).sequences * (part(0).model.image.patches() / 4);
  }
  // What the language model's attention is told does not reach what stands around it.
  static constexpr training_setup as_kernels_are(training_setup of, bool again) {
    if (of.attention == attention_kernel::eager) of.attention = attention_kernel::automatic;
    if (!again) of.recompute = recompute_mode::none;
    return of;
  }

  constexpr nn_module matrix(std::int64_t out, std::int64_t in) {
    return linear_module(out, in, true, true);
  }
  constexpr nn_module norm_of(std::int64_t width) {
    nn_module made;
    made.weight = parameter(sizes{width}, true);
    made.bias = parameter(sizes{width}, true);
    return made;
  }
  constexpr virtual void build_seen_norm() { seen_norm_ = norm_of(4 * part(0).model.hidden_size); }
  /// What stands before the actions, where it is not cast with them.
  constexpr virtual void cast_frozen() {}
  constexpr virtual void build_actions() {
    const std::int64_t width = head().hidden_size;
    const std::int64_t context = part(1).model.hidden_size;
    of_state_ = matrix(width, head().state_dim);
    of_action_ = matrix(width, head().action_dim);
    to_action_ = matrix(head().action_dim, width);
    time_1_ = matrix(width, waves);
    time_2_ = matrix(width, width);
    for (std::int64_t at = 0; at < head().num_hidden_layers; ++at) {
      const std::int64_t read = at % 2 == 0 ? context : width;
      block made;
      made.scales = matrix(2 * width, width);
      made.norm = norm_of(width);
      made.query = matrix(width, width);
      made.key = matrix(width, read);
      made.value = matrix(width, read);
      made.out = matrix(width, width);
      made.up = matrix(4 * width, width);
      made.down = matrix(width, 4 * width);
      blocks_.push(made);
    }
    last_norm_ = norm_of(width);
  }

  // The mean square of what takes noised actions back.
  constexpr value act_on(const tensor& context) {
    const std::int64_t batch = plan.micro_batch;
    const value at = view(t, time_, {batch, 1, 1});
    value noised = multiply(t, at, noise_);
    {
      const value rest = add_number(t, at);
      const value kept = multiply(t, rest, actions_);
      noised = add(t, std::move(noised), kept);
    }
    const value frequency = frequencies();
    value angle;
    {
      const value column = cast(t, view(t, time_, {batch, 1}), element::fp32);
      angle = multiply(t, column, view(t, frequency, {1, waves / 2}));
    }
    value time;
    {
      const value cosine = compute(t, angle, angle->size, element::fp32);
      const value sine = compute(t, angle, angle->size, element::fp32);
      time = concatenate(t, cosine, sine, 1);
    }
    time = cast(t, std::move(time), noised->format);
    time = linear(std::move(time), time_1_);
    time = linear(silu(t, std::move(time)), time_2_);
    value z;
    {
      const value state = linear(state_, of_state_);
      const value action = linear(noised, of_action_);
      z = concatenate(t, state, action, 1);
    }
    for (int which = 0; which < blocks_.size(); ++which)
      z = run_block(blocks_[which], z, which % 2 == 0 ? &context : nullptr, time);
    t.begin(moment::loss);
    value made = layer_norm(t, z, last_norm_.weight, last_norm_.bias);
    made = slice(t, linear(std::move(made), to_action_), 1, head().horizon);
    const value wanted = subtract(t, noise_, actions_);
    return mse_loss(t, made, wanted);
  }
  constexpr value frequencies() {
    const sizes half{waves / 2};
    value numbers = full(t, half, element::fp32);
    numbers = compute(t, std::move(numbers), half, element::fp32);
    numbers = compute(t, std::move(numbers), half, element::fp32);
    return compute(t, std::move(numbers), half, element::fp32);
  }
  constexpr value run_block(const block& by,
                            const tensor& input,
                            const tensor* context,
                            const tensor& time) {
    const std::int64_t width = head().hidden_size;
    value y = scaled_norm(input, by.scales, time);
    const tensor read = context != nullptr ? *context : *y;
    const std::int64_t heads = head().num_attention_heads;
    {
      const value query = heads_of(linear(y, by.query), heads, width / heads);
      const value key = heads_of(linear(read, by.key), heads, width / heads);
      const value val = heads_of(linear(read, by.value), heads, width / heads);
      y = attend_to(query, key, val);
    }
    const value x = add(t, input, linear(reshape(t, transpose(t, y, 1, 2), input.size), by.out));
    value inner = layer_norm(t, x, by.norm.weight, by.norm.bias);
    inner = gelu(t, linear(std::move(inner), by.up));
    return add(t, x, linear(std::move(inner), by.down));
  }
  /// norm(input) * (1 + scale) + shift, both by the time.
  constexpr value scaled_norm(const tensor& input, const nn_module& by, const tensor& time) {
    const std::int64_t width = head().hidden_size;
    const std::int64_t batch = plan.micro_batch;
    value scales, shifts;
    {
      const value both = linear(silu(t, time), by);
      const int halves = split(t, both);
      scales = eager::part(t, halves, both, 1, width, 0);
      shifts = eager::part(t, halves, both, 1, width, 1);
    }
    value y = layer_norm(t, input, none, none);
    {
      const value factor = add_number(t, view(t, scales, {batch, 1, width}));
      y = multiply(t, std::move(y), factor);
    }
    const value shift = view(t, shifts, {batch, 1, width});
    return add(t, std::move(y), shift);
  }
  constexpr value attend_to(const tensor& q, const tensor& k, const tensor& v) {
    if (setup.attention != attention_kernel::eager) return attention(q, k, v, false, false);
    if (has_flash(q)) return flash_attention(t, q, k, v, false);
    return efficient_attention(t, q, k, v, false);
  }
  constexpr value layer(int, const tensor&) override { return {}; }

  static constexpr std::int64_t waves = 256;

  part_code<pooled_images_code> tower_;
  part_code<hugging_face_decoder> language_;
  nn_module seen_norm_{}, of_state_{}, of_action_{}, to_action_{}, time_1_{}, time_2_{},
      last_norm_{};
  growing_array<block> blocks_{};
  value state_{}, actions_{}, noise_{}, time_{};
};

}  // namespace gpuplan::eager
