#pragma once

// What a model is: a transformer (transformer.hpp), or several with connectors between them, and
// which can be. Plain data; the models themselves are in catalog/models.hpp.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/trainable.hpp>
#include <gpuplan/transformer.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gpuplan {

struct implementation;

/// Linear layers with biases between two parts of a model, with activations between them: `widths`
/// as a token passes through them, zero behind the last. One layer has two widths.
struct connector {
  std::int64_t widths[6]{};
  std::int64_t tokens = 0;  // of one sample
  bool trains = true;
  activation_function act = activation_function::gelu;
  lora adapters{};  // beside each of its layers, which do not train then; none where the rank is 0

  /// The number of linear layers.
  [[nodiscard]] constexpr int layers() const {
    int count = 0;
    while (count < 5 && widths[count + 1] != 0) ++count;
    return count;
  }
};

/// A part of a composite model.
struct component {
  transformer model{};
  trainable trains{};
  std::int64_t sequences = 1;        // of one sample: camera images, texts of a pair
  std::int64_t sequence_length = 0;  // of one of them; 0: an image's own, or the caller's
  connector next{};                  // what this part and those before it feed; none without widths
  std::int64_t unread_layers = 0;    // the last ones, whose results no part reads
  bool class_token_read = true;      // by the next part, beside the patches
  std::int64_t joined_patches = 1;   // so many are one token of the next part: pixel shuffle
  bool masks_text = true;            // beside images of any size a mask comes, which hides nothing
  bool frozen_in_compute_format = false;  // its weights, where autocast would cast them
  const implementation* by =
      nullptr;  // whose code runs it in a step of all, whoever says so keeps it
};

/// Into how many pieces the attention of a tower cuts one image: its windows, or the image itself.
/// Precondition: windows are at least as wide as joined patches.
[[nodiscard]] constexpr std::int64_t pieces_of_image(const component& tower) {
  const image_input& image = tower.model.image;
  if (image.window_size == 0) return 1;
  std::int64_t side = 1;
  while (side * side < tower.joined_patches) ++side;
  const std::int64_t patches = image.window_size / side / image.patch_size * side;
  const auto windows = [&](std::int64_t of) { return (of + patches - 1) / patches; };
  return windows(image.grid_height) * windows(image.grid_width);
}

/// What makes actions of what the parts have seen: of one step, the widths of a robot's state and
/// of its actions, and how many actions follow each other. With layers it is a diffusion
/// transformer (GR00T N1, arXiv 2503.14734): each scales and shifts by the time of the noise and
/// attends to the last part's result and to itself in turns. With embodiments its encoders and its
/// decoder have weights for each kind of robot, and layers of their own read the last part's result
/// first (GR00T N1.5).
struct action_head {
  std::int64_t num_hidden_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t state_dim = 0;
  std::int64_t action_dim = 0;
  std::int64_t horizon = 0;
  std::int64_t embodiments = 0;   // 0: one encoder of states and one of actions; and nothing below
  std::int64_t encoder_size = 0;  // within the encoder of states, and before and in the decoder
  std::int64_t context_layers = 0;  // self-attention over the context, of as many heads
  std::int64_t future_tokens = 0;   // learned ones, between state and actions
  std::int64_t position_rows = 0;   // of the table of the actions' places
  bool drops = false;               // in its own layers, whatever the probability

