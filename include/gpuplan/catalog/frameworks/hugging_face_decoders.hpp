#pragma once

// Further decoders of Hugging Face's transformers 5.23, of LLaMA's kin.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks/hugging_face.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/implementation.hpp>

namespace gpuplan {
namespace code_names {
inline constexpr code_name falcon{"falcon"};
inline constexpr code_name bloom{"bloom"};
inline constexpr code_name mpt{"mpt"};
}  // namespace code_names

namespace detail {
// One matrix for query, key and value, and an MLP without a gate.
constexpr failure flaw_with_alibi(const transformer& model,
                                  const implementation& as,
                                  bool has_bias,
                                  bool is_falcon) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_decoders(model, as, false); failed(why)) return why;
  if (const failure why = flaw_of_heads(model, as); failed(why)) return why;
  if (const failure why = flaw_unless(
          {{{fact::gated_mlp, model.gated_mlp}, false},
           {{fact::norm, model.norm}, static_cast<std::int64_t>(norm_kind::layer_norm)},
           {{fact::norm_bias, model.norm_bias}, has_bias},
           {{fact::norm_affine, model.norm_affine}, true},
           {{fact::fused_qkv, model.fused_qkv}, true},
           {{fact::attention_out_bias, model.attention_out_bias},
            is_falcon ? model.attention_bias : has_bias},
           {{fact::mlp_bias, model.mlp_bias}, is_falcon ? model.attention_bias : has_bias}},
          layers);
      failed(why))
    return why;
  if (!is_falcon)
    if (const failure why = flaw_unless(
            {{{fact::attention_bias, model.attention_bias}, has_bias},
             {{fact::embedding_norm, model.embedding_norm}, has_bias},
             {{fact::parallel_attention, model.parallel_attention}, false},
             {{fact::num_key_value_heads, model.key_value_heads()}, model.num_attention_heads}},
            layers);
        failed(why))
      return why;
  if (is_falcon && model.alibi_positions == 0)
    if (const failure why = flaw_of_rotation(model, as, true); failed(why)) return why;
  if (!is_falcon && model.alibi_positions == 0)
    return without_code({{fact::alibi_positions, 0}, layers, {fact::takes, 1}});
  return flaw_if_any({{fact::norm_at, model.norm_at},
                      {fact::embedding_norm, is_falcon && model.embedding_norm},
                      {fact::position_rows, model.position_rows},
                      {fact::qk_norm, model.qk_norm},
                      {fact::sliding_window, model.sliding_window}},
                     layers);
}
constexpr failure flaw_of_falcon(const transformer& model, const implementation& as) {
  return flaw_with_alibi(model, as, true, true);
}
constexpr failure flaw_of_bloom(const transformer& model, const implementation& as) {
  return flaw_with_alibi(model, as, true, false);
}
constexpr failure flaw_of_mpt(const transformer& model, const implementation& as) {
  return flaw_with_alibi(model, as, false, false);
}
}  // namespace detail

namespace layer_classes {
/// Hugging Face's Falcon, BLOOM and MPT.
inline constexpr layer_class falcon{
    .name = &code_names::falcon, .flaw_of = detail::flaw_of_falcon, .code = &eager::library_code};
inline constexpr layer_class bloom{.name = &code_names::bloom,
                                   .flaw_of = detail::flaw_of_bloom,
                                   .code = &eager::library_code,
                                   .has_flash = false,
                                   .counts_work = true};
inline constexpr layer_class mpt{.name = &code_names::mpt,
                                 .flaw_of = detail::flaw_of_mpt,
                                 .code = &eager::library_code,
                                 .has_flash = false,
                                 .counts_work = true};
}  // namespace layer_classes
}  // namespace gpuplan

