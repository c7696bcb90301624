#pragma once

// Encoders of images of Hugging Face's transformers 5.23, beside ViT, CLIP and SigLIP.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks/encoders.hpp>
#include <gpuplan/detail/flaws.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/implementation.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/result.hpp>

namespace gpuplan {
namespace code_names {
inline constexpr code_name clip{"clip"};
inline constexpr code_name clip_texts{"clip_texts"};
inline constexpr code_name dinov2{"dinov2"};
inline constexpr code_name dinov3{"dinov3"};
inline constexpr code_name siglip{"siglip"};
inline constexpr code_name siglip_texts{"siglip_texts"};
inline constexpr code_name swin{"swin"};
}  // namespace code_names

namespace detail {

// Layer scales, and a classifier of the first token and the mean of the patches.
constexpr failure flaw_of_dinov2(const transformer& model, const implementation& as) {
  transformer usual = model;
  usual.gated_mlp = usual.layer_scale = false;
  if (const failure why = flaw_of_image_classifiers(usual, as); failed(why)) return why;
  if (const failure why = flaw_of_image_positions(usual, as); failed(why)) return why;
  return flaw_unless({{{fact::layer_scale, model.layer_scale}, true},
                      {{fact::classifier_inputs, model.classifier_inputs}, 2}},
                     {fact::layers, as.layers->name});
}

// Rotary positions of patches, whose sides share the elements of a head, in place of a table.
constexpr failure flaw_of_dinov3(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  transformer usual = model;
  usual.gated_mlp = usual.layer_scale = false;
  usual.key_bias = usual.attention_out_bias = usual.mlp_bias = true;  // which it has or not
  if (const failure why = flaw_of_image_classifiers(usual, as); failed(why)) return why;
  if (const failure why = flaw_unless({{{fact::layer_scale, model.layer_scale}, true},
                                       {{fact::mask_token, model.image.mask_token}, true},
                                       {{fact::class_tokens, model.image.class_tokens}, 1},
                                       {{fact::position_rows, model.position_rows}, 0},
                                       {{fact::classifier_inputs, model.classifier_inputs}, 1}},
                                      layers);
      failed(why))
    return why;
  const std::int64_t head = model.query_dim();
  if (head % 4 == 0) return {};
  failure why = without_code({{fact::head_dim, head}, layers});
  for (const std::int64_t taken : {head / 4 * 4, head / 4 * 4 + 4})
    if (taken > 0) why.add(fact::takes, taken);
  return why;
}

// Stages, each of at least a window.
constexpr failure flaw_of_swin(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  const image_stages& stages = model.stages;
  if (stages.size() == 0) return without_code({{fact::stages, 0}, layers, {fact::at_least, 1}});
  const std::int64_t patch = model.image.patch_size;
  if (const failure why = flaw_if_no_multiple({{fact::image_size, model.image.image_size}},
                                              {fact::patch_size, patch});
      failed(why))
    return why;
  std::int64_t side = model.image.image_size / patch;
  for (int at = 1; at < stages.size(); ++at) side = (side + 1) / 2;
  if (side < stages.window_size)
    return without_code({{fact::window_size, stages.window_size}, layers, {fact::at_most, side}});
  if (model.position_rows != 0)
    if (const failure why = flaw_unless(
            {{{fact::position_rows, model.position_rows}, model.image.patches()}}, layers);
        failed(why))
      return why;
  transformer usual = model;
  usual.stages = {};
  if (const failure why = flaw_of_image_classifiers(usual, as); failed(why)) return why;
  return flaw_unless({{{fact::classifier_inputs, model.classifier_inputs}, 1}}, layers);
}

// A tower of texts, with positions in a table.
constexpr failure flaw_of_clip_texts(const transformer& model, const implementation& as) {
  if (const failure why =
          flaw_if_any({{fact::is_part, as.is_part}}, {fact::layers, as.layers->name});
      failed(why))
    return why;
  if (model.position_rows == 0)
    return without_code(
        {{fact::position_rows, 0}, {fact::layers, as.layers->name}, {fact::at_least, 1}});
  return flaw_of_encoders(model, as, norm_position::before);
}

}  // namespace detail

namespace layer_classes {
/// Hugging Face's CLIP: a tower of images and one of texts, in pairs. Its scale is a number, of
/// which fully_shard makes no parts.
inline constexpr layer_class clip_texts{.name = &code_names::clip_texts,
                                        .kind = model_kind::decoder,
                                        .flaw_of = detail::flaw_of_clip_texts,
                                        .code = &eager::library_code};
inline constexpr layer_class clip{.name = &code_names::clip,
                                  .code = &eager::library_code,
                                  .trains_parts = false,
                                  .trains_adapters = false,
                                  .runs_composites = true,
                                  .parts = {&vit, &clip_texts},
                                  .scalar_parameters = 1,
                                  .repeats_layers = false,
                                  .counts_work = true};
/// Hugging Face's Swin.
inline constexpr layer_class swin{.name = &code_names::swin,
                                  .kind = model_kind::vision,
                                  .flaw_of = detail::flaw_of_swin,
                                  .code = &eager::library_code,
                                  .recomputes_layers = false,
                                  .reads_padding = false,
                                  .repeats_layers = false};
/// Hugging Face's SigLIP, likewise.
inline constexpr layer_class siglip_texts{.name = &code_names::siglip_texts,
                                          .kind = model_kind::encoder,
                                          .flaw_of = detail::flaw_of_clip_texts,
                                          .code = &eager::library_code};
inline constexpr layer_class siglip{.name = &code_names::siglip,
                                    .kind = model_kind::encoder,
                                    .code = &eager::library_code,
                                    .trains_parts = false,
                                    .trains_adapters = false,
                                    .runs_composites = true,
                                    .parts = {&vit, &siglip_texts},
                                    .pools_by_attention = true,
                                    .shards_parts = true,
                                    .repeats_layers = false,
                                    .counts_work = true};
/// Hugging Face's DINOv2, without registers and with them.
inline constexpr layer_class dinov2{.name = &code_names::dinov2,
                                    .kind = model_kind::vision,
                                    .flaw_of = detail::flaw_of_dinov2,
                                    .code = &eager::library_code,
                                    .reads_padding = false,
                                    .counts_work = true};
/// Hugging Face's DINOv3, the encoder by attention.
inline constexpr layer_class dinov3{.name = &code_names::dinov3,
                                    .kind = model_kind::vision,
                                    .flaw_of = detail::flaw_of_dinov3,
                                    .code = &eager::library_code,
                                    .reads_padding = false,
                                    .counts_work = true};
}  // namespace layer_classes

namespace catalog {

/// Dinov2ForImageClassification.
inline constexpr framework hugging_face_dinov2{
    .name = "transformers, DINOv2",
    .implementation = {.layers = &layer_classes::dinov2,
                       .images = {.built = layer_construction::norm_attention_norm_mlp,
                                  .registers_behind_positions = true,
                                  .drops_hidden = false,
                                  .softmax_in_fp32 = false,
                                  .truncates_weights = true,
                                  .initializes_layers_first = true}},
    .costs = eager_costs};

/// DINOv3ViTModel, of which transformers has no class with a head: one linear layer of the first
/// token and its loss, as people put them behind.
inline constexpr framework hugging_face_dinov3{
    .name = "transformers, DINOv3",
    .implementation = {.layers = &layer_classes::dinov3,
                       .images = {.built = layer_construction::norm_attention_norm_mlp,
                                  .builds_key_first = true,
                                  .views_behind_projections = true,
                                  .drops_embedding = false,
                                  .drops_hidden = false,
                                  .softmax_in_fp32 = false,
                                  .truncates_weights = true}},
    .costs = eager_costs};

/// DeiTForImageClassification: the token of distillation is a register, with a position.
inline constexpr framework hugging_face_deit{
    .name = "transformers, DeiT",
    .implementation = {.layers = &layer_classes::vit, .images = {.truncates_positions = false}},
    .costs = eager_costs};

/// IJepaForImageClassification, which has no first token.
inline constexpr framework hugging_face_ijepa{
    .name = "transformers, I-JEPA",
    .implementation = {.layers = &layer_classes::vit,
                       .images = {.means_patches = true, .truncates_weights = true}},
    .costs = eager_costs};

/// SwinForImageClassification.
inline constexpr framework hugging_face_swin{.name = "transformers, Swin",
                                             .implementation = {.layers = &layer_classes::swin},
                                             .costs = eager_costs};

/// CLIPModel, and its tower of texts.
inline constexpr framework hugging_face_clip_pairs{
    .name = "transformers, CLIPModel",
    .implementation = {.layers = &layer_classes::clip},
    .costs = eager_costs};
inline constexpr framework hugging_face_clip_texts = [] {
  framework changed = hugging_face_clip;
  changed.name = "transformers, CLIPTextModel";
  changed.implementation.layers = &layer_classes::clip_texts;
  changed.implementation.is_part = true;
  return changed;
}();

/// SiglipModel, likewise.
inline constexpr framework hugging_face_siglip_pairs{
    .name = "transformers, SiglipModel",
    .implementation = {.layers = &layer_classes::siglip},
    .costs = eager_costs};
inline constexpr framework hugging_face_siglip_texts = [] {
  framework changed = hugging_face_siglip;
  changed.name = "transformers, SiglipTextModel";
  changed.implementation.layers = &layer_classes::siglip_texts;
  changed.implementation.is_part = true;
  return changed;
}();

inline constexpr listed_framework image_frameworks[] = {
    {&hugging_face_dinov2, "dinov2", {"dinov2"}},
    {&hugging_face_dinov3, "dinov3", {"dinov3"}},
    {&hugging_face_clip_pairs, "clip_pairs", {"clip", "clip-vit-"}},
    {&hugging_face_clip_texts,
     "",
     {"clip_text_model", "cliptextmodel", "clip-vit-large-patch14-text"}},
    {&hugging_face_deit, "deit", {"deit", "vit_msn", "vitmsn"}},
    {&hugging_face_ijepa, "ijepa", {"ijepa"}},
    {&hugging_face_siglip_pairs,
     "siglip_pairs",
     {"siglip", "siglip-base-patch16-224", "siglip-so400m-patch14-"}},
    {&hugging_face_siglip_texts,
     "",
     {"siglip_text_model", "sigliptextmodel", "siglip-so400m-patch14-224-text"}},
    {&hugging_face_swin, "swin", {"swin"}},
};

}  // namespace catalog
}  // namespace gpuplan
