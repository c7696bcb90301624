#pragma once

// The library's classes of layers, and which models each has code for.

#include <gpuplan/implementation.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpuplan {
namespace code_names {
inline constexpr code_name gpt{"gpt"};
inline constexpr code_name llama{"llama"};
inline constexpr code_name gpt2{"gpt2"};
inline constexpr code_name decoder{"decoder"};
inline constexpr code_name bert{"bert"};
inline constexpr code_name vit{"vit"};
inline constexpr code_name t5{"t5"};
inline constexpr code_name opt{"opt"};
inline constexpr code_name gpt_neox{"gpt_neox"};
inline constexpr code_name gptj{"gptj"};
inline constexpr code_name lit_gpt{"lit_gpt"};
inline constexpr code_name megatron_core{"megatron_core"};
inline constexpr code_name torchtitan{"torchtitan"};
}  // namespace code_names

namespace detail {

// The value there is no code for, what it stands beside, and what would be taken.
constexpr failure without_code(std::initializer_list<named_fact> known) {
  return failure(errc::no_such_code, known);
}
// The first of these that is there (not 0, `false` or `none`), where there is code for none.
constexpr failure flaw_if_any(std::initializer_list<named_fact> fields, named_fact beside) {
  for (const named_fact& field : fields) {
    named_fact taken = field;
    taken.name = fact::takes;
    taken.value = 0;
    if (field.value != 0) return without_code({field, beside, taken});
  }
  return {};
}
// The first of these that is not what alone is taken.
struct taken_alone {
  named_fact field{};
  std::int64_t takes = 1;
};
constexpr failure flaw_unless(std::initializer_list<taken_alone> fields, named_fact beside) {
  for (const taken_alone& one : fields) {
    named_fact taken = one.field;
    taken.name = fact::takes;
    taken.value = one.takes;
    if (one.field.value != one.takes) return without_code({one.field, beside, taken});
  }
  return {};
}
// Likewise where a number must divide others, or be a multiple of one.
constexpr failure flaw_if_indivisible(named_fact number, std::initializer_list<named_fact> wholes) {
  for (const named_fact& whole : wholes)
    if (whole.value % number.value != 0) return failure(errc::does_not_divide, {number, whole});
  return {};
}
constexpr failure flaw_if_no_multiple(std::initializer_list<named_fact> numbers, named_fact of) {
  for (const named_fact& number : numbers)
    if (number.value % of.value != 0) return failure(errc::not_a_multiple, {number, of});
  return {};
}

constexpr bool is_half(number_format format) {
  return format == number_format::bf16 || format == number_format::fp16;
}
// What no classes of the library have, and what experts and latent attention need.
constexpr failure flaw_of_all(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  if (model.norm == norm_kind::rms_norm && !model.norm_affine)
    return without_code(
        {{fact::norm_affine, false}, {fact::norm, model.norm}, {fact::takes, true}});
  const expert_mixture& moe = model.moe;
  if (!as.transformer_engine)
    if (const failure why = flaw_if_any(
            {{fact::num_experts, moe.num_experts}, {fact::kv_lora_rank, model.mla.kv_lora_rank}},
            {fact::transformer_engine, false});
        failed(why))
      return why;
  if (moe.num_experts != 0) {
    const named_fact experts{fact::num_experts, moe.num_experts};
    if (!model.gated_mlp)
      return without_code({{fact::gated_mlp, false}, experts, layers, {fact::takes, true}});
    if (const failure why = flaw_if_any({{fact::shared_expert_gate, moe.shared_expert_gate},
                                         {fact::router_bias, moe.router_bias},
                                         {fact::mlp_bias, model.mlp_bias}},
                                        experts);
        failed(why))
      return why;
  }
  return flaw_if_any({{fact::attention_sinks, model.attention_sinks},
                      {fact::mtp_layers, model.mtp_layers},
                      {fact::layer_scale, model.layer_scale},
                      {fact::embedding_dim, model.embedding_dim}},
                     layers);
}

// Of models as a person writes them with torch.nn.
constexpr failure flaw_of_plain(const transformer& model, const implementation& as, bool is_llama) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_all(model, as); failed(why)) return why;
  if (model.gated_mlp != is_llama)
    return without_code({{fact::gated_mlp, model.gated_mlp}, layers, {fact::takes, is_llama}});
  if (model.fused_qkv == is_llama)
    return without_code({{fact::fused_qkv, model.fused_qkv}, layers, {fact::takes, !is_llama}});
  if (!model.final_norm)
    return without_code({{fact::final_norm, false}, layers, {fact::takes, true}});
  if (!model.norm_affine)
    return without_code({{fact::norm_affine, false}, layers, {fact::takes, true}});
  if (model.norms_per_layer != 2 && model.norm_at == norm_position::before)
    return without_code({{fact::norms_per_layer, model.norms_per_layer}, layers, {fact::takes, 2}});
  if (model.head != head_kind::language_model)
    return without_code(
        {{fact::head, model.head}, layers, {fact::takes, head_kind::language_model}});
  if (const failure why =
          flaw_if_any({{fact::fused_gate_up, model.fused_gate_up},
                       {fact::parallel_attention, model.parallel_attention},
                       {fact::norm_at, model.norm_at},
                       {fact::embedding_norm, model.embedding_norm},
                       {fact::sliding_window, model.sliding_window},
                       {fact::lm_head_bias, model.lm_head_bias},
                       {fact::head_dense, model.head_dense},
                       {fact::type_vocab_size, model.type_vocab_size},
                       {fact::relative_attention_buckets, model.relative_attention_buckets}},
                      layers);
      failed(why))
    return why;
  if (is_llama) return {};
  if (model.key_value_heads() != model.num_attention_heads)
    return without_code({{fact::num_key_value_heads, model.key_value_heads()},
                         layers,
                         {fact::takes, model.num_attention_heads}});
  return flaw_if_any({{fact::qk_norm, model.qk_norm}}, layers);
}

