#pragma once

// What steps which parameters: what has no code. Private.

#include <gpuplan/training_setup/description.hpp>

#include <cstdint>

namespace gpuplan::detail {

constexpr failure flaw_of_optimizer(const training_setup& setup) {
  const optimizer& by = setup.optimizer;
  const engine_class& around = *setup.framework.engine.is;
  const bool has_own = by.library != optimizer_library::torch;
  const named_fact engine{fact::sharding, around.name};
  const named_fact kind{fact::optimizer_kind, by.kind};
  const named_fact code{fact::optimizer_library, by.library};
  const named_fact loop{fact::optimizer_loop, by.loop};
  const named_fact states{fact::optimizer_states, by.states};
  const named_fact adamw{fact::takes, optimizer_kind::adamw};
  const named_fact fp32{fact::takes, number_format::fp32};
  const named_fact int8{fact::takes, number_format::int8};
  const named_fact torch{fact::takes, optimizer_library::torch};
  const named_fact reads_narrow{fact::reads_narrow_gradients, by.reads_narrow_gradients};
  const bool has_narrow_states = around.holds == held_states::buffers &&
                                 setup.framework.implementation.transformer_engine &&
                                 setup.parallelism.zero_stage != 0;
  if (by.reads_narrow_gradients && !has_narrow_states)
    return without_code({reads_narrow, engine, {fact::takes, false}});
  switch (by.library) {
    case optimizer_library::torch:
      // AnyPrecisionAdamW; Transformer Engine's optimizer beside fp32 weights of its own
      if (by.states != number_format::fp32 && by.states != setup.precision.weights &&
          (by.states != number_format::bf16 || by.kind != optimizer_kind::adamw ||
           by.loop != optimizer_loop::parameter))
        return without_code({states, code, kind, loop, fp32});
      if (is_half(by.states) && setup.precision.master_weights && !has_narrow_states)
        return without_code({states, {fact::master_weights, true}, fp32});
      if (has_narrow_states && is_half(by.states) && !by.reads_narrow_gradients)
        return without_code({reads_narrow, states, {fact::takes, true}});
      break;
    case optimizer_library::bitsandbytes:
      if (by.kind != optimizer_kind::adamw && by.kind != optimizer_kind::lion &&
          by.kind != optimizer_kind::rmsprop)
        return without_code({kind,
                             code,
                             adamw,
                             {fact::takes, optimizer_kind::lion},
                             {fact::takes, optimizer_kind::rmsprop}});
      if (by.states != number_format::fp32 && by.states != number_format::int8)
        return without_code({states, code, fp32, int8});
      if (!around.takes_any_optimizer) return without_code({code, engine, torch});
      if (setup.parallelism.optimizer_on_host)
        return without_code({code, {fact::optimizer_on_host, true}, torch});
      break;
    case optimizer_library::torchao:
      if (by.kind != optimizer_kind::adamw) return without_code({kind, code, adamw});
      if (by.states != number_format::int8) return without_code({states, code, int8});
      if (around.has_own_step) return without_code({code, engine, torch});
      break;
  }
  if (by.library != optimizer_library::bitsandbytes)
    if (const failure why = flaw_if_any({{fact::pages_states, by.pages_states},
                                         {fact::widens_embeddings, by.widens_embeddings}},
                                        code);
        failed(why))
      return why;
  const named_fact tensor_parallel{fact::tensor_parallel, setup.parallelism.tensor_parallel};
  const bool divides_layers = setup.parallelism.tensor_parallel > 1;
  const bool has_own_masters = around.has_own_step && around.takes_any_optimizer;
  if (has_own && setup.precision.master_weights && !has_own_masters)
    return without_code({code, {fact::master_weights, true}, torch});
  if (has_own && divides_layers) return without_code({code, tensor_parallel, torch});
  const bool is_fused = by.loop == optimizer_loop::fused && !has_own;
  const named_fact foreach{fact::takes, optimizer_loop::foreach};
  const named_fact parameter{fact::takes, optimizer_loop::parameter};
  switch (by.kind) {
    case optimizer_kind::adamw:
      return {};
    case optimizer_kind::sgd:
    case optimizer_kind::sgd_momentum:
    case optimizer_kind::adagrad:
      if (is_fused && around.gathers_weights)
        return without_code({loop, kind, engine, foreach, parameter});
      break;
    case optimizer_kind::lion:
    case optimizer_kind::rmsprop:
    case optimizer_kind::adafactor:
      if (is_fused) return without_code({loop, kind, foreach, parameter});
      break;
    case optimizer_kind::muon:
      break;
  }
  if (!around.has_all_optimizers && !has_own) return without_code({kind, engine, adamw});
  const bool takes_matrices =
      by.kind == optimizer_kind::muon || by.kind == optimizer_kind::adafactor;
  if (takes_matrices && around.gathers_weights) return without_code({kind, engine, adamw});
  if (by.kind == optimizer_kind::muon && setup.parallelism.zero_stage != 0)
    return without_code({kind, {fact::zero_stage, setup.parallelism.zero_stage}, adamw});
  if (divides_layers &&
      (takes_matrices || by.kind == optimizer_kind::adagrad || by.kind == optimizer_kind::lion))
    return without_code({kind, tensor_parallel, adamw});
  return {};
}

// Megatron-Bridge's LoRA: beside layers of Transformer Engine, of which each makes query, key and
// value, or gate and up, together.
constexpr failure flaw_of_pipelined_adapters(const training_setup& setup) {
  const lora& adapters = setup.trains.adapters;
  const lora_targets& targets = adapters.targets;
  const named_fact layers{fact::layers, setup.framework.layers().name};
  const named_fact trains{fact::trains, setup.trains.what};
  if (!setup.framework.implementation.transformer_engine)
    return without_code({{fact::transformer_engine, false}, trains, {fact::takes, true}});
  if (const failure why = flaw_if_any({{fact::num_experts, setup.model.moe.num_experts},
                                       {fact::kv_lora_rank, setup.model.mla.kv_lora_rank},
                                       {fact::adapter_magnitudes, adapters.magnitudes},
                                       {fact::adapter_dropout, adapters.dropout},
                                       {fact::adapter_base_block, adapters.base.block}},
                                      trains);
      failed(why))
    return why;
  if (setup.parallelism.zero_stage > 1)
    return without_code(
        {{fact::zero_stage, setup.parallelism.zero_stage}, trains, {fact::takes, 1}});
  if (const failure why = flaw_unless({{{fact::adapter_key, targets.key}, targets.query},
                                       {{fact::adapter_value, targets.value}, targets.query}},
                                      {fact::adapter_query, targets.query});
      failed(why))
    return why;
  if (setup.model.gated_mlp)
    if (const failure why = flaw_unless({{{fact::adapter_gate, targets.gate}, targets.up}},
                                        {fact::adapter_up, targets.up});
        failed(why))
      return why;
  return flaw_if_any({{fact::adapter_embedding, targets.embedding},
                      {fact::adapter_head, targets.head},
                      {fact::adapter_classifier, targets.classifier},
                      {fact::adapter_other, targets.other},
                      {fact::adapter_patches, targets.patches},
                      {fact::trainable_biases, adapters.bias != lora_bias::none},
                      {fact::copies_embedding, adapters.copy_embedding},
                      {fact::copies_head, adapters.copy_head}},
                     layers);
}

// Where each matrix of the adapters is a unit, or an engine casts adapters, nothing else trains.
// PEFT's policy makes units of encoders' embeddings too; steps of encoder-decoders with full
// recomputation were not as replayed; beside DeepSpeed decoders alone were compared.
constexpr failure flaw_of_plain_adapters(const training_setup& setup) {
  const lora& adapters = setup.trains.adapters;
  const named_fact sharding{fact::sharding, setup.framework.engine.is->name};
  const named_fact trains{fact::trains, setup.trains.what};
  const model_kind kind = setup.model.kind;
  if (kind != model_kind::decoder)
    return without_code(
        {{fact::model_kind, kind}, trains, sharding, {fact::takes, model_kind::decoder}});
  const bool are_cast = setup.framework.engine.is->casts_adapters;
  if (are_cast && adapters.magnitudes && setup.parallelism.zero_stage == 3)
    return without_code({{fact::zero_stage, 3},
                         {fact::adapter_magnitudes, true},
                         sharding,
                         {fact::takes, 0},
                         {fact::takes, 1},
                         {fact::takes, 2}});
  return flaw_if_any({{fact::adapter_magnitudes, !are_cast && adapters.magnitudes},
                      {fact::adapter_embedding, adapters.targets.embedding},
                      {fact::trainable_biases, adapters.bias != lora_bias::none},
                      {fact::copies_embedding, adapters.copy_embedding},
                      {fact::copies_head, adapters.copy_head}},
                     sharding);
}

// A base in blocks whose elements ranks share, in the format of the other weights. Where FSDP 1
// does not gather anew before the backward, PyTorch stops at the parameter that bitsandbytes has
// put in place of an original one. Its policy, which transformers takes from the blocks' format,
// casts adapters with and without autocast.
constexpr failure flaw_of_shared_blocks(const training_setup& setup) {
  const engine_class& by = *setup.framework.engine.is;
  const lora& adapters = setup.trains.adapters;
  const precision_recipe& recipe = setup.precision;
  const named_fact blocks{fact::adapter_base_block, adapters.base.block};
  const named_fact sharding{fact::sharding, by.name};
  if (adapters.base.block == 0 || by.casts_adapters || !by.gathers_weights) return {};
  if (!is_half(recipe.weights) || recipe.compute != recipe.weights)
    return without_code(
        {{fact::precision_weights, recipe.weights},
         blocks,
         sharding,
         {fact::takes, is_half(recipe.compute) ? recipe.compute : number_format::bf16}});
  if (!by.wraps_adapters) return {};
  if (const int stage = setup.parallelism.zero_stage;
      stage != 3 && setup.framework.engine.original_parameters)
    return without_code({{fact::zero_stage, stage}, blocks, sharding, {fact::takes, 3}});
  if (!recipe.under_autocast && adapters.weights != recipe.weights)
    return without_code({{fact::adapter_weights, adapters.weights},
                         blocks,
                         sharding,
                         {fact::takes, recipe.weights}});
  return {};
}

// What is left frozen, and who has code for that.
constexpr failure flaw_of_training(const training_setup& setup) {
  const bool are_original = setup.framework.engine.original_parameters;
  if (setup.trains.what == training::full)
    return flaw_unless({{{fact::original_parameters, are_original}}},
                       {fact::trains, setup.trains.what});
  const transformer& model = setup.model;
  const layer_class& code = setup.framework.layers();
  const engine_class& by = *setup.framework.engine.is;
  const named_fact trains{fact::trains, setup.trains.what};
  const named_fact layers{fact::layers, code.name};
  const named_fact sharding{fact::sharding, by.name};
  const named_fact all{fact::takes, training::full};
  if (!code.trains_adapters) return without_code({trains, layers, all});
  const bool takes_adapters = by.wraps_adapters || by.casts_adapters;
  if (takes_adapters && setup.trains.what != training::adapters)
    return without_code({trains, sharding, all, {fact::takes, training::adapters}});
  if (!by.trains_parts && !takes_adapters) return without_code({trains, sharding, all});
  // PyTorch's optimizers want parameters, and a loss to go back from.
  if (setup.trains.what == training::frozen)
    return without_code({trains,
                         all,
                         {fact::takes, training::head},
                         {fact::takes, training::last_layers},
                         {fact::takes, training::adapters}});
  if (setup.trains.what == training::head && model.head == head_kind::none)
    return failure(errc::no_such_target, {trains, {fact::head, model.head}});
  const std::int64_t last = setup.trains.last_layers;
  if (setup.trains.what == training::last_layers && (last < 1 || last > model.layers()))
    return failure(
        errc::out_of_bounds,
        {{fact::last_layers, last}, {fact::at_least, 1}, {fact::at_most, model.layers()}});
  const std::int64_t groups = model.shared.num_hidden_groups;
  if (setup.trains.what == training::last_layers && groups != 0)
    return without_code({trains, {fact::num_hidden_groups, groups}, all});
  if (!code.trains_parts && setup.trains.what != training::adapters)
    return without_code({trains, layers, all, {fact::takes, training::adapters}});
  if (setup.trains.what != training::adapters) return {};
  const lora& adapters = setup.trains.adapters;
  if (code.is_pipelined && by.casts_adapters) return without_code({trains, sharding, layers, all});
  if (code.is_pipelined) return flaw_of_pipelined_adapters(setup);
  if (model.kind == model_kind::vision && adapters.targets.patches && !code.adapts_patches)
    return without_code({{fact::adapter_patches, true}, layers, {fact::takes, false}});
  // PEFT puts adapters of routed experts, too, where their matrices or all layers are named, and of
  // routers; no code here has these.
  const lora_targets& targets = adapters.targets;
  const bool names_experts = targets.gate || targets.up || targets.down;
  if (model.moe.num_experts != 0 &&
      (targets.experts || targets.router ||
       (names_experts && !setup.framework.implementation.experts.never_adapted)))
    return without_code({{fact::adapter_experts, true}, layers, {fact::takes, false}});
  if (targets.expert_gate_up || targets.expert_down) {
    const named_fact folded{fact::adapter_experts, true};
    if (!code.adapts_experts) return without_code({folded, layers, {fact::takes, false}});
    if (by.gathers_weights || by.casts_adapters)
      return without_code({folded, sharding, {fact::takes, false}});
    if (model.moe.num_experts == 1)
      return without_code({{fact::num_experts, 1}, folded, {fact::at_least, 2}});
    if (const failure why = flaw_if_any({{fact::adapter_dropout, adapters.dropout > 0},
                                         {fact::adapter_magnitudes, adapters.magnitudes},
                                         {fact::adapter_base_block, adapters.base.block}},
                                        folded);
        failed(why))
      return why;
  }
  if (adapters.targets.patches && adapters.magnitudes)
    return without_code(
        {{fact::adapter_patches, true}, {fact::adapter_magnitudes, true}, {fact::takes, false}});
  // PEFT refuses out_proj of Mamba's classes, and with it all-linear: their kernels read its
  // weight.
  if (code.composes_recurrences && adapters.targets.other)
    return without_code({{fact::adapter_mixer_out, true},
                         layers,
                         {fact::adapter_mixer_in, adapters.targets.mixer_in},
                         {fact::takes, false}});
  if (setup.parallelism.tensor_parallel > 1)
    return without_code({trains,
                         {fact::tensor_parallel, setup.parallelism.tensor_parallel},
                         all,
                         {fact::takes, training::head},
                         {fact::takes, training::last_layers}});
  if (const failure why = flaw_of_shared_blocks(setup); failed(why)) return why;
  if (takes_adapters) return flaw_of_plain_adapters(setup);
  if (!by.gathers_weights) return {};
  // A group of layers has what trains in one format, and a policy's is that of what it gathers.
  const bool is_alike = adapters.weights == setup.precision.weights;
  if (!is_alike && (setup.precision.compute != setup.precision.weights || adapters.copy_embedding ||
                    adapters.copy_head || adapters.bias != lora_bias::none))
    return without_code({{fact::adapter_weights, adapters.weights},
                         sharding,
                         {fact::takes, setup.precision.weights}});
  return flaw_if_any({{fact::adapter_magnitudes, adapters.magnitudes}}, sharding);
}

}  // namespace gpuplan::detail
