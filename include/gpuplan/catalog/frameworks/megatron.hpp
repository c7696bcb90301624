#pragma once

// Megatron-LM, Megatron-Core and what is built on them.

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
inline constexpr code_name megatron_core{"megatron_core"};
}  // namespace code_names

namespace detail {

// Megatron-Core, whose norms of layers have biases.
constexpr failure flaw_of_megatron_core(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_of_decoders(model, as); failed(why)) return why;
  if (model.position_rows == 0)
    if (const failure why = flaw_of_rotation(model, as, false); failed(why)) return why;
  if (model.qk_norm == qk_norm_scope::full_width)
    return without_code({{fact::qk_norm, model.qk_norm},
                         layers,
                         {fact::takes, qk_norm_scope::none},
                         {fact::takes, qk_norm_scope::head}});
  if (model.norm == norm_kind::layer_norm)
    if (const failure why = flaw_unless({{{fact::norm_bias, model.norm_bias}, true}}, layers);
        failed(why))
      return why;
  return flaw_if_any({{fact::mamba_proj_bias, model.mamba.proj_bias},
                      {fact::residual_in_fp32, model.mamba.residual_in_fp32},
                      {fact::parallel_attention, model.parallel_attention},
                      {fact::norm_at, model.norm_at},
                      {fact::lm_head_bias, model.lm_head_bias}},
                     layers);
}

}  // namespace detail

namespace layer_classes {
/// Megatron-Core's: (sequence, batch, hidden), tensor-parallel linear layers.
inline constexpr layer_class megatron_core{.name = &code_names::megatron_core,
                                           .flaw_of = detail::flaw_of_megatron_core,
                                           .code = &eager::library_code,
                                           .divides_tensors = true,
                                           .is_pipelined = true,
                                           .recomputes_attention = true,
                                           .recomputes_modules = true,
                                           .offloads_activations = true,
                                           .captures_graphs = true,
                                           .captures_layers = true,
                                           .recomputes_in_spans = true,
                                           .recomputes_periodically = false,
                                           .chooses_recomputed_layers = true,
                                           .stops_early = false,
                                           .has_every_part = true,
                                           .quantises_linears = true,
                                           .calls_gelu = true,
                                           .trains_parts = false,
                                           .trains_adapters = true,
                                           .repeats_layers = false};
}  // namespace layer_classes

