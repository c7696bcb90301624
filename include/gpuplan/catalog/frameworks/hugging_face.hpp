#pragma once

// Decoders of Hugging Face's transformers 5.23, and its T5.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/detail/flaws.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/implementation.hpp>
#include <gpuplan/layer_classes.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {
namespace code_names {
inline constexpr code_name gpt2{"gpt2"};
inline constexpr code_name gpt_bigcode{"gpt_bigcode"};
inline constexpr code_name opt{"opt"};
inline constexpr code_name gpt_neox{"gpt_neox"};
inline constexpr code_name gptj{"gptj"};
inline constexpr code_name t5{"t5"};
inline constexpr code_name decoder{"decoder"};
}  // namespace code_names

namespace detail {

// One matrix for each of query, key and value, of as many heads, and layer norms with biases.
constexpr failure flaw_of_first_decoders(const transformer& model,
                                         const implementation& as,
                                         bool has_table,
                                         bool is_gptj,
                                         bool is_neox,
                                         bool fuses_qkv) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_lone_decoders(model, as, has_table); failed(why)) return why;
  if (const failure why = flaw_of_heads(model, as); failed(why)) return why;
  const bool is_parallel = is_gptj || is_neox;
  if (const failure why = flaw_unless(
          {{{fact::gated_mlp, model.gated_mlp}, false},
           {{fact::norm, model.norm}, static_cast<std::int64_t>(norm_kind::layer_norm)},
           {{fact::norm_bias, model.norm_bias}, true},
           {{fact::norm_affine, model.norm_affine}, true},
           {{fact::parallel_attention, model.parallel_attention},
            is_neox ? model.parallel_attention : is_gptj},
           {{fact::norms_per_layer, model.norms_per_layer}, is_gptj ? 1 : 2},
           {{fact::fused_qkv, model.fused_qkv}, fuses_qkv},
           {{fact::num_key_value_heads, model.key_value_heads()}, model.num_attention_heads},
           {{fact::mlp_bias, model.mlp_bias}, true}},
          layers);
      failed(why))
    return why;
  if (const failure why = flaw_unless({{{fact::attention_bias, model.attention_bias},
                                        is_neox ? model.attention_bias : !is_gptj},
                                       {{fact::attention_out_bias, model.attention_out_bias},
                                        is_neox ? model.attention_bias : !is_gptj}},
                                      layers);
      failed(why))
    return why;
  if (is_parallel)
    if (const failure why = flaw_of_rotation(model, as, false); failed(why)) return why;
  return flaw_if_any({{fact::norm_at, model.norm_at},
                      {fact::qk_norm, model.qk_norm},
                      {fact::sliding_window, model.sliding_window}},
                     layers);
}

constexpr failure flaw_of_gpt2(const transformer& model, const implementation& as) {
  return flaw_of_first_decoders(model, as, true, false, false, true);
}
constexpr failure flaw_of_gpt_bigcode(const transformer& model, const implementation& as) {
  transformer alike = model;
  if (model.key_value_heads() == 1) alike.num_key_value_heads = model.num_attention_heads;
  return flaw_of_first_decoders(alike, as, true, false, false, true);
}
// That of 350 M has narrow embeddings, norms behind what it adds, and none behind its layers.
constexpr failure flaw_of_opt(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  transformer alike = model;
  alike.final_norm = true;
  if (!model.mlp_bias && !model.attention_bias && !model.attention_out_bias)
    alike.mlp_bias = alike.attention_bias = alike.attention_out_bias = true;
  if (model.norm_at == norm_position::after_residual) {
    alike.norm_at = norm_position::before;
    if (const failure why = flaw_if_any({{fact::final_norm, model.final_norm}}, layers);
        failed(why))
      return why;
  }
  if (model.embedding_dim != 0) {
    alike.embedding_dim = 0;
    if (const failure why = flaw_unless({{{fact::tied_embeddings, model.tied_embeddings}, true}},
                                        {fact::embedding_dim, model.embedding_dim});
        failed(why))
      return why;
  }
  return flaw_of_first_decoders(alike, as, true, false, false, false);
}
constexpr failure flaw_of_gpt_neox(const transformer& model, const implementation& as) {
  return flaw_of_first_decoders(model, as, false, false, true, true);
}
constexpr failure flaw_of_gptj(const transformer& model, const implementation& as) {
  return flaw_of_first_decoders(model, as, false, true, false, false);
}