constexpr failure flaw_of_gpt(const transformer& model, const implementation& as) {
  return flaw_of_plain(model, as, false);
}
constexpr failure flaw_of_llama(const transformer& model, const implementation& as) {
  return flaw_of_plain(model, as, true);
}

// What is common to decoders: no code of Hugging Face's, LitGPT's or Megatron's has more.
constexpr failure flaw_of_decoders(const transformer& model,
                                   const implementation& as,
                                   bool has_table = false) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_all(model, as); failed(why)) return why;
  if (model.head != head_kind::language_model)
    return without_code(
        {{fact::head, model.head}, layers, {fact::takes, head_kind::language_model}});
  if (!model.final_norm)
    return without_code({{fact::final_norm, false}, layers, {fact::takes, true}});
  if (has_table && model.position_rows == 0)
    return without_code({{fact::position_rows, 0}, layers, {fact::at_least, 1}});
  return flaw_if_any({{fact::type_vocab_size, model.type_vocab_size},
                      {fact::relative_attention_buckets, model.relative_attention_buckets}},
                     layers);
}
// Of one device's code, without the norm behind the embedding that Megatron-LM's forks have.
constexpr failure flaw_of_lone_decoders(const transformer& model,
                                        const implementation& as,
                                        bool has_table = false) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_decoders(model, as, has_table); failed(why)) return why;
  return flaw_if_any({{fact::position_rows, has_table ? 0 : model.position_rows},
                      {fact::embedding_norm, model.embedding_norm}},
                     layers);
}
constexpr failure flaw_of_lit_gpt(const transformer& model, const implementation& as) {
  if (const failure why = flaw_of_lone_decoders(model, as); failed(why)) return why;
  return flaw_if_any({{fact::norm_at, model.norm_at}, {fact::qk_norm, model.qk_norm}},
                     {fact::layers, as.layers->name});
}