namespace catalog {

/// Megatron-Core's layers, as 23 steps of SimuMax on B200 have them, 2 % off in the mean: tokens
/// are sorted for experts, and back, by several kernels each way.
inline constexpr software_costs megatron_costs{.routed_moves = 20,
                                               .host_per_operator = 178_us,
                                               .host_per_step = 25_ms,
                                               .hides_gradients = false,
                                               .hides_parameters = false,
                                               .scatter = 0.04,
                                               .timed = true};

/// Of code of this kind that nobody timed: one set for published steps of eleven sources on A100,
/// V100, H100, Blackwell and CDNA. In the middle of a source it is 2 to 14 % off, 3 to 25 in the
/// mean. How tensor-parallel ranks in several nodes wait for each other is nanotron's, since nobody
/// else published such steps.
inline constexpr software_costs untimed_megatron{.matmul_rate = 0.95,
                                                 .routed_moves = 7.5,
                                                 .host_per_operator = 140_us,
                                                 .host_per_collective = 108_us,
                                                 .host_per_rank = 240_us,
                                                 .wait_per_node = 313_us,
                                                 .host_per_step = 19_ms,
                                                 .hidden_tensor_communication = 0.15,
                                                 .hides_gradients = false,
                                                 .hides_parameters = false,
                                                 .contention = 0.12};

/// Megatron-Core 0.16 without Transformer Engine and Apex: softmax and its mask as operators of
/// their own, the activation a function of its own.
inline constexpr framework megatron_core{.name = "Megatron-Core",
                                         .implementation = {.layers = &layer_classes::megatron_core,
                                                            .builds_in_fp32 = false,
                                                            .softmax_in_fp32 = true,
                                                            .fuses_bias_activation = true},
                                         .engine = engines::megatron,
                                         .costs = [] {
                                           software_costs changed = megatron_costs;
                                           changed.timed = false;
                                           return changed;
                                         }()};

/// Megatron-Core with Transformer Engine 2.11, whose fused loss it uses, and gradients of weights
/// that products add into the buffers.
inline constexpr framework megatron_transformer_engine{
    .name = "Megatron-Core, Transformer Engine",
    .implementation = {.layers = &layer_classes::megatron_core,
                       .builds_in_fp32 = false,
                       .fuses_bias_activation = true,
                       .compiles_functions = true,
                       .fuses_loss = true,
                       .transformer_engine = true},
    .engine = engines::megatron,
    .costs = megatron_costs};

/// Megatron-DeepSpeed as BigScience trained BLOOM with it (early 2022): DeepSpeed's pipeline engine
/// and ZeRO-1 or its optimizer for bf16, Megatron-LM's layers and fused kernels.
inline constexpr framework megatron_deepspeed{
    .name = "Megatron-DeepSpeed",
    .implementation = {.layers = &layer_classes::megatron_core,
                       .loads_all_kernels = true,
                       .builds_in_fp32 = false,
                       .fuses_softmax = true,
                       .fuses_bias_activation = true,
                       .compiles_functions = true},
    .engine = engines::megatron_deepspeed,
    .costs = {.matmul_rate = 0.92,
              .score_traffic = 1.65,
              .host_per_operator = 400_us,
              .hides_gradients = false,
              .hides_parameters = false,
              .scatter = 0.08,
              .timed = true}};

/// Megatron-DeepSpeed with ZeRO-3 of 2021: weights are gathered one parameter after the other, and
/// waited for.
inline constexpr framework megatron_deepspeed_zero_3 = [] {
  framework changed = megatron_deepspeed;
  changed.name = "Megatron-DeepSpeed, ZeRO-3";
  changed.costs.matmul_rate = 0.86;
  changed.costs.hides_gathers = false;
  changed.costs.gathered_at_most = 6.3_GBps;
  return changed;
}();

/// Megatron-LM of 2021: its fused kernels, gradients reduced behind the backward pass.
inline constexpr framework megatron_lm{.name = "Megatron-LM",
                                       .implementation = {.layers = &layer_classes::megatron_core,
                                                          .builds_in_fp32 = false,
                                                          .fuses_softmax = true,
                                                          .fuses_bias_activation = true,
                                                          .compiles_functions = true},
                                       .engine = engines::megatron,
                                       .costs = {.matmul_rate = 1.04,
                                                 .score_traffic = 1.3,
                                                 .host_per_operator = 260_us,
                                                 .hidden_tensor_communication = 0.1,
                                                 .hides_gradients = false,
                                                 .hides_parameters = false,
                                                 .scatter = 0.05,
                                                 .timed = true}};

/// Megatron-LM's layers as a profiler timed them one by one, with the host's part of each (vTrain,
/// arXiv 2312.12391, composes steps of them).
inline constexpr framework megatron_lm_profiled = [] {
  framework changed = megatron_lm;
  changed.name = "Megatron-LM, profiled";
  changed.costs.matmul_rate = 0.98;
  changed.costs.score_traffic = 2;
  changed.costs.host_per_operator = 169_us;
  changed.costs.host_of_backward = 0.357;
  changed.costs.host_per_step = 1.3_ms;
  changed.costs.hidden_tensor_communication = 0;
  changed.costs.hidden_pipeline_communication = 1;
  changed.costs.launches_ahead = false;
  changed.costs.scatter = 0.02;
  return changed;
}();

/// DeepSpeed's ZeRO-3 of 2021 beside Megatron-LM's layers, as the paper of the latter measured it:
/// it gathered weights one parameter after the other, and waited.
inline constexpr framework megatron_zero_3 = [] {
  framework changed = megatron_lm;
  changed.name = "Megatron-LM, ZeRO-3";
  changed.engine.is = &engine_classes::deepspeed;
  changed.costs.hides_gradients = true;
  changed.costs.hides_parameters = true;
  changed.costs.hides_gathers = false;
  changed.costs.gathered_at_most = 41.6_GBps;
  return changed;
}();

/// Megatron-Bridge, whose recipes hide exchanges behind kernels, and its releases since 26.06,
/// which launch more of a step at once, and sort tokens for experts as they send them.
inline constexpr framework megatron_bridge = [] {
  framework changed = megatron_transformer_engine;
  changed.name = "Megatron-Bridge";
  changed.engine.overlaps_reduction = true;
  changed.costs = {.routed_moves = 12,
                   .host_per_operator = 264_us,
                   .host_per_step = 300_ms,
                   .hidden_tensor_communication = 0.08,
                   .hidden_expert_communication = 0.6,
                   .hidden_pipeline_communication = 1,
                   .scatter = 0.11,
                   .timed = true};
  return changed;
}();

inline constexpr framework megatron_bridge_2606 = [] {
  framework changed = megatron_bridge;
  changed.name = "Megatron-Bridge 26.06";
  changed.costs.routed_moves = 2.3;
  changed.costs.host_per_operator = 104_us;
  changed.costs.hidden_expert_communication = 1;
  return changed;
}();

/// The same with Megatron-FSDP.
inline constexpr framework megatron_bridge_fsdp = [] {
  framework changed = megatron_bridge_2606;
  changed.name = "Megatron-Bridge, Megatron-FSDP";
  changed.engine.is = &engine_classes::megatron_fsdp;
  changed.costs.hides_gradients = true;
  changed.costs.hides_parameters = true;
  changed.costs.timed = false;
  return changed;
}();

/// Megatron-LM's fork of the zero-bubble papers (sail-sg/zero-bubble-pipeline-parallelism), whose
/// linear layers put off the gradients of weights (WeightGradStore). No step of it was measured.
inline constexpr framework megatron_zero_bubble = [] {
  framework changed = megatron_core;
  changed.name = "Megatron-LM, zero bubble";
  changed.engine = engines::zero_bubble;
  return changed;
}();

/// Transformer Engine's layers in the schedules of DeepSeek-V3 (deepseek-ai/DualPipe), with
/// delay_wgrad_compute, and its exchanges of experts and of stages hidden behind the other
/// direction's passes, as its report says of them. Nobody published such code whole, and no step of
/// it was measured.
inline constexpr framework megatron_dual_pipe = [] {
  framework changed = megatron_transformer_engine;
  changed.name = "Megatron-Core, DualPipe";
  changed.engine = engines::dual_pipe;
  changed.costs.hidden_expert_communication = 1;
  changed.costs.hidden_pipeline_communication = 1;
  changed.costs.hides_by_dual_pipe = true;
  changed.costs.timed = false;
  return changed;
}();

inline constexpr listed_framework megatron_frameworks[] = {
    {&megatron_core, "megatron-core"},
    {&megatron_transformer_engine, "megatron-te"},
    {&megatron_zero_bubble, "megatron-zero-bubble"},
    {&megatron_dual_pipe, "megatron-dual-pipe"},
    {&megatron_deepspeed, "megatron-deepspeed"},
    {&megatron_deepspeed_zero_3},
    {&megatron_lm},
    {&megatron_lm_profiled},
    {&megatron_zero_3},
    {&megatron_bridge},
    {&megatron_bridge_2606},
    {&megatron_bridge_fsdp, "megatron-fsdp"},
};

}  // namespace catalog
}  // namespace gpuplan