  /// The weights and biases of the diffusion transformer, and of what is beside it, behind a
  /// context of this width. That GR00T N1.5's are as many as fine-tunes print is checked in the
  /// catalogue.
  [[nodiscard]] constexpr std::int64_t parameters(std::int64_t context) const {
    const std::int64_t width = hidden_size;
    const auto matrix = [](std::int64_t in, std::int64_t out) { return (in + 1) * out; };
    const auto mlp = [&](std::int64_t of) { return matrix(of, 4 * of) + matrix(4 * of, of); };
    const std::int64_t of_each = matrix(width, 2 * width) + 2 * matrix(width, width) + mlp(width);
    const std::int64_t crossing = (num_hidden_layers + 1) / 2;
    const std::int64_t layers = num_hidden_layers * of_each +
                                crossing * 2 * matrix(context, width) +
                                (num_hidden_layers - crossing) * 2 * matrix(width, width) +
                                matrix(256, width) + matrix(width, width);
    const std::int64_t norms = 2 * width;
    if (embodiments == 0)
      return layers + (num_hidden_layers + 1) * norms + matrix(state_dim, width) +
             matrix(action_dim, width) + matrix(width, action_dim);
    const std::int64_t inner = encoder_size;
    const std::int64_t of_a_robot = matrix(state_dim, inner) + matrix(inner, width) +
                                    matrix(action_dim, width) + matrix(2 * width, width) +
                                    matrix(width, width) + matrix(inner, inner) +
                                    matrix(inner, action_dim);
    const std::int64_t of_context = 4 * matrix(context, context) + mlp(context) + 4 * context;
    return layers + matrix(width, 2 * width) + matrix(width, inner) + embodiments * of_a_robot +
           (future_tokens + position_rows) * width + 2 * context + context_layers * of_context;
  }
};

/// A model of several transformers, in the order in which data flows: vision towers, a language
/// model, an action head. What trains in one part sends gradients through all parts behind it, but
/// for vision, which reads images.
struct composite_model {
  static constexpr int most_parts = 6;

  const char* name = "";
  component parts[most_parts]{};
  action_head actions{};
  std::int64_t other_parameters = 0;  // those of `actions` too
  bool others_train = true;

  /// The number of parts.
  [[nodiscard]] constexpr int size() const {
    int count = 0;
    while (count < most_parts && parts[count].model.num_hidden_layers != 0) ++count;
    return count;
  }
};

