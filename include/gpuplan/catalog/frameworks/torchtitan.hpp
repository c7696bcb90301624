#pragma once

// torchtitan.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks/lit_gpt.hpp>
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
inline constexpr code_name torchtitan{"torchtitan"};
inline constexpr code_name torchtitan_2026{"torchtitan_2026"};
}  // namespace code_names

namespace detail {

constexpr failure flaw_of_torchtitan(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_lit_gpt(model, as); failed(why)) return why;
  if (const failure why = flaw_of_rotation(model, as, true); failed(why)) return why;
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

// What alone torchtitan 0.3 builds experts beside: Qwen3's norms of heads, all layers alike;
// gpt-oss' sinks and biases; or DeepSeek-V3's latent attention, with shared experts and groups.
constexpr failure flaw_of_torchtitan_experts(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  const expert_mixture& moe = model.moe;
  const named_fact experts{fact::num_experts, moe.num_experts};
  if (moe.num_experts == 0) return {};
  if (const failure why = flaw_unless({{{fact::moe_layer_step, moe.moe_layer_step}, 1},
                                       {{fact::shared_expert_gate, moe.shared_expert_gate}, 0},
                                       {{fact::moe_latent_size, moe.moe_latent_size}, 0}},
                                      layers);
      failed(why))
    return why;
  const std::int64_t shared = moe.shared_expert_intermediate_size;
  if (!model.is_latent()) {
    const bool has_sinks = model.attention_sinks;
    const qk_norm_scope norms = has_sinks ? qk_norm_scope::none : qk_norm_scope::head;
    if (model.qk_norm != norms)
      return without_code({{fact::qk_norm, model.qk_norm}, experts, layers, {fact::takes, norms}});
    return flaw_if_any({{fact::router_bias, moe.router_bias && !has_sinks},
                        {fact::n_group, moe.n_group},
                        {fact::first_k_dense_layers, moe.first_k_dense_layers},
                        {fact::shared_expert_intermediate_size, shared}},
                       layers);
  }
  if (shared == 0)
    return without_code({{fact::shared_expert_intermediate_size, 0},
                         layers,
                         {fact::takes, moe.moe_intermediate_size}});
  if (const failure why =
          flaw_if_no_multiple({{fact::shared_expert_intermediate_size, shared}},
                              {fact::moe_intermediate_size, moe.moe_intermediate_size});
      failed(why))
    return why;
  if (moe.n_group == 0) return {};
  const named_fact groups{fact::n_group, moe.n_group};
  if (const failure why = flaw_if_no_multiple({experts}, groups); failed(why)) return why;
  if (moe.num_experts / moe.n_group < 2)
    return without_code({groups, experts, {fact::at_most, moe.num_experts / 2}});
  const std::int64_t per_group = moe.num_experts / moe.n_group;
  const std::int64_t least = (moe.num_experts_per_tok + per_group - 1) / per_group;
  if (moe.topk_group >= least && moe.topk_group <= moe.n_group) return {};
  return failure(errc::out_of_bounds,
                 {{fact::topk_group, moe.topk_group},
                  groups,
                  {fact::at_least, least},
                  {fact::at_most, moe.n_group}});
}

// gpt-oss', whose linear layers but the head's have biases.
constexpr failure flaw_of_torchtitan_sinks(const transformer& model, const named_fact& layers) {
  if (const failure why = flaw_unless({{{fact::attention_bias, model.attention_bias}, true},
                                       {{fact::attention_out_bias, model.attention_out_bias}, true},
                                       {{fact::mlp_bias, model.mlp_bias}, true},
                                       {{fact::clamped_gate_up, model.clamped_gate_up}, true},
                                       {{fact::router_bias, model.moe.router_bias}, true},
                                       {{fact::tied_embeddings, model.has_tied_head()}, false}},
                                      layers);
      failed(why))
    return why;
  if (model.moe.num_experts == 0)
    return without_code({{fact::num_experts, 0}, layers, {fact::at_least, 1}});
  return {};
}

// Of heads with norms, which are Qwen3's, halves are rotated together.
constexpr failure flaw_of_torchtitan_2026(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  transformer alike = model;  // without what some of its models alone have
  if (model.attention_sinks && !model.is_latent()) {
    if (const failure why = flaw_of_torchtitan_sinks(model, layers); failed(why)) return why;
    alike.attention_sinks = alike.attention_bias = alike.attention_out_bias = false;
    alike.mlp_bias = alike.clamped_gate_up = false;
    alike.sliding_window = 0;
  }
  alike.moe = {};
  alike.mla = {};
  if (model.is_latent()) alike.mtp_layers = 0;  // which a flavour asks for; none of its own does
  if (const failure why = flaw_of_lone_decoders(alike, as); failed(why)) return why;
  if (const failure why = flaw_of_rotation(model, as, true); failed(why)) return why;
  if (model.norm != norm_kind::rms_norm)
    return without_code({{fact::norm, model.norm}, layers, {fact::takes, norm_kind::rms_norm}});
  if (!model.gated_mlp)
    return without_code({{fact::gated_mlp, false}, layers, {fact::takes, true}});
  if (model.is_latent())
    if (const failure why = flaw_if_any(
            {{fact::qk_norm, model.qk_norm}, {fact::tied_embeddings, model.has_tied_head()}},
            {fact::kv_lora_rank, model.mla.kv_lora_rank});
        failed(why))
      return why;
  if (model.qk_norm == qk_norm_scope::full_width)
    return without_code({{fact::qk_norm, model.qk_norm},
                         layers,
                         {fact::takes, qk_norm_scope::none},
                         {fact::takes, qk_norm_scope::head}});
  if (const failure why = flaw_if_any({{fact::norm_at, model.norm_at},
                                       {fact::attention_bias, alike.attention_bias},
                                       {fact::attention_out_bias, alike.attention_out_bias},
                                       {fact::mlp_bias, alike.mlp_bias},
                                       {fact::parallel_attention, model.parallel_attention},
                                       {fact::fused_qkv, model.fused_qkv},
                                       {fact::fused_gate_up, model.fused_gate_up},
                                       {fact::sliding_window, alike.sliding_window}},
                                      layers);
      failed(why))
    return why;
  return flaw_of_torchtitan_experts(model, as);
}

}  // namespace detail

