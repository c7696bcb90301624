#pragma once

// The memory of the fullest device of a division, for planners that try many.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/layer_code.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/memory/device.hpp>
#include <gpuplan/memory/profile.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// `transformer_memory` of the fullest of the first, second and last stage: the others are like the
/// second and keep fewer micro-batches. For 32 stages of 4 layers 0.7 ms; some milliseconds where
/// layers choose experts, since all their passes are replayed.
struct fullest_stage_memory {
  transformer_memory of{};

  /// Precondition: `validate` accepts this.
  [[nodiscard]] constexpr bytes required(const batch_plan& plan) const {
    bytes most = at(0, plan);
    const std::int64_t last = of.setup.parallelism.pipeline_parallel - 1;
    for (const std::int64_t stage : {std::int64_t{1}, last}) {
      if (stage > last || stage == 0) continue;
      const bytes here = at(stage, plan);
      if (here > most) most = here;
      if (last == 1) break;
    }
    return most;
  }

  /// `Model.required(Plan)`, for searches while compiling: each replay is a constant expression of
  /// its own. Of micro-batches one behind the other as many are replayed as differ.
  template <const fullest_stage_memory& Model, batch_plan Plan>
  [[nodiscard]] static constexpr bytes required_in_chunks();

 private:
  constexpr bytes at(std::int64_t stage, const batch_plan& plan) const {
    transformer_memory there = of;
    there.setup.place.stage = stage;
    return there.required(plan);
  }
};

namespace detail {

template <const fullest_stage_memory& Model, std::int64_t Stage>
inline constexpr transformer_memory memory_of_stage = [] {
  transformer_memory there = Model.of;
  there.setup.place.stage = Stage;
  return there;
}();

template <const fullest_stage_memory& Model, batch_plan Plan, std::int64_t Stage>
constexpr bytes required_of_stage() {
  constexpr profiled_counts counts = profiled_counts_of(Model.of.setup, Plan.data_parallel);
  constexpr std::int64_t different = counts.of[counts.count - 1];
  constexpr bool is_like_fewer = !counts.goes_on && Plan.accumulation > different;
  constexpr batch_plan replayed{
      Plan.micro_batch, Plan.data_parallel, is_like_fewer ? different : Plan.accumulation};
  constexpr const transformer_memory& memory = memory_of_stage<Model, Stage>;
  const bytes requested = bytes::from_value(
      static_cast<double>(requested_in_chunks<memory_of_stage<Model, Stage>, replayed>()));
  const device_needs needs = needs_of(memory.setup, Plan, memory.channels);
  return requested + memory.fragmentation * requested + needs.kernels + needs.communication;
}

}  // namespace detail

template <const fullest_stage_memory& Model, batch_plan Plan>
constexpr bytes fullest_stage_memory::required_in_chunks() {
  constexpr std::int64_t last = Model.of.setup.parallelism.pipeline_parallel - 1;
  bytes most = detail::required_of_stage<Model, Plan, 0>();
  if constexpr (last > 0) {
    const bytes here = detail::required_of_stage<Model, Plan, last>();
    if (here > most) most = here;
  }
  if constexpr (last > 1) {
    const bytes here = detail::required_of_stage<Model, Plan, 1>();
    if (here > most) most = here;
  }
  return most;
}

/// As `transformer_memory`.
[[nodiscard]] constexpr result<fullest_stage_memory> validate(const fullest_stage_memory& memory) {
  if (const auto valid = validate(memory.of); !valid) return valid.why();
  return memory;
}
[[nodiscard]] constexpr result<batch_plan> validate(const fullest_stage_memory& memory,
                                                    const batch_plan& plan) {
  return validate(memory.of, plan);
}

/// Answers for planners (`memory_of_setups`): exact, and bytes below which no plan of a division
/// is.
struct transformer_memory_of {
  double fragmentation = usual_fragmentation;
  std::int64_t channels = 24;  // of NCCL: an A100's; `nccl_channels` of other devices

  /// Of devices of this kind.
  [[nodiscard]] constexpr transformer_memory_of on(const gpu_spec& gpu) const {
    return {.fragmentation = fragmentation, .channels = nccl_channels(gpu)};
  }
  [[nodiscard]] constexpr fullest_stage_memory operator()(const training_setup& setup) const {
    return {{.setup = setup, .fragmentation = fragmentation, .channels = channels}};
  }

  /// What the first stage of a division by Megatron-Core holds where activations are at their most:
  /// the weights, its share of the optimizer's states, the gradients' buffer, and what layers keep
  /// of the micro-batches on their way. Of torchtitan's, what is there as the loss's backward
  /// begins. 0 of what is trained otherwise. Of 2,000 random divisions never above what is
  /// required, three quarters of it in the mean.
  [[nodiscard]] constexpr bytes at_least(const training_setup& setup,
                                         const batch_plan& plan) const {
    return at_least(setup, plan, parameters(setup.model, setup.parallelism, {}));
  }
  /// Likewise; `of_rank` are the parameters of the division's first rank.
  [[nodiscard]] constexpr bytes at_least(const training_setup& setup,
                                         const batch_plan& plan,
                                         const parameter_counts& of_rank) const {
    const parallelism& division = setup.parallelism;
    const optimizer& by = setup.optimizer;
    const std::int64_t layers = setup.model.layers();
    const bool is_known = setup.framework.sharding == sharding_code::megatron &&
                          setup.trains.what == training::full && !division.ends_are_layers &&
                          !division.optimizer_on_host && !division.weights_on_host &&
                          division.zero_stage <= 1 && layers % division.pipeline_parallel == 0 &&
                          by.kind == optimizer_kind::adamw && by.states == number_format::fp32;
    if (!is_known) return of_torchtitan_at_least(setup, plan);
    const auto count = [](std::int64_t value) { return static_cast<double>(value); };
    const double held = count(of_rank.total());
    const double weight = bits_per_element(setup.precision.weights) / 8.0;
    const bool has_copies = setup.precision.master_weights;
    const double state = has_copies ? 12 : 2 * weight;
    const double gradient = setup.precision.fp32_gradients ? 4 : weight;
    const double shares =
        division.zero_stage == 0 ? 1 : count(plan.data_parallel * division.context_parallel);
    const double kept = kept_of_layer(setup, plan.micro_batch) *
                        count(layers / division.pipeline_parallel / division.virtual_pipeline) *
                        count(chunks_on_their_way(division, plan.accumulation));
    const double tensors = held * (weight + gradient + state / shares) + kept;
    const device_needs needs = needs_of(setup, plan, channels);
    return bytes::from_value(tensors * (1 + fragmentation)) + needs.total();
  }

