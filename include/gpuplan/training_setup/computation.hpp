#pragma once

// What is computed again, captured in graphs, and by which kernel of attention: what has no code.
// Private.

#include <gpuplan/training_setup/description.hpp>

#include <cstdint>

namespace gpuplan::detail {

constexpr failure flaw_of_recomputation(const training_setup& setup) {
  const layer_class& code = setup.framework.layers();
  const named_fact layers{fact::layers, code.name};
  if (setup.recompute == recompute_mode::full && !code.recomputes_layers)
    return without_code(
        {{fact::recompute, setup.recompute}, layers, {fact::takes, recompute_mode::none}});
  if (setup.recompute == recompute_mode::selective && !code.recomputes_attention)
    return without_code({{fact::recompute, setup.recompute},
                         layers,
                         {fact::takes, recompute_mode::none},
                         {fact::takes, recompute_mode::full}});
  const recomputed_modules& parts = setup.modules;
  if (setup.recompute != recompute_mode::selective) return {};
  const transformer& model = setup.model;
  if (parts.latent_projections && !model.is_latent())
    return without_code({{fact::latent_projections, true},
                         {fact::kv_lora_rank, model.mla.kv_lora_rank},
                         {fact::takes, false}});
  if (parts.expert_activation && model.moe.num_experts == 0)
    return without_code(
        {{fact::expert_activation, true}, {fact::num_experts, 0}, {fact::takes, false}});
  if (code.recomputes_modules) return {};
  if (!parts.core_attention)
    return without_code({{fact::core_attention, false}, layers, {fact::takes, true}});
  return flaw_if_any({{fact::latent_projections, parts.latent_projections},
                      {fact::norms, parts.norms},
                      {fact::mlp, parts.mlp},
                      {fact::experts, parts.experts},
                      {fact::expert_activation, parts.expert_activation},
                      {fact::shared_experts, parts.shared_experts}},
                     layers);
}

// Megatron-Core's cpu_offloading.
constexpr failure flaw_of_offloads(const training_setup& setup) {
  const named_fact layers{fact::offloaded_layers, setup.offloads.layers};
  if (layers.value == 0) return {};
  const std::int64_t most = setup.model.num_hidden_layers - 1;
  if (layers.value > most) return failure(errc::out_of_bounds, {layers, {fact::at_most, most}});
  const std::int64_t stages = setup.parallelism.pipeline_parallel;
  if (stages > 1)
    return without_code({layers, {fact::pipeline_parallel, stages}, {fact::takes, 0}});
  if (setup.recompute != recompute_mode::none)
    return without_code({layers, {fact::recompute, setup.recompute}, {fact::takes, 0}});
  return {};
}

// Liger's loss reads the weight of the head beside the head: before DeepSpeed's hooks have gathered
// it, without what trains beside it, and gives it a gradient only where its input has one. So does
// cut cross-entropy, whose kernels multiply in formats of 16 bits alone.
constexpr failure flaw_of_fused_loss(const training_setup& setup) {
  const implementation& by_kernels = setup.framework.implementation;
  if (!by_kernels.liger_kernels && !by_kernels.cut_cross_entropy) return {};
  const named_fact liger = by_kernels.cut_cross_entropy ? named_fact{fact::cut_cross_entropy, true}
                                                        : named_fact{fact::liger_kernels, true};
  const precision_recipe& formats = setup.precision;
  const number_format read =
      setup.framework.engine.is->gathers_weights ? formats.compute : formats.weights;
  if (by_kernels.cut_cross_entropy && read != number_format::bf16 && read != number_format::fp16)
    return without_code({{setup.framework.engine.is->gathers_weights ? fact::precision_compute
                                                                     : fact::precision_weights,
                          read},
                         liger,
                         {fact::takes, number_format::bf16},
                         {fact::takes, number_format::fp16}});
  const named_fact stage{fact::zero_stage, setup.parallelism.zero_stage};
  const engine_class& by = *setup.framework.engine.is;
  if (by.has_own_step && stage.value == 3)
    return without_code({stage, {fact::sharding, by.name}, liger, {fact::at_most, 2}});
  const trainable& trains = setup.trains;
  const bool adapts_head = trains.what == training::adapters &&
                           (trains.adapters.targets.head || trains.adapters.copy_head);
  if (trains.what == training::head || adapts_head)
    return without_code({{fact::trains, trains.what}, liger, {fact::takes, training::full}});
  return {};
}

// Chunks are equal parts of what a rank has of each sequence.
constexpr failure flaw_of_chunked_loss(const training_setup& setup) {
  const named_fact chunks{fact::loss_chunks, setup.framework.implementation.loss_chunks};
  constexpr std::int64_t most = 4096;
  if (chunks.value < 0 || chunks.value > most)
    return failure(errc::out_of_bounds, {chunks, {fact::at_least, 0}, {fact::at_most, most}});
  if (chunks.value == 0) return {};
  const std::int64_t context = setup.parallelism.context_parallel;
  if (context > 1)
    return flaw_if_indivisible(chunks,
                               {{fact::tokens_of_context_rank, setup.sequence_length / context}});
  return flaw_if_indivisible(chunks, {{fact::sequence_length, setup.sequence_length}});
}

// TRL's trainers read the weight of the head beside the head, which FSDP has not gathered there;
// their reference is the model without its adapters wherever there are some, and they join no
// pairs. Numbers that ZeRO-3 has computed before leave a second engine's hooks on the model.
constexpr failure flaw_of_objective(const training_setup& setup) {
  const named_fact objective{fact::objective, setup.objective};
  const named_fact reference{fact::reference, setup.reference};
  const named_fact scored{fact::scored_tokens, setup.scored_tokens};
  if (setup.objective == training_objective::next_token) {
    if (const failure why = flaw_if_any({scored}, objective); failed(why)) return why;
    return flaw_if_any({reference,
                        {fact::generates_apart, setup.generates_apart},
                        {fact::inference_bytes, setup.inference_bytes}},
                       objective);
  }
  const engine_class& by = *setup.framework.engine.is;
  if (by.gathers_weights)
    return without_code(
        {objective, {fact::sharding, by.name}, {fact::takes, training_objective::next_token}});
  if (const failure why =
          flaw_if_any({{fact::liger_kernels, setup.framework.implementation.liger_kernels},
                       {fact::cut_cross_entropy, setup.framework.implementation.cut_cross_entropy},
                       {fact::lm_head_bias, setup.model.lm_head_bias}},
                      objective);
      failed(why))
    return why;
  const trainable& trains = setup.trains;
  const bool adapts = trains.what == training::adapters;
  const lora& adapters = trains.adapters;
  if (trains.what == training::head || trains.what == training::frozen ||
      (adapts && (adapters.targets.head || adapters.copy_head || adapters.copy_embedding)))
    return without_code({{fact::trains, trains.what}, objective, {fact::takes, training::full}});
  const bool prefers = setup.objective == training_objective::preference;
  const bool is_policy = setup.objective == training_objective::group_relative;
  if (!prefers && !is_policy)
    if (const failure why = flaw_if_any({reference}, objective); failed(why)) return why;
  if (prefers || is_policy)
    if (const failure why = flaw_if_any({{fact::padding_free, setup.padding_free}}, objective);
        failed(why))
      return why;
  if (!is_policy)
    if (const failure why = flaw_if_any({{fact::generates_apart, setup.generates_apart},
                                         {fact::inference_bytes, setup.inference_bytes}},
                                        objective);
        failed(why))
      return why;
  const reference_model own =
      adapts ? reference_model::without_adapters : reference_model::separate;
  const reference_model other = is_policy ? reference_model::none : reference_model::precomputed;
  if ((prefers || is_policy) && setup.reference != own && setup.reference != other)
    return without_code({reference,
                         objective,
                         {fact::trains, trains.what},
                         {fact::takes, own},
                         {fact::takes, other}});
  const named_fact stage{fact::zero_stage, setup.parallelism.zero_stage};
  const bool divides = by.has_own_step && stage.value == 3;
  if (divides && prefers && setup.reference == reference_model::precomputed)
    return without_code({reference, objective, stage, {fact::takes, own}});
  if (divides && adapts && adapters.base.block != 0)
    return without_code({stage,
                         objective,
                         {fact::adapter_base_block, adapters.base.block},
                         {fact::takes, 1},
                         {fact::takes, 2}});
  const std::int64_t most_bytes = std::int64_t{1} << 50;
  if (setup.inference_bytes < 0 || setup.inference_bytes > most_bytes)
    return failure(errc::out_of_bounds,
                   {{fact::inference_bytes, setup.inference_bytes},
                    {fact::at_least, 0},
                    {fact::at_most, most_bytes}});
  const checked_integer most =
      checked_product(setup.sequence_length - 1, std::int64_t{prefers ? 2 : 1});
  if (!most.ok || most.value < 1 || scored.value < 0 || scored.value > most.value)
    return failure(errc::out_of_bounds,
                   {scored,
                    {fact::sequence_length, setup.sequence_length},
                    {fact::at_least, 0},
                    {fact::at_most, most.ok ? most.value : 0}});
  return {};
}

// Megatron-Core's rules (transformer_config.py of its 0.16): recomputation may not go round a
// graph, and draws no numbers in one.
constexpr failure flaw_of_graphs(const training_setup& setup) {
  const captured_parts& parts = setup.graphs;
  if (!parts.any()) return {};
  const layer_class& code = setup.framework.layers();
  const named_fact of_iteration{fact::graph_of_iteration, parts.iteration};
  const named_fact of_attention{fact::graph_of_attention, parts.attention};
  const named_fact of_state_spaces{fact::graph_of_state_spaces, parts.state_spaces};
  const named_fact of_mlp{fact::graph_of_mlp, parts.mlp};
  const named_fact of_router{fact::graph_of_router, parts.router};
  const named_fact of_dispatch{fact::graph_of_dispatch, parts.dispatch};
  const named_fact none{fact::takes, false};
  const bool in_layers =
      parts.attention || parts.state_spaces || parts.mlp || parts.router || parts.dispatch;
  if (!code.captures_graphs)
    return flaw_if_any(
        {of_iteration, of_attention, of_state_spaces, of_mlp, of_router, of_dispatch},
        {fact::layers, code.name});
  if (!code.captures_layers)
    if (const failure why =
            flaw_if_any({of_attention, of_state_spaces, of_mlp, of_router, of_dispatch},
                        {fact::layers, code.name});
        failed(why))
      return why;
  if (parts.iteration)
    if (const failure why = flaw_if_any(
            {of_attention, of_state_spaces, of_mlp, of_router, of_dispatch}, of_iteration);
        failed(why))
      return why;
  const expert_mixture& moe = setup.model.moe;
  const named_fact experts{fact::num_experts, moe.num_experts};
  if (parts.state_spaces && setup.model.mamba.num_heads == 0)
    return without_code(
        {of_state_spaces, {fact::mamba_num_heads, setup.model.mamba.num_heads}, none});
  if (parts.dispatch && !parts.router)
    return without_code({of_dispatch, of_router, {fact::takes, false}});
  if (parts.router && moe.num_experts == 0) return without_code({of_router, experts, none});
  if (parts.mlp && setup.model.moe_layers_before(setup.model.layers()) == setup.model.layers())
    return without_code({of_mlp, experts, none});
  if (in_layers && setup.recompute == recompute_mode::full)
    return without_code({{fact::recompute, setup.recompute},
                         parts.attention      ? of_attention
                         : parts.state_spaces ? of_state_spaces
                         : parts.mlp          ? of_mlp
                                              : of_router,
                         {fact::takes, recompute_mode::none},
                         {fact::takes, recompute_mode::selective}});
  if (setup.recompute != recompute_mode::selective) return {};
  if (parts.router && setup.modules.experts)
    return without_code({of_router, {fact::experts, true}, none});
  const named_fact dropout{fact::dropout, setup.dropout};
  const named_fact of_weights = setup.attention_dropout
                                    ? named_fact{fact::attention_dropout, *setup.attention_dropout}
                                    : dropout;
  for (const named_fact& drops : {dropout, of_weights})
    if (parts.iteration && drops.value != 0) return without_code({of_iteration, drops, none});
  if (parts.attention && setup.modules.core_attention && of_weights.value != 0)
    return without_code({of_attention, of_weights, none});
  if (parts.mlp && setup.modules.mlp && dropout.value != 0)
    return without_code({of_mlp, dropout, none});
  return {};
}

// What is dropped where a class drops nothing.
constexpr failure flaw_of_dropout(const training_setup& setup) {
  if (setup.framework.layers().has_dropout) return {};
  const double of_attention = setup.attention_dropout ? *setup.attention_dropout : 0;
  const named_fact layers{fact::layers, setup.framework.layers().name};
  if (setup.dropout != 0)
    return without_code({{fact::dropout, setup.dropout}, layers, {fact::takes, 0}});
  if (of_attention != 0)
    return without_code({{fact::attention_dropout, of_attention}, layers, {fact::takes, 0}});
  return {};
}

// Which kernels take what there is (sdp_utils.cpp of PyTorch).
constexpr failure flaw_of_attention(const training_setup& setup) {
  if (setup.padding_free)
    if (const failure why = flaw_if_any({{fact::padding_mask, setup.padding_mask}},
                                        {fact::padding_free, setup.padding_free});
        failed(why))
      return why;
  const transformer& model = setup.model;
  const layer_class& code = setup.framework.layers();
  const named_fact layers{fact::layers, code.name};
  const named_fact attention{fact::attention, setup.attention};
  const bool is_chosen = setup.attention != attention_kernel::automatic;
  // Its loss reads the tokens that the mask leaves, whose number no shape says.
  if (model.head == head_kind::classifier && model.classified == classified_kind::replaced)
    if (const failure why = flaw_if_any({{fact::padding_mask, setup.padding_mask}}, layers);
        failed(why))
      return why;
  if (!code.reads_padding)
    if (const failure why = flaw_if_any({{fact::padding_mask, setup.padding_mask}}, layers);
        failed(why))
      return why;
  if (!setup.framework.implementation.has_sdpa &&
      (setup.attention == attention_kernel::efficient ||
       setup.attention == attention_kernel::math ||
       (setup.attention == attention_kernel::flash &&
        (!code.has_flash || model.kind == model_kind::encoder))))
    return without_code({attention,
                         layers,
                         {fact::takes, attention_kernel::automatic},
                         {fact::takes, attention_kernel::eager}});
  if (setup.attention == attention_kernel::flash && !code.has_flash)
    return without_code({attention,
                         layers,
                         {fact::takes, attention_kernel::automatic},
                         {fact::takes, attention_kernel::efficient},
                         {fact::takes, attention_kernel::math},
                         {fact::takes, attention_kernel::eager}});
  const bool has_flash_alone =
      code.has_flash_alone || setup.framework.implementation.transformer_engine;
  if (has_flash_alone && is_chosen && setup.attention != attention_kernel::flash)
    return without_code({attention,
                         layers,
                         {fact::takes, attention_kernel::automatic},
                         {fact::takes, attention_kernel::flash}});
  if (setup.attention != attention_kernel::flash && (is_chosen || !has_flash_alone)) return {};
  if (!is_half(setup.precision.compute))
    return without_code({{fact::precision_compute, setup.precision.compute},
                         attention,
                         layers,
                         {fact::takes, number_format::bf16},
                         {fact::takes, number_format::fp16}});
  if (model.query_dim() > 256)
    return without_code(
        {{fact::head_dim, model.query_dim()}, attention, layers, {fact::at_most, 256}});
  if (code.is_pipelined) return {};
  return flaw_if_any({{fact::padding_mask, setup.padding_mask}}, attention);
}

}  // namespace gpuplan::detail
