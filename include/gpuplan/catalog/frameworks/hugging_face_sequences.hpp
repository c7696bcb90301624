#pragma once

// Encoder-decoders of Hugging Face's transformers 5.23 that were copied from BART.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/detail/flaws.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/implementation.hpp>
#include <gpuplan/layer_classes.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>

namespace gpuplan {
namespace code_names {
inline constexpr code_name bart{"bart"};
inline constexpr code_name whisper{"whisper"};
inline constexpr code_name wav2vec2{"wav2vec2"};
}  // namespace code_names

namespace detail {

// With all biases, and norms before attention and MLP or behind residuals.
constexpr failure flaw_of_bart(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  if (const failure why = flaw_unless(
          {{{fact::gated_mlp, model.gated_mlp}, false},
           {{fact::norm, model.norm}, number(norm_kind::layer_norm)},
           {{fact::norm_bias, model.norm_bias}, true},
           {{fact::norm_affine, model.norm_affine}, true},
           {{fact::attention_bias, model.attention_bias}, true},
           {{fact::attention_out_bias, model.attention_out_bias}, true},
           {{fact::mlp_bias, model.mlp_bias}, true},
           {{fact::fused_qkv, model.fused_qkv}, false},
           {{fact::head, model.head}, number(head_kind::language_model)},
           {{fact::tied_embeddings, model.tied_embeddings}, true},
           {{fact::num_key_value_heads, model.key_value_heads()}, model.num_attention_heads}},
          layers);
      failed(why))
    return why;
  if (const failure why = flaw_of_heads(model, as); failed(why)) return why;
  if (model.norm_at != norm_position::before && model.norm_at != norm_position::after_residual)
    return without_code({{fact::norm_at, model.norm_at},
                         layers,
                         {fact::takes, norm_position::before},
                         {fact::takes, norm_position::after_residual}});
  if (model.final_norm != (model.norm_at == norm_position::before))
    return without_code({{fact::final_norm, model.final_norm},
                         {fact::norm_at, model.norm_at},
                         layers,
                         {fact::takes, model.norm_at == norm_position::before}});
  const bool counts = as.sequences.positions == position_table::counted_sinusoids;
  const named_fact rows = counts ? named_fact{fact::sinusoid_rows, model.sinusoid_rows}
                                 : named_fact{fact::position_rows, model.position_rows};
  if (rows.value == 0) return without_code({rows, layers, {fact::at_least, 1}});
  if (const failure why =
          flaw_if_any({{fact::relative_attention_buckets, model.relative_attention_buckets},
                       {fact::type_vocab_size, model.type_vocab_size},
                       {fact::qk_norm, model.qk_norm},
                       {fact::parallel_attention, model.parallel_attention},
                       {fact::lm_head_bias, model.lm_head_bias},
                       {fact::sliding_window, model.sliding_window},
                       {fact::pooler, model.pooler},
                       {fact::head_dense, model.head_dense},
                       {fact::head_norm, model.head_norm}},
                      layers);
      failed(why))
    return why;
  return flaw_of_all(model, as);
}

constexpr failure flaw_of_whisper(const transformer& model, const implementation& as) {
  if (model.audio.num_mel_bins == 0)
    return without_code(
        {{fact::num_mel_bins, 0}, {fact::layers, as.layers->name}, {fact::at_least, 1}});
  if (const failure why =
          flaw_if_any({{fact::key_bias, model.key_bias}}, {fact::layers, as.layers->name});
      failed(why))
    return why;
  transformer usual = model;
  usual.key_bias = true;
  return flaw_of_bart(usual, as);
}

constexpr failure flaw_of_wav2vec2(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  if (model.audio.convolutions() == 0)
    return without_code({{fact::conv_dim, 0}, layers, {fact::at_least, 1}});
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  if (const failure why = flaw_unless(
          {{{fact::gated_mlp, model.gated_mlp}, false},
           {{fact::norm, model.norm}, number(norm_kind::layer_norm)},
           {{fact::norm_bias, model.norm_bias}, true},
           {{fact::norm_affine, model.norm_affine}, true},
           {{fact::norms_per_layer, model.norms_per_layer}, 2},
           {{fact::final_norm, model.final_norm}, true},
           {{fact::attention_bias, model.attention_bias}, true},
           {{fact::attention_out_bias, model.attention_out_bias}, true},
           {{fact::mlp_bias, model.mlp_bias}, true},
           {{fact::head, model.head}, number(head_kind::classifier)},
           {{fact::num_key_value_heads, model.key_value_heads()}, model.num_attention_heads}},
          layers);
      failed(why))
    return why;
  if (const failure why = flaw_of_heads(model, as); failed(why)) return why;
  if (model.norm_at != norm_position::before && model.norm_at != norm_position::after_residual)
    return without_code({{fact::norm_at, model.norm_at},
                         layers,
                         {fact::takes, norm_position::before},
                         {fact::takes, norm_position::after_residual}});
  if (const failure why =
          flaw_if_any({{fact::fused_qkv, model.fused_qkv},
                       {fact::parallel_attention, model.parallel_attention},
                       {fact::qk_norm, model.qk_norm},
                       {fact::embedding_norm, model.embedding_norm},
                       {fact::position_rows, model.position_rows},
                       {fact::sinusoid_rows, model.sinusoid_rows},
                       {fact::relative_attention_buckets, model.relative_attention_buckets},
                       {fact::type_vocab_size, model.type_vocab_size},
                       {fact::pooler, model.pooler},
                       {fact::head_dense, model.head_dense},
                       {fact::head_norm, model.head_norm}},
                      layers);
      failed(why))
    return why;
  return flaw_of_all(model, as);
}

}  // namespace detail

namespace layer_classes {
/// Hugging Face's BART, and what was copied from it.
inline constexpr layer_class bart{.name = &code_names::bart,
                                  .kind = model_kind::encoder_decoder,
                                  .flaw_of = detail::flaw_of_bart,
                                  .code = &eager::library_code,
                                  .recomputes_periodically = false,
                                  .recomputes_first_layers = false,
                                  .has_gradients_beside = true,
                                  .reads_targets = true,
                                  .repeats_layers = false};
/// Hugging Face's Whisper.
inline constexpr layer_class whisper = [] {
  layer_class changed = bart;
  changed.name = &code_names::whisper;
  changed.flaw_of = detail::flaw_of_whisper;
  return changed;
}();
/// Hugging Face's wav2vec 2.0 and HuBERT.
inline constexpr layer_class wav2vec2{.name = &code_names::wav2vec2,
                                      .kind = model_kind::encoder,
                                      .flaw_of = detail::flaw_of_wav2vec2,
                                      .code = &eager::library_code,
                                      .recomputes_periodically = false,
                                      .recomputes_first_layers = false,
                                      .reads_padding = false,
                                      .reads_targets = true,
                                      .repeats_layers = false};
}  // namespace layer_classes

namespace catalog {

namespace detail {
constexpr framework like_bart(const char* name, const sequence_options& options) {
  return {.name = name,
          .implementation = {.layers = &layer_classes::bart, .sequences = options},
          .costs = eager_costs};
}
}  // namespace detail

/// BartForConditionalGeneration,
inline constexpr framework hugging_face_bart =
    detail::like_bart("transformers, BART", {.positions = position_table::learned_behind_two});

/// mBART's,
inline constexpr framework hugging_face_mbart =
    detail::like_bart("transformers, mBART",
                      {.positions = position_table::learned_behind_two,
                       .keeps_first_mask = true,
                       .starts_with_last_label = true});

/// PLBart's,
inline constexpr framework hugging_face_plbart = detail::like_bart(
    "transformers, PLBart",
    {.positions = position_table::learned_behind_two, .starts_with_last_label = true});

/// Pegasus', and MarianMTModel,
inline constexpr framework hugging_face_pegasus =
    detail::like_bart("transformers, Pegasus",
                      {.positions = position_table::frozen_sinusoids,
                       .scales_behind_table = true,
                       .keeps_first_mask = true});

/// Blenderbot's,
inline constexpr framework hugging_face_blenderbot =
    detail::like_bart("transformers, Blenderbot", {.keeps_first_mask = true});

/// that of the small one,
inline constexpr framework hugging_face_blenderbot_small = detail::like_bart(
    "transformers, small Blenderbot",
    {.scales_behind_table = true, .norms_before_positions = true, .keeps_first_mask = true});

/// M2M100's and NLLB's.
inline constexpr framework hugging_face_m2m_100 =
    detail::like_bart("transformers, M2M100",
                      {.positions = position_table::counted_sinusoids, .adds_logits_bias = false});

/// WhisperForConditionalGeneration.
inline constexpr framework hugging_face_whisper{
    .name = "transformers, Whisper",
    .implementation = {.layers = &layer_classes::whisper, .sequences = {.adds_logits_bias = false}},
    .costs = eager_costs};

/// Wav2Vec2ForCTC and HubertForCTC, and those that classify what is said.
inline constexpr framework hugging_face_wav2vec2{
    .name = "transformers, wav2vec 2.0",
    .implementation = {.layers = &layer_classes::wav2vec2},
    .costs = eager_costs};

inline constexpr listed_framework sequence_frameworks[] = {
    {&hugging_face_bart, "bart", {"bart", "facebook/bart"}},
    {&hugging_face_mbart, "mbart", {"mbart"}},
    {&hugging_face_plbart, "plbart", {"plbart"}},
    {&hugging_face_pegasus, "pegasus", {"pegasus", "marian", "opus-mt"}},
    {&hugging_face_blenderbot, "blenderbot", {"blenderbot"}},
    {&hugging_face_blenderbot_small, "blenderbot-small", {"blenderbot-small", "blenderbotsmall"}},
    {&hugging_face_m2m_100, "m2m-100", {"m2m_100", "m2m100", "nllb"}},
    {&hugging_face_whisper, "whisper", {"whisper"}},
    {&hugging_face_wav2vec2, "wav2vec2", {"wav2vec2", "hubert"}},
};

}  // namespace catalog
}  // namespace gpuplan