// Liger has functions for LLaMA's and Mistral's code, and for Qwen2's and Qwen3's.
constexpr failure flaw_of_liger(const transformer& model, const implementation& as) {
  constexpr decoder_options llama{};
  constexpr decoder_options qwen{.norms_heads = true, .masks_by_kind = true};
  const named_fact liger{fact::liger_kernels, true};
  if (as.rms_norm != rms_norm_kind::eager || as.rotary != rotary_kind::rotate_half ||
      (as.decoder != llama && as.decoder != qwen))
    return without_code({{fact::layers, as.layers->name}, liger, {fact::takes, false}});
  if (model.hidden_act != activation_function::silu)
    return without_code(
        {{fact::hidden_act, model.hidden_act}, liger, {fact::takes, activation_function::silu}});
  return flaw_if_any({{fact::lm_head_bias, model.lm_head_bias}}, liger);
}

// LlamaForCausalLM and its kin, told apart by what their implementations say.
constexpr failure flaw_of_decoder(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_lone_decoders(model, as); failed(why)) return why;
  const decoder_options& code = as.decoder;
  const bool is_olmo = as.rms_norm == rms_norm_kind::eager_whole;
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  const norm_position norms = code.norms_around    ? norm_position::around
                              : code.norms_outputs ? norm_position::after_sublayer
                                                   : norm_position::before;
  if (!is_olmo)
    if (const failure why = flaw_unless(
            {{{fact::norm, model.norm},
              number(code.has_layer_norms ? norm_kind::layer_norm : norm_kind::rms_norm)},
             {{fact::norm_affine, model.norm_affine}, true},
             {{fact::norm_at, model.norm_at}, number(norms)}},
            layers);
        failed(why))
      return why;
  if (model.norm_at == norm_position::after_residual || (is_olmo && model.norms_per_layer != 2))
    return without_code(
        {{fact::norm_at, model.norm_at}, layers, {fact::takes, norm_position::before}});
  const bool has_such_norms =
      model.qk_norm == qk_norm_scope::none ||
      (model.qk_norm == qk_norm_scope::full_width
           ? is_olmo || code.normalizes_each_head || code.has_norm_of_each_head
           : code.norms_heads);
  if (!has_such_norms)
    return without_code(
        {{fact::qk_norm, model.qk_norm}, layers, {fact::takes, qk_norm_scope::none}});
  if (model.parallel_attention && !code.runs_in_parallel)
    return flaw_if_any({{fact::parallel_attention, true}}, layers);
  if (model.parallel_attention)
    if (const failure why =
            flaw_unless({{{fact::norms_per_layer, model.norms_per_layer}, 1}}, layers);
        failed(why))
      return why;
  const bool rotates_all = code.rotary_parts == rotary_parts_kind::none;
  if (const failure why = flaw_of_rotation(model, as, rotates_all); failed(why)) return why;
  if (as.liger_kernels)
    if (const failure why = flaw_of_liger(model, as); failed(why)) return why;
  if (as.cut_cross_entropy)
    if (const failure why = flaw_if_any({{fact::lm_head_bias, model.lm_head_bias}},
                                        {fact::cut_cross_entropy, true});
        failed(why))
      return why;
  if (code.layer_norm == layer_norm_kind::eager)
    if (const failure why = flaw_if_any({{fact::norm_bias, model.norm_bias}}, layers); failed(why))
      return why;
  return flaw_unless({{{fact::gated_mlp, model.gated_mlp}, !code.has_plain_mlp},
                      {{fact::fused_qkv, model.fused_qkv}, code.fuses_qkv},
                      {{fact::fused_gate_up, model.fused_gate_up}, code.fuses_gate_up}},
                     layers);
}

