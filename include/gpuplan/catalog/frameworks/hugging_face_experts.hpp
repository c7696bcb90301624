#pragma once

// Mixtures of experts of Hugging Face's transformers 5.23, with `experts_implementation`
// "grouped_mm", on one device.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks/hugging_face.hpp>
#include <gpuplan/detail/flaws.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/implementation.hpp>
#include <gpuplan/layer_classes.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/result.hpp>

namespace gpuplan {
namespace code_names {
inline constexpr code_name mixture{"mixture"};
inline constexpr code_name latent{"latent"};
inline constexpr code_name deepseek_v2{"deepseek_v2"};
inline constexpr code_name gpt_oss{"gpt_oss"};
inline constexpr code_name llama4{"llama4"};
inline constexpr code_name ernie_moe{"ernie_moe"};
inline constexpr code_name granite_moe{"granite_moe"};
inline constexpr code_name hunyuan_moe{"hunyuan_moe"};
}  // namespace code_names

namespace detail {
// LLaMA's layers, some of them with experts, and what the class says it has beside.
constexpr failure flaw_of_mixture(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  const expert_mixture& moe = model.moe;
  const bool is_ernie = as.layers->name == &code_names::ernie_moe;
  const bool is_llama4 = as.layers->name == &code_names::llama4;
  const bool is_hunyuan = as.layers->name == &code_names::hunyuan_moe;
  const bool is_gpt_oss = as.layers->name == &code_names::gpt_oss;
  const bool is_latent =
      as.layers->name == &code_names::latent || as.layers->name == &code_names::deepseek_v2;
  const bool in_groups = as.experts.router == router_kind::sigmoid_in_groups;
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  if (const failure why = flaw_unless(
          {{{fact::head, model.head}, number(head_kind::language_model)},
           {{fact::norm, model.norm}, number(norm_kind::rms_norm)},
           {{fact::norm_at, model.norm_at},
            number(as.rms_norm == rms_norm_kind::eager_whole && !is_gpt_oss
                       ? norm_position::after_sublayer
                       : norm_position::before)},
           {{fact::norm_affine, model.norm_affine}, true},
           {{fact::norms_per_layer, model.norms_per_layer}, 2},
           {{fact::final_norm, model.final_norm}, true},
           {{fact::gated_mlp, model.gated_mlp}, true},
           {{fact::attention_sinks, model.attention_sinks}, is_gpt_oss},
           {{fact::mlp_bias, model.mlp_bias}, is_gpt_oss},
           {{fact::clamped_gate_up, model.clamped_gate_up}, is_gpt_oss},
           {{fact::use_qk_norm, model.chunks.use_qk_norm}, is_llama4 && model.chunks.use_qk_norm},
           {{fact::attn_temperature_tuning, model.chunks.attn_temperature_tuning},
            is_llama4 && model.chunks.attn_temperature_tuning},
           {{fact::router_bias, moe.router_bias},
            is_gpt_oss || is_ernie || as.experts.corrects_choice}},
          layers);
      failed(why))
    return why;
  if (const failure why =
          flaw_if_any({{fact::fused_qkv, model.fused_qkv},
                       {fact::fused_gate_up, model.fused_gate_up},
                       {fact::clip_qkv, model.clip_qkv && !as.decoder.clips_projections},
                       {fact::parallel_attention, model.parallel_attention},
                       {fact::attention_gate, model.attention_gate},
                       {fact::hybrid_pattern, model.hybrid_pattern.size()},
                       {fact::full_attention_interval, model.full_attention_interval},
                       {fact::position_rows, model.position_rows},
                       {fact::embedding_norm, model.embedding_norm},
                       {fact::embedding_dim, model.embedding_dim},
                       {fact::type_vocab_size, model.type_vocab_size},
                       {fact::relative_attention_buckets, model.relative_attention_buckets},
                       {fact::layer_scale, model.layer_scale},
                       {fact::norm_bias, model.norm_bias},
                       {fact::pooler, model.pooler},
                       {fact::head_dense, model.head_dense},
                       {fact::head_norm, model.head_norm},
                       {fact::transformer_engine, as.transformer_engine}},
                      layers);
      failed(why))
    return why;
  const bool rotates_all = as.decoder.rotary_parts == rotary_parts_kind::none;
  if (const failure why = flaw_of_rotation(model, as, rotates_all); failed(why)) return why;
  if (moe.num_experts == 0)
    return without_code({{fact::num_experts, 0}, layers, {fact::at_least, 1}});
  if (is_latent && !model.is_latent())
    return without_code({{fact::kv_lora_rank, 0}, layers, {fact::at_least, 1}});
  // One flag for what leads down and for the output.
  if (is_latent)
    if (const failure why = flaw_unless(
            {{{fact::attention_out_bias, model.attention_out_bias}, model.attention_bias},
             {{fact::qk_norm, model.qk_norm}, number(qk_norm_scope::none)}},
            layers);
        failed(why))
      return why;
  if (!is_latent && model.is_latent())
    return flaw_if_any({{fact::kv_lora_rank, model.mla.kv_lora_rank}}, layers);
  if (as.layers->name == &code_names::granite_moe) {
    if (const failure why = flaw_if_any({{fact::shared_expert_gate, moe.shared_expert_gate},
                                         {fact::first_k_dense_layers, moe.first_k_dense_layers}},
                                        layers);
        failed(why))
      return why;
  }
  const bool is_qwen2 = as.layers->name == &code_names::mixture &&
                        as.experts.shared == shared_kind::first &&
                        moe.shared_expert_intermediate_size != 0;
  if (is_qwen2 && !moe.shared_expert_gate)
    return without_code({{fact::shared_expert_gate, false}, layers, {fact::takes, true}});
  if (is_llama4 || is_hunyuan) {
    if (const failure why =
            flaw_if_any({{fact::shared_expert_gate, moe.shared_expert_gate}}, layers);
        failed(why))
      return why;
  }
  if (is_hunyuan && model.qk_norm != qk_norm_scope::head)
    return without_code(
        {{fact::qk_norm, model.qk_norm}, layers, {fact::takes, qk_norm_scope::head}});
  if (is_llama4 && model.qk_norm != qk_norm_scope::none)
    return without_code(
        {{fact::qk_norm, model.qk_norm}, layers, {fact::takes, qk_norm_scope::none}});
  if ((is_hunyuan || is_llama4) && moe.shared_expert_intermediate_size == 0)
    return without_code({{fact::shared_expert_intermediate_size, 0}, layers, {fact::at_least, 1}});
  if (moe.shared_expert_intermediate_size != 0 && as.experts.shared == shared_kind::none)
    return flaw_if_any(
        {{fact::shared_expert_intermediate_size, moe.shared_expert_intermediate_size}}, layers);
  if (!in_groups && as.experts.router != router_kind::softmax_in_fp32) return {};
  const std::int64_t groups = moe.n_group != 0 ? moe.n_group : 1;
  if (const failure why =
          flaw_if_no_multiple({{fact::num_experts, moe.num_experts}}, {fact::n_group, groups});
      failed(why))
    return why;
  if (moe.topk_group > groups)
    return failure(errc::out_of_bounds,
                   named_fact{fact::topk_group, moe.topk_group},
                   named_fact{fact::at_most, groups});
  if (in_groups && moe.num_experts / groups < 2)
    return without_code({{fact::n_group, groups},
                         {fact::num_experts, moe.num_experts},
                         {fact::at_most, moe.num_experts / 2}});
  return {};
}
}  // namespace detail

namespace layer_classes {
/// Hugging Face's mixtures of experts whose attention is a LLaMA's.
inline constexpr layer_class mixture{.name = &code_names::mixture,
                                     .flaw_of = detail::flaw_of_mixture,
                                     .code = &eager::library_code,
                                     .adapts_experts = true,
                                     .repeats_layers = false};
/// Those with latent attention.
inline constexpr layer_class latent{.name = &code_names::latent,
                                    .flaw_of = detail::flaw_of_mixture,
                                    .code = &eager::library_code,
                                    .adapts_experts = true,
                                    .repeats_layers = false};
/// DeepSeek-V2.
inline constexpr layer_class deepseek_v2{.name = &code_names::deepseek_v2,
                                         .flaw_of = detail::flaw_of_mixture,
                                         .code = &eager::library_code,
                                         .repeats_layers = false};
/// Llama 4.
inline constexpr layer_class llama4{.name = &code_names::llama4,
                                    .flaw_of = detail::flaw_of_mixture,
                                    .code = &eager::library_code,
                                    .repeats_layers = false};
/// ERNIE's experts.
inline constexpr layer_class ernie_moe{.name = &code_names::ernie_moe,
                                       .flaw_of = detail::flaw_of_mixture,
                                       .code = &eager::library_code,
                                       .repeats_layers = false};
/// Granite's experts,
inline constexpr layer_class granite_moe{.name = &code_names::granite_moe,
                                         .flaw_of = detail::flaw_of_mixture,
                                         .code = &eager::library_code,
                                         .repeats_layers = false};
/// and HunYuan's.
inline constexpr layer_class hunyuan_moe{.name = &code_names::hunyuan_moe,
                                         .flaw_of = detail::flaw_of_mixture,
                                         .code = &eager::library_code,
                                         .repeats_layers = false};
/// gpt-oss.
inline constexpr layer_class gpt_oss{.name = &code_names::gpt_oss,
                                     .flaw_of = detail::flaw_of_mixture,
                                     .code = &eager::library_code,
                                     .has_flash = false,
                                     .adapts_experts = true,
                                     .repeats_layers = false};
}  // namespace layer_classes

namespace catalog {

namespace experts_of {
// What most of them are made of; each says what it does in another way.
constexpr implementation like_llama(const expert_options& experts,
                                    const decoder_options& decoder = {}) {
  return {.layers = &layer_classes::mixture,
          .rms_norm = rms_norm_kind::eager,
          .rotary = rotary_kind::rotate_half,
          .logits = logits_kind::to_fp32,
          .decoder = decoder,
          .experts = experts};
}
}  // namespace experts_of

/// MixtralForCausalLM,
inline constexpr framework hugging_face_mixtral{
    .name = "transformers, MixtralForCausalLM",
    .implementation =
        experts_of::like_llama({.casts_logits = true, .normalizes = true, .balances = true}),
    .costs = eager_decoder};

/// Qwen2MoeForCausalLM,
inline constexpr framework hugging_face_qwen2_moe{
    .name = "transformers, Qwen2MoeForCausalLM",
    .implementation = experts_of::like_llama({.casts_weights = true,
                                              .shared = shared_kind::first,
                                              .balances = true,
                                              .never_adapted = true},
                                             {.masks_by_kind = true, .makes_both_masks = true}),
    .costs = eager_decoder};

/// Qwen3MoeForCausalLM,
inline constexpr framework hugging_face_qwen3_moe{
    .name = "transformers, Qwen3MoeForCausalLM",
    .implementation = experts_of::like_llama(
        {.casts_weights = true, .builds_experts_first = true, .balances = true}),
    .costs = eager_decoder};

/// OlmoeForCausalLM.
inline constexpr framework hugging_face_olmoe{
    .name = "transformers, OlmoeForCausalLM",
    .implementation =
        experts_of::like_llama({.casts_weights = true, .balances = true},
                               {.views_behind_projections = true, .clips_projections = true}),
    .costs = eager_decoder};

namespace experts_of {
// DeepSeek-V3's experts, which many have.
inline constexpr expert_options deepseek{.router = router_kind::sigmoid_in_groups,
                                         .corrects_choice = true,
                                         .builds_experts_first = true,
                                         .shared = shared_kind::last};
constexpr implementation like_deepseek(const layer_class& layers, const expert_options& experts) {
  implementation changed = like_llama(experts);
  changed.layers = &layers;
  return changed;
}
}  // namespace experts_of

/// DeepseekV2ForCausalLM,
inline constexpr framework hugging_face_deepseek_v2{
    .name = "transformers, DeepseekV2ForCausalLM",
    .implementation = experts_of::like_deepseek(layer_classes::deepseek_v2,
                                                {.router = router_kind::softmax_in_fp32,
                                                 .builds_experts_first = true,
                                                 .shared = shared_kind::last}),
    .costs = eager_decoder};

/// DeepseekV3ForCausalLM, Glm4MoeLiteForCausalLM,
inline constexpr framework hugging_face_deepseek_v3{
    .name = "transformers, DeepseekV3ForCausalLM",
    .implementation = experts_of::like_deepseek(layer_classes::latent, experts_of::deepseek),
    .costs = eager_decoder};

/// Dots1ForCausalLM, SolarOpenForCausalLM,
inline constexpr framework hugging_face_dots1{
    .name = "transformers, Dots1ForCausalLM",
    .implementation = experts_of::like_llama(experts_of::deepseek, {.masks_by_kind = true}),
    .costs = eager_decoder};

/// FlexOlmoForCausalLM.
inline constexpr framework hugging_face_flex_olmo{
    .name = "transformers, FlexOlmoForCausalLM",
    .implementation =
        [] {
          implementation changed =
              experts_of::like_llama({.casts_weights = true, .balances = true},
                                     {.rotates_in_fp32 = true, .views_behind_projections = true});
          changed.rms_norm = rms_norm_kind::eager_whole;
          return changed;
        }(),
    .costs = eager_decoder};

/// GptOssForCausalLM.
inline constexpr framework hugging_face_gpt_oss{
    .name = "transformers, GptOssForCausalLM",
    .implementation = {.layers = &layer_classes::gpt_oss,
                       .rms_norm = rms_norm_kind::eager_whole,
                       .rotary = rotary_kind::rotate_half,
                       .logits = logits_kind::to_fp32,
                       .has_sdpa = false,
                       .decoder = {.masks_by_kind = true, .makes_both_masks = true},
                       .experts = {.router = router_kind::softmax_of_chosen,
                                   .is_transposed = true,
                                   .balances = true,
                                   .never_adapted = true}},
    .costs = eager_decoder};

/// Glm4MoeForCausalLM, which rotates half of each head,
inline constexpr framework hugging_face_glm4_moe{
    .name = "transformers, Glm4MoeForCausalLM",
    .implementation = experts_of::like_llama(
        experts_of::deepseek,
        {.rotary_parts = rotary_parts_kind::behind_rotation, .rotary_percent = 50}),
    .costs = eager_decoder};

/// MiniMaxM2ForCausalLM.
inline constexpr framework hugging_face_minimax_m2{
    .name = "transformers, MiniMaxM2ForCausalLM",
    .implementation = experts_of::like_llama(
        {.router = router_kind::sigmoid, .corrects_choice = true, .balances = true},
        {.rotary_parts = rotary_parts_kind::behind_rotation, .views_behind_projections = true}),
    .costs = eager_decoder};

/// Llama4ForCausalLM.
inline constexpr framework hugging_face_llama4{
    .name = "transformers, Llama4ForCausalLM",
    .implementation =
        [] {
          implementation changed = experts_of::like_llama(
              {.builds_experts_first = true, .is_transposed = true, .shared = shared_kind::first},
              {.masks_by_kind = true, .makes_both_masks = true});
          changed.layers = &layer_classes::llama4;
          return changed;
        }(),
    .costs = eager_decoder};

/// GraniteMoeForCausalLM, GraniteMoeSharedForCausalLM,
inline constexpr framework hugging_face_granite_moe{
    .name = "transformers, GraniteMoeForCausalLM",
    .implementation = experts_of::like_deepseek(layer_classes::granite_moe,
                                                {.router = router_kind::softmax_of_chosen,
                                                 .casts_logits = true,
                                                 .casts_weights = true,
                                                 .shared = shared_kind::first,
                                                 .balances = true,
                                                 .never_adapted = true}),
    .costs = eager_decoder};

/// Ernie4_5_MoeForCausalLM.
inline constexpr framework hugging_face_ernie_moe{
    .name = "transformers, Ernie4_5_MoeForCausalLM",
    .implementation =
        [] {
          implementation changed = experts_of::like_llama(
              {.shared = shared_kind::first, .balances = true}, {.rotates_in_fp32 = true});
          changed.layers = &layer_classes::ernie_moe;
          return changed;
        }(),
    .costs = eager_decoder};

/// HunYuanMoEV1ForCausalLM.
inline constexpr framework hugging_face_hunyuan_moe{
    .name = "transformers, HunYuanMoEV1ForCausalLM",
    .implementation = experts_of::like_deepseek(
        layer_classes::hunyuan_moe,
        {.casts_weights = true, .shared = shared_kind::first, .normalizes = true}),
    .costs = eager_decoder};

inline constexpr listed_framework mixture_frameworks[] = {
    {&hugging_face_mixtral, "mixtral", {"mixtral"}},
    {&hugging_face_deepseek_v2, "deepseek-v2", {"deepseek_v2", "deepseekv2", "deepseek-v2"}},
    {&hugging_face_deepseek_v3,
     "deepseek-v3",
     {"deepseek_v3",
      "deepseekv3",
      "deepseek-v3",
      "deepseek-r1",
      "kimi-k2",
      "moonlight",
      "glm4_moe_lite",
      "glm4moelite"}},
    {&hugging_face_dots1, "dots1", {"dots1", "solar_open", "solaropen"}},
    {&hugging_face_flex_olmo, "flex-olmo", {"flex_olmo", "flexolmo"}},
    {&hugging_face_gpt_oss, "gpt-oss", {"gpt_oss", "gpt-oss", "gptoss"}},
    {&hugging_face_glm4_moe, "glm4-moe", {"glm4_moe", "glm4moe", "glm-4.5"}},
    {&hugging_face_ernie_moe, "ernie-moe", {"ernie4_5_moe", "ernie-4.5-21b-a3b"}},
    {&hugging_face_granite_moe,
     "granite-moe",
     {"granitemoe", "granite-3.1-1b-a400m", "granite-3.1-3b-a800m"}},
    {&hugging_face_hunyuan_moe, "hunyuan-moe", {"hunyuan_v1_moe", "hunyuanmoev1"}},
    {&hugging_face_llama4, "llama4", {"llama4"}},
    {&hugging_face_minimax_m2, "minimax-m2", {"minimax_m2", "minimaxm2"}},
    {&hugging_face_olmoe, "olmoe", {"olmoe"}},
    {&hugging_face_qwen2_moe, "qwen2-moe", {"qwen2_moe", "qwen2moe", "qwen1.5-moe"}},
    {&hugging_face_qwen3_moe,
     "qwen3-moe",
     {"qwen3_moe", "qwen3moe", "qwen3-30b-a3b", "qwen3-235b-a22b", "qwen3-coder-480b-a35b"}}};

}  // namespace catalog
}  // namespace gpuplan
