#pragma once

// A plan in the words of trainers' files: what every writer takes.

#include <gpuplan/batch.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuplan::io {

/// Where a plan runs, and what it does not determine but files state.
struct planned_run_words {
  std::string model{};  // a name of the Hub, or a folder; empty: the files leave it open
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;
  known<double> learning_rate{};
  known<double> least_learning_rate{};
  known<double> warm_up_steps{};
  known<rate_schedule> schedule{};
  known<std::int64_t> decay_steps{};
  known<std::int64_t> steps{};
  // Files say that gradients are not clipped, where the setup does not; else each trainer's default
  // stays, which of most is 1.
  bool never_clips = false;
};

/// What a plan says, for a writer: degrees above 1, the batch, the precision as the engine calls
/// it, recomputation, the optimizer, what trains. Degrees of 1 are left out, since most formats
/// have no word for what is not divided. Precondition: `validate` accepts setup and plan.
[[nodiscard]] inline training_config planned_config(const training_setup& setup,
                                                    const batch_plan& plan,
                                                    const planned_run_words& run = {}) {
  training_config made;
  made.model = run.model;
  made.shape = setup.model;
  if (setup.model.kind != model_kind::vision) made.sequence_length = setup.sequence_length;
  if (setup.trains.what != training::full) made.trains = setup.trains.what;
  if (setup.trains.what == training::adapters) made.adapters = setup.trains.adapters;
  if (setup.trains.what == training::last_layers) made.last_layers = setup.trains.last_layers;

  made.micro_batch = plan.micro_batch;
  made.accumulation = plan.accumulation;
  made.nodes = run.nodes;
  made.gpus_per_node = run.gpus_per_node;

  const parallelism& layout = setup.parallelism;
  const auto say = [](known<std::int64_t>& degree, std::int64_t is) {
    if (is > 1) degree = is;
  };
  made.data_parallel = plan.data_parallel;
  say(made.tensor_parallel, layout.tensor_parallel);
  say(made.pipeline_parallel, layout.pipeline_parallel);
  say(made.virtual_pipeline, layout.virtual_pipeline);
  say(made.context_parallel, layout.context_parallel);
  say(made.expert_parallel, layout.expert_parallel);
  say(made.expert_tensor_parallel, layout.expert_tensor_parallel);
  if (layout.shard_group > 0 && layout.shard_group < plan.data_parallel)
    made.shard_group = layout.shard_group;
  if (layout.sequence_parallel && layout.tensor_parallel > 1) made.sequence_parallel = true;
  if (layout.pipeline_parallel > 1 && layout.schedule != pipeline_schedule::one_f_one_b)
    made.schedule_of_pipeline = layout.schedule;
  if (!layout.split.is_even()) made.split = layout.split;
  if (layout.shares_kept_inputs) made.shares_kept_inputs = true;
  made.zero_stage = layout.zero_stage;
  if (layout.optimizer_on_host) made.optimizer_on_host = true;
  if (layout.weights_on_host) made.weights_on_host = true;
  made.engine = setup.framework.engine.is->name->text;

  const bool adds_in_either =  // Megatron
      setup.precision.master_weights && !setup.framework.engine.is->has_own_step;
  for (const training_precision precision : {training_precision::bf16,
                                             training_precision::fp16,
                                             training_precision::pure_bf16,
                                             training_precision::fp32,
                                             training_precision::tf32,
                                             training_precision::fp8}) {
    precision_recipe recipe = *recipe_of(precision, *setup.framework.engine.is);
    if (precision == training_precision::bf16) recipe.fp4_linears = setup.precision.fp4_linears;
    if (adds_in_either && recipe.master_weights)
      recipe.fp32_gradients = setup.precision.fp32_gradients;
    if (quantises_linears(recipe)) {
      recipe.scaling = setup.precision.scaling;
      recipe.quantised_weights = setup.precision.quantised_weights;
    }
    if (!made.precision && with_weights(recipe, setup.precision.weights) == setup.precision)
      made.precision = precision;
  }
  const bool is_fp16 = setup.precision.weights == number_format::fp16;
  if (adds_in_either && setup.precision.fp32_gradients == is_fp16)
    made.reduced = is_fp16 ? number_format::fp32 : setup.precision.weights;
  if (setup.precision.fp4_linears)
    made.fp4_linears = true;  // which has one scaling
  else if (setup.precision.scaling != precision_recipe{}.scaling)
    made.scaling = setup.precision.scaling;
  if (setup.precision.quantised_weights) made.quantised_weights = true;
  if (setup.precision.autocast()) made.weights = setup.precision.weights;
  gpuplan::optimizer by = setup.optimizer;
  by.clips_gradients = false;
  made.optimizer = by;
  if (setup.optimizer.clips_gradients)
    made.clip_norm = 1.0;
  else if (run.never_clips)
    made.clip_norm = 0.0;
  made.recompute = setup.recompute;
  if (setup.recompute == recompute_mode::full) {
    if (setup.recompute_span > 1) made.recompute_span = setup.recompute_span;
    if (setup.recompute_layers > 0) made.recompute_layers = setup.recompute_layers;
    if (setup.saves_costly_results) made.saves_costly_results = true;
  }
  if (setup.recompute == recompute_mode::full && setup.framework.implementation.checkpoints_reenter)
    made.checkpoints_reenter = true;
  if (setup.offloads.layers > 0) made.offloaded_layers = setup.offloads.layers;
  if (setup.recompute == recompute_mode::selective && setup.modules != recomputed_modules{})
    made.modules = setup.modules;
  if (setup.attention != attention_kernel::automatic) made.attention = setup.attention;
  if (setup.expert_capacity != 1) made.expert_capacity = setup.expert_capacity;
  if (setup.dispatcher != token_dispatcher::all_to_all) made.dispatcher = setup.dispatcher;
  if (setup.framework.implementation.transformer_engine && layout.context_parallel > 1)
    made.context_exchange = exchanges_heads(setup) ? context_exchange::a2a : context_exchange::p2p;
  if (setup.framework.layers().is_pipelined && !setup.framework.engine.is->has_own_step) {
    if (setup.framework.costs.hides_gradients) made.overlaps_reduction = true;
    if (setup.framework.costs.hides_parameters && layout.zero_stage == 1)
      made.overlaps_gathers = true;
  }
  if (setup.framework.implementation.transformer_engine)
    made.fuses_loss = setup.framework.implementation.fuses_loss;
  if (setup.framework.implementation.liger_kernels) made.liger_kernels = true;
  if (setup.framework.implementation.cut_cross_entropy) made.cut_cross_entropy = true;
  if (setup.framework.layers().chunks_loss)
    made.loss_chunks = setup.framework.implementation.loss_chunks;
  if (setup.framework.implementation.compiles_layers) made.compiles_layers = true;
  if (setup.framework.implementation.compiles_loss) made.compiles_loss = true;
  if (setup.graphs.iteration) made.cuda_graphs = true;
  const engine& sharing = setup.framework.engine;
  if (sharing.is->gathers_weights && plan.accumulation > 1)
    made.reduces_every_micro_batch = sharing.reduces_every_micro_batch;
  if (!sharing.original_parameters) made.original_parameters = false;
  if (setup.padding_free) made.packing = made.padding_free = true;
  if (setup.dropout > 0) made.dropout = setup.dropout;
  made.learning_rate = run.learning_rate;
  made.least_learning_rate = run.least_learning_rate;
  made.warm_up_steps = run.warm_up_steps;
  made.schedule = run.schedule;
  made.decay_steps = run.decay_steps;
  made.steps = run.steps;
  return made;
}

}  // namespace gpuplan::io