// Where a token stands, a table of distances alone says.
constexpr failure flaw_of_t5(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  if (model.relative_attention_buckets == 0)
    return without_code({{fact::relative_attention_buckets, 0}, layers, {fact::at_least, 1}});
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  if (const failure why = flaw_unless(
          {{{fact::head, model.head}, number(head_kind::language_model)},
           {{fact::norm, model.norm}, number(norm_kind::rms_norm)},
           {{fact::norm_at, model.norm_at}, number(norm_position::before)},
           {{fact::final_norm, model.final_norm}, true},
           {{fact::num_key_value_heads, model.key_value_heads()}, model.num_attention_heads}},
          layers);
      failed(why))
    return why;
  if (const failure why = flaw_if_any({{fact::position_rows, model.position_rows},
                                       {fact::type_vocab_size, model.type_vocab_size},
                                       {fact::embedding_norm, model.embedding_norm},
                                       {fact::qk_norm, model.qk_norm},
                                       {fact::parallel_attention, model.parallel_attention},
                                       {fact::fused_qkv, model.fused_qkv},
                                       {fact::fused_gate_up, model.fused_gate_up},
                                       {fact::attention_bias, model.attention_bias},
                                       {fact::attention_out_bias, model.attention_out_bias},
                                       {fact::mlp_bias, model.mlp_bias},
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

}  // namespace detail

namespace layer_classes {
/// Hugging Face's GPT-2: Conv1D.
inline constexpr layer_class gpt2{.name = &code_names::gpt2,
                                  .flaw_of = detail::flaw_of_gpt2,
                                  .code = &eager::library_code,
                                  .has_module_hooks = true,
                                  .joins_samples = true,
                                  .scores_in_tiles = true,
                                  .counts_work = true};
/// Hugging Face's GPT-BigCode.
inline constexpr layer_class gpt_bigcode{.name = &code_names::gpt_bigcode,
                                         .flaw_of = detail::flaw_of_gpt_bigcode,
                                         .code = &eager::library_code,
                                         .counts_work = true};
/// Hugging Face's OPT, GPT-NeoX and GPT-J.
inline constexpr layer_class opt{.name = &code_names::opt,
                                 .flaw_of = detail::flaw_of_opt,
                                 .code = &eager::library_code,
                                 .counts_work = true};
inline constexpr layer_class gpt_neox{.name = &code_names::gpt_neox,
                                      .flaw_of = detail::flaw_of_gpt_neox,
                                      .code = &eager::library_code,
                                      .joins_samples = true,
                                      .scores_in_tiles = true,
                                      .counts_work = true};
inline constexpr layer_class gptj{
    .name = &code_names::gptj, .flaw_of = detail::flaw_of_gptj, .code = &eager::library_code};
/// Hugging Face's T5.
inline constexpr layer_class t5{.name = &code_names::t5,
                                .kind = model_kind::encoder_decoder,
                                .flaw_of = detail::flaw_of_t5,
                                .code = &eager::library_code,
                                .recomputes_periodically = false,
                                .recomputes_first_layers = false,
                                .has_flash = false,
                                .biases_scores = true,
                                .reads_targets = true,
                                .repeats_recomputed_layers = false};
/// Hugging Face's LLaMA and what was copied from it.
inline constexpr layer_class decoder{.name = &code_names::decoder,
                                     .flaw_of = detail::flaw_of_decoder,
                                     .code = &eager::library_code,
                                     .has_module_hooks = true,
                                     .has_fp8_linears = true,
                                     .has_liger_kernels = true,
                                     .cuts_cross_entropy = true,
                                     .joins_samples = true,
                                     .scores_in_tiles = true,
                                     .counts_work = true};
}  // namespace layer_classes

namespace catalog {

/// GPT2LMHeadModel.
inline constexpr framework hugging_face_gpt2{.name = "transformers, GPT2LMHeadModel",
                                             .implementation = {.layers = &layer_classes::gpt2},
                                             .costs = eager_costs};

/// GPTBigCodeForCausalLM.
inline constexpr framework hugging_face_gpt_bigcode{
    .name = "transformers, GPTBigCodeForCausalLM",
    .implementation = {.layers = &layer_classes::gpt_bigcode},
    .costs = eager_costs};

/// OPTForCausalLM.
inline constexpr framework hugging_face_opt{.name = "transformers, OPTForCausalLM",
                                            .implementation = {.layers = &layer_classes::opt},
                                            .costs = eager_costs};

/// GPTNeoXForCausalLM, which rotates a quarter of each head.
inline constexpr framework hugging_face_gpt_neox{
    .name = "transformers, GPTNeoXForCausalLM",
    .implementation = {.layers = &layer_classes::gpt_neox,
                       .decoder = {.rotary_percent = 25,
                                   .drops_embedding = true,
                                   .holds_undropped_embedding = true}},
    .costs = eager_costs};

/// GPTJForCausalLM, whose table of angles is as long as the sequences.
inline constexpr framework hugging_face_gptj{
    .name = "transformers, GPTJForCausalLM",
    .implementation = {.layers = &layer_classes::gptj, .decoder = {.most_rotated = 64}},
    .costs = eager_costs};

/// T5ForConditionalGeneration of T5's first version, which scales the decoder's output,
inline constexpr framework hugging_face_t5{.name = "transformers, T5ForConditionalGeneration",
                                           .implementation = {.layers = &layer_classes::t5,
                                                              .rms_norm = rms_norm_kind::eager,
                                                              .scales_decoder_outputs = true},
                                           .costs = eager_costs};

/// and of version 1.1 and what followed it.
inline constexpr framework hugging_face_t5_1_1{
    .name = "transformers, T5ForConditionalGeneration 1.1",
    .implementation = {.layers = &layer_classes::t5, .rms_norm = rms_norm_kind::eager},
    .costs = eager_costs};

/// LlamaForCausalLM; MistralForCausalLM, whose model may have a window.
inline constexpr framework hugging_face_llama{.name = "transformers, LlamaForCausalLM",
                                              .implementation = {.layers = &layer_classes::decoder,
                                                                 .rms_norm = rms_norm_kind::eager,
                                                                 .rotary = rotary_kind::rotate_half,
                                                                 .logits = logits_kind::to_fp32},
                                              .costs = eager_decoder};

/// Qwen2ForCausalLM, Qwen3ForCausalLM: layers with a window have a mask of their own.
inline constexpr framework hugging_face_qwen{
    .name = "transformers, Qwen2ForCausalLM",
    .implementation = {.layers = &layer_classes::decoder,
                       .rms_norm = rms_norm_kind::eager,
                       .rotary = rotary_kind::rotate_half,
                       .logits = logits_kind::to_fp32,
                       .decoder = {.norms_heads = true, .masks_by_kind = true}},
    .costs = eager_decoder};

/// GemmaForCausalLM,
inline constexpr framework hugging_face_gemma{
    .name = "transformers, GemmaForCausalLM",
    .implementation = {.layers = &layer_classes::decoder,
                       .rms_norm = rms_norm_kind::eager_shifted,
                       .rotary = rotary_kind::rotate_half,
                       .logits = logits_kind::to_fp32,
                       .decoder = {.scales_embedding = true}},
    .costs = eager_decoder};

/// Gemma2ForCausalLM,
inline constexpr framework hugging_face_gemma_2{
    .name = "transformers, Gemma2ForCausalLM",
    .implementation = {.layers = &layer_classes::decoder,
                       .rms_norm = rms_norm_kind::eager_shifted,
                       .rotary = rotary_kind::rotate_half,
                       .logits = logits_kind::to_fp32,
                       .has_sdpa = false,
                       .decoder = {.norms_around = true,
                                   .masks_by_kind = true,
                                   .scales_embedding = true,
                                   .caps_scores = true,
                                   .caps_logits = true}},
    .costs = eager_decoder};

/// Gemma3ForCausalLM.
inline constexpr framework hugging_face_gemma_3{
    .name = "transformers, Gemma3ForCausalLM",
    .implementation = {.layers = &layer_classes::decoder,
                       .rms_norm = rms_norm_kind::eager_shifted,
                       .rotary = rotary_kind::rotate_half,
                       .logits = logits_kind::to_fp32,
                       .decoder = {.norms_around = true,
                                   .norms_heads = true,
                                   .masks_by_kind = true,
                                   .rotates_by_kind = true,
                                   .normalizes_turned_heads = true,
                                   .scales_embedding = true}},
    .costs = eager_decoder};

/// PhiForCausalLM,
inline constexpr framework hugging_face_phi{
    .name = "transformers, PhiForCausalLM",
    .implementation = {.layers = &layer_classes::decoder,
                       .rotary = rotary_kind::rotate_half,
                       .logits = logits_kind::to_fp32,
                       .decoder = {.has_layer_norms = true,
                                   .norms_heads = true,
                                   .runs_in_parallel = true,
                                   .has_plain_mlp = true,
                                   .rotary_parts = rotary_parts_kind::in_attention,
                                   .rotary_percent = 50,
                                   .builds_rotary_first = true,
                                   .normalizes_turned_heads = true,
                                   .drops_embedding = true,
                                   .drops_residual = true}},
    .costs = eager_decoder};

/// Phi3ForCausalLM.
inline constexpr framework hugging_face_phi_3{
    .name = "transformers, Phi3ForCausalLM",
    .implementation = {.layers = &layer_classes::decoder,
                       .rms_norm = rms_norm_kind::eager,
                       .rotary = rotary_kind::rotate_half,
                       .logits = logits_kind::to_fp32,
                       .decoder = {.fuses_qkv = true,
                                   .fuses_gate_up = true,
                                   .rotary_parts = rotary_parts_kind::in_rotation,
                                   .drops_residual = true}},
    .costs = eager_decoder};

/// OlmoForCausalLM, Olmo2ForCausalLM.
inline constexpr framework hugging_face_olmo{
    .name = "transformers, OlmoForCausalLM",
    .implementation = {.layers = &layer_classes::decoder,
                       .rms_norm = rms_norm_kind::eager_whole,
                       .rotary = rotary_kind::rotate_half,
                       .logits = logits_kind::to_fp32,
                       .decoder = {.rotates_in_fp32 = true,
                                   .views_behind_projections = true,
                                   .clips_projections = true}},
    .costs = eager_decoder};

/// GPT-2 with DeepSpeed's ZeRO-3 of 2021: weights are gathered one parameter after the other, and
/// waited for.
inline constexpr framework hugging_face_gpt2_zero_3 = [] {
  framework changed = hugging_face_gpt2;
  changed.name = "transformers, GPT2LMHeadModel, ZeRO-3";
  changed.engine.is = &engine_classes::deepspeed;
  changed.costs = {.hides_gathers = false, .gathered_at_most = 4.4_GBps, .timed = true};
  return changed;
}();

inline constexpr listed_framework hugging_face_frameworks[] = {
    {&hugging_face_gpt2, "gpt2", {"gpt2", "gpt3-"}},
    {&hugging_face_gpt_bigcode,
     "gpt-bigcode",
     {"gpt-bigcode", "gpt_bigcode", "gptbigcode", "starcoder", "santacoder"}},
    {&hugging_face_opt, "opt", {"opt"}},
    {&hugging_face_gpt_neox, "gpt-neox", {"gpt-neox", "gpt_neox", "gptneox", "pythia"}},
    {&hugging_face_gptj, "gptj", {"gpt-j", "gptj"}},
    {&hugging_face_t5, "t5", {"t5", "umt5"}},
    {&hugging_face_t5_1_1, "t5-1.1", {"t5-v1.1", "flan-t5", "mt5"}},
    {&hugging_face_llama,
     "llama",
     {"meta-llama", "llama", "codellama", "tinyllama", "smollm2", "mistral", "yi-", "falcon3"}},
    {&hugging_face_qwen, "qwen", {"qwen", "smollm3", "ministral", "deepseek-r1-distill-qwen"}},
    {&hugging_face_gemma, "gemma", {"gemma"}},
    {&hugging_face_gemma_2, "gemma-2", {"gemma-2-", "gemma2"}},
    {&hugging_face_gemma_3,
     "gemma-3",
     {"gemma-3", "gemma3_text", "gemma3forcausallm", "gemma3text"}},
    {&hugging_face_phi, "phi", {"phi"}},
    {&hugging_face_phi_3, "phi-3", {"phi-3", "phi-4", "phi3"}},
    {&hugging_face_olmo, "olmo", {"olmo"}},
    {&hugging_face_gpt2_zero_3},
};

}  // namespace catalog
}  // namespace gpuplan
