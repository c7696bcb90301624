#pragma once

// Several transformers in one step: each has its code, all are on one tape. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/replay/codes/composites/pooled_images.hpp>
#include <gpuplan/replay/codes/hugging_face.hpp>
#include <gpuplan/replay/codes/hugging_face_parts.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// The code of one part, and the setup that it reads.
template <class Code>
struct part_code {
  training_setup setup;
  Code code;

  constexpr part_code(tape& t, const training_setup& all, const batch_plan& plan, int which)
      : setup(setup_of_part(all, all.composite->parts[which])),
        code(t, setup, plan_of_part(plan, all.composite->parts[which])) {}

 private:
  static constexpr batch_plan plan_of_part(batch_plan plan, const component& part) {
    plan.micro_batch *= part.sequences;
    return plan;
  }
};

/// A family builds its parts in the order of its modules, and says what is between them.
class composite_code : public hugging_face_code {
 public:
  constexpr composite_code(tape& on, const training_setup& of, const batch_plan& with)
      : hugging_face_code(on, of, with), between_(setup_of_connector(of)) {}
  constexpr ~composite_code() override {}  // NOLINT(modernize-use-equals-default)

  [[nodiscard]] constexpr tensor input() const override { return images_; }
  // A connector's stand behind those of the part that it leads on from.
  constexpr void construct_adapters() override {
    for (int at = 0; at < parts_.size(); ++at) {
      parts_[at]->begin_adapters();
      if (part(at).next.adapters.rank != 0) connector_adapters_.construct();
    }
    for (int at = 0; at < parts_.size(); ++at) {
      parts_[at]->adapters.finish();
      if (part(at).next.adapters.rank != 0) connector_adapters_.finish();
    }
  }

 protected:
  /// Before any part is built.
  constexpr void add_parts(std::initializer_list<model_code*> parts) {
    int units = 0;
    for (model_code* part : parts) {
      part->whole_model = this;
      part->shards = shards;
      part->first_unit = units;
      units += static_cast<int>(part->layers);
      parts_.push(part);
    }
    t.recompute_by(*this);
  }
  [[nodiscard]] constexpr const component& part(int which) const {
    return setup.composite->parts[which];
  }

  // -- linear layers between parts

  constexpr void build_connector(const connector& between) {
    for (int at = 0; at < between.layers(); ++at) {
      const std::int64_t in = between.widths[at];
      const std::int64_t out = between.widths[at + 1];
      nn_module made = linear_module(out, in, true, between.trains);
      made.adapter =
          connector_adapters_.add(operator_kind::projection, in, out, made.weight, made.bias);
      connector_.push(made);
    }
  }
  constexpr value connect(const connector& between, argument given) {
    const held x(given);
    value hidden = t.share(x);
    for (int at = 0; at < connector_.size(); ++at) {
      if (at > 0) hidden = act_of(between.act, std::move(hidden));
      const nn_module& by = connector_[at];
      const value input = std::move(hidden);
      hidden = connector_adapters_.add_to(
          eager::linear(t, input, by.weight, by.bias), by.adapter, input);
    }
    return hidden;
  }
  constexpr value act_of(activation_function which, value x) {
    if (which == activation_function::relu) return keeping_result(t, std::move(x));
    return keeping_input(t, std::move(x));
  }

  // -- images among tokens

  constexpr void make_image_batch(const component& tower) {
    const image_input& image = tower.model.image;
    const auto charged = t.charge(purpose::buffers);
    // what autocast will cast is given as it was read
    const number_format given_in =
        setup.precision.under_autocast ? number_format::fp32 : setup.precision.weights;
    images_ = t.make({plan.micro_batch * tower.sequences,
                      image.num_channels,
                      image.image_size,
                      image.image_size},
                     element_of(given_in),
                     {"images"});
  }
  /// One number for each token: whether it belongs to the text, what hides it.
  constexpr void make_token_numbers() {
    numbers_.push(hold(t.charge(purpose::buffers)
                           ->make({plan.micro_batch, setup.sequence_length}, element::int64)));
  }
  /// get_placeholder_mask: where the tokens of images are, and whether they are as many.
  constexpr value placeholders(const tensor& ids) {
    value mask = compute(t, ids, ids.size, element::boolean);
    const value tokens = t.make(sizes{1}, element::int64);
    {
      const value wide = t.make(ids.size, element::int64);
      t.executes({&*mask, &*tokens}, sum_of_booleans(ids.count()));
    }
    value same;
    {
      const value elements = compute(t, tokens, sizes{1}, element::int64);
      same = compute(t, elements, sizes{1}, element::boolean);
    }
    t.executes(8, device_work::copy());
    same = t.make(sizes{1}, element::boolean);
    t.executes(2, device_work::copy());
    t.executes(1, device_work::copy());
    return mask;
  }

  // torch.where(token_type_ids == 0, 0, -1)
  constexpr value blocks_of_types(const sizes& all) {
    const value is_first = full(t, all, element::boolean);
    const value zero = full(t, sizes{1}, element::int64);
    const value none_of_them = full(t, sizes{1}, element::int64);
    return compute(t, {&*is_first, &*zero, &*none_of_them}, all, element::int64);
  }

  static constexpr training_setup setup_of_connector(training_setup of) {
    of.trains = {};
    for (const component& part : of.composite->parts)
      if (part.next.adapters.rank != 0)
        of.trains = {.what = training::adapters, .adapters = part.next.adapters};
    of.trains.adapters.targets = {.other = true};
    return of;
  }

  const training_setup between_;  // what trains beside the layers between parts
  trained_beside connector_adapters_{t, between_, quantised};
  growing_array<model_code*> parts_{};
  growing_array<nn_module> connector_{};
  growing_array<tensor> numbers_{};
  value images_{};
};

