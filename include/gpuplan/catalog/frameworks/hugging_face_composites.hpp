#pragma once

// Models of several transformers of Hugging Face's transformers 5.23, in one step.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks/encoders.hpp>
#include <gpuplan/catalog/frameworks/hugging_face.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/implementation.hpp>
#include <gpuplan/layer_classes.hpp>

namespace gpuplan {
namespace code_names {
inline constexpr code_name cohere2_vision{"cohere2_vision"};
inline constexpr code_name deepseek_vl{"deepseek_vl"};
inline constexpr code_name gemma3{"gemma3"};
inline constexpr code_name internvl{"internvl"};
inline constexpr code_name internvl_vision{"internvl_vision"};
inline constexpr code_name flow_matching{"flow_matching"};
inline constexpr code_name llava{"llava"};
inline constexpr code_name openvla{"openvla"};
inline constexpr code_name paligemma{"paligemma"};
inline constexpr code_name pi0{"pi0"};
inline constexpr code_name qwen_vl{"qwen_vl"};
inline constexpr code_name qwen_vl_vision{"qwen_vl_vision"};
inline constexpr code_name smolvlm{"smolvlm"};
inline constexpr code_name timm_vit{"timm_vit"};
inline constexpr code_name vision_language_action{"vision_language_action"};
}  // namespace code_names

namespace detail {

// A ViT whose layers scale their branches.
constexpr failure flaw_of_internvl_tower(const transformer& model, const implementation& as) {
  transformer usual = model;
  usual.layer_scale = false;
  const named_fact layers{fact::layers, as.layers->name};
  if (model.norm == norm_kind::rms_norm) {  // all of them but one behind the layers
    if (const failure why = flaw_if_any(
            {{fact::final_norm, model.final_norm}, {fact::norm_bias, model.norm_bias}}, layers);
        failed(why))
      return why;
    usual.norm = norm_kind::layer_norm;
    usual.norm_bias = true;
    usual.qk_norm = qk_norm_scope::none;
    if (model.qk_norm == qk_norm_scope::head)
      return without_code(
          {{fact::qk_norm, model.qk_norm}, layers, {fact::takes, qk_norm_scope::full_width}});
  }
  if (const failure why = flaw_of_vit(usual, as); failed(why)) return why;
  return flaw_unless({{{fact::layer_scale, model.layer_scale}, true}}, layers);
}

// A ViT that fuses query, key and value, whose layers may scale their branches.
constexpr failure flaw_of_timm_tower(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  const image_input& image = model.image;
  if (const failure why = flaw_unless({{{fact::fused_qkv, model.fused_qkv}, true},
                                       {{fact::final_norm, model.final_norm}, true}},
                                      layers);
      failed(why))
    return why;
  if (const failure why = flaw_if_any({{fact::mask_token, image.mask_token},
                                       {fact::drop_path, image.drop_path},
                                       {fact::embedding_norm, model.embedding_norm}},
                                      layers);
      failed(why))
    return why;
  transformer usual = model;
  usual.fused_qkv = usual.layer_scale = false;
  usual.image.register_tokens = 0;
  usual.position_rows = usual.image.tokens();  // timm's has rows for patches alone
  return flaw_of_vit(usual, as);
}

// A tower of images of any size, whose heads are rotated by height and by width.
constexpr failure flaw_of_qwen_vl_tower(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  const image_input& image = model.image;
  if (const failure why = flaw_if_any({{fact::is_part, as.is_part}}, layers); failed(why))
    return why;
  for (const named_fact side : {named_fact{fact::grid_height, image.grid_height},
                                named_fact{fact::grid_width, image.grid_width}})
    if (side.value < 1) return without_code({side, layers, {fact::at_least, 1}});
  if (model.query_dim() % 4 != 0 || model.key_value_heads() != model.num_attention_heads ||
      model.num_attention_heads * model.query_dim() != model.hidden_size)
    return without_code({{fact::head_dim, model.query_dim()},
                         {fact::num_attention_heads, model.num_attention_heads},
                         {fact::hidden_size, model.hidden_size},
                         layers,
                         {fact::takes, 4}});
  if (image.window_size != 0 && image.window_size < image.patch_size)
    return without_code(
        {{fact::window_size, image.window_size}, layers, {fact::at_least, image.patch_size}});
  const bool is_rms = model.norm == norm_kind::rms_norm;
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  if (const failure why =
          flaw_unless({{{fact::fused_qkv, model.fused_qkv}, true},
                       {{fact::norm_at, model.norm_at}, number(norm_position::before)},
                       {{fact::norm_affine, model.norm_affine}, true},
                       {{fact::norm_bias, model.norm_bias}, !is_rms},
                       {{fact::attention_bias, model.attention_bias}, true},
                       {{fact::attention_out_bias, model.attention_out_bias}, true},
                       {{fact::mlp_bias, model.mlp_bias}, true},
                       {{fact::class_tokens, image.class_tokens}, 0},
                       {{fact::register_tokens, image.register_tokens}, 0}},
                      layers);
      failed(why))
    return why;
  if (const failure why = flaw_if_any({{fact::final_norm, model.final_norm},
                                       {fact::qk_norm, model.qk_norm},
                                       {fact::embedding_norm, model.embedding_norm},
                                       {fact::fused_gate_up, model.fused_gate_up},
                                       {fact::sliding_window, model.sliding_window},
                                       {fact::attention_pooling, model.attention_pooling}},
                                      layers);
      failed(why))
    return why;
  return flaw_of_most(model, as, false, false);
}

}  // namespace detail

namespace layer_classes {
/// Hugging Face's LLaVA: a tower of images, two linear layers, a language model.
inline constexpr layer_class llava{.name = &code_names::llava,
                                   .code = &eager::library_code,
                                   .has_gradients_beside = true,
                                   .trains_parts = false,
                                   .trains_adapters = false,
                                   .runs_composites = true,
                                   .parts = {&vit, &decoder},
                                   .has_image_tokens = true,
                                   .shards_parts = true,
                                   .adapts_connectors = true,
                                   .repeats_layers = false,
                                   .counts_work = true};
/// Hugging Face's Gemma 3 with images: SigLIP, means of patches, one matrix, a Gemma 3.
inline constexpr layer_class gemma3 = [] {
  layer_class changed = llava;
  changed.name = &code_names::gemma3;
  changed.pools_by_attention = true;
  return changed;
}();
/// Hugging Face's DeepSeek-VL: SigLIP, two linear layers, a LLaMA.
inline constexpr layer_class deepseek_vl = [] {
  layer_class changed = gemma3;
  changed.name = &code_names::deepseek_vl;
  return changed;
}();
/// Hugging Face's Command A Vision: SigLIP, whose patches are joined, a gated MLP, a Cohere 2.
inline constexpr layer_class cohere2_vision = [] {
  layer_class changed = gemma3;
  changed.name = &code_names::cohere2_vision;
  changed.adapts_connectors = false;
  return changed;
}();
/// Hugging Face's InternVL: a ViT, whose patches are joined, two linear layers, a language model.
inline constexpr layer_class internvl_vision{.name = &code_names::internvl_vision,
                                             .kind = model_kind::vision,
                                             .flaw_of = detail::flaw_of_internvl_tower,
                                             .code = &eager::library_code};
inline constexpr layer_class internvl = [] {
  layer_class changed = llava;
  changed.name = &code_names::internvl;
  changed.parts[0] = &internvl_vision;
  return changed;
}();
/// Hugging Face's PaliGemma: SigLIP, one linear layer, Gemma.
inline constexpr layer_class paligemma = [] {
  layer_class changed = llava;
  changed.name = &code_names::paligemma;
  return changed;
}();
/// Hugging Face's Qwen2-VL, Qwen2.5-VL and Qwen3-VL: a tower of images of any size, whose patches
/// are joined, two linear layers, a Qwen whose positions are in time, height and width.
inline constexpr layer_class qwen_vl_vision{.name = &code_names::qwen_vl_vision,
                                            .kind = model_kind::vision,
                                            .flaw_of = detail::flaw_of_qwen_vl_tower,
                                            .code = &eager::library_code};
inline constexpr layer_class qwen_vl = [] {
  layer_class changed = llava;
  changed.name = &code_names::qwen_vl;
  changed.parts[0] = &qwen_vl_vision;
  return changed;
}();
/// Hugging Face's pi0: PaliGemma and a Gemma for actions, which reads its keys and values. It keeps
/// them, so layers are not computed again. Nor are they shared: at ZeRO-3 PyTorch stops, since
/// those keys pass by the hooks that gather the last layer for its backward.
inline constexpr layer_class pi0 = [] {
  layer_class changed = llava;
  changed.name = &code_names::pi0;
  changed.shards_parts = false;
  changed.adapts_connectors = false;
  changed.parts[2] = &decoder;
  changed.recomputes_layers = false;
  return changed;
}();
/// Hugging Face's Idefics3 and SmolVLM: a SigLIP for images of any size, one linear layer without
/// bias, a language model.
inline constexpr layer_class smolvlm = [] {
  layer_class changed = llava;
  changed.name = &code_names::smolvlm;
  changed.adapts_connectors = false;
  return changed;
}();
/// OpenVLA: two ViTs of timm, whose patches are joined, three linear layers, a LLaMA.
inline constexpr layer_class timm_vit{.name = &code_names::timm_vit,
                                      .kind = model_kind::vision,
                                      .flaw_of = detail::flaw_of_timm_tower,
                                      .code = &eager::library_code,
                                      .adapts_patches = true};
inline constexpr layer_class openvla = [] {
  layer_class changed = llava;
  changed.name = &code_names::openvla;
  changed.parts[0] = changed.parts[1] = &timm_vit;
  changed.parts[2] = &decoder;
  changed.pools_by_attention = true;
  changed.joins_towers = true;
  return changed;
}();
/// SigLIP, a connector, a language model without head, and a diffusion transformer of actions.
inline constexpr layer_class vision_language_action{.name = &code_names::vision_language_action,
                                                    .code = &eager::library_code,
                                                    .has_gradients_beside = true,
                                                    .trains_parts = false,
                                                    .trains_adapters = false,
                                                    .runs_composites = true,
                                                    .parts = {&vit, &decoder},
                                                    .repeats_layers = false,
                                                    .counts_work = true};
/// Likewise, with a matrix for each kind of robot about the transformer.
inline constexpr layer_class flow_matching = [] {
  layer_class changed = vision_language_action;
  changed.name = &code_names::flow_matching;
  changed.has_robots = true;
  changed.pools_by_attention = true;
  changed.recomputes_layers = false;
  return changed;
}();
}  // namespace layer_classes

namespace catalog {

/// LlavaForConditionalGeneration.
inline constexpr framework hugging_face_llava{.name = "transformers, LlavaForConditionalGeneration",
                                              .implementation = {.layers = &layer_classes::llava},
                                              .costs = eager_costs};

/// Cohere2VisionForConditionalGeneration.
inline constexpr framework hugging_face_cohere_2_vision{
    .name = "transformers, Cohere2VisionForConditionalGeneration",
    .implementation = {.layers = &layer_classes::cohere2_vision},
    .costs = eager_costs};

/// DeepseekVLForConditionalGeneration.
inline constexpr framework hugging_face_deepseek_vl{
    .name = "transformers, DeepseekVLForConditionalGeneration",
    .implementation = {.layers = &layer_classes::deepseek_vl},
    .costs = eager_costs};

/// Gemma3ForConditionalGeneration.
inline constexpr framework hugging_face_gemma_3_images{
    .name = "transformers, Gemma3ForConditionalGeneration",
    .implementation = {.layers = &layer_classes::gemma3},
    .costs = eager_costs};

/// InternVLForConditionalGeneration, and its tower.
inline constexpr framework hugging_face_internvl{
    .name = "transformers, InternVLForConditionalGeneration",
    .implementation = {.layers = &layer_classes::internvl},
    .costs = eager_costs};
inline constexpr framework hugging_face_internvl_tower{
    .name = "transformers, InternVLVisionModel",
    .implementation = {.layers = &layer_classes::internvl_vision,
                       .rms_norm = rms_norm_kind::eager,
                       .images = {.views_behind_projections = true,
                                  .softmax_in_fp32 = false,
                                  .scales_in_layer = true,
                                  .truncates_positions = false}},
    .costs = eager_costs};

/// OpenVLAForActionPrediction, and its towers.
inline constexpr framework openvla{
    .name = "OpenVLA", .implementation = {.layers = &layer_classes::openvla}, .costs = eager_costs};
inline constexpr framework timm_tower{
    .name = "timm, VisionTransformer",
    .implementation = {.layers = &layer_classes::timm_vit, .images = {.softmax_in_fp32 = false}},
    .costs = eager_costs};

/// PaliGemmaForConditionalGeneration.
inline constexpr framework hugging_face_paligemma{
    .name = "transformers, PaliGemmaForConditionalGeneration",
    .implementation = {.layers = &layer_classes::paligemma},
    .costs = eager_costs};

/// PI0ForConditionalGeneration.
inline constexpr framework hugging_face_pi0{.name = "transformers, PI0ForConditionalGeneration",
                                            .implementation = {.layers = &layer_classes::pi0},
                                            .costs = eager_costs};

/// Qwen2VLForConditionalGeneration, Qwen2_5_VLForConditionalGeneration,
/// Qwen3VLForConditionalGeneration,
inline constexpr framework hugging_face_qwen_vl{
    .name = "transformers, Qwen2VLForConditionalGeneration",
    .implementation = {.layers = &layer_classes::qwen_vl},
    .costs = eager_costs};

/// their towers,
inline constexpr framework hugging_face_qwen_vl_tower{
    .name = "transformers, Qwen2VisionTransformerPretrainedModel",
    .implementation = {.layers = &layer_classes::qwen_vl_vision,
                       .rms_norm = rms_norm_kind::eager,
                       .is_part = true},
    .costs = eager_costs};

/// and the language models of the first two, whose heads are told apart once query, key and value
/// are there; the third's is a Qwen3.
inline constexpr framework hugging_face_qwen_vl_text = [] {
  framework changed = hugging_face_qwen;
  changed.name = "transformers, Qwen2VLTextModel";
  changed.implementation.decoder.views_behind_projections = true;
  changed.implementation.is_part = true;
  return changed;
}();

/// SmolVLMForConditionalGeneration, Idefics3ForConditionalGeneration,
inline constexpr framework hugging_face_smolvlm{
    .name = "transformers, SmolVLMForConditionalGeneration",
    .implementation = {.layers = &layer_classes::smolvlm},
    .costs = eager_costs};

/// and their tower.
inline constexpr framework hugging_face_smolvlm_tower{
    .name = "transformers, SmolVLMVisionTransformer",
    .implementation = {.layers = &layer_classes::vit,
                       .images = {.built = layer_construction::attention_norm_mlp_norm,
                                  .positions_in_table = true,
                                  .counts_patches = true,
                                  .builds_key_first = true,
                                  .adds_to_residual = true,
                                  .drops_embedding = false,
                                  .drops_hidden = false}},
    .costs = eager_costs};

/// Likewise with torch.nn around transformers' models, as GR00T N1 is made: images, text, and a
/// diffusion transformer of actions.
inline constexpr framework torch_vision_language_action{
    .name = "torch.nn, vision, language and action",
    .implementation = {.layers = &layer_classes::vision_language_action},
    .costs = eager_costs};

/// GR00T N1.5, with diffusers' Attention and FeedForward.
inline constexpr framework gr00t_n1_5{.name = "Isaac-GR00T, N1.5",
                                      .implementation = {.layers = &layer_classes::flow_matching},
                                      .costs = eager_costs};

inline constexpr listed_framework hugging_face_composite_frameworks[] = {
    {&hugging_face_cohere_2_vision, "cohere-2-vision", {"cohere2_vision", "cohere2vision"}},
    {&hugging_face_deepseek_vl, "deepseek-vl", {"deepseek_vl", "deepseekvl"}},
    {&hugging_face_gemma_3_images,
     "gemma-3-images",
     {"gemma3", "gemma-3-4b-it", "gemma-3-12b-it", "gemma-3-27b-it"}},
    {&hugging_face_internvl, "internvl", {"internvl"}},
    {&hugging_face_internvl_tower, "", {"internvl_vision"}},
    {&hugging_face_llava, "llava", {"llava"}},
    {&openvla, "openvla", {"openvla"}},
    {&timm_tower, "", {"timm-vit"}},
    {&hugging_face_paligemma, "paligemma", {"paligemma"}},
    {&hugging_face_pi0, "pi0", {"pi0"}},
    {&hugging_face_qwen_vl,
     "qwen-vl",
     {"qwen2_vl",
      "qwen2_5_vl",
      "qwen3_vl",
      "qwen2vl",
      "qwen3vl",
      "qwen2-vl",
      "qwen2.5-vl",
      "qwen3-vl"}},
    {&hugging_face_qwen_vl_tower, "", {"qwen2_vl_vision", "qwen2_5_vl_vision", "qwen3_vl_vision"}},
    {&hugging_face_qwen_vl_text, "", {"qwen2_vl_text", "qwen2_5_vl_text"}},
    {&hugging_face_qwen, "", {"qwen3_vl_text"}},
    {&hugging_face_smolvlm, "smolvlm", {"smolvlm", "idefics3"}},
    {&hugging_face_smolvlm_tower, "", {"smolvlm_vision", "idefics3_vision"}},
    {&torch_vision_language_action, "vla", {"vla_composite"}},
    {&gr00t_n1_5, "gr00t", {"gr00t"}},
};

}  // namespace catalog
}  // namespace gpuplan