constexpr failure flaw_of_torchtitan(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_lit_gpt(model, as); failed(why)) return why;
  if (!model.gated_mlp)
    return without_code({{fact::gated_mlp, false}, layers, {fact::takes, true}});
  return flaw_if_any({{fact::attention_bias, model.attention_bias},
                      {fact::attention_out_bias, model.attention_out_bias},
                      {fact::mlp_bias, model.mlp_bias},
                      {fact::norm_bias, model.norm_bias && model.norm_affine},
                      {fact::parallel_attention, model.parallel_attention},
                      {fact::fused_qkv, model.fused_qkv},
                      {fact::fused_gate_up, model.fused_gate_up},
                      {fact::tied_embeddings, model.has_tied_head()}},
                     layers);
}

// One matrix for each of query, key and value, of as many heads, and layer norms with biases.
constexpr failure flaw_of_first_decoders(const transformer& model,
                                         const implementation& as,
                                         bool has_table,
                                         bool is_gptj,
                                         bool is_neox,
                                         bool fuses_qkv) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_lone_decoders(model, as, has_table); failed(why)) return why;
  const bool is_parallel = is_gptj || is_neox;
  if (const failure why = flaw_unless(
          {{{fact::gated_mlp, model.gated_mlp}, false},
           {{fact::norm, model.norm}, static_cast<std::int64_t>(norm_kind::layer_norm)},
           {{fact::norm_bias, model.norm_bias}, true},
           {{fact::norm_affine, model.norm_affine}, true},
           {{fact::parallel_attention, model.parallel_attention}, is_parallel},
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
  return flaw_if_any({{fact::norm_at, model.norm_at}, {fact::qk_norm, model.qk_norm}}, layers);
}

constexpr failure flaw_of_gpt2(const transformer& model, const implementation& as) {
  return flaw_of_first_decoders(model, as, true, false, false, true);
}
constexpr failure flaw_of_opt(const transformer& model, const implementation& as) {
  return flaw_of_first_decoders(model, as, true, false, false, false);
}
constexpr failure flaw_of_gpt_neox(const transformer& model, const implementation& as) {
  return flaw_of_first_decoders(model, as, false, false, true, true);
}
constexpr failure flaw_of_gptj(const transformer& model, const implementation& as) {
  return flaw_of_first_decoders(model, as, false, true, false, false);
}

// LlamaForCausalLM and its kin, told apart by what their implementations say.
constexpr failure flaw_of_decoder(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_lone_decoders(model, as); failed(why)) return why;
  const bool is_phi = as.decoder.rotary_parts == rotary_parts_kind::in_attention;
  const bool is_phi_3 = as.decoder.rotary_parts == rotary_parts_kind::in_rotation;
  const bool is_olmo = as.rms_norm == rms_norm_kind::eager_whole;
  const bool is_late_gemma = as.decoder.masks_by_kind && as.decoder.scales_embedding;
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  if (!is_olmo)
    if (const failure why =
            flaw_unless({{{fact::norm, model.norm},
                          number(is_phi ? norm_kind::layer_norm : norm_kind::rms_norm)},
                         {{fact::norm_affine, model.norm_affine}, true},
                         {{fact::norm_at, model.norm_at},
                          number(is_late_gemma ? norm_position::around : norm_position::before)}},
                        layers);
        failed(why))
      return why;
  if (model.norm_at == norm_position::after_residual || (is_olmo && model.norms_per_layer != 2))
    return without_code(
        {{fact::norm_at, model.norm_at}, layers, {fact::takes, norm_position::before}});
  if (model.qk_norm == qk_norm_scope::full_width && !is_olmo)
    return without_code(
        {{fact::qk_norm, model.qk_norm}, layers, {fact::takes, qk_norm_scope::none}});
  const bool norms_heads = as.decoder.masks_by_kind || as.decoder.normalizes_turned_heads;
  if (model.qk_norm == qk_norm_scope::head && !norms_heads)
    return without_code(
        {{fact::qk_norm, model.qk_norm}, layers, {fact::takes, qk_norm_scope::none}});
  return flaw_unless({{{fact::gated_mlp, model.gated_mlp}, !is_phi},
                      {{fact::parallel_attention, model.parallel_attention}, is_phi},
                      {{fact::fused_qkv, model.fused_qkv}, is_phi_3},
                      {{fact::fused_gate_up, model.fused_gate_up}, is_phi_3}},
                     layers);
}

// Megatron-Core, whose norms of layers have biases.
constexpr failure flaw_of_megatron_core(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_decoders(model, as); failed(why)) return why;
  if (model.norm == norm_kind::layer_norm)
    if (const failure why = flaw_unless({{{fact::norm_bias, model.norm_bias}, true}}, layers);
        failed(why))
      return why;
  return flaw_if_any({{fact::parallel_attention, model.parallel_attention},
                      {fact::norm_at, model.norm_at},
                      {fact::lm_head_bias, model.lm_head_bias}},
                     layers);
}

