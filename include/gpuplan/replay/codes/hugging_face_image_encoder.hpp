#pragma once

// What encoders of images of Hugging Face's transformers 5.23 have in common: patches and their
// positions, how weights are initialised, and a head for classes. Private.

#include <gpuplan/replay/codes/hugging_face_parts.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// A family says what a layer is.
class image_encoder_code : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~image_encoder_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    construct_tower(layers);
    classes_ = linear_module(operator_kind::head,
                             model.num_classes,
                             model.classifier_inputs * model.hidden_size,
                             true,
                             trains_head());
    if (code().truncates_weights) truncate_weight(classes_);
  }
  /// From the patches to the norm, of which so many layers are read.
  constexpr void construct_tower(std::int64_t read) {
    build_embeddings();
    int behind_read = t.parameters.size();
    for (std::int64_t at = 0; at < layers; ++at) {
      const auto being_built = building_layer(at);
      layers_.push(build_layer(trains_layer(at)));
      if (at < read) behind_read = t.parameters.size();
    }
    if (model.final_norm) norm_ = norm_module(model.hidden_size, trains_final_norm());
    if (code().norms_first_token || read != layers) leave_idle(behind_read);
    initialize();
  }
  /// How many parameters a tower has whose positions are a table.
  [[nodiscard]] constexpr std::int64_t parameters_of_tower() const {
    const image_input& image = model.image;
    const std::int64_t of_patches =
        (image.class_tokens != 0 ? 1 : 0) + 1 + (image.patch_bias ? 1 : 0);
    return of_patches + 1 + (model.embedding_norm ? 2 : 0) + 16 * layers + 2;
  }
  /// A module's layers are cast before the parameters that it has itself.
  constexpr void cast_model() override {
    move_patches();
    hugging_face_code::cast_model();
  }
  constexpr void move_patches() {
    for (int at = first_of_patches_; at < behind_patches_; ++at) move(at);
  }

  constexpr void make_batch() override {
    const std::int64_t side = model.image.image_size;
    const auto charged = t.charge(purpose::buffers);
    // what autocast will cast is given as it was read
    const number_format given_in =
        setup.precision.under_autocast ? number_format::fp32 : setup.precision.weights;
    images_ = t.make(
        {plan.micro_batch, model.image.num_channels, side, side}, element_of(given_in), {"images"});
    labels_ = t.make(sizes{plan.micro_batch}, element::int64, {"labels"});
  }

  [[nodiscard]] constexpr tensor input() const override { return images_; }
  constexpr value forward() override {
    const features made = encode(given_input, layers);
    const tensor& hidden = made.states;
    t.begin(moment::loss);
    const value pooled = pool(hidden);
    const value logits = linear(pooled, classes_);
    return cross_entropy(t, logits, labels_);
  }

  /// What a tower makes: the states behind the layers that are read, and what it makes in vain,
  /// with the nodes of that.
  struct features {  // NOLINT(readability-identifier-naming): the index of an implicit move
    value states{};
    value last{};
    value unread[3]{};  // of the pooled token
    int first_in_vain = 0;
    int behind_vain = 0;
  };
  /// What hides patches of images that have all of theirs: nothing, but for eager attention.
  constexpr value read_mask_of_patches(std::int64_t images) {
    const std::int64_t patches = model.image.patches();
    value mask;
    if (is_eager())
      mask = full(t, {images, 1, patches, patches}, t.format_of(patches_.weight));
    else
      ask_about_any(images * patches);
    beside[the_mask] = mask;
    return mask;
  }
  tensor patches_counted{};  // the numbers of positions, where whoever calls has counted them
  /// Behind so many layers.
  constexpr value run_layers(const tensor& given, std::int64_t read) {
    value images = cast(t, given, t.format_of(patches_.weight));
    value embedded;
    if (code().positions_in_table)
      embedded = embed(std::move(images));
    else
      embedded = embed(t.share(images));
    read_positions();
    if (model.embedding_norm) embedded = norm(embedded, embedding_norm_);
    value hidden = t.share(embedded);
    for (std::int64_t at = 0; at < read; ++at) hidden = run_layer(at, hidden);
    return hidden;
  }
  /// The first token, through the norm, for who pairs it with texts.
  constexpr value first_token(const tensor& states) { return norm(select(t, states, 1), norm_); }
  constexpr void train_norm() {
    for (const int at : {norm_.weight, norm_.bias}) t.parameters[at].is_idle = false;
  }
  /// Of images, behind so many layers; behind all of them is the norm, if not of one token alone.
  constexpr virtual features encode(const tensor& given, std::int64_t read) {
    features made;
    value hidden = run_layers(given, read);
    const bool reads_all = read == layers;
    if (!reads_all) {
      made.states = t.share(hidden);
      made.first_in_vain = t.nodes_so_far();
      for (std::int64_t at = read; at < layers; ++at) hidden = run_layer(at, hidden);
    }
    if (!code().norms_first_token) {
      if (model.final_norm) hidden = norm(hidden, norm_);
    } else {
      const auto unrecorded = t.without_graph();
      const value first = select(t, hidden, 1);
      value together;
      if (!first->is_contiguous()) together = t.make(first->size, first->format);
      made.unread[0] = compute(t, first, first->size, first->format);
      for (int statistic = 1; statistic < 3; ++statistic)
        made.unread[statistic] = t.make(sizes{first->size[0]}, element::fp32);
    }
    if (reads_all) {
      made.states = std::move(hidden);
      return made;
    }
    made.last = std::move(hidden);
    made.behind_vain = t.nodes_so_far();
    return made;
  }

 protected:
  [[nodiscard]] constexpr const image_options& code() const {
    return setup.framework.implementation.images;
  }

  // InternVLVisionRMSNorm, where they are no layer norms
  constexpr value normed(argument given, const nn_module& by) override {
    if (model.norm == norm_kind::layer_norm) return hugging_face_code::normed(given, by);
    const held x(given);
    return eager_rms_norm(x, by, true);
  }
  /// What the classifier reads: the first token, the mean of the patches, or both.
  constexpr virtual value pool(const tensor& hidden) {
    const bool means = code().means_patches;
    value first;
    if (!means) first = select(t, hidden, 1);
    if (!means && model.classifier_inputs == 1) return first;
    value patches;
    if (model.image.tokens() != model.image.patches())
      patches = slice(t, hidden, 1, model.image.patches());
    else
      patches = t.share(hidden);
    if (means) return mean_over(t, patches, 1);
    return concatenate(t, first, mean_over(t, patches, 1), 1);
  }

  // -- construction

  constexpr virtual layer_modules build_layer(bool trains) {
    if (code().scales_in_layer) return built_below_scales(trains);
    return built(trains, code().built, code().builds_key_first);
  }
  // InternVLVisionLayer
  constexpr layer_modules built_below_scales(bool trains) {
    const int scales[] = {t.reserve_parameter(trains), t.reserve_parameter(trains)};
    layer_modules made = built(trains, {&its::query, &its::key, &its::value, &its::out});
    if (model.qk_norm != qk_norm_scope::none)
      build(made, trains, {&its::query_norm, &its::key_norm});
    build(made, trains, {&its::up, &its::down, &its::before_attention, &its::before_mlp});
    const bool in_fp32 = setup.framework.implementation.builds_in_fp32;
    for (const int scale : scales)
      t.build_parameter(scale, sizes{model.hidden_size}, in_fp32 ? element::fp32 : weight_format);
    made.attention_scale.weight = scales[0];
    made.mlp_scale.weight = scales[1];
    return made;
  }
  /// What layers read of positions beside their input.
  constexpr virtual void read_positions() {}
  constexpr virtual void build_embeddings() {
    const image_input& image = model.image;
    const std::int64_t width = model.hidden_size;
    if (image.class_tokens != 0)
      class_token_ =
          parameter(code().positions_in_table ? sizes{width} : sizes{1, 1, width}, trains_all());
    if (image.mask_token) {
      leave_idle(parameter(sizes{1, width}, trains_all()));
      ++first_of_patches_;
    }
    if (has_no_positions())  // a parameter of nothing where there are none
      registers_ = parameter({1, image.register_tokens, width}, trains_all());
    first_of_patches_ = t.parameters.size();
    patches_ = patches_module(width);
    behind_patches_ = t.parameters.size();
    if (has_no_positions()) return;
    if (code().positions_in_table) {
      positions_ = table_module(image.tokens(), width, trains_all()).weight;
      behind_patches_ = t.parameters.size();
      const auto charged = t.charge(purpose::buffers);
      if (!code().counts_patches) {
        numbers_ = hold(t.make({1, image.tokens()}, element::int64));
        add_numbers(numbers_);
      }
    } else {
      const std::int64_t numbered = code().registers_behind_positions
                                        ? image.tokens() - image.register_tokens
                                        : image.tokens();
      positions_ = place_before_patches({1, numbered, width});
      if (image.register_tokens != 0)
        registers_ = place_before_patches({1, image.register_tokens, width});
    }
    if (model.embedding_norm) embedding_norm_ = norm_module(width, trains_all());
  }
  constexpr nn_module patches_module(std::int64_t width) {
    const image_input& image = model.image;
    nn_module made;
    made.weight =
        parameter({width, image.num_channels, image.patch_size, image.patch_size}, trains_all());
    if (image.patch_bias) made.bias = parameter(sizes{width}, trains_all());
    return made;
  }
  /// A parameter of the module itself, like the class token, stands before its layers'.
  constexpr int place_before_patches(const sizes& size) {
    parameter(size, trains_all());
    t.place_parameter(first_of_patches_);
    adapters.make_room(first_of_patches_);
    ++behind_patches_;
    ++patches_.weight;
    if (model.image.patch_bias) ++patches_.bias;
    return first_of_patches_++;
  }
  /// What the initialisation of the weights takes for a while.
  constexpr void initialize() {
    if (t.gathers()) return;  // no memory yet
    const std::int64_t width = model.hidden_size;
    if (code().initializes_layers_first) initialize_layers();
    if (code().truncates_weights) truncate_weight(patches_);
    if (code().positions_in_table) {
      if (!code().counts_patches)
        t.touch(8 * model.image.tokens());  // the numbers of positions, written again
    } else if (code().truncates_positions) {
      if (!has_no_positions()) truncate(t.parameters[positions_].data.count());
      if (class_token_ != none) truncate(width);
    }
    if (!code().initializes_layers_first) initialize_layers();
  }
  constexpr void initialize_layers() {
    if (!code().truncates_weights) return;
    for (int at = 0; at < layers_.size(); ++at) {
      const layer_modules& by = layers_[at];
      if (!code().builds_key_first) truncate_weight(by.query);
      truncate_weight(by.key);
      truncate_weight(by.value);
      if (code().builds_key_first) truncate_weight(by.query);
      for (const nn_module* one : {&by.out, &by.gate, &by.up, &by.down}) truncate_weight(*one);
    }
  }
  constexpr void truncate_weight(const nn_module& of) {
    if (of.weight != none) truncate(t.parameters[of.weight].data.count());
  }
  // -- the model

  /// Leaves whole samples out: x.div(keep) * floor(rand + keep)
  constexpr value drop_path(argument given) {
    const held x(given);
    sizes one;
    one.rank = x.size.rank;
    for (int at = 0; at < one.rank; ++at) one[at] = at == 0 ? x.size[0] : 1;
    value kept = full(t, one, x.format);
    value lowest = compute(t, compute(t, kept, one, x.format), one, x.format);
    kept = std::move(lowest);
    return multiply(t, scale(t, x), kept);
  }
  constexpr value embed(value images) {
    const image_input& image = model.image;
    const std::int64_t width = model.hidden_size;
    const std::int64_t batch = images->size[0];
    // PEFT wants a gradient of the layers' input, where they are computed again, and so do models
    // of several parts: of what the module of the patches returns, or where patches are counted
    // that of the embeddings.
    const bool is_held =
        setup.trains.what == training::adapters || setup.trains.what == training::frozen;
    const bool wants_at_all = setup.recompute == recompute_mode::full && is_held;
    const bool wants_gradient = wants_at_all && !code().counts_patches;
    value maps = convolve(t, images, patches_.weight, patches_.bias);
    images.drop();
    if (wants_gradient && code().positions_in_table) t.require_gradient(maps.get());
    maps = view(t, maps, {batch, width, image.patches()});
    value patches = transpose(t, std::move(maps), 1, 2);
    if (wants_gradient) t.require_gradient(patches.get());
    value x;
    const auto repeated = [&](int parameter, std::int64_t tokens) {
      return expand(t, t.parameter(parameter), {batch, tokens, width});
    };
    value registers;
    if (image.class_tokens != 0) {
      const value first = repeated(class_token_, 1);
      if (registers_ != none && !code().registers_behind_positions)
        registers = repeated(registers_, image.register_tokens);
      if (registers->defined())
        x = concatenate(t, {&*first, &*registers, &*patches}, 1);
      else
        x = concatenate(t, first, patches, 1);
    } else {
      x = t.share(patches);
    }
    if (!code().positions_in_table) patches.drop();
    if (has_no_positions()) return x;
    if (code().positions_in_table)
      x = add(t, x, embedding(t, code().counts_patches ? patches_counted : numbers_, positions_));
    else
      x = add(t, x, t.parameter(positions_));
    if (registers_ != none && code().registers_behind_positions) {
      const value first = slice(t, x, 1, 1);
      registers = repeated(registers_, image.register_tokens);
      const value others = slice(t, x, 1, image.patches());
      x = concatenate(t, {&*first, &*registers, &*others}, 1);
    }
    if (wants_at_all && code().counts_patches) t.require_gradient(x.get());
    return dropout(t, x, drops && code().drops_embedding);
  }

  /// But what layers read beside their input.
  [[nodiscard]] constexpr bool has_no_positions() const { return model.position_rows == 0; }

  nn_module patches_{}, embedding_norm_{}, norm_{}, classes_{};
  int class_token_ = none;
  int positions_ = none;
  int registers_ = none;
  int first_of_patches_ = 0;
  int behind_patches_ = 0;
  growing_array<layer_modules> layers_{};
  tensor numbers_{};
  value images_{};
};

}  // namespace gpuplan::eager
