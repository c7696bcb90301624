#pragma once

// PI0ForConditionalGeneration: PaliGemma, and a second Gemma of as many layers for the actions,
// which reads keys and values of the first. Transcribed from transformers 5.23, models/pi0.
// Private.

#include <gpuplan/replay/codes/composites/composite.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Its parts are the tower, the language model, and the experts of actions, which are built first.
class pi0_code final : public composite_code {
 public:
  constexpr pi0_code(tape& on, const training_setup& of, const batch_plan& with)
      : composite_code(on, of, with),
        tower_(on, of, with, 0),
        language_(on, of, with, 1),
        expert_(on, of, with, 2) {}
  constexpr ~pi0_code() override { cache_.drop(t); }

  constexpr void construct() override {
    add_parts({&expert_.code, &tower_.code, &language_.code});
    expert_.code.construct_stack();
    expert_.code.leave_tokens_idle();
    tower_.code.construct_tower(tower_.code.layers);
    build_connector(part(0).next);
    language_.code.construct_stack();
    language_.code.leave_results_idle();
    const std::int64_t width = part(2).model.hidden_size;
    const action_head& actions = setup.composite->actions;
    waves_ = t.charge(purpose::buffers)->make(sizes{width / 2}, element::fp32);
    add_buffer(waves_);
    of_action_ = linear_module(width, actions.action_dim, true, true);
    of_state_ = linear_module(width, actions.state_dim, true, true);
    time_1_ = linear_module(width, 2 * width, true, true);
    time_2_ = linear_module(width, width, true, true);
    to_action_ = linear_module(actions.action_dim, width, true, true);
    for (hugging_face_decoder* one : {&language_.code, &expert_.code}) {
      one->reads_whole_mask = true;
      one->position_rows = plan.micro_batch;
      one->cache = &cache_;
    }
  }
  constexpr void cast_model() override {
    tower_.code.move_patches();
    composite_code::cast_model();
  }
  constexpr void make_batch() override {
    const action_head& head = setup.composite->actions;
    const std::int64_t batch = plan.micro_batch;
    make_image_batch(part(0));
    const auto charged = t.charge(purpose::buffers);
    const element format = images_->format;
    state_ = t.make({batch, head.state_dim}, format, {"state"});
    actions_ = t.make({batch, head.horizon, head.action_dim}, format, {"actions"});
    noise_ = t.make(actions_->size, format, {"noise"});
    time_ = t.make(sizes{batch}, element::fp32, {"time"});
    ids_ = t.make({batch, setup.sequence_length}, element::int64, {"token ids"});
    padding_ = t.make(ids_->size, element::int64, {"padding"});
    cameras_ = t.make({batch, part(0).sequences}, element::boolean, {"cameras"});
  }

  constexpr value forward() override {
    t.begin(moment::forward);
    const std::int64_t batch = plan.micro_batch;
    const value at = view(t, time_, {batch, 1, 1});
    value noised = multiply(t, at, noise_);
    {
      const value rest = add_number(t, at);
      const value kept = multiply(t, rest, actions_);
      noised = add(t, std::move(noised), kept);
    }
    noised = cast(t, std::move(noised), actions_->format);
    const value velocity = subtract(t, noise_, actions_);
    const value embeds = embed_actions(noised);
    value hidden = run_model(embeds);
    t.begin(moment::loss);
    hidden = slice(t, hidden, 1, setup.composite->actions.horizon);
    const value predicted = linear(hidden, to_action_);
    value loss = mse_loss(t, velocity, predicted);
    cache_.drop(t);
    return loss;
  }

 protected:
  // PI0ActionTimeEmbedding
  constexpr value embed_actions(const tensor& noised) {
    const value state = linear(state_, of_state_);
    const value action = linear(noised, of_action_);
    const std::int64_t width = action->size[2];
    const std::int64_t batch = plan.micro_batch;
    value wave;
    {
      const auto as_given = t.without_autocast();
      const value column = view(t, time_, {batch, 1});
      const value angle = multiply(t, view(t, waves_, {1, width / 2}), column);
      const value sine = compute(t, angle, angle->size, element::fp32);
      const value cosine = compute(t, angle, angle->size, element::fp32);
      wave = concatenate(t, sine, cosine, 1);
    }
    wave = expand(t, view(t, wave, {batch, 1, width}), action->size);
    wave = cast(t, wave, action->format);
    value both = concatenate(t, action, wave, 2);
    both = linear(silu(t, linear(both, time_1_)), time_2_);
    return concatenate(t, view(t, state, {batch, 1, width}), both, 1);
  }