/// A tower of images, a connector, and a language model that reads images among its tokens.
class image_text_code : public composite_code {
 public:
  constexpr image_text_code(tape& on, const training_setup& of, const batch_plan& with)
      : composite_code(on, of, with), tower_(on, of, with, 0), language_(on, of, with, 1) {}
  constexpr ~image_text_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    add_parts({&tower_.code, &language_.code});
    tower_.code.construct_tower(layers_read());
    build_connector(part(0).next);
    language_.code.construct_stack();
    language_.code.construct_head();
  }
  constexpr void cast_model() override {
    tower_.code.move_patches();
    composite_code::cast_model();
  }
  constexpr void make_batch() override {
    make_token_batch();
    make_image_batch(part(0));
    make_token_numbers();
    language_.code.reads_whole_mask = true;
  }
  constexpr value forward() override {
    t.begin(moment::forward);
    value features;
    const value hidden = run_model(features);
    t.begin(moment::loss);
    const value logits = logits_of(hidden);
    return causal_lm_loss(logits, labels_);
  }

 protected:
  [[nodiscard]] constexpr std::int64_t layers_read() const {
    return part(0).model.num_hidden_layers - part(0).unread_layers;
  }
  /// Of the tokens among which the images are; `features` outlive the model.
  constexpr virtual value run_model(value& features) = 0;
  constexpr virtual value logits_of(const tensor& hidden) {
    return language_.code.logits_of(hidden);
  }

  [[nodiscard]] constexpr std::int64_t images() const {
    return plan.micro_batch * part(0).sequences;
  }
  [[nodiscard]] constexpr std::int64_t side_of_joined() const {
    std::int64_t side = 1;
    while (side * side < part(0).joined_patches) ++side;
    return side;
  }
  /// The tower, of whose head nothing is read.
  constexpr void construct_tower_and_head() {
    tower_.code.construct_tower(layers_read());
    if (!part(0).model.attention_pooling) return;
    const int first_of_head = t.parameters.size();
    tower_.code.construct_pooling();
    leave_idle(first_of_head);
  }
  /// What the tower makes, its head in vain until `drop_pooled`.
  constexpr image_encoder_code::features see() {
    auto seen = tower_.code.encode(given_input, layers_read());
    if (!part(0).model.attention_pooling) return seen;
    seen.first_in_vain = t.nodes_so_far();
    seen.last = tower_.code.pool_by_query(seen.states);
    seen.behind_vain = t.nodes_so_far();
    return seen;
  }
  constexpr void drop_pooled(image_encoder_code::features& seen) {
    seen.last.drop();
    t.drop_nodes(seen.first_in_vain, seen.behind_vain);
  }
  /// pixel_shuffle
  constexpr value shuffled(const tensor& states) {
    const image_input& image = part(0).model.image;
    const std::int64_t side = image.image_size / image.patch_size;
    const std::int64_t joined = part(0).joined_patches;
    const std::int64_t factor = side_of_joined();
    const std::int64_t fewer = side / factor;
    const std::int64_t width = states.size[2];
    value x = view(t, states, {images(), side, fewer, width * factor});
    x = transpose(t, std::move(x), 1, 2);
    x = reshape(t, std::move(x), {images(), fewer, fewer, width * joined});
    x = transpose(t, std::move(x), 1, 2);
    return reshape(t, std::move(x), {images(), fewer * fewer, width * joined});
  }

  part_code<pooled_images_code> tower_;
  part_code<hugging_face_decoder> language_;

  constexpr value layer(int, const tensor&) override { return {}; }
};

// LlavaForConditionalGeneration
class llava_code final : public image_text_code {
 public:
  using image_text_code::image_text_code;
  constexpr ~llava_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  // LlavaModel
  constexpr value run_model(value& features) override {
    value embeds = language_.code.embed(ids_);
    auto seen = tower_.code.encode(given_input, layers_read());
    value listed;
    if (part(0).class_token_read)
      listed = connect(part(0).next, seen.states);
    else
      listed = connect(part(0).next, slice(t, seen.states, 1, part(0).model.image.patches()));
    for (value& unread : seen.unread) unread.drop();
    features = cast(t, join_rows(t, listed), embeds->format);
    const value mask = placeholders(ids_);
    embeds = masked_scatter(t, embeds, mask, features);
    value hidden = language_.code.run_embedded(t.share(embeds));
    seen.last.drop();
    t.drop_nodes(seen.first_in_vain, seen.behind_vain);
    return hidden;
  }
};

// PaliGemmaForConditionalGeneration: the tokens before the answer see each other.
class paligemma_code final : public image_text_code {
 public:
  using image_text_code::image_text_code;
  constexpr ~paligemma_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void make_batch() override {
    image_text_code::make_batch();
    make_token_numbers();
  }

 protected:
  // PaliGemmaModel
  constexpr value run_model(value& features) override {
    value embeds = language_.code.embed(ids_);
    value positions = shifted_range(ids_->size[1]);
    positions = compute(t, positions, {1, ids_->size[1]}, element::int64);
    const auto seen = tower_.code.encode(given_input, layers_read());
    const value pooled = connect(part(0).next, seen.states);
    features = cast(t, pooled, embeds->format);
    value placed = placeholders(ids_);
    embeds = masked_scatter(t, embeds, placed, features);
    const value blocks = blocks_of_types(ids_->size);
    const value mask = language_.code.mask_of_blocks(embeds, blocks);
    return language_.code.run_embedded(t.share(embeds), mask, positions);
  }
};

}  // namespace gpuplan::eager
