#pragma once

// How ranks share a training: what keeps a framework from a layout. Private.

#include <gpuplan/training_setup/description.hpp>
#include <gpuplan/training_setup/dispatch.hpp>

#include <cstdint>

namespace gpuplan::detail {

// Which ZeRO stages there are.
constexpr failure flaw_of_zero_stage(const training_setup& setup) {
  const int stage = setup.parallelism.zero_stage;
  const named_fact zero_stage{fact::zero_stage, stage};
  const named_fact sharding{fact::sharding, setup.framework.engine.is->name};
  const int least = setup.framework.engine.is->least_zero_stage;
  const int most = setup.framework.engine.is->most_zero_stage;
  if (stage >= least && stage <= most) return {};
  failure why = without_code({zero_stage, sharding});
  for (int taken = least; taken <= most; ++taken) why.add(fact::takes, taken);
  return why;
}

// A failure with the engines that would be taken.
template <class Takes>
constexpr failure with_engines(failure why, const Takes& takes) {
  for (const engine_class* by : engine_classes::all)
    if (takes(*by)) why.facts[why.count++] = {fact::takes, by->name};
  return why;
}

// Settings of an engine are open, engines are not: the replay has the code of these.
constexpr failure flaw_of_engine(const engine& by) {
  for (const engine_class* known : engine_classes::all)
    if (by.is == known) return {};
  const code_name* name = by.is == nullptr ? &code_names::nobody : by.is->name;
  return with_engines(without_code({{fact::sharding, name}}),
                      [](const engine_class&) { return true; });
}

// Whose layers can be shared, and what of them lies on the host.
constexpr failure flaw_of_sharding(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const layer_class& code = setup.framework.layers();
  const engine_class& by = *setup.framework.engine.is;
  const named_fact layers{fact::layers, code.name};
  const named_fact sharding{fact::sharding, by.name};
  const named_fact zero_stage{fact::zero_stage, layout.zero_stage};
  const bool gathers = by.gathers_weights;
  const int stage = layout.zero_stage;
  const auto runs_it = [&](const engine_class& taken) {
    if (code.engine != nullptr && code.engine != &taken) return false;
    return code.is_pipelined ? taken.runs_pipelines : taken.runs_others;
  };
  if (!runs_it(by)) return with_engines(without_code({sharding, layers}), runs_it);
  // A group of layers would be gathered and reduced once, and runs several times.
  const std::int64_t groups = setup.model.shared.num_hidden_groups;
  if (gathers && groups != 0)
    return with_engines(
        without_code({sharding, {fact::num_hidden_groups, groups}}),
        [&](const engine_class& taken) { return runs_it(taken) && !taken.gathers_weights; });
  const named_fact on_host{fact::optimizer_on_host, layout.optimizer_on_host};
  if (gathers && layout.optimizer_on_host != layout.weights_on_host)
    return without_code({on_host,
                         {fact::weights_on_host, layout.weights_on_host},
                         sharding,
                         {fact::takes, layout.weights_on_host}});
  if (!gathers && layout.optimizer_on_host) {
    if (!by.has_own_step) return without_code({on_host, sharding, {fact::takes, false}});
    if (stage == 0) return without_code({on_host, zero_stage, {fact::takes, false}});
    if (stage == 1 && setup.precision.fp32_gradients &&
        setup.precision.weights == number_format::bf16)
      return without_code({on_host,
                           zero_stage,
                           {fact::fp32_gradients, true},
                           {fact::precision_weights, setup.precision.weights},
                           {fact::takes, false}});
  }
  if (by.has_own_step && stage == 3 && !code.has_module_hooks)
    return without_code({zero_stage, sharding, layers, {fact::at_most, 2}});
  return {};
}

// Megatron-Core's: stages, and chunks of them, are equally long, but for what is stated of the
// first and the last one, or listed.
constexpr failure flaw_of_equal_stages(const parallelism& layout, std::int64_t layers) {
  const pipeline_split& split = layout.split;
  const std::int64_t stages = layout.pipeline_parallel;
  const named_fact all{fact::num_hidden_layers, layers};
  if (const failure why = flaw_of_split(layout, all); failed(why)) return why;
  if (split.listed.count != 0 || split.states_ends()) return {};
  const named_fact by{fact::pipeline_parallel, stages};
  if (split.first_have_more)
    return without_code({{fact::first_have_more, true}, by, {fact::takes, false}});
  if (split.head_cost != 0)
    return without_code({{fact::head_cost, split.head_cost}, by, {fact::takes, 0}});
  for (const named_fact end : {named_fact{fact::embedding_layers, split.embedding_layers},
                               named_fact{fact::head_layers, split.head_layers}})
    if (end.value > 1) return without_code({end, by, {fact::takes, 0}, {fact::takes, 1}});
  const std::int64_t ends = split.embedding_layers + split.head_layers;
  const std::int64_t places = layers + ends;
  if (stages > places) return without_code({by, all, {fact::at_most, places}});
  const named_fact whole = ends == 0 ? all : named_fact{fact::layers_and_ends, places};
  if (const failure why = flaw_if_indivisible(by, {whole}); failed(why)) return why;
  return flaw_if_indivisible({fact::virtual_pipeline, layout.virtual_pipeline},
                             {{fact::layers_of_stage, places / stages}});
}
// DeepSpeed's: the embedding and the head count as a layer each, or neither does.
constexpr failure flaw_of_unequal_stages(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const pipeline_split& split = layout.split;
  const named_fact sharding{fact::sharding, setup.framework.engine.is->name};
  const std::int64_t layers = setup.model.num_hidden_layers;
  if (layers < layout.pipeline_parallel)
    return without_code({{fact::pipeline_parallel, layout.pipeline_parallel},
                         {fact::num_hidden_layers, layers},
                         {fact::at_most, layers}});
  if (split.embedding_layers != split.head_layers || split.head_layers > 1)
    return without_code({{fact::embedding_layers, split.embedding_layers},
                         {fact::head_layers, split.head_layers},
                         sharding,
                         {fact::takes, split.head_layers > 1 ? 1 : split.head_layers}});
  return flaw_if_any({{fact::first_have_more, split.first_have_more},
                      {fact::head_cost, split.head_cost},
                      {fact::first_stage_layers, split.first_stage_layers},
                      {fact::last_stage_layers, split.last_stage_layers},
                      {fact::listed_chunks, split.listed.count}},
                     sharding);
}

// What Transformer Engine's attention takes of a part of a sequence.
constexpr failure flaw_of_context(const training_setup& setup) {
  const transformer& model = setup.model;
  const named_fact ranks{fact::context_parallel, setup.parallelism.context_parallel};
  if (setup.parallelism.context_parallel == 1) return {};
  if (!exchanges_heads(setup)) {
    const named_fact ring{fact::context_exchange, context_exchange::p2p};
    const named_fact by_heads{fact::takes, context_exchange::a2a};
    if (model.sliding_window != 0)
      return without_code({ring, ranks, {fact::sliding_window, model.sliding_window}, by_heads});
    if (model.attention_sinks)
      return without_code({ring, ranks, {fact::attention_sinks, true}, by_heads});
    return {};
  }
  const named_fact by_heads{fact::context_exchange, context_exchange::a2a};
  const named_fact ring{fact::takes, context_exchange::p2p};
  if (model.is_latent())
    return without_code({by_heads, ranks, {fact::kv_lora_rank, model.mla.kv_lora_rank}, ring});
  // A context rank has all tokens of a part of a tensor rank's heads; their number is a multiple of
  // that of its keys and values.
  const std::int64_t parts = setup.parallelism.tensor_parallel;
  const std::int64_t groups = model.key_value_heads() > parts ? model.key_value_heads() / parts : 1;
  return flaw_if_indivisible(ranks, {{fact::key_value_heads_of_rank, groups}});
}

// Megatron-Core's ranks have equal parts of layers. DeepSpeed's pipeline engine has neither chunks
// nor ZeRO-2.
constexpr failure flaw_of_pipelined_layout(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const transformer& model = setup.model;
  const std::int64_t ranks = layout.tensor_parallel;
  const named_fact tensor_parallel{fact::tensor_parallel, ranks};
  const named_fact stages{fact::pipeline_parallel, layout.pipeline_parallel};
  const engine_class& engine = *setup.framework.engine.is;
  if (layout.zero_stage > 1 && layout.pipeline_parallel > 1)
    return without_code({{fact::zero_stage, layout.zero_stage},
                         {fact::sharding, setup.framework.engine.is->name},
                         stages,
                         {fact::takes, 0},
                         {fact::takes, 1}});
  if (const failure why = engine.divides_equally ? flaw_of_equal_stages(layout, model.layers())
                                                 : flaw_of_unequal_stages(setup);
      failed(why))
    return why;
  if (const failure why =
          flaw_if_indivisible(tensor_parallel,
                              {{fact::num_attention_heads, model.num_attention_heads},
                               {fact::intermediate_size, model.intermediate_size}});
      failed(why))
    return why;
  if (ranks % model.key_value_heads() != 0)
    if (const failure why = flaw_if_indivisible(
            tensor_parallel, {{fact::num_key_value_heads, model.key_value_heads()}});
        failed(why))
      return why;
  const bool has_mamba = model.hybrid_pattern.has('M') || model.mtp_pattern.has('M');
  const std::int64_t head_ranks = ranks * layout.context_parallel;
  if (has_mamba)
    if (const failure why = flaw_if_indivisible(tensor_parallel,
                                                {{fact::mamba_num_heads, model.mamba.num_heads},
                                                 {fact::mamba_groups, model.mamba.n_groups}});
        failed(why))
      return why;
  if (has_mamba && layout.context_parallel > 1 && model.mamba.num_heads % head_ranks != 0)
    return flaw_if_indivisible({fact::context_parallel, layout.context_parallel},
                               {{fact::mamba_num_heads, model.mamba.num_heads / ranks}});
  if (model.full_attention_interval > 1 || model.hybrid_pattern.has('G')) {
    if (const failure why =
            flaw_if_indivisible(tensor_parallel,
                                {{fact::linear_num_key_heads, model.linear.num_key_heads},
                                 {fact::linear_num_value_heads, model.linear.num_value_heads}});
        failed(why))
      return why;
    // Megatron-Core's has no code for parts of a sequence.
    if (layout.context_parallel > 1)
      return without_code({{fact::context_parallel, layout.context_parallel},
                           {fact::linear_num_key_heads, model.linear.num_key_heads},
                           {fact::takes, 1}});
  }
  return flaw_of_context(setup);
}

// A context rank has two chunks of a sequence, one from either end; along the sequence, each of its
// tensor ranks an equal part of their tokens.
constexpr failure flaw_of_sequence(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const std::int64_t context = layout.context_parallel;
  if (context > 1)
    if (const failure why = flaw_if_no_multiple({{fact::sequence_length, setup.sequence_length}},
                                                {fact::chunks_of_sequence, 2 * context});
        failed(why))
      return why;
  const bool is_along = layout.sequence_parallel || setup.framework.layers().divides_sequence;
  if (!is_along) return {};
  return flaw_if_indivisible({fact::tensor_parallel, layout.tensor_parallel},
                             {{fact::tokens_of_context_rank, setup.sequence_length / context}});
}

// What the code of decoders that plain operators divide has not. Where it divides experts, all but
// its attention to documents, which has sinks, takes a part of a sequence too.
constexpr failure flaw_of_divided_tokens(const transformer& model,
                                         const named_fact& ranks,
                                         bool divides_experts) {
  if (divides_experts && ranks.name == fact::tensor_parallel) return {};
  return flaw_if_any({{fact::num_experts, divides_experts ? 0 : model.moe.num_experts},
                      {fact::kv_lora_rank, divides_experts ? 0 : model.mla.kv_lora_rank},
                      {fact::attention_sinks, model.attention_sinks}},
                     ranks);
}

// torchtitan's: ranks that share the experts are some of those that share the rest.
constexpr failure flaw_of_shared_experts(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const named_fact ranks{fact::expert_parallel, layout.expert_parallel};
  if (setup.graphs.iteration)  // the host reads how many rows each rank gets
    return without_code({ranks, {fact::graph_of_iteration, true}, {fact::takes, false}});
  if (layout.shard_group == 0) return {};
  // Which of data, context and tensor parallelism hold a replica of the model.
  const checked_integer of_data = checked_product(layout.shard_group, layout.context_parallel);
  const checked_integer all = checked_product(of_data.value, layout.tensor_parallel);
  const named_fact group{fact::shard_group, layout.shard_group};
  if (!of_data.ok || !all.ok) return failure(errc::overflow, {group, ranks});
  return flaw_if_indivisible(ranks, {{fact::ranks_of_replica, all.value}});
}

// torchtitan's: layers are dealt to the stages, whose weights stay whole for all micro-batches.
constexpr failure flaw_of_torch_stages(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const engine_class& by = *setup.framework.engine.is;
  const named_fact sharding{fact::sharding, by.name};
  const named_fact stages{fact::pipeline_parallel, layout.pipeline_parallel};
  if (layout.pipeline_parallel == 1) return {};
  if (!by.runs_stages)
    return with_engines(without_code({sharding, stages}),
                        [](const engine_class& taken) { return taken.runs_stages; });
  if (layout.zero_stage != 2)
    return without_code(
        {{fact::zero_stage, layout.zero_stage}, sharding, stages, {fact::takes, 2}});
  if (const failure why =
          flaw_if_any({{fact::trains, setup.trains.what},
                       {fact::weights_on_host, layout.weights_on_host},
                       {fact::tied_embeddings, setup.model.has_tied_head()},
                       {fact::graph_of_iteration, setup.graphs.iteration},
                       {fact::compiles_layers, setup.framework.implementation.compiles_layers},
                       {fact::compiles_loss, setup.framework.implementation.compiles_loss}},
                      stages);
      failed(why))
    return why;
  const named_fact layers{fact::num_hidden_layers, setup.model.num_hidden_layers};
  if (const failure why = flaw_of_split(layout, layers); failed(why)) return why;
  const auto empty_stage = [&](const parallelism& one) {
    // The ends have parameters without layers too.
    for (std::int64_t stage = 0; stage < one.pipeline_parallel; ++stage)
      for (std::int64_t chunk = 0; chunk < one.virtual_pipeline; ++chunk) {
        const std::int64_t place = place_of_chunk(one, stage, chunk);
        if (place != 0 && place != chunks_in_all(one) - 1 &&
            layers_of_chunk(one, layers.value, stage, chunk).size() == 0)
          return stage;
      }
    return std::int64_t{-1};
  };
  const std::int64_t empty = empty_stage(layout);
  if (empty == -1) return {};
  parallelism fewer = layout;
  do --fewer.pipeline_parallel;
  while (fewer.pipeline_parallel > 1 &&
         (failed(flaw_of_split(fewer, layers)) || empty_stage(fewer) != -1));
  return without_code(
      {stages, {fact::stage, empty}, layers, {fact::takes, fewer.pipeline_parallel}});
}

// What an engine offers beside 1F1B, of stages and by layers whose gradients of weights wait.
constexpr failure flaw_of_schedule(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  if (layout.schedule == pipeline_schedule::one_f_one_b) return {};
  const engine& by = setup.framework.engine;
  const named_fact schedule{fact::schedule, layout.schedule};
  const named_fact one_by_one{fact::takes, pipeline_schedule::one_f_one_b};
  if (layout.pipeline_parallel == 1)
    return without_code(
        {schedule, {fact::pipeline_parallel, layout.pipeline_parallel}, one_by_one});
  const auto has = [&](pipeline_schedule one) {
    return by.schedules.has(one) && (by.is->defers_weights || !traits_of(one).defers_weights);
  };
  if (!has(layout.schedule)) {
    failure why = without_code({schedule, {fact::sharding, by.is->name}, one_by_one});
    for (const auto other : {pipeline_schedule::gpipe,
                             pipeline_schedule::zero_bubble,
                             pipeline_schedule::zero_bubble_v,
                             pipeline_schedule::dual_pipe,
                             pipeline_schedule::dual_pipe_v})
      if (has(other)) why.facts[why.count++] = {fact::takes, other};
    return why;
  }
  // Its compiled attention lets go of what a whole backward read, as the last stage's first one is,
  // and PyTorch stops where a later one is to keep that.
  if (layout.schedule == pipeline_schedule::dual_pipe_v &&
      !setup.framework.layers().runs_dual_pipe_v)
    return without_code({schedule,
                         {fact::layers, setup.framework.layers().name},
                         one_by_one,
                         {fact::takes, pipeline_schedule::zero_bubble_v}});
  if (!traits_of(layout.schedule).defers_weights) return {};
  // Of several chunks the order of PyTorch alone is known.
  const bool is_of_torch = setup.framework.layers().divides_stages;
  if (!is_of_torch && traits_of(layout.schedule).interleaves && layout.virtual_pipeline > 1)
    return without_code({{fact::virtual_pipeline, layout.virtual_pipeline},
                         schedule,
                         {fact::sharding, by.is->name},
                         {fact::takes, 1}});
  // What waits of these is not known.
  if (const failure why = flaw_if_any(
          {{fact::trains, setup.trains.what}, {fact::mtp_layers, setup.model.mtp_layers}},
          schedule);
      failed(why))
    return why;
  // PyTorch would compute a layer again for each of its parameters, and keep that.
  if (!is_of_torch) return {};
  return flaw_if_any({{fact::recompute, setup.recompute}}, schedule);
}

constexpr failure flaw_of_layout(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const named_fact layers{fact::layers, setup.framework.layers().name};
  const named_fact sharding{fact::sharding, setup.framework.engine.is->name};
  const named_fact tensor_parallel{fact::tensor_parallel, layout.tensor_parallel};
  const named_fact stages{fact::pipeline_parallel, layout.pipeline_parallel};
  const named_fact chunks{fact::virtual_pipeline, layout.virtual_pipeline};
  const named_fact one{fact::takes, 1};
  const layer_class& code = setup.framework.layers();
  const std::int64_t ranks = layout.tensor_parallel;
  if (layout.virtual_pipeline > 1) {
    if (!code.is_pipelined && !code.divides_stages) return without_code({chunks, layers, one});
    if (!setup.framework.engine.is->runs_chunks) return without_code({chunks, sharding, one});
    if (layout.pipeline_parallel == 1) return without_code({chunks, stages, one});
  }
  if (const failure why = flaw_of_schedule(setup); failed(why)) return why;
  const bool has_engine = setup.framework.implementation.transformer_engine;
  const named_fact engine{fact::transformer_engine, has_engine};
  if (!has_engine && layout.expert_parallel > 1) {
    if (!code.divides_experts)
      return without_code({{fact::expert_parallel, layout.expert_parallel},
                           code.has_every_part ? engine : layers,
                           one});
    if (const failure why = flaw_of_shared_experts(setup); failed(why)) return why;
  }
  if (!has_engine && !code.divides_context && layout.context_parallel > 1)
    return without_code({{fact::context_parallel, layout.context_parallel}, layers, engine, one});
  if (!has_engine && setup.context_exchange != context_exchange::automatic)
    return without_code({{fact::context_exchange, setup.context_exchange},
                         layers,
                         engine,
                         {fact::takes, context_exchange::automatic}});
  const model_rank& place = setup.place;
  if (place.stage < 0 || place.stage >= layout.pipeline_parallel)
    return failure(errc::out_of_bounds,
                   {{fact::stage, place.stage},
                    {fact::at_least, 0},
                    {fact::at_most, layout.pipeline_parallel - 1}});
  if (place.tensor_rank != 0)
    return without_code({{fact::tensor_rank, place.tensor_rank}, {fact::takes, 0}});
  if (place.expert_rank != 0)
    return without_code({{fact::expert_rank, place.expert_rank}, {fact::takes, 0}});
  if (const failure why = flaw_of_sequence(setup); failed(why)) return why;
  if (code.is_pipelined)
    if (const failure why = flaw_of_pipelined_layout(setup); failed(why)) return why;
  if (code.divides_stages)
    if (const failure why = flaw_of_torch_stages(setup); failed(why)) return why;
  const named_fact loss_parallel{fact::loss_parallel, setup.framework.implementation.loss_parallel};
  if (setup.framework.implementation.loss_parallel && code.is_pipelined)
    return without_code({loss_parallel, layers, {fact::takes, false}});
  const transformer& model = setup.model;
  if (layout.context_parallel > 1 && !code.is_pipelined)
    if (const failure why = flaw_of_divided_tokens(
            model, {fact::context_parallel, layout.context_parallel}, code.divides_experts);
        failed(why))
      return why;
  if (ranks == 1 || code.is_pipelined) return {};
  if (!code.divides_tensors) return without_code({tensor_parallel, layers, one});
  const bool has_groups = model.key_value_heads() != model.num_attention_heads;
  if (const failure why =
          flaw_if_indivisible(tensor_parallel,
                              {{has_groups ? fact::num_key_value_heads : fact::num_attention_heads,
                                model.key_value_heads()},
                               {fact::intermediate_size, model.intermediate_size}});
      failed(why))
    return why;
  // gpt-oss has the first three.
  const bool divides_biases = code.divides_experts && model.attention_sinks;
  if (const failure why =
          flaw_if_any({{fact::attention_bias, !divides_biases && model.attention_bias},
                       {fact::attention_out_bias, !divides_biases && model.attention_out_bias},
                       {fact::mlp_bias, !divides_biases && model.mlp_bias},
                       {fact::norm_bias, model.norm_bias}},
                      tensor_parallel);
      failed(why))
    return why;
  if (const failure why = flaw_of_divided_tokens(model, tensor_parallel, code.divides_experts);
      failed(why))
    return why;
  const named_fact along{fact::sequence_parallel, layout.sequence_parallel};
  if (setup.trains.what != training::full && (layout.sequence_parallel || code.divides_sequence))
    return without_code({{fact::trains, setup.trains.what},
                         tensor_parallel,
                         code.divides_sequence ? layers : along,
                         {fact::takes, training::full}});
  if (code.divides_replicas) return {};
  const auto shares_nothing = [](const engine_class& by) {
    return !by.gathers_weights && !by.has_own_step && by.runs_others;
  };
  if (!shares_nothing(*setup.framework.engine.is))
    return with_engines(without_code({sharding, tensor_parallel}), shares_nothing);
  if (const failure why = flaw_if_any({{fact::zero_stage, layout.zero_stage}}, tensor_parallel);
      failed(why))
    return why;
  if (setup.optimizer.clips_gradients && !layout.sequence_parallel)
    return without_code(
        {{fact::clips_gradients, true}, tensor_parallel, along, {fact::takes, false}});
  return {};
}

// Megatron-Core's ranks have tokens of their own, a part of the sequence each, and experts whole or
// in parts, whose ranks gather their tokens. torchtitan's tensor-parallel ranks have parts of each
// where none shares them.
constexpr failure flaw_of_parts_of_experts(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const expert_mixture& moe = setup.model.moe;
  const layer_class& code = setup.framework.layers();
  const named_fact parts{fact::expert_tensor_parallel, layout.expert_tensor_parallel};
  const named_fact tensor_parallel{fact::tensor_parallel, layout.tensor_parallel};
  const named_fact width{fact::moe_intermediate_size, moe.moe_intermediate_size};
  const named_fact whole{fact::takes, 1};
  if (parts.value > 1) {
    if (moe.num_experts == 0)
      return without_code({parts, {fact::num_experts, moe.num_experts}, whole});
    if (!code.has_every_part) return without_code({parts, {fact::layers, code.name}, whole});
    if (setup.dispatcher != token_dispatcher::all_to_all)
      return without_code({parts, {fact::dispatcher, setup.dispatcher}, whole});
    if (setup.model.mlp_bias) return without_code({parts, {fact::mlp_bias, true}, whole});
  }
  if (moe.num_experts == 0) return {};
  if (layout.expert_parallel > 1) return flaw_if_indivisible(parts, {width});
  // Gradients of experts that none shares are added up as those of other weights.
  if (!code.divides_experts && parts.value != layout.tensor_parallel)
    return without_code({parts,
                         tensor_parallel,
                         {fact::expert_parallel, layout.expert_parallel},
                         {fact::takes, layout.tensor_parallel}});
  return flaw_if_indivisible(tensor_parallel, {width});
}

// What Megatron-Core and torchtitan can divide, as far as their code is known.
constexpr failure flaw_of_experts(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const expert_mixture& moe = setup.model.moe;
  const named_fact experts{fact::num_experts, moe.num_experts};
  const named_fact capacity{fact::expert_capacity, setup.expert_capacity};
  if (setup.expert_capacity != 1 &&
      (moe.num_experts == 0 || !setup.framework.layers().has_every_part))
    return without_code(
        {capacity, experts, {fact::layers, setup.framework.layers().name}, {fact::takes, 1}});
  const named_fact dispatcher{fact::dispatcher, setup.dispatcher};
  const named_fact all_to_all{fact::takes, token_dispatcher::all_to_all};
  if (setup.dispatcher != token_dispatcher::all_to_all) {
    if (moe.num_experts == 0 || !setup.framework.layers().has_every_part)
      return without_code(
          {dispatcher, experts, {fact::layers, setup.framework.layers().name}, all_to_all});
    // Flex is asserted to have ranks to send to, DeepEP to have a setting for as many.
    const bool is_deepep = setup.dispatcher == token_dispatcher::deepep;
    const std::int64_t ranks = layout.expert_parallel;
    if (is_deepep ? deepep_queue_of(ranks).ranks == 0
                  : ranks == 1 || (ranks > nvlink_peers && ranks % nvlink_peers != 0))
      return without_code({dispatcher, {fact::expert_parallel, ranks}, all_to_all});
  }
  if (moe.num_experts == 0 && layout.expert_parallel > 1)
    return without_code(
        {{fact::expert_parallel, layout.expert_parallel}, experts, {fact::takes, 1}});
  if (const failure why = flaw_of_parts_of_experts(setup); failed(why)) return why;
  if (moe.num_experts == 0) return {};
  const named_fact tensor_parallel{fact::tensor_parallel, layout.tensor_parallel};
  const bool is_along = layout.sequence_parallel || setup.framework.layers().divides_sequence;
  if (layout.tensor_parallel > 1 && !is_along)
    return without_code(
        {{fact::sequence_parallel, false}, tensor_parallel, experts, {fact::takes, true}});
  if (moe.shared_expert_intermediate_size != 0)
    if (const failure why = flaw_if_indivisible(
            tensor_parallel,
            {{fact::shared_expert_intermediate_size, moe.shared_expert_intermediate_size}});
        failed(why))
      return why;
  return flaw_if_indivisible({fact::expert_parallel, layout.expert_parallel}, {experts});
}

}  // namespace gpuplan::detail