namespace detail {

inline constexpr std::int64_t most_of_a_dimension = std::int64_t{1} << 40;
inline constexpr std::int64_t most_layers = std::int64_t{1} << 16;
inline constexpr std::int64_t most_patches_of_a_side = std::int64_t{1} << 16;

constexpr failure flaw_of_dimensions(std::initializer_list<named_fact> dimensions,
                                     std::int64_t most) {
  for (const named_fact dimension : dimensions) {
    if (dimension.value < 0) return failure(errc::negative, dimension);
    if (dimension.value > most)
      return failure(errc::out_of_bounds, dimension, named_fact{fact::at_most, most});
  }
  return {};
}

constexpr failure flaw_if_not_positive(std::initializer_list<named_fact> dimensions) {
  for (const named_fact dimension : dimensions)
    if (dimension.value < 1) return failure(errc::not_positive, dimension);
  return {};
}

// What may only be there where something else is.
constexpr failure flaw_if_present(named_fact dimension, named_fact beside) {
  if (dimension.value == 0) return {};
  return failure(errc::out_of_bounds, dimension, beside, named_fact{fact::at_most, 0});
}

// The layers of a hybrid, and what its state spaces and linear attention are.
constexpr failure flaw_of_pattern(const transformer& model) {
  const linear_attention& linear = model.linear;
  const state_space& mamba = model.mamba;
  const named_fact interval{fact::full_attention_interval, model.full_attention_interval};
  bool has_linear = model.full_attention_interval > 1;
  bool has_mamba = false;
  struct named_pattern {
    const layer_pattern& pattern;
    fact name;
  };
  for (const named_pattern& one : {named_pattern{model.hybrid_pattern, fact::hybrid_pattern},
                                   named_pattern{model.mtp_pattern, fact::mtp_pattern}}) {
    const std::int64_t letters = one.pattern.size();
    for (std::int64_t at = 0; at < letters; ++at)
      if (!layer_pattern::is_letter(one.pattern.letters[at]))
        return failure(errc::out_of_bounds,
                       named_fact{one.name, one.pattern.letters[at]},
                       named_fact{fact::position, at});
    has_linear = has_linear || one.pattern.has('G');
    has_mamba = has_mamba || one.pattern.has('M');
    if (one.pattern.has('E') && model.moe.num_experts == 0)
      return failure(errc::not_positive, named_fact{fact::num_experts, 0});
    if (one.pattern.has('-') && model.intermediate_size < 1)
      return failure(errc::not_positive,
                     named_fact{fact::intermediate_size, model.intermediate_size});
  }
  const named_fact letters{fact::hybrid_pattern, model.hybrid_pattern.size()};
  if (model.hybrid_pattern) {
    if (letters.value != model.num_hidden_layers)
      return failure(errc::out_of_bounds,
                     letters,
                     named_fact{fact::at_least, model.num_hidden_layers},
                     named_fact{fact::at_most, model.num_hidden_layers});
    for (const named_fact& beside :
         {interval,
          named_fact{fact::first_k_dense_layers, model.moe.first_k_dense_layers},
          named_fact{fact::sliding_window, model.sliding_window},
          named_fact{fact::parallel_attention, model.parallel_attention}})
      if (const failure why = flaw_if_present(beside, letters); failed(why)) return why;
  }
  if (model.kind != model_kind::decoder)
    for (const named_fact& beside : {letters, interval})
      if (const failure why = flaw_if_present(beside, {fact::model_kind, model.kind}); failed(why))
        return why;
  if (has_linear)
    if (const failure why =
            flaw_if_not_positive({{fact::linear_num_key_heads, linear.num_key_heads},
                                  {fact::linear_key_head_dim, linear.key_head_dim},
                                  {fact::linear_num_value_heads, linear.num_value_heads},
                                  {fact::linear_value_head_dim, linear.value_head_dim},
                                  {fact::conv_kernel, linear.conv_kernel_dim},
                                  {fact::chunk_size, linear.chunk_size}});
        failed(why))
      return why;
  if (has_mamba)
    return flaw_if_not_positive({{fact::mamba_num_heads, mamba.num_heads},
                                 {fact::mamba_head_dim, mamba.head_dim},
                                 {fact::ssm_state_size, mamba.state_size},
                                 {fact::mamba_groups, mamba.n_groups},
                                 {fact::conv_kernel, mamba.conv_kernel},
                                 {fact::chunk_size, mamba.chunk_size}});
  return {};
}

constexpr failure flaw_of_attention(const transformer& model) {
  const named_fact heads{fact::num_attention_heads, model.num_attention_heads};
  const latent_attention& mla = model.mla;
  if (model.is_latent())
    return flaw_if_not_positive({{fact::qk_nope_head_dim, mla.qk_nope_head_dim},
                                 {fact::qk_rope_head_dim, mla.qk_rope_head_dim},
                                 {fact::v_head_dim, mla.v_head_dim}});
  if (model.num_attention_heads % model.key_value_heads() != 0)
    return failure(errc::heads_do_not_divide,
                   heads,
                   named_fact{fact::num_key_value_heads, model.num_key_value_heads});
  if (model.head_dim == 0 && model.hidden_size % model.num_attention_heads != 0)
    return failure(
        errc::heads_do_not_divide, heads, named_fact{fact::hidden_size, model.hidden_size});
  if (model.rotary_dim > model.query_dim())
    return failure(errc::out_of_bounds,
                   named_fact{fact::rotary_dim, model.rotary_dim},
                   named_fact{fact::at_most, model.query_dim()});
  return {};
}

constexpr failure flaw_of_experts(const transformer& model) {
  const expert_mixture& moe = model.moe;
  if (moe.num_experts == 0) return {};
  const named_fact experts{fact::num_experts, moe.num_experts};
  if (model.kind != model_kind::decoder)
    return flaw_if_present(experts, {fact::model_kind, model.kind});
  if (const failure why =
          flaw_if_not_positive({{fact::num_experts_per_tok, moe.num_experts_per_tok},
                                {fact::moe_intermediate_size, moe.moe_intermediate_size},
                                {fact::moe_layer_step, moe.moe_layer_step}});
      failed(why))
    return why;
  if (moe.num_experts_per_tok > moe.num_experts)
    return failure(errc::too_many_experts_per_token,
                   named_fact{fact::num_experts_per_tok, moe.num_experts_per_tok},
                   experts);
  if (moe.shared_expert_gate && moe.shared_expert_intermediate_size == 0)
    return failure(errc::not_positive, named_fact{fact::shared_expert_intermediate_size, 0});
  if (moe.first_k_dense_layers > model.num_hidden_layers)
    return failure(errc::out_of_bounds,
                   named_fact{fact::first_k_dense_layers, moe.first_k_dense_layers},
                   named_fact{fact::at_most, model.num_hidden_layers});
  return {};
}

// Stages of which the last has the model's own widths, and none has wider ones.
constexpr failure flaw_of_stages(const transformer& model) {
  const image_stages& stages = model.stages;
  const named_fact count{fact::stages, stages.size()};
  if (count.value == 0) return {};
  if (model.kind != model_kind::vision)
    return flaw_if_present(count, {fact::model_kind, model.kind});
  std::int64_t layers = 0;
  for (int at = 0; at < count.value; ++at) {
    const std::int64_t heads = stages.heads[at];
    const named_fact width{fact::stage_width, stages.widths[at]};
    if (const failure why =
            flaw_of_dimensions({{fact::num_hidden_layers, stages.depths[at]}}, most_layers);
        failed(why))
      return why;
    if (const failure why = flaw_if_not_positive({width,
                                                  {fact::num_attention_heads, heads},
                                                  {fact::intermediate_size, stages.inner[at]}});
        failed(why))
      return why;
    if (width.value > model.hidden_size)
      return failure(errc::out_of_bounds, width, named_fact{fact::at_most, model.hidden_size});
    if (stages.inner[at] > model.intermediate_size)
      return failure(errc::out_of_bounds,
                     named_fact{fact::intermediate_size, stages.inner[at]},
                     named_fact{fact::at_most, model.intermediate_size});
    if (width.value % heads != 0)
      return failure(
          errc::heads_do_not_divide, named_fact{fact::num_attention_heads, heads}, width);
    layers += stages.depths[at];
  }
  if (layers != model.num_hidden_layers)
    return failure(errc::out_of_bounds,
                   named_fact{fact::num_hidden_layers, model.num_hidden_layers},
                   named_fact{fact::at_most, layers});
  const named_fact window{fact::window_size, stages.window_size};
  if (window.value < 1 || window.value > most_patches_of_a_side)
    return failure(errc::out_of_bounds,
                   window,
                   named_fact{fact::at_least, 1},
                   named_fact{fact::at_most, most_patches_of_a_side});
  return {};
}

constexpr failure flaw_of_ends(const transformer& model) {
  if (model.kind == model_kind::vision) {
    const image_input& image = model.image;
    if (const failure why = flaw_if_not_positive(
            {{fact::patch_size, image.patch_size}, {fact::num_channels, image.num_channels}});
        failed(why))
      return why;
    if (image.grid_height != 0 || image.grid_width != 0) {
      for (const named_fact side : {named_fact{fact::grid_height, image.grid_height},
                                    named_fact{fact::grid_width, image.grid_width}})
        if (side.value < 1 || side.value > most_patches_of_a_side)
          return failure(errc::out_of_bounds,
                         side,
                         named_fact{fact::at_least, 1},
                         named_fact{fact::at_most, most_patches_of_a_side});
      for (const layer_numbers* list : {&image.whole, &image.tapped}) {
        if (list->count < 0 || list->count > layer_numbers::most)
          return failure(errc::out_of_bounds,
                         named_fact{fact::layers_named, list->count},
                         named_fact{fact::at_least, 0},
                         named_fact{fact::at_most, layer_numbers::most});
        for (int at = 0; at < list->count; ++at)
          if (list->of[at] < 0 || list->of[at] >= model.num_hidden_layers)
            return failure(errc::out_of_bounds,
                           named_fact{fact::layer_named, list->of[at]},
                           named_fact{fact::at_least, 0},
                           named_fact{fact::at_most, model.num_hidden_layers - 1});
      }
      return {};
    }
    const named_fact size{fact::image_size, image.image_size};
    if (image.image_size < image.patch_size)
      return failure(errc::out_of_bounds, size, named_fact{fact::at_least, image.patch_size});
    if (image.image_size / image.patch_size > most_patches_of_a_side)
      return failure(errc::out_of_bounds,
                     size,
                     named_fact{fact::at_most, most_patches_of_a_side * image.patch_size});
  }
  if (model.head == head_kind::language_model && model.vocab_size < 1)
    return failure(errc::not_positive, named_fact{fact::vocab_size, model.vocab_size});
  if (model.head == head_kind::classifier)
    return flaw_if_not_positive({{fact::num_classes, model.num_classes},
                                 {fact::classifier_inputs, model.classifier_inputs}});
  return {};
}

// The part of the model that may make its parameters too many for 64 bits. Each part is bounded
// from above, in doubles, biases and norms included.
constexpr failure flaw_of_size(const transformer& model) {
  const auto d = [](std::int64_t count) { return static_cast<double>(count); };
  const latent_attention& mla = model.mla;
  const image_input& image = model.image;
  const double layers = d(model.layers() + model.mtp_layers);
  const double width = d(model.hidden_size) + 1;
  const double widest = width + d(model.token_width());
  const double latent = d(mla.q_lora_rank) + d(mla.kv_lora_rank);
  const double heads = d(model.num_attention_heads);
  const double attention = heads * (d(model.query_dim()) + d(model.value_dim()));
  struct part {
    double size;
    named_fact field;
  };
  const part parts[] = {
      {(16 + 2 * d(model.mtp_layers)) * widest * widest, {fact::hidden_size, model.hidden_size}},
      {16 * layers * (attention + latent) * (width + latent),
       {fact::num_attention_heads, model.num_attention_heads}},
      {(4 * layers + 2) * width * d(model.intermediate_size),
       {fact::intermediate_size, model.intermediate_size}},
      {4 * layers * width * d(model.decoder.intermediate_size),
       {fact::decoder_intermediate_size, model.decoder.intermediate_size}},
      {4 * layers * width * d(model.moe.num_experts) * (d(model.moe.moe_intermediate_size) + 1),
       {fact::num_experts, model.moe.num_experts}},
      {4 * layers * width * d(model.moe.shared_expert_intermediate_size),
       {fact::shared_expert_intermediate_size, model.moe.shared_expert_intermediate_size}},
      {4 * layers * d(model.moe.moe_latent_size) *
           (width + d(model.moe.num_experts) * (d(model.moe.moe_intermediate_size) + 1)),
       {fact::moe_latent_size, model.moe.moe_latent_size}},
      {4 * layers * width * (d(model.mamba.num_heads) + 1) * (d(model.mamba.head_dim) + 1),
       {fact::mamba_num_heads, model.mamba.num_heads}},
      {4 * layers * width * d(model.mamba.n_groups) * d(model.mamba.state_size),
       {fact::ssm_state_size, model.mamba.state_size}},
      {4 * layers * width *
           (d(model.linear.num_key_heads) * d(model.linear.key_head_dim) +
            d(model.linear.num_value_heads) * (d(model.linear.value_head_dim) + 1)),
       {fact::linear_num_value_heads, model.linear.num_value_heads}},
      {layers * (d(model.mamba.conv_kernel) + 1) *
           (d(model.mamba.num_heads) * d(model.mamba.head_dim) +
            2 * d(model.mamba.n_groups) * d(model.mamba.state_size)),
       {fact::conv_kernel, model.mamba.conv_kernel}},
      {layers * (d(model.linear.conv_kernel_dim) + 1) *
           (2 * d(model.linear.num_key_heads) * d(model.linear.key_head_dim) +
            d(model.linear.num_value_heads) * d(model.linear.value_head_dim)),
       {fact::conv_kernel, model.linear.conv_kernel_dim}},
      {3 * widest * d(model.vocab_size), {fact::vocab_size, model.vocab_size}},
      {2 * widest * d(model.position_rows), {fact::position_rows, model.position_rows}},
      {2 * widest * d(model.sinusoid_rows), {fact::sinusoid_rows, model.sinusoid_rows}},
      {widest * d(model.decoder.position_rows),
       {fact::decoder_position_rows, model.decoder.position_rows}},
      {2 * heads * d(model.relative_attention_buckets),
       {fact::relative_attention_buckets, model.relative_attention_buckets}},
      {widest * d(model.type_vocab_size), {fact::type_vocab_size, model.type_vocab_size}},
      {width * d(image.num_channels) * d(image.patch_size) * d(image.patch_size),
       {fact::patch_size, image.patch_size}},
      {4 * layers * width * d(model.stages.window_size) * d(model.stages.window_size),
       {fact::window_size, model.stages.window_size}},
      {width * d(image.class_tokens), {fact::class_tokens, image.class_tokens}},
      {width * d(image.register_tokens), {fact::register_tokens, image.register_tokens}},
      {width * d(model.num_classes) * d(model.classifier_inputs),
       {fact::num_classes, model.num_classes}},
      {width * d(model.projection_dim), {fact::projection_dim, model.projection_dim}},
  };
  double total = d(model.other_parameters);
  const part* largest = parts;
  for (const part& each : parts) {
    total += each.size;
    if (each.size > largest->size) largest = &each;
  }
  if (total < 0x1p62) return {};
  return failure(errc::overflow,
                 largest->field,
                 named_fact{fact::hidden_size, model.hidden_size},
                 named_fact{fact::num_hidden_layers, model.num_hidden_layers})
      .about(model.name);
}

constexpr failure flaw_of_stack(const transformer& model) {
  const named_fact decoder_layers{fact::num_decoder_layers, model.num_decoder_layers};
  if (model.kind != model_kind::encoder_decoder) {
    if (const failure why = flaw_if_present(decoder_layers, {fact::model_kind, model.kind});
        failed(why))
      return why;
  } else {
    if (model.num_decoder_layers < 1) return failure(errc::not_positive, decoder_layers);
    if (model.parallel_attention)
      return flaw_if_present(decoder_layers, {fact::parallel_attention, true});
  }
  if (model.kind != model_kind::decoder || model.head != head_kind::language_model)
    if (const failure why =
            flaw_if_present({fact::mtp_layers, model.mtp_layers}, {fact::head, model.head});
        failed(why))
      return why;
  if (!model.hybrid_pattern &&
      model.moe_layers_before(model.num_hidden_layers) < model.num_hidden_layers &&
      model.intermediate_size < 1)
    return failure(errc::not_positive,
                   named_fact{fact::intermediate_size, model.intermediate_size});
  const std::int64_t norms = model.norms_per_layer;
  const bool around = model.norm_at == norm_position::around;
  if (model.parallel_attention
          ? (norms != 1 && norms != 2) || model.norm_at != norm_position::before
          : norms != (around ? 4 : 2))
    return failure(errc::norms_do_not_match, named_fact{fact::norms_per_layer, norms});
  return {};
}

constexpr failure flaw_of_shared_layers(const transformer& model) {
  const named_fact groups{fact::num_hidden_groups, model.shared.num_hidden_groups};
  const named_fact inner{fact::inner_group_num, model.shared.inner_group_num};
  const named_fact layers{fact::num_hidden_layers, model.num_hidden_layers};
  if (const failure why = flaw_of_dimensions({groups, inner}, most_layers); failed(why)) return why;
  if (groups.value == 0) return {};
  if (model.kind != model_kind::encoder)
    return flaw_if_present(groups, {fact::model_kind, model.kind});
  if (const failure why = flaw_if_not_positive({inner}); failed(why)) return why;
  if (layers.value % inner.value != 0) return failure(errc::does_not_divide, {inner, layers});
  if (groups.value * inner.value > layers.value)
    return failure(errc::out_of_bounds, {groups, {fact::at_most, layers.value / inner.value}});
  return {};
}

constexpr failure flaw_of(const transformer& model) {
  const latent_attention& mla = model.mla;
  const expert_mixture& moe = model.moe;
  if (const failure why = flaw_of_dimensions({{fact::num_hidden_layers, model.num_hidden_layers},
                                              {fact::num_decoder_layers, model.num_decoder_layers},
                                              {fact::mtp_layers, model.mtp_layers}},
                                             most_layers);
      failed(why))
    return why;
  if (const failure why = flaw_of_shared_layers(model); failed(why)) return why;
  if (const failure why = flaw_of_dimensions(
          {{fact::hidden_size, model.hidden_size},
           {fact::intermediate_size, model.intermediate_size},
           {fact::num_attention_heads, model.num_attention_heads},
           {fact::num_key_value_heads, model.num_key_value_heads},
           {fact::head_dim, model.head_dim},
           {fact::vocab_size, model.vocab_size},
           {fact::q_lora_rank, mla.q_lora_rank},
           {fact::kv_lora_rank, mla.kv_lora_rank},
           {fact::qk_nope_head_dim, mla.qk_nope_head_dim},
           {fact::qk_rope_head_dim, mla.qk_rope_head_dim},
           {fact::v_head_dim, mla.v_head_dim},
           {fact::num_experts, moe.num_experts},
           {fact::num_experts_per_tok, moe.num_experts_per_tok},
           {fact::n_group, moe.n_group},
           {fact::topk_group, moe.topk_group},
           {fact::moe_intermediate_size, moe.moe_intermediate_size},
           {fact::shared_expert_intermediate_size, moe.shared_expert_intermediate_size},
           {fact::first_k_dense_layers, moe.first_k_dense_layers},
           {fact::moe_latent_size, moe.moe_latent_size},
           {fact::mamba_num_heads, model.mamba.num_heads},
           {fact::mamba_head_dim, model.mamba.head_dim},
           {fact::ssm_state_size, model.mamba.state_size},
           {fact::mamba_groups, model.mamba.n_groups},
           {fact::linear_num_key_heads, model.linear.num_key_heads},
           {fact::linear_key_head_dim, model.linear.key_head_dim},
           {fact::linear_num_value_heads, model.linear.num_value_heads},
           {fact::linear_value_head_dim, model.linear.value_head_dim},
           {fact::full_attention_interval, model.full_attention_interval},
           {fact::sliding_window, model.sliding_window},
           {fact::global_layer_step, model.global_layer_step},
           {fact::max_window_layers, model.max_window_layers},
           {fact::rotary_dim, model.rotary_dim},
           {fact::no_rope_layer_interval, model.no_rope_layer_interval},
           {fact::position_rows, model.position_rows},
           {fact::sinusoid_rows, model.sinusoid_rows},
           {fact::decoder_position_rows, model.decoder.position_rows},
           {fact::decoder_intermediate_size, model.decoder.intermediate_size},
           {fact::alibi_positions, model.alibi_positions},
           {fact::relative_attention_buckets, model.relative_attention_buckets},
           {fact::type_vocab_size, model.type_vocab_size},
           {fact::embedding_dim, model.embedding_dim},
           {fact::image_size, model.image.image_size},
           {fact::patch_size, model.image.patch_size},
           {fact::num_channels, model.image.num_channels},
           {fact::class_tokens, model.image.class_tokens},
           {fact::register_tokens, model.image.register_tokens},
           {fact::num_classes, model.num_classes},
           {fact::classifier_inputs, model.classifier_inputs},
           {fact::projection_dim, model.projection_dim},
           {fact::other_parameters, model.other_parameters}},
          most_of_a_dimension);
      failed(why))
    return why;
  if (const failure why =
          flaw_if_not_positive({{fact::num_hidden_layers, model.num_hidden_layers},
                                {fact::hidden_size, model.hidden_size},
                                {fact::num_attention_heads, model.num_attention_heads}});
      failed(why))
    return why;
  if (const failure why = flaw_of_attention(model); failed(why)) return why;
  if (const failure why = flaw_of_pattern(model); failed(why)) return why;
  if (const failure why = flaw_of_experts(model); failed(why)) return why;
  if (const failure why = flaw_of_stack(model); failed(why)) return why;
  if (const failure why = flaw_of_stages(model); failed(why)) return why;
  if (const failure why = flaw_of_ends(model); failed(why)) return why;
  return flaw_of_size(model);
}

}  // namespace detail

/// The model itself where its numbers make one. Errors: `negative`, `not_positive`, `out_of_bounds`
/// (of a dimension 2^40 is the most, of layers 2^16, of patches 2^32) with the field;
/// `heads_do_not_divide`; `too_many_experts_per_token`; `norms_do_not_match`; `overflow` where the
/// parameters may be too many for 64 bits, with the field that makes most of them.
[[nodiscard]] constexpr result<transformer> validate(const transformer& model) {
  if (const failure why = detail::flaw_of(model); detail::failed(why)) return why;
  return model;
}

}  // namespace gpuplan