namespace layer_classes {
/// torchtitan's: complex rotary embeddings.
inline constexpr layer_class torchtitan{.name = &code_names::torchtitan,
                                        .flaw_of = detail::flaw_of_torchtitan,
                                        .code = &eager::library_code,
                                        .divides_tensors = true,
                                        .divides_sequence = true,
                                        .divides_context = true,
                                        .divides_stages = true,
                                        .keeps_costly_results = true,
                                        .is_compiled = true,
                                        .has_flash_alone = true,
                                        .has_dropout = false,
                                        .scales_loss = false,
                                        .calls_gelu = true,
                                        .has_known_floor = true};
/// Those of torchtitan 0.3: query, key and value by one product, FlexAttention with a mask of
/// documents, and a loss in chunks.
inline constexpr layer_class torchtitan_2026{.name = &code_names::torchtitan_2026,
                                             .flaw_of = detail::flaw_of_torchtitan_2026,
                                             .code = &eager::library_code,
                                             .engine = &engine_classes::fsdp2,
                                             .divides_tensors = true,
                                             .divides_sequence = true,
                                             .divides_context = true,
                                             .divides_experts = true,
                                             .gathers_context = true,
                                             .divides_stages = true,
                                             .runs_dual_pipe_v = false,
                                             .captures_graphs = true,
                                             .recomputes_periodically = false,
                                             .recomputes_first_layers = false,
                                             .keeps_costly_results = true,
                                             .stops_early = false,
                                             .has_flash_alone = true,
                                             .has_dropout = false,
                                             .scales_loss = false,
                                             .chunks_loss = true,
                                             .divides_by_tokens = true,
                                             .calls_gelu = true,
                                             .trains_parts = false,
                                             .trains_adapters = false,
                                             .parts_experts_by_width = true,
                                             .sinks_in_bf16_alone = true};
}  // namespace layer_classes