 private:
  // Its key-value heads are copied to all heads. A part of the weights and of the optimizer's
  // states, the weights that were gathered where they stay so, what layers keep, and the logits and
  // their gradient.
  constexpr bytes of_torchtitan_at_least(const training_setup& setup,
                                         const batch_plan& plan) const {
    const parallelism& division = setup.parallelism;
    const transformer& model = setup.model;
    const bool is_known =
        setup.framework.layers == layer_code::torchtitan && !setup.framework.compiles_layers &&
        !setup.framework.compiles_loss && setup.framework.sharding == sharding_code::fsdp2 &&
        setup.trains.what == training::full && setup.optimizer.kind == optimizer_kind::adamw &&
        setup.optimizer.states == number_format::fp32 && !division.optimizer_on_host &&
        !division.weights_on_host && division.shard_group == 0 && model.moe.num_experts == 0 &&
        setup.recompute != recompute_mode::selective && setup.recompute_layers == 0 &&
        setup.recompute_span == 1 && setup.recompute_period == 1;
    if (!is_known) return {};
    const auto count = [](std::int64_t value) { return static_cast<double>(value); };
    const double held = count(parameters(model, division, {}).total());
    const double shares = count(plan.data_parallel * division.context_parallel);
    const double weight = bits_per_element(setup.precision.weights) / 8.0;
    const double element = bits_per_element(setup.precision.compute) / 8.0;
    const double gathered = division.zero_stage == 2 ? held * element : 0;
    const double tokens = count(plan.micro_batch) * count(setup.sequence_length) /
                          count(division.context_parallel) / count(division.tensor_parallel);
    const double input = count(model.hidden_size);
    const double attended = 4 * count(model.num_attention_heads) * count(model.query_dim());
    const double wide = (model.gated_mlp ? 4 : 2) * count(model.intermediate_size);
    const bool keeps_all = setup.recompute == recompute_mode::none;
    const double kept =
        element * count(model.layers()) * (keeps_all ? 4 * input + attended + wide : input);
    const double logits = 8 * count(model.vocab_size);
    const double tensors = held * (weight + 8) / shares + gathered + tokens * (kept + logits);
    return bytes::from_value(tensors * (1 + fragmentation)) +
           needs_of(setup, plan, channels).total();
  }
  // Of one micro-batch.
  static constexpr double kept_of_layer(const training_setup& setup, std::int64_t micro_batch) {
    const parallelism& division = setup.parallelism;
    const transformer& model = setup.model;
    if (setup.recompute == recompute_mode::full && setup.recompute_span > 1) return 0;
    if (setup.recompute == recompute_mode::full && setup.recompute_layers != 0) return 0;
    const auto count = [](std::int64_t value) { return static_cast<double>(value); };
    const double ways = count(division.tensor_parallel);
    const double tokens =
        count(micro_batch) * count(setup.sequence_length) / count(division.context_parallel);
    const bool shares = division.sequence_parallel || division.shares_kept_inputs;
    const double input = tokens * count(model.hidden_size) / (shares ? ways : 1);
    if (setup.recompute == recompute_mode::full) return 2 * input;
    // The inputs of norms and of the linear layers behind them; query, key, value and what
    // attention gives; what the activation takes and gives; softmax's result where it lies in
    // memory.
    const double heads = count(model.num_attention_heads) / ways;
    const double attended = 2 * tokens * heads * count(model.query_dim());
    const double wide =
        model.has_experts(0) ? 0 : 2 * tokens * count(model.intermediate_size) / ways;
    const bool writes_scores =
        setup.recompute == recompute_mode::none && setup.attention == attention_kernel::written_out;
    const double scores = writes_scores ? tokens * count(setup.sequence_length) * heads : 0;
    return 2 * (4 * input + attended + wide + scores);
  }
  // Of the first stage: as many micro-batches as there are stages; interleaved, those of all chunks
  // but the last for as many, and of the last for twice as many (schedules.py of Megatron-Core).
  static constexpr std::int64_t chunks_on_their_way(const parallelism& division,
                                                    std::int64_t accumulation) {
    const std::int64_t stages = division.pipeline_parallel;
    const std::int64_t chunks = division.virtual_pipeline;
    const std::int64_t most = chunks > 1 ? (chunks - 1) * stages + 2 * (stages - 1) + 1 : stages;
    return accumulation * chunks < most ? accumulation * chunks : most;
  }
};

}  // namespace gpuplan
