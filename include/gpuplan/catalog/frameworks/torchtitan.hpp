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
                                        .has_known_floor = true};
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
                       .logits = logits_kind::to_fp32},
    .engine = engines::titan_fsdp2,
    .costs = {.matmul_rate = 0.95,
              .host_per_operator = 16_us,
              .host_per_step = 17_ms,
              .contention = 0.12,
              .scatter = 0.06,
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

inline constexpr listed_framework torchtitan_frameworks[] = {
    {&torchtitan, "torchtitan"},
    {&torchtitan_2025},
    {&torchtitan_async},
};

}  // namespace catalog
}  // namespace gpuplan
