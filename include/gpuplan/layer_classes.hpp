#pragma once

// The classes of layers that a person writes with torch.nn, and what flaws of a model classes of
// layers have in common. Those of a framework stand with it in the catalogue.

#include <gpuplan/detail/flaws.hpp>
#include <gpuplan/implementation.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>

namespace gpuplan {
namespace code_names {
inline constexpr code_name gpt{"gpt"};
inline constexpr code_name llama{"llama"};
}  // namespace code_names

namespace detail {

constexpr bool is_half(number_format format) {
  return format == number_format::bf16 || format == number_format::fp16;
}
// What no classes of the library have, and what experts and latent attention need.
// `projects`: embeddings of another width than the layers'. `shares_layers`: runs them more than
// once.
constexpr failure flaw_of_most(const transformer& model,
                               const implementation& as,
                               bool projects,
                               bool shares_layers) {
  const named_fact layers{fact::layers, as.layers->name};
  if (model.norm == norm_kind::rms_norm)
    if (const failure why = flaw_unless({{{fact::norm_affine, model.norm_affine}, true},
                                         {{fact::norm_bias, model.norm_bias}, false}},
                                        {fact::norm, model.norm});
        failed(why))
      return why;
  const expert_mixture& moe = model.moe;
  if (!as.transformer_engine)
    if (const failure why = flaw_if_any(
            {{fact::num_experts, moe.num_experts}, {fact::kv_lora_rank, model.mla.kv_lora_rank}},
            {fact::transformer_engine, false});
        failed(why))
      return why;
  if (const failure why = flaw_if_any(
          {{fact::layer_scale, model.layer_scale},
           {fact::clip_qkv, model.clip_qkv && !as.decoder.clips_projections},
           {fact::use_qk_norm, model.chunks.use_qk_norm},
           {fact::attn_temperature_tuning, model.chunks.attn_temperature_tuning},
           {fact::stages, model.stages.size()},
           {fact::num_hidden_groups, shares_layers ? 0 : model.shared.num_hidden_groups},
           {fact::embedding_dim, projects ? 0 : model.embedding_dim}},
          layers);
      failed(why))
    return why;
  if (const failure why = flaw_unless({{{fact::key_bias, model.key_bias}, true}}, layers);
      failed(why))
    return why;
  if (as.layers->has_every_part && as.transformer_engine) {
    const named_fact clamped{fact::clamped_gate_up, model.clamped_gate_up};
    if (model.clamped_gate_up && moe.num_experts == 0)
      return without_code({clamped, {fact::num_experts, 0}, layers, {fact::takes, false}});
    if (model.clamped_gate_up && !model.gated_mlp)
      return without_code({clamped, {fact::gated_mlp, false}, layers, {fact::takes, false}});
    return {};
  }
  if (moe.num_experts != 0) {
    const named_fact experts{fact::num_experts, moe.num_experts};
    if (!model.gated_mlp)
      return without_code({{fact::gated_mlp, false}, experts, layers, {fact::takes, true}});
    if (const failure why = flaw_if_any({{fact::shared_expert_gate, moe.shared_expert_gate},
                                         {fact::router_bias, moe.router_bias},
                                         {fact::moe_latent_size, moe.moe_latent_size},
                                         {fact::mlp_bias, model.mlp_bias}},
                                        experts);
        failed(why))
      return why;
  }
  return flaw_if_any({{fact::attention_sinks, model.attention_sinks},
                      {fact::clamped_gate_up, model.clamped_gate_up},
                      {fact::attention_gate, model.attention_gate},
                      {fact::hybrid_pattern, model.hybrid_pattern.size()},
                      {fact::full_attention_interval, model.full_attention_interval},
                      {fact::mtp_layers, model.mtp_layers}},
                     layers);
}

constexpr failure flaw_of_all(const transformer& model, const implementation& as) {
  return flaw_of_most(model, as, false, false);
}

// Of classes that know no width of a head but an equal part of the layers'.
constexpr failure flaw_of_heads(const transformer& model, const implementation& as) {
  const named_fact heads{fact::num_attention_heads, model.num_attention_heads};
  const named_fact width{fact::hidden_size, model.hidden_size};
  if (heads.value * model.query_dim() == width.value) return {};
  if (width.value % heads.value != 0) return failure(errc::heads_do_not_divide, heads, width);
  return without_code({{fact::head_dim, model.query_dim()},
                       heads,
                       width,
                       {fact::layers, as.layers->name},
                       {fact::takes, width.value / heads.value}});
}

// How many elements of a head are rotated.
constexpr std::int64_t rotated_width(const transformer& model, const decoder_options& code) {
  if (model.is_latent()) return model.mla.qk_rope_head_dim;
  const std::int64_t width = model.query_dim();
  if (model.rotary_dim != 0) return model.rotary_dim;
  if (code.most_rotated != 0) return code.most_rotated < width ? code.most_rotated : width;
  return width * code.rotary_percent / 100;
}
// Elements are rotated in pairs; `whole`: all of a head are, or none.
constexpr failure flaw_of_rotation(const transformer& model, const implementation& as, bool whole) {
  const named_fact layers{fact::layers, as.layers->name};
  const std::int64_t head = model.query_dim();
  const std::int64_t width = rotated_width(model, as.decoder);
  if (whole && !model.is_latent() && width != head)
    return without_code(
        {{fact::rotary_dim, width}, {fact::head_dim, head}, layers, {fact::takes, head}});
  if (width % 2 == 0 && width != 0) return {};
  const fact name = model.is_latent() ? fact::qk_rope_head_dim
                    : width == head   ? fact::head_dim
                                      : fact::rotary_dim;
  failure why = without_code({{name, width}, layers});
  for (const std::int64_t even : {width - 1, width + 1 + (width == 0)})
    if (even > 0) why.add(fact::takes, even);
  return why;
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
                       {fact::pooler, model.pooler},
                       {fact::head_dense, model.head_dense},
                       {fact::type_vocab_size, model.type_vocab_size},
                       {fact::relative_attention_buckets, model.relative_attention_buckets}},
                      layers);
      failed(why))
    return why;
  if (is_llama && model.qk_norm == qk_norm_scope::full_width)
    return without_code({{fact::qk_norm, model.qk_norm},
                         layers,
                         {fact::takes, qk_norm_scope::none},
                         {fact::takes, qk_norm_scope::head}});
  if (is_llama) return flaw_of_rotation(model, as, true);
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
                      {fact::relative_attention_buckets, model.relative_attention_buckets},
                      {fact::pooler, model.pooler},
                      {fact::head_dense, model.head_dense},
                      {fact::head_norm, model.head_norm}},
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

}  // namespace detail

namespace layer_classes {
/// A GPT as a person writes it with torch.nn: one linear layer for query, key and value; attention
/// within the block's function.
inline constexpr layer_class gpt{.name = &code_names::gpt,
                                 .flaw_of = detail::flaw_of_gpt,
                                 .code = &eager::library_code,
                                 .recomputes_attention = true,
                                 .has_fp8_linears = true,
                                 .reads_padding = false,
                                 .calls_gelu = true,
                                 .counts_work = true};
/// A LLaMA likewise: three; attention in a function of its own.
inline constexpr layer_class llama{.name = &code_names::llama,
                                   .flaw_of = detail::flaw_of_llama,
                                   .code = &eager::library_code,
                                   .divides_tensors = true,
                                   .divides_replicas = false,
                                   .recomputes_attention = true,
                                   .has_fp8_linears = true,
                                   .reads_padding = false,
                                   .calls_gelu = true,
                                   .counts_work = true};
}  // namespace layer_classes

namespace detail {

// Whether the implementation has what the model has.
constexpr failure flaw_of_implementation(const transformer& model, const implementation& as) {
  if (as.layers == nullptr || as.layers->name == nullptr || as.layers->code == nullptr)
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

}  // namespace gpuplan
