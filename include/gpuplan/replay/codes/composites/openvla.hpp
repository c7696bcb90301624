#pragma once

// OpenVLA: two towers of timm 0.9 beside each other, three linear layers, a language model.
// Transcribed from timm 0.9.16, models/vision_transformer.py, and openvla's
// prismatic/extern/hf/modeling_prismatic.py. Private.

#include <gpuplan/replay/codes/composites/composite.hpp>
#include <gpuplan/replay/eager/operators/recurrences.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// timm's VisionTransformer, of which the patches behind an inner layer are read.
class timm_tower_code final : public vit_code {
 public:
  using vit_code::vit_code;
  constexpr ~timm_tower_code() override {}  // NOLINT(modernize-use-equals-default)

  /// What is behind the layers that are read is there, and leads to nothing.
  constexpr void construct_read(std::int64_t read) {
    const image_input& image = model.image;
    const std::int64_t width = model.hidden_size;
    first_ = first_of_patches_ = t.parameters.size();
    patches_ = patches_module(width);
    patches_.adapter = adapters.add_patches(
        image.num_channels, image.patch_size, width, patches_.weight, patches_.bias);
    behind_patches_ = t.parameters.size();
    if (image.class_tokens != 0) class_token_ = place_before_patches({1, 1, width});
    if (image.register_tokens != 0)
      registers_ = place_before_patches({1, image.register_tokens, width});
    {
      const sizes all{1, image.patches(), width};
      const value drawn = t.make(all, element::fp32);  // and multiplied
      positions_ = place_before_patches(all);
    }
    int behind_read = t.parameters.size();
    for (std::int64_t at = 0; at < layers; ++at) {
      const auto being_built = building_layer(at);
      layers_.push(build_layer(trains_layer(at)));
      if (at < read) behind_read = t.parameters.size();
    }
    norm_ = norm_module(width, trains_final_norm());
    if (model.attention_pooling) build_pooling();
    leave_idle(behind_read);
    behind_ = t.parameters.size();
  }
  /// A module's own parameters are cast behind those of its modules.
  constexpr void move_tower() {
    for (int at = first_of_patches_; at < behind_; ++at) move(at);
    for (int at = first_; at < first_of_patches_; ++at) move(at);
  }

  /// get_intermediate_layers
  constexpr value see(const tensor& images, std::int64_t read) {
    value seen;
    {
      value x = place(images);
      const int first_in_vain = behind_read(x, read, seen);
      x.drop();
      t.drop_nodes(first_in_vain, t.nodes_so_far());
    }
    if (model.image.tokens() == model.image.patches()) return seen;  // of all, no slice is made
    return slice(t, seen, 1, model.image.patches());
  }

 protected:
  constexpr layer_modules build_layer(bool trains) override {
    layer_modules made = built(trains, {&its::before_attention, &its::qkv, &its::out});
    if (model.layer_scale) made.attention_scale.weight = parameter(scales(), trains);
    build(made, trains, {&its::before_mlp, &its::up, &its::down});
    if (model.layer_scale) made.mlp_scale.weight = parameter(scales(), trains);
    return made;
  }
  [[nodiscard]] constexpr sizes scales() const { return sizes{model.hidden_size}; }
  // AttentionPoolLatent
  constexpr void build_pooling() {
    const std::int64_t width = model.hidden_size;
    const std::int64_t inner = model.intermediate_size;
    const bool trains = trains_end();
    parameter({1, 1, width}, trains);
    for (const std::int64_t out : {width, 2 * width, width})
      linear_module(operator_kind::pooler, out, width, true, trains);
    norm_module(width, trains);
    linear_module(operator_kind::up, inner, width, true, trains);
    linear_module(operator_kind::down, width, inner, true, trains);
  }

  // patch_embed and _pos_embed
  constexpr value place(const tensor& images) {
    const image_input& image = model.image;
    const std::int64_t batch = images.size[0];
    const std::int64_t width = model.hidden_size;
    const value maps = adapters.add_to_patches(
        convolve(t, images, patches_.weight, patches_.bias), patches_.adapter, images);
    // which whoever calls _pos_embed holds
    const value rows = transpose(t, view(t, maps, {batch, width, image.patches()}), 1, 2);
    const auto repeated = [&](int token, std::int64_t count) {
      return expand(t, t.parameter(token), {batch, count, width});
    };
    value first, registers;
    if (image.class_tokens != 0) first = repeated(class_token_, 1);
    if (image.register_tokens != 0) registers = repeated(registers_, image.register_tokens);
    value x = add(t, rows, t.parameter(positions_));
    if (first->defined() && registers->defined())
      return concatenate(t, {&*first, &*registers, &*x}, 1);
    if (first->defined()) return concatenate(t, first, x, 1);
    return x;
  }
  // All layers; returns where those begin that are run in vain.
  constexpr int behind_read(value& x, std::int64_t read, value& seen) {
    int first_in_vain = t.nodes_so_far();
    for (std::int64_t at = 0; at < layers; ++at) {
      x = run_layer(at, x);
      if (at + 1 != read) continue;
      seen = t.share(x);
      first_in_vain = t.nodes_so_far();
    }
    return first_in_vain;
  }