// Encoders of text, norms behind residuals, and of images, before: with all biases.
constexpr failure flaw_of_encoders(const transformer& model,
                                   const implementation& as,
                                   norm_position at) {
  const named_fact layers{fact::layers, as.layers->name};
  if (model.gated_mlp) return without_code({{fact::gated_mlp, true}, layers, {fact::takes, false}});
  if (model.norm != norm_kind::layer_norm)
    return without_code({{fact::norm, model.norm}, layers, {fact::takes, norm_kind::layer_norm}});
  const std::int64_t heads = model.key_value_heads();
  if (heads * model.query_dim() != model.hidden_size)
    return without_code({{fact::hidden_size, model.hidden_size},
                         {fact::num_key_value_heads, heads},
                         {fact::head_dim, model.query_dim()},
                         layers,
                         {fact::takes, heads * model.query_dim()}});
  if (const failure why =
          flaw_unless({{{fact::norm_at, model.norm_at}, static_cast<std::int64_t>(at)},
                       {{fact::norm_bias, model.norm_bias}, true},
                       {{fact::norm_affine, model.norm_affine}, true},
                       {{fact::attention_bias, model.attention_bias}, true},
                       {{fact::attention_out_bias, model.attention_out_bias}, true},
                       {{fact::mlp_bias, model.mlp_bias}, true}},
                      layers);
      failed(why))
    return why;
  return flaw_of_all(model, as);
}
constexpr failure flaw_of_bert(const transformer& model, const implementation& as) {
  return flaw_of_encoders(model, as, norm_position::after_residual);
}
constexpr failure flaw_of_vit(const transformer& model, const implementation& as) {
  if (model.head != head_kind::classifier)
    return without_code({{fact::head, model.head},
                         {fact::layers, as.layers->name},
                         {fact::takes, head_kind::classifier}});
  return flaw_of_encoders(model, as, norm_position::before);
}

}  // namespace detail