namespace catalog {

/// torchtitan of December 2024, on fully_shard of PyTorch 2.15: key-value heads are copied to all
/// heads, and logits are in fp32 for the loss. Not compiled; a setup says `compiles_layers`. Of a
/// ring of context-parallel ranks only their shares of tokens and weights are counted: 5 % below
/// four published peaks. Stages of pipelines are those of PyTorch 2.15's schedules, each shared by
/// fully_shard: of 40 ranks by Schedule1F1B and ScheduleGPipe and 98 by ScheduleInterleaved1F1B,
/// ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble and ScheduleDualPipeV the replay is what
/// they asked for, to the byte (tests/run_time/replay_torch_pipelines.cpp). Beside tensor
/// parallelism none was measured.
inline constexpr framework torchtitan{
    .name = "torchtitan",
    .implementation = {.layers = &layer_classes::torchtitan,
                       .rms_norm = rms_norm_kind::eager,
                       .grouped_heads = grouped_heads_kind::repeated,
                       .logits = logits_kind::to_fp32,
                       .loss_parallel = true},
    .engine = engines::titan_fsdp2,
    .costs = {.matmul_rate = 0.95,
              .host_per_operator = 16_us,
              .host_per_step = 17_ms,
              .contention = 0.12,
              .scatter = 0.08,
              .timed = true}};

/// torchtitan of 2025, which compiles the loss where it compiles layers.
inline constexpr framework torchtitan_2025 = [] {
  framework changed = torchtitan;
  changed.implementation.compiles_loss = true;
  return changed;
}();

/// torchtitan that takes tensor-parallel products apart, to exchange one part while the next is
/// computed.
inline constexpr framework torchtitan_async = [] {
  framework changed = torchtitan;
  changed.name = "torchtitan, async tensor parallelism";
  changed.costs.hidden_tensor_communication = 0.3;
  return changed;
}();

/// torchtitan 0.3.0 (2026) on PyTorch 2.15, Llama 3, Qwen3, gpt-oss and DeepSeek-V3 (with V2's
/// router where no bias or norm of a token's weights is said), on ranks that each have all experts:
/// not compiled but for FlexAttention, among replicas, fully_shard's ranks, stages of pipelines
/// and, of Llama 3 and dense Qwen3, tensor-parallel ranks, by its backend spmd_types and with its
/// sequence parallelism, and context-parallel ones, which gather keys and values before attention
/// and have the parts of sequences that headtail gives them; the loss is of divided classes under
/// tensor parallelism. Of 38 random steps of such ranks, and 22 of 26 on a stage, all bytes
/// requested are those measured; the others are within 2.3 %. A CUDA graph of a step's passes is
/// there where `training_setup::graphs` says so, which is its default but in pipelines, which have
/// none; none was measured beside such ranks. gpt-oss has FlashAttention-2 over documents
/// (attn_backend "varlen"), one a sample; on Hopper and later torchtitan takes FlashAttention-3 and
/// 4, which were not
/// measured. Experts are products of groups, and a bias of the router's choice, which no gradient
/// trains, is there whatever the model says. Its loss is in 8 chunks, as ChunkedLossWrapper is by
/// default; 0 is CrossEntropyLoss. ZeRO-3 is fsdp_reshard_after_forward=default, ZeRO-2 never.
/// Nobody timed it: its costs are those of torchtitan of 2024.
inline constexpr framework torchtitan_2026 = [] {
  framework changed = torchtitan;
  changed.name = "torchtitan 0.3";
  changed.implementation = {.layers = &layer_classes::torchtitan_2026,
                            .logits = logits_kind::to_fp32,
                            .experts = {.corrects_choice = true},
                            .loss_chunks = 8};
  changed.costs.scatter = software_costs{}.scatter;
  changed.costs.timed = false;
  return changed;
}();

inline constexpr listed_framework torchtitan_frameworks[] = {
    {&torchtitan, "torchtitan"},
    {&torchtitan_2025},
    {&torchtitan_2026, "torchtitan-2026"},
    {&torchtitan_async},
};

}  // namespace catalog
}  // namespace gpuplan