  constexpr value layer(int index, const tensor& input) override {
    const layer_modules& by = layers_[index];
    const value x = add(
        t, input, scaled(attend_fused(by, norm(input, by.before_attention)), by.attention_scale));
    return add(t, x, scaled(feed_forward(by, norm(x, by.before_mlp)), by.mlp_scale));
  }
  constexpr value scaled(value x, const nn_module& scale) {
    if (scale.weight == none) return x;
    return multiply(t, std::move(x), t.parameter(scale.weight));
  }
  // Attention
  constexpr value attend_fused(const layer_modules& by, argument given) {
    const held x(given);
    const std::int64_t heads = model.num_attention_heads;
    const sizes apart{x.size[0], x.size[1], 3, heads, model.query_dim()};
    const value all = permute(t, view(t, linear(x, by.qkv), apart), 2, 0, 3, 1, 4);
    const int parts = split(t, all);
    const value q = part_at(t, parts, all, 0, 0);
    const value k = part_at(t, parts, all, 0, 1);
    const value v = part_at(t, parts, all, 0, 2);
    return project_out(attend(q, k, v, {}, false, {}), by.out).output;
  }

 private:
  int first_ = 0, behind_ = 0;  // of its parameters
};

// OpenVLAForActionPrediction
class openvla_code final : public composite_code {
 public:
  constexpr openvla_code(tape& on, const training_setup& of, const batch_plan& with)
      : composite_code(on, of, with),
        first_(on, as_timm_runs(of), with, 0),
        second_(on, as_timm_runs(of), with, 1),
        language_(on, of, with, 2) {}
  constexpr ~openvla_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    add_parts({&first_.code, &second_.code, &language_.code});
    first_.code.construct_read(layers_read(0));
    second_.code.construct_read(layers_read(1));
    build_connector(part(1).next);
    language_.code.construct_stack();
    language_.code.construct_head();
  }
  constexpr void cast_model() override {
    first_.code.move_tower();
    second_.code.move_tower();
    composite_code::cast_model();
  }
  constexpr void make_batch() override {
    const auto charged = t.charge(purpose::buffers);
    const sizes text{plan.micro_batch, setup.sequence_length - patches()};
    ids_ = t.make(text, element::int64, {"token ids"});
    labels_ = t.make(text, element::int64, {"labels"});
    numbers_.push(hold(t.make(text, element::boolean)));  // what hides padding
    const std::int64_t side = part(0).model.image.image_size;
    const number_format given_in =
        setup.precision.under_autocast ? number_format::fp32 : setup.precision.weights;
    images_ = t.make({plan.micro_batch, 6, side, side}, element_of(given_in), {"images"});
    language_.code.reads_whole_mask = true;
  }
  constexpr value forward() override {
    t.begin(moment::forward);
    const value seen = see_both();
    const value projected = connect(part(1).next, t.share(seen));
    const sizes of_patches{plan.micro_batch, patches()};
    const sizes all{plan.micro_batch, setup.sequence_length};
    const value shown = full(t, of_patches, element::boolean);
    const value embedded = language_.code.embed(ids_);
    value joined;
    {
      const value first = slice(t, embedded, 1, 1);
      const value others = slice(t, embedded, 1, ids_->size[1] - 1);
      joined = concatenate(t, {&*first, &*projected, &*others}, 1);
    }
    const value mask = compute(t, {&numbers_[0], &*shown}, all, element::boolean);
    const value unlabelled = full(t, of_patches, element::int64);
    const value labels = compute(t, {&*labels_, &*unlabelled}, all, element::int64);
    language_.code.boolean_mask = *mask;
    const value hidden = language_.code.run_embedded(t.share(joined));
    language_.code.boolean_mask = {};
    t.begin(moment::loss);
    const value logits = language_.code.logits_of(hidden);
    return causal_lm_loss(logits, labels);
  }

 protected:
  // timm chooses its kernel itself, and computes nothing again.
  static constexpr training_setup as_timm_runs(training_setup of) {
    if (of.attention == attention_kernel::eager) of.attention = attention_kernel::automatic;
    of.recompute = recompute_mode::none;
    return of;
  }
  [[nodiscard]] constexpr std::int64_t patches() const { return part(0).model.image.patches(); }
  [[nodiscard]] constexpr std::int64_t layers_read(int which) const {
    return part(which).model.num_hidden_layers - part(which).unread_layers;
  }
  // PrismaticVisionBackbone: three of the six channels each
  constexpr value see_both() {
    const int halves = split(t, given_input);
    const value image = eager::part(t, halves, given_input, 1, 3, 0);
    const value other = eager::part(t, halves, given_input, 1, 3, 1);
    const value first = first_.code.see(image, layers_read(0));
    const value second = second_.code.see(other, layers_read(1));
    return concatenate(t, first, second, 2);
  }
  constexpr value layer(int, const tensor&) override { return {}; }

  part_code<timm_tower_code> first_, second_;
  part_code<hugging_face_decoder> language_;
};

}  // namespace gpuplan::eager