/// The library's.
namespace layer_classes {
/// A GPT as a person writes it with torch.nn: one linear layer for query, key and value; attention
/// within the block's function.
inline constexpr layer_class gpt{.name = &code_names::gpt,
                                 .flaw_of = detail::flaw_of_gpt,
                                 .recomputes_attention = true,
                                 .has_fp8_linears = true};
/// A LLaMA likewise: three; attention in a function of its own.
inline constexpr layer_class llama{.name = &code_names::llama,
                                   .flaw_of = detail::flaw_of_llama,
                                   .divides_tensors = true,
                                   .divides_replicas = false,
                                   .recomputes_attention = true,
                                   .has_fp8_linears = true};
/// Hugging Face's GPT-2: Conv1D.
inline constexpr layer_class gpt2{
    .name = &code_names::gpt2, .flaw_of = detail::flaw_of_gpt2, .has_module_hooks = true};
/// Hugging Face's LLaMA and what was copied from it.
inline constexpr layer_class decoder{.name = &code_names::decoder,
                                     .flaw_of = detail::flaw_of_decoder,
                                     .has_module_hooks = true,
                                     .has_fp8_linears = true,
                                     .has_windowed_flash = false};
/// Hugging Face's BERT and what was copied from it.
inline constexpr layer_class bert{.name = &code_names::bert,
                                  .kind = model_kind::encoder,
                                  .flaw_of = detail::flaw_of_bert,
                                  .has_module_hooks = true,
                                  .compares_texts = true};
/// Hugging Face's ViT, CLIP's and SigLIP's towers.
inline constexpr layer_class vit{
    .name = &code_names::vit, .kind = model_kind::vision, .flaw_of = detail::flaw_of_vit};
/// Hugging Face's T5.
inline constexpr layer_class t5{.name = &code_names::t5,
                                .kind = model_kind::encoder_decoder,
                                .flaw_of = detail::flaw_of_all,
                                .recomputes_periodically = false,
                                .recomputes_first_layers = false,
                                .has_flash = false,
                                .biases_scores = true,
                                .reads_targets = true,
                                .repeats_recomputed_layers = false};
/// Hugging Face's OPT, GPT-NeoX and GPT-J.
inline constexpr layer_class opt{.name = &code_names::opt, .flaw_of = detail::flaw_of_opt};
inline constexpr layer_class gpt_neox{.name = &code_names::gpt_neox,
                                      .flaw_of = detail::flaw_of_gpt_neox};
inline constexpr layer_class gptj{.name = &code_names::gptj, .flaw_of = detail::flaw_of_gptj};
/// LitGPT's, with its own adapters.
inline constexpr layer_class lit_gpt{
    .name = &code_names::lit_gpt, .flaw_of = detail::flaw_of_lit_gpt, .trains_parts = false};
/// Megatron-Core's: (sequence, batch, hidden), tensor-parallel linear layers.
inline constexpr layer_class megatron_core{.name = &code_names::megatron_core,
                                           .flaw_of = detail::flaw_of_megatron_core,
                                           .divides_tensors = true,
                                           .is_pipelined = true,
                                           .recomputes_attention = true,
                                           .recomputes_in_spans = true,
                                           .recomputes_periodically = false,
                                           .stops_early = false,
                                           .trains_parts = false,
                                           .trains_adapters = false,
                                           .repeats_layers = false};
/// torchtitan's: complex rotary embeddings.
inline constexpr layer_class torchtitan{.name = &code_names::torchtitan,
                                        .flaw_of = detail::flaw_of_torchtitan,
                                        .divides_tensors = true,
                                        .divides_sequence = true,
                                        .divides_context = true,
                                        .keeps_costly_results = true,
                                        .is_compiled = true,
                                        .has_flash_alone = true,
                                        .has_known_floor = true};

inline constexpr const layer_class* all[] = {&gpt,
                                             &llama,
                                             &gpt2,
                                             &decoder,
                                             &bert,
                                             &vit,
                                             &t5,
                                             &opt,
                                             &gpt_neox,
                                             &gptj,
                                             &lit_gpt,
                                             &megatron_core,
                                             &torchtitan};
}  // namespace layer_classes

namespace detail {

// The library's have code, and a user's where they say it.
constexpr bool has_code(const layer_class& layers) {
  for (const layer_class* one : layer_classes::all)
    if (one == &layers) return true;
  return layers.name != nullptr && layers.code != nullptr;
}
// Whether the implementation has what the model has.
constexpr failure flaw_of_implementation(const transformer& model, const implementation& as) {
  if (as.layers == nullptr || !has_code(*as.layers))
    return failure(errc::no_such_code, named_fact{fact::layers, &code_names::nobody});
  const layer_class& layers = *as.layers;
  if (layers.layer_period < 1)
    return failure(errc::not_positive,
                   named_fact{fact::layer_period, layers.layer_period},
                   named_fact{fact::layers, layers.name});
  if (model.kind != layers.kind)
    return without_code(
        {{fact::model_kind, model.kind}, {fact::layers, layers.name}, {fact::takes, layers.kind}});
  return layers.flaw_of == nullptr ? failure{} : layers.flaw_of(model, as);
}

}  // namespace detail

constexpr const layer_class* usual_layers() { return &layer_classes::llama; }

}  // namespace gpuplan