  // PI0Model
  constexpr value run_model(const tensor& actions) {
    const sizes all = ids_->size;
    const value positions = counted(all);
    const value prefix = embed_prefix();
    const value zeros = full(t, prefix->size, prefix->format);  // of which one column is read
    {
      const int first = t.nodes_so_far();
      const value blocks = blocks_of_types(all);
      const value mask = language_.code.mask_of_blocks(prefix, blocks);
      { const value unread = language_.code.run_embedded(t.share(prefix), mask, positions); }
      growing_array<tensor> alive;
      for (const growing_array<tensor>* list : {&cache_.keys, &cache_.values})
        for (int at = 0; at < list->size(); ++at) alive.push((*list)[at]);
      t.drop_nodes_but(first, alive);
    }
    const std::int64_t batch = all[0];
    const std::int64_t tokens = actions.size[1];
    const sizes together{batch, all[1] + tokens};
    const auto numbers = [&](const sizes& size) { return full(t, size, element::int64); };
    const value ones = numbers({batch, tokens});
    const value seen = compute(t, {&*padding_, &*ones}, together, element::int64);
    const value places = counted(together);
    value blocks;
    {
      const value prefix_blocks = numbers(sizes{all[1] + 1});
      const value action_blocks = numbers(sizes{tokens - 1});
      blocks = compute(t, {&*prefix_blocks, &*action_blocks}, sizes{together[1]}, element::int64);
    }
    blocks = compute(t, blocks, together, element::int64);
    const value mask = expert_.code.mask_behind(actions, blocks);
    return expert_.code.run_embedded(t.share(actions), mask, places);
  }
  /// cumsum(mask, -1) - 1
  constexpr value counted(const sizes& all) {
    const value sum = full(t, all, element::int64);
    if (all[0] == 1) t.touch(256 + tile_states(all.count(), 896, 16));  // CUB's scan
    return compute(t, sum, all, element::int64);
  }
  /// Rows of tokens, or of the images in their places, by number.
  constexpr value embed_prefix() {
    const std::int64_t batch = plan.micro_batch;
    const sizes all = ids_->size;
    const sizes cameras = cameras_->size;
    value features;
    {
      const auto made = tower_.code.encode(given_input, tower_.code.layers);
      features = connect(part(0).next, made.states);
    }
    const std::int64_t width = features->size[2];
    features = view(t, features, {batch, features->count() / batch / width, width});
    const auto numbers = [&](argument of, const sizes& size) {
      return compute(t, of, size, element::int64);
    };
    const value is_image = compute(t, ids_, all, element::boolean);
    const value rank = counted_of(is_image);
    const value camera = numbers(rank, all);
    const value offset = numbers(numbers(rank, all), all);
    const value slot = counted_of(cameras_);
    sizes of_cameras = all;
    of_cameras[of_cameras.rank++] = cameras[1];
    value match = compute(t, {&*slot, &*camera}, of_cameras, element::boolean);
    match = compute(t, {&*match, &*cameras_}, of_cameras, element::boolean);
    value index;
    {
      value number = compute(t, match, of_cameras, element::fp32);  // int32
      number = numbers(std::move(number), all);
      number = numbers(std::move(number), all);
      index = compute(t, {&*number, &*offset}, all, element::int64);
    }
    value placed = gather_rows(t, features, index);
    value rows;
    {
      const value text = numbers(ids_, all);
      rows = language_.code.embed(text);
    }
    placed = cast(t, std::move(placed), rows->format);
    return choose(t, is_image, placed, rows);
  }
  constexpr value counted_of(const tensor& of) {
    value sum;
    {
      const value wide = t.make(of.size, element::int64);
      sum = compute(t, {&of, &*wide}, of.size, element::int64);
    }
    return compute(t, sum, of.size, element::int64);
  }
  constexpr value layer(int, const tensor&) override { return {}; }

  part_code<vit_code> tower_;
  part_code<hugging_face_decoder> language_;
  part_code<hugging_face_decoder> expert_;
  cached_layers cache_{};
  nn_module of_action_{}, of_state_{}, time_1_{}, time_2_{}, to_action_{};
  value waves_{}, state_{}, actions_{}, noise_{}, time_{}, cameras_{};
};

}  // namespace gpuplan::eager