namespace gpuplan::catalog {

namespace decoders {
// What classes copied from LLaMA's have, but for what their options say.
constexpr framework kin_of_llama(const char* name, const decoder_options& options) {
  framework made = hugging_face_llama;
  made.name = name;
  made.implementation.decoder = options;
  return made;
}
// Likewise, with RMS norms of another kind.
constexpr framework kin_of_llama(const char* name,
                                 rms_norm_kind norm,
                                 const decoder_options& options) {
  framework made = kin_of_llama(name, options);
  made.implementation.rms_norm = norm;
  return made;
}
}  // namespace decoders

/// Olmo3ForCausalLM.
inline constexpr framework hugging_face_olmo_3 =
    decoders::kin_of_llama("transformers, Olmo3ForCausalLM",
                           rms_norm_kind::eager_whole,
                           {.masks_by_kind = true,
                            .rotates_by_kind = true,
                            .rotates_in_fp32 = true,
                            .views_behind_projections = true});

/// ArceeForCausalLM.
inline constexpr framework hugging_face_arcee =
    decoders::kin_of_llama("transformers, ArceeForCausalLM", {.has_plain_mlp = true});

/// Ministral3ForCausalLM.
inline constexpr framework hugging_face_ministral_3 =
    decoders::kin_of_llama("transformers, Ministral3ForCausalLM", {.scales_queries = true});

/// Jais2ForCausalLM.
inline constexpr framework hugging_face_jais_2 = decoders::kin_of_llama(
    "transformers, Jais2ForCausalLM", {.has_layer_norms = true, .has_plain_mlp = true});

/// CwmForCausalLM.
inline constexpr framework hugging_face_cwm = decoders::kin_of_llama(
    "transformers, CwmForCausalLM", {.masks_by_kind = true, .makes_both_masks = true});

/// VaultGemmaForCausalLM.
inline constexpr framework hugging_face_vault_gemma = [] {
  framework changed = hugging_face_gemma_2;
  changed.name = "transformers, VaultGemmaForCausalLM";
  changed.implementation.decoder.norms_around = false;
  return changed;
}();

/// GraniteForCausalLM.
inline constexpr framework hugging_face_granite = decoders::kin_of_llama(
    "transformers, GraniteForCausalLM",
    {.multiplies_embedding = true, .multiplies_residual = true, .multiplies_logits = true});

/// SeedOssForCausalLM.
inline constexpr framework hugging_face_seed_oss = decoders::kin_of_llama(
    "transformers, SeedOssForCausalLM", {.drops_residual = true, .drops_within = true});

/// Exaone4ForCausalLM.
inline constexpr framework hugging_face_exaone_4 =
    decoders::kin_of_llama("transformers, Exaone4ForCausalLM",
                           {.norms_outputs = true,
                            .norms_heads = true,
                            .masks_by_kind = true,
                            .normalizes_turned_heads = true});

/// HunYuanDenseV1ForCausalLM.
inline constexpr framework hugging_face_hunyuan =
    decoders::kin_of_llama("transformers, HunYuanDenseV1ForCausalLM",
                           {.norms_heads = true, .normalizes_rotated_heads = true});

/// HeliumForCausalLM.
inline constexpr framework hugging_face_helium =
    decoders::kin_of_llama("transformers, HeliumForCausalLM",
                           rms_norm_kind::eager_raised,
                           {.rotary_pairs = rotary_pairs_kind::neighbours});

/// Ernie4_5ForCausalLM.
inline constexpr framework hugging_face_ernie_4_5 = decoders::kin_of_llama(
    "transformers, Ernie4_5ForCausalLM",
    {.rotates_in_fp32 = true, .rotary_pairs = rotary_pairs_kind::neighbours});

/// GlmForCausalLM, which rotates half of each head,
inline constexpr framework hugging_face_glm =
    decoders::kin_of_llama("transformers, GlmForCausalLM",
                           {.fuses_gate_up = true,
                            .rotary_parts = rotary_parts_kind::behind_rotation,
                            .rotary_pairs = rotary_pairs_kind::neighbours,
                            .rotary_percent = 50});

/// and Glm4ForCausalLM.
inline constexpr framework hugging_face_glm_4 =
    decoders::kin_of_llama("transformers, Glm4ForCausalLM",
                           {.norms_around = true,
                            .fuses_gate_up = true,
                            .rotary_parts = rotary_parts_kind::behind_rotation,
                            .rotary_pairs = rotary_pairs_kind::neighbours,
                            .rotary_percent = 50});

/// CohereForCausalLM,
inline constexpr framework hugging_face_cohere =
    decoders::kin_of_llama("transformers, CohereForCausalLM",
                           {.has_layer_norms = true,
                            .runs_in_parallel = true,
                            .rotary_pairs = rotary_pairs_kind::neighbours_of_table,
                            .normalizes_each_head = true,
                            .adds_to_residual = true,
                            .multiplies_logits = true,
                            .layer_norm = layer_norm_kind::eager});

/// and Cohere2ForCausalLM.
inline constexpr framework hugging_face_cohere_2 =
    decoders::kin_of_llama("transformers, Cohere2ForCausalLM",
                           {.has_layer_norms = true,
                            .runs_in_parallel = true,
                            .masks_by_kind = true,
                            .rotary_pairs = rotary_pairs_kind::neighbours_of_table,
                            .adds_to_residual = true,
                            .multiplies_logits = true,
                            .layer_norm = layer_norm_kind::eager});

/// Starcoder2ForCausalLM.
inline constexpr framework hugging_face_starcoder_2 =
    decoders::kin_of_llama("transformers, Starcoder2ForCausalLM",
                           {.has_layer_norms = true,
                            .has_plain_mlp = true,
                            .drops_embedding = true,
                            .holds_undropped_embedding = true,
                            .drops_residual = true,
                            .drops_within = true});

/// StableLmForCausalLM, which rotates a quarter of each head.
inline constexpr framework hugging_face_stablelm =
    decoders::kin_of_llama("transformers, StableLmForCausalLM",
                           {.has_layer_norms = true,
                            .runs_in_parallel = true,
                            .rotary_parts = rotary_parts_kind::in_attention,
                            .rotary_percent = 25,
                            .views_behind_projections = true,
                            .drops_mlp_alone = true,
                            .holds_attention = true,
                            .has_norm_of_each_head = true,
                            .adds_to_residual = true});

/// NemotronForCausalLM, which rotates half of each head.
inline constexpr framework hugging_face_nemotron =
    decoders::kin_of_llama("transformers, NemotronForCausalLM",
                           {.has_layer_norms = true,
                            .has_plain_mlp = true,
                            .rotary_parts = rotary_parts_kind::returned,
                            .rotary_percent = 50,
                            .layer_norm = layer_norm_kind::fused_shifted});

/// FalconForCausalLM, BloomForCausalLM, MptForCausalLM.
inline constexpr framework hugging_face_falcon{.name = "transformers, FalconForCausalLM",
                                               .implementation = {.layers = &layer_classes::falcon},
                                               .costs = eager_costs};
inline constexpr framework hugging_face_bloom{
    .name = "transformers, BloomForCausalLM",
    .implementation = {.layers = &layer_classes::bloom, .has_sdpa = false},
    .costs = eager_costs};
inline constexpr framework hugging_face_mpt{
    .name = "transformers, MptForCausalLM",
    .implementation = {.layers = &layer_classes::mpt,
                       .has_sdpa = false,
                       .decoder = {.clips_projections = true}},
    .costs = eager_costs};

inline constexpr listed_framework decoder_frameworks[] = {
    {&hugging_face_falcon, "falcon", {"falcon"}},
    {&hugging_face_bloom, "bloom", {"bloom"}},
    {&hugging_face_mpt, "mpt", {"mpt"}},
    {&hugging_face_olmo_3, "olmo-3", {"olmo-3", "olmo3"}},
    {&hugging_face_arcee, "arcee", {"arcee", "afm-"}},
    {&hugging_face_ministral_3, "ministral-3", {"ministral3", "ministral-3"}},
    {&hugging_face_jais_2, "jais-2", {"jais2", "jais-2"}},
    {&hugging_face_cwm, "cwm", {"cwm"}},
    {&hugging_face_vault_gemma, "vault-gemma", {"vaultgemma"}},
    {&hugging_face_granite, "granite", {"granite"}},
    {&hugging_face_seed_oss, "seed-oss", {"seed-oss", "seed_oss", "seedoss"}},
    {&hugging_face_exaone_4, "exaone-4", {"exaone4", "exaone-4"}},
    {&hugging_face_hunyuan, "hunyuan", {"hunyuan_v1_dense", "hunyuandensev1"}},
    {&hugging_face_helium, "helium", {"helium"}},
    {&hugging_face_ernie_4_5, "ernie-4.5", {"ernie4_5", "ernie-4.5"}},
    {&hugging_face_glm, "glm", {"glm"}},
    {&hugging_face_glm_4, "glm-4", {"glm4", "glm-4"}},
    {&hugging_face_cohere, "cohere", {"cohere", "command-r"}},
    {&hugging_face_cohere_2, "cohere-2", {"cohere2", "command-a"}},
    {&hugging_face_starcoder_2, "starcoder-2", {"starcoder2"}},
    {&hugging_face_stablelm, "stablelm", {"stablelm"}},
    {&hugging_face_nemotron, "nemotron", {"nemotron", "minitron"}},
};

}  // namespace gpuplan::catalog
