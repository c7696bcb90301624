#pragma once

// The members of a training_config by their names, so that each is listed once.

#include <gpuplan/io/trainer/training_config.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::io::detail {

/// Calls `with` with the name of each member and a pointer to it.
template <class With>
void for_each_member(const With& with) {
  using c = training_config;
  with("model", &c::model), with("shape", &c::shape);
  with("sequence_length", &c::sequence_length), with("packing", &c::packing);
  with("padding_free", &c::padding_free);
  with("pairs_of_answers", &c::pairs_of_answers),
      with("precomputed_reference", &c::precomputed_reference);
  with("trains", &c::trains), with("last_layers", &c::last_layers), with("adapters", &c::adapters);
  with("towers_train", &c::towers_train), with("connectors_train", &c::connectors_train);
  with("language_trains", &c::language_trains);
  with("micro_batch", &c::micro_batch), with("accumulation", &c::accumulation);
  with("global_batch", &c::global_batch);
  with("gpus", &c::gpus), with("nodes", &c::nodes), with("gpus_per_node", &c::gpus_per_node);
  with("data_parallel", &c::data_parallel), with("shard_group", &c::shard_group);
  with("tensor_parallel", &c::tensor_parallel), with("pipeline_parallel", &c::pipeline_parallel);
  with("virtual_pipeline", &c::virtual_pipeline);
  with("schedule_of_pipeline", &c::schedule_of_pipeline);
  with("split", &c::split), with("context_parallel", &c::context_parallel);
  with("expert_parallel", &c::expert_parallel);
  with("expert_tensor_parallel", &c::expert_tensor_parallel);
  with("expert_capacity", &c::expert_capacity);
  with("dispatcher", &c::dispatcher), with("context_exchange", &c::context_exchange);
  with("sequence_parallel", &c::sequence_parallel);
  with("zero_stage", &c::zero_stage), with("optimizer_on_host", &c::optimizer_on_host);
  with("weights_on_host", &c::weights_on_host), with("engine", &c::engine);
  with("precision", &c::precision), with("scaling", &c::scaling);
  with("fp4_linears", &c::fp4_linears), with("quantised_weights", &c::quantised_weights);
  with("weights", &c::weights), with("reduced", &c::reduced);
  with("optimizer", &c::optimizer);
  with("recompute", &c::recompute), with("recompute_span", &c::recompute_span);
  with("recompute_period", &c::recompute_period);
  with("recompute_layers", &c::recompute_layers), with("modules", &c::modules);
  with("offloaded_layers", &c::offloaded_layers);
  with("saves_costly_results", &c::saves_costly_results);
  with("checkpoints_reenter", &c::checkpoints_reenter);
  with("shares_kept_inputs", &c::shares_kept_inputs), with("attention", &c::attention);
  with("fuses_loss", &c::fuses_loss), with("liger_kernels", &c::liger_kernels);
  with("cut_cross_entropy", &c::cut_cross_entropy), with("loss_chunks", &c::loss_chunks);
  with("compiles_layers", &c::compiles_layers), with("compiles_loss", &c::compiles_loss);
  with("cuda_graphs", &c::cuda_graphs);
  with("zero", &c::zero), with("overlaps_reduction", &c::overlaps_reduction);
  with("overlaps_gathers", &c::overlaps_gathers);
  with("reduces_every_micro_batch", &c::reduces_every_micro_batch);
  with("original_parameters", &c::original_parameters);
  with("dropout", &c::dropout), with("clip_norm", &c::clip_norm);
  with("learning_rate", &c::learning_rate), with("least_learning_rate", &c::least_learning_rate);
  with("warm_up_steps", &c::warm_up_steps), with("warm_up_share", &c::warm_up_share);
  with("schedule", &c::schedule), with("decay_steps", &c::decay_steps);
  with("weight_decay", &c::weight_decay);
  with("steps", &c::steps), with("epochs", &c::epochs), with("samples", &c::samples);
}

[[nodiscard]] inline bool is_said(const std::string& text) { return !text.empty(); }
template <class T>
[[nodiscard]] bool is_said(const known<T>& is) {
  return static_cast<bool>(is);
}

/// The names of the members that a config says, in the order of for_each_member, but those in
/// `written`.
[[nodiscard]] inline std::vector<std::string> said_but(const training_config& config,
                                                       const std::vector<std::string>& written) {
  std::vector<std::string> names;
  for_each_member([&](const char* name, auto member) {
    bool is_written = !is_said(config.*member);
    for (const std::string& each : written) is_written = is_written || each == name;
    if (!is_written) names.emplace_back(name);
  });
  return names;
}

/// Whether DeepSpeed's file has another optimizer than a trainer's, in whose stead that counts
/// (transformers' deepspeed_optim_sched).
[[nodiscard]] inline bool replaces_optimizer(const known<gpuplan::optimizer>& of_deepspeed,
                                             const known<gpuplan::optimizer>& of_trainer) {
  return of_deepspeed && of_trainer && !(*of_deepspeed == *of_trainer);
}

}  // namespace gpuplan::io::detail
