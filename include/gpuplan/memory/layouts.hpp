#pragma once

// The memory of the fullest device of a layout, for planners that try many.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/device_needs.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/layer_classes.hpp>
#include <gpuplan/memory/profile.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan {

namespace detail {

// Whether a stage may be the fullest: the first, the second, the last, and the first of each number
// and order of layers with experts and without. All others are like one before and keep fewer
// micro-batches.
constexpr bool may_be_fullest(const training_setup& setup, std::int64_t stage) {
  const transformer& model = setup.model;
  const parallelism& layout = setup.parallelism;
  const std::int64_t stages = layout.pipeline_parallel;
  if (stage < 2 || stage == stages - 1) return true;
  // Later stages have fewer micro-batches on their way, of more the gradients of weights to come.
  if (traits_of(layout.schedule).defers_weights && stage == stages - 2) return true;
  const auto is_like = [&](std::int64_t other) {
    for (std::int64_t chunk = 0; chunk < chunks_held(layout); ++chunk) {
      const layer_range here = layers_of_chunk(layout, model.layers(), stage, chunk);
      const layer_range there = layers_of_chunk(layout, model.layers(), other, chunk);
      if (here.size() != there.size()) return false;
      if (model.moe.num_experts == 0 && !model.mixes_kinds()) continue;
      for (std::int64_t layer = 0; layer < here.size(); ++layer)
        if (model.kind_of(here.first + layer) != model.kind_of(there.first + layer)) return false;
    }
    return true;
  };
  for (std::int64_t other = 1; other < stage; ++other)
    if (is_like(other)) return false;
  return true;
}

}  // namespace detail

/// `transformer_memory` of the fullest stage. For 32 stages of 4 layers 0.7 ms; some milliseconds
/// where layers choose experts, since all their passes are replayed.
struct fullest_stage_memory {
  transformer_memory of{};

  /// Precondition: `validate` accepts this.
  [[nodiscard]] constexpr bytes required(const batch_plan& plan) const {
    bytes most{};
    for (std::int64_t stage = 0; stage < of.setup.parallelism.pipeline_parallel; ++stage) {
      if (!detail::may_be_fullest(of.setup, stage)) continue;
      const bytes here = at(stage, plan);
      if (here > most) most = here;
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
  return requested + memory.fragmentation * requested + needs.total();
}

}  // namespace detail

template <const fullest_stage_memory& Model, batch_plan Plan>
constexpr bytes fullest_stage_memory::required_in_chunks() {
  bytes most{};
  const auto look_at = [&]<std::int64_t Stage>() {
    if constexpr (detail::may_be_fullest(Model.of.setup, Stage)) {
      const bytes here = detail::required_of_stage<Model, Plan, Stage>();
      if (here > most) most = here;
    }
  };
  [&]<std::int64_t... Stages>(std::integer_sequence<std::int64_t, Stages...>) {
    (look_at.template operator()<Stages>(), ...);
  }
  (std::make_integer_sequence<std::int64_t, Model.of.setup.parallelism.pipeline_parallel>());
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

/// Answers for planners (`memory_of_setups`): exact, and bytes below which no plan of a layout
/// is.
struct transformer_memory_of {
  double fragmentation = usual_fragmentation;
  std::int64_t channels = 24;          // of NCCL: an A100's; `nccl_channels` of other devices
  bool reads_casts_both_ways = false;  // as `precision_recipe` has it

  /// Of devices of this kind.
  [[nodiscard]] constexpr transformer_memory_of on(const gpu_spec& gpu) const {
    return {.fragmentation = fragmentation,
            .channels = nccl_channels(gpu),
            .reads_casts_both_ways = gpu.compute_capability && *gpu.compute_capability >= 100};
  }
  [[nodiscard]] constexpr fullest_stage_memory operator()(const training_setup& setup) const {
    fullest_stage_memory made{
        {.setup = setup, .fragmentation = fragmentation, .channels = channels}};
    if (reads_casts_both_ways) made.of.setup.precision.reads_casts_both_ways = true;
    return made;
  }

  /// Of a layout by Megatron-Core, the most that a stage holds where activations are at their most,
  /// and where the optimizer takes its step: the weights, its share of the optimizer's states, the
  /// gradients' buffer, what layers keep of the micro-batches on their way, and a layer that is
  /// computed again. Stages are the first one, and where layers choose experts the second and the
  /// last. Of torchtitan's, what is there as the loss's backward begins. Of other code, what a rank
  /// has for certain of weights, gradients and AdamW's states; 0 where that is not known; of
  /// several models in one step what is required, since their time is a replay too. Of 18,000
  /// random layouts never above what is required: of Megatron-Core's 0.97 of it in the mean, with
  /// experts 0.96, of others 0.6.
  [[nodiscard]] constexpr bytes at_least(const training_setup& setup,
                                         const batch_plan& plan) const {
    return at_least(setup, plan, parameters(setup.model, setup.parallelism, {}));
  }
  /// Likewise; `of_rank` are the parameters of the layout's first rank.
  [[nodiscard]] constexpr bytes at_least(const training_setup& setup,
                                         const batch_plan& plan,
                                         const parameter_counts& of_rank) const {
    if (setup.composite != nullptr) return (*this)(setup).required(plan);
    const parallelism& layout = setup.parallelism;
    const optimizer& by = setup.optimizer;
    const bool is_known = setup.framework.engine.is->holds == held_states::buffers &&
                          setup.trains.what == training::full && !layout.optimizer_on_host &&
                          !layout.weights_on_host && layout.zero_stage <= 1 &&
                          setup.framework.engine.is->divides_equally &&
                          by.kind == optimizer_kind::adamw;
    if (!is_known && is_megatron_by_deepspeed(setup))
      return of_deepspeed_at_least(setup, plan, of(of_rank.total()));
    if (!is_known)
      return larger(of_torchtitan_at_least(setup, plan), of_states_at_least(setup, plan, of_rank));
    const std::int64_t last = layout.pipeline_parallel - 1;
    const bool differ = setup.model.moe.num_experts != 0 || !layout.split.is_even();
    const bool are_mixed = setup.model.mixes_kinds() || setup.model.mtp_layers != 0 ||
                           (differ && ranks_with_chunk(layout) > 1);
    double most = 0;
    for (const std::int64_t stage : {std::int64_t{0}, std::int64_t{1}, most_mixed(setup), last}) {
      if (stage > last || (stage != 0 && !differ && !are_mixed)) continue;
      const parameter_counts held = are_mixed ? parameters(setup.model, layout, {.stage = stage})
                                    : differ  ? held_by_stage(setup, of_rank, stage)
                                              : of_rank;
      const double here = of_stage(setup, plan, stage, held.total() - held.experts, held.experts);
      if (here > most) most = here;
    }
    return bytes::from_value(most * (1 + fragmentation)) + needs_of(setup, plan, channels).total();
  }

 private:
  static constexpr bytes larger(bytes a, bytes b) { return a < b ? b : a; }

  // Of AdamW otherwise: the shares of weights, gradients and moments that a rank has, without what
  // is computed. Where ranks have whole parameters' states, and DeepSpeed's gradients, they are not
  // counted.
  constexpr bytes of_states_at_least(const training_setup& setup,
                                     const batch_plan& plan,
                                     const parameter_counts& of_rank) const {
    const parallelism& layout = setup.parallelism;
    const optimizer& by = setup.optimizer;
    const held_states holds = setup.framework.engine.is->holds;
    const bool is_known = setup.trains.what == training::full && !layout.optimizer_on_host &&
                          !layout.weights_on_host && by.kind == optimizer_kind::adamw &&
                          by.library == optimizer_library::torch &&
                          by.states == number_format::fp32 && holds != held_states::buffers;
    if (!is_known) return {};
    const double weight = bits_per_element(setup.precision.weights) / 8.0;
    const double state = setup.precision.master_weights ? 12 : 2 * weight;
    const auto each = [&](double shares) {
      if (holds == held_states::masters)
        return (weight / (layout.zero_stage == 3 ? shares : 1)) + state / shares;
      if (holds != held_states::parts) return layout.zero_stage != 0 ? 2 * weight : 4 * weight;
      const double own = 4 * weight / shares;
      if (layout.pipeline_parallel == 1) return own;
      // A stage has weights and gradients whole until all micro-batches are done; of two or three
      // chunks, weights as its step begins.
      const double whole = bits_per_element(setup.precision.compute) / 8.0;
      const double no_gradients = whole - weight / shares;
      if (layout.virtual_pipeline == 1)
        return own + whole + bits_per_element(setup.precision.reduced) / 8.0;
      return layout.virtual_pipeline <= 3 && no_gradients > 0 ? own + no_gradients : own;
    };
    const double ranks = of(plan.data_parallel * layout.context_parallel);
    const double of_experts = layout.expert_parallel > 1 ? ranks * of(layout.tensor_parallel) /
                                                               of(ranks_of_experts(layout))
                                                         : ranks;
    const double held = of(of_rank.total() - of_rank.experts) * each(ranks) +
                        of(of_rank.experts) * each(of_experts);
    return bytes::from_value(held * (1 + fragmentation)) + needs_of(setup, plan, channels).total();
  }
  static constexpr bool is_megatron_by_deepspeed(const training_setup& setup) {
    const parallelism& layout = setup.parallelism;
    const optimizer& by = setup.optimizer;
    return setup.framework.layers().is_pipelined &&
           setup.framework.engine.is->holds == held_states::masters && layout.zero_stage <= 2 &&
           setup.trains.what == training::full && !layout.optimizer_on_host &&
           by.kind == optimizer_kind::adamw && by.library == optimizer_library::torch &&
           by.states == number_format::fp32;
  }
  // Of the first stage as its first backward begins, as a later one does, and at the optimizer's
  // step: the weights, what it has of their masters and moments, gradients, and what layers keep.
  constexpr bytes of_deepspeed_at_least(const training_setup& setup,
                                        const batch_plan& plan,
                                        double held) const {
    const int zero = setup.parallelism.zero_stage;
    const double own = zero == 0 ? held : held / of(plan.data_parallel);
    const double weight = bits_per_element(setup.precision.weights) / 8.0;
    // BF16_Optimizer sums gradients in a buffer of fp32, and drops those of a backward.
    const bool is_in_buffer = zero == 1 && setup.precision.fp32_gradients &&
                              setup.precision.weights == number_format::bf16;
    const double fixed = held * (weight + (is_in_buffer ? 4 : 0)) + 12 * own;
    const bool keeps_gradients = zero <= 1 && !is_in_buffer;
    double in_step = kept_by_stage(setup, plan, 0);
    if (keeps_gradients && plan.accumulation > setup.parallelism.pipeline_parallel)
      in_step += held * weight;
    const bool has_roots = setup.optimizer.loop == optimizer_loop::foreach;
    const double at_step =
        (is_in_buffer ? 0 : 4 * own) + (zero == 0 ? held * weight : 0) + (has_roots ? 4 * own : 0);
    const double most = fixed + (at_step > in_step ? at_step : in_step);
    return bytes::from_value(most * (1 + fragmentation)) + needs_of(setup, plan, channels).total();
  }
  // Its key-value heads are copied to all heads. A part of the weights and of the optimizer's
  // states, the weights that were gathered where they stay so, what layers keep, and the logits and
  // their gradient.
  constexpr bytes of_torchtitan_at_least(const training_setup& setup,
                                         const batch_plan& plan) const {
    const parallelism& layout = setup.parallelism;
    const transformer& model = setup.model;
    const bool is_known =
        setup.framework.layers().has_known_floor &&
        !setup.framework.implementation.compiles_layers &&
        !setup.framework.implementation.compiles_loss &&
        setup.framework.engine.is->holds == held_states::parts && layout.pipeline_parallel == 1 &&
        setup.trains.what == training::full && setup.optimizer.kind == optimizer_kind::adamw &&
        setup.optimizer.library == optimizer_library::torch &&
        setup.optimizer.states == number_format::fp32 && !layout.optimizer_on_host &&
        !layout.weights_on_host && layout.shard_group == 0 && model.moe.num_experts == 0 &&
        setup.recompute != recompute_mode::selective && setup.recompute_layers == 0 &&
        setup.recompute_span == 1 && setup.recompute_period == 1;
    if (!is_known) return {};
    const auto count = [](std::int64_t value) { return static_cast<double>(value); };
    const double held = count(parameters(model, layout, {}).total());
    const double shares = count(plan.data_parallel * layout.context_parallel);
    const double weight = bits_per_element(setup.precision.weights) / 8.0;
    const double element = bits_per_element(setup.precision.compute) / 8.0;
    const double gathered = layout.zero_stage == 2 ? held * element : 0;
    const double tokens = count(plan.micro_batch) * count(setup.sequence_length) /
                          count(layout.context_parallel) / count(layout.tensor_parallel);
    const double input = count(model.hidden_size);
    const double attended = 4 * count(model.num_attention_heads) * count(model.query_dim());
    const double wide = (model.gated_mlp ? 4 : 2) * count(model.intermediate_size);
    const bool keeps_all = setup.recompute == recompute_mode::none;
    const double kept =
        element * count(model.layers()) * (keeps_all ? 4 * input + attended + wide : input);
    const double logits = 8 * count(model.vocab_size);
    const double tensors = held * 3 * weight / shares + gathered + tokens * (kept + logits);
    return bytes::from_value(tensors * (1 + fragmentation)) +
           needs_of(setup, plan, channels).total();
  }
  // -- Megatron-Core's, in bytes

  static constexpr double of(std::int64_t value) { return static_cast<double>(value); }

  static constexpr layer_range layers_of(const training_setup& setup,
                                         std::int64_t stage,
                                         std::int64_t chunk) {
    return layers_of_chunk(setup.parallelism, setup.model.layers(), stage, chunk);
  }
  static constexpr std::int64_t layers_on(const training_setup& setup, std::int64_t stage) {
    return layers_of_stage(setup.parallelism, setup.model.layers(), stage);
  }
  // How many layers of a stage's chunk have experts.
  static constexpr std::int64_t mixtures_of_chunk(const training_setup& setup,
                                                  std::int64_t stage,
                                                  std::int64_t chunk) {
    if (setup.model.moe.num_experts == 0) return 0;
    const layer_range here = layers_of(setup, stage, chunk);
    return setup.model.moe_layers_before(here.last) - setup.model.moe_layers_before(here.first);
  }
  static constexpr std::int64_t mixtures_of_stage(const training_setup& setup, std::int64_t stage) {
    std::int64_t mixtures = 0;
    if (setup.model.moe.num_experts == 0) return mixtures;
    for (std::int64_t chunk = 0; chunk < chunks_held(setup.parallelism); ++chunk)
      mixtures += mixtures_of_chunk(setup, stage, chunk);
    return mixtures;
  }
  // A stage behind the layers without experts, where as many as any has have them.
  static constexpr std::int64_t most_mixed(const training_setup& setup) {
    const std::int64_t layers = layers_of(setup, 0, 0).size();
    if (layers == 0) return 0;
    const std::int64_t stage = detail::ceil_div(setup.model.moe.first_k_dense_layers, layers);
    return stage < setup.parallelism.pipeline_parallel ? stage : 0;
  }
  // What a stage holds at least, layer by layer: those of interleaved chunks lie apart.
  static constexpr parameter_counts held_by_stage(const training_setup& setup,
                                                  const parameter_counts& of_first,
                                                  std::int64_t stage) {
    const parallelism& layout = setup.parallelism;
    const transformer& model = setup.model;
    const expert_mixture& moe = model.moe;
    const std::int64_t mixtures = mixtures_of_stage(setup, stage);
    const std::int64_t layers = layers_on(setup, stage);
    const std::int64_t plain = layers - mixtures;
    const std::int64_t width = model.hidden_size;
    const std::int64_t ranks = layout.tensor_parallel;
    const std::int64_t of_attention = layers_on(setup, 0);
    parameter_counts held;
    if (of_attention != 0) held.attention = of_first.attention / of_attention * layers;
    if (stage == 0) held.embedding = of_first.embedding;
    held.mlp = plain * (model.gated_mlp ? 3 : 2) * width * (model.intermediate_size / ranks);
    held.router = mixtures * width * moe.num_experts;
    const std::int64_t outside = moe.moe_latent_size != 0 ? moe.moe_latent_size : width;
    const std::int64_t matrices = model.gated_mlp ? 3 : 2;
    held.experts = mixtures * matrices * outside *
                   (moe.moe_intermediate_size / layout.expert_tensor_parallel) *
                   (moe.num_experts / layout.expert_parallel);
    held.shared_experts =
        mixtures * matrices * width * (moe.shared_expert_intermediate_size / ranks);
    const bool has_head = holds_last_chunk(layout, stage);
    if (has_head && (stage != 0 || !model.has_tied_head()))
      held.head = detail::padded_rows_of_rank(model.vocab_size, ranks) * width;
    return held;
  }

  // Of Transformer Engine: what autograd is given as gradients, one tensor for all weights of a
  // size; of MLPs or experts, and the head. Of the head alone it comes behind the logits.
  static constexpr double stand_ins(const training_setup& setup, std::int64_t stage) {
    const transformer& model = setup.model;
    if (!setup.framework.implementation.transformer_engine || model.mixes_kinds() ||
        model.moe.moe_latent_size != 0 || layers_on(setup, stage) == 0)
      return 0;
    const std::int64_t width = model.hidden_size;
    const std::int64_t ranks = setup.parallelism.tensor_parallel;
    const bool has_mixtures = mixtures_of_stage(setup, stage) != 0;
    const std::int64_t inner =
        has_mixtures ? model.moe.moe_intermediate_size / setup.parallelism.expert_tensor_parallel
                     : model.intermediate_size / ranks;
    const std::int64_t rows = model.gated_mlp ? 2 * inner : inner;
    const std::int64_t vocabulary = detail::padded_rows_of_rank(model.vocab_size, ranks);
    const bool has_head = holds_last_chunk(setup.parallelism, stage) && vocabulary != rows;
    return 2 * of(width) * of(rows + inner + (has_head ? vocabulary : 0));
  }
  // No fewer than a stage's norms and biases.
  static constexpr double most_in_vectors(const training_setup& setup, std::int64_t stage) {
    const transformer& model = setup.model;
    const std::int64_t of_attention =
        4 * model.num_attention_heads * (model.query_dim() + model.value_dim()) +
        model.mla.q_lora_rank + model.mla.kv_lora_rank;
    const expert_mixture& moe = model.moe;
    const std::int64_t of_biases =
        model.mlp_bias ? moe.num_experts * (2 * moe.moe_intermediate_size + model.hidden_size) : 0;
    const std::int64_t of_recurrent = 2 * (model.mamba.channels() + model.linear.channels()) *
                                      (model.mamba.conv_kernel + model.linear.conv_kernel_dim);
    const std::int64_t of_layer = 8 * model.hidden_size + of_attention +
                                  4 * model.intermediate_size + of_biases + of_recurrent;
    return of(layers_on(setup, stage) * of_layer) + of(2 * model.hidden_size);
  }
  static constexpr double least_quantised_weight(const precision_recipe& recipe, double stored) {
    const double cast = quantised_bytes(recipe, true);  // one copy: on some devices no more
    return cast < stored ? cast : stored;
  }
  // Of a stage that holds so many parameters, of experts and others, without fragmentation.
  static constexpr double of_stage(const training_setup& setup,
                                   const batch_plan& plan,
                                   std::int64_t stage,
                                   std::int64_t others,
                                   std::int64_t experts) {
    const parallelism& layout = setup.parallelism;
    const std::int64_t ranks =
        ranks_with_chunk(layout) * plan.data_parallel * layout.context_parallel;
    const bool shares = layout.zero_stage != 0;
    // Experts' states are shared by the ranks that have them, and are stepped apart.
    const double of_experts =
        shares ? of(experts) * of(ranks_of_experts(layout)) / of(ranks * layout.tensor_parallel)
               : of(experts);
    const double of_others = shares ? of(others) / of(ranks) : of(others);
    const double own = of_experts + of_others;
    const double stored = bits_per_element(setup.precision.weights) / 8.0;
    const double weight = setup.precision.quantised_weights
                              ? least_quantised_weight(setup.precision, stored)
                              : stored;
    const bool is_narrow = setup.optimizer.states != number_format::fp32;
    const double masters = is_narrow ? 4 + bits_per_element(setup.optimizer.states) / 4.0 : 12;
    // Of narrower weights its optimizer has copies in fp32, whatever the recipe.
    const double state = stored < 4 ? masters : 2 * stored;
    const double gradient = setup.precision.fp32_gradients ? 4 : stored;
    const double fixed =
        of(others + experts) * (weight + gradient) + own * state + stand_ins(setup, stage);
    // Gradients in fp32, and the roots of second moments: of matrices, then of all else.
    const bool widens = !setup.precision.fp32_gradients && !setup.optimizer.reads_narrow_gradients;
    double at_step = widens ? own * 4 : 0;
    const bool are_apart = layout.expert_parallel > 1;
    const double first = (are_apart ? of_others : own) - most_in_vectors(setup, stage);
    const double second = are_apart ? of_experts : 0;
    if (setup.optimizer.loop == optimizer_loop::foreach)
      at_step += 4 * (first > second ? first : second);
    const double in_step = kept_by_stage(setup, plan, stage);
    return fixed + (at_step > in_step ? at_step : in_step);
  }
  // What layers keep as the stage's first backward begins, and what then is computed again, with
  // the gradient that comes in in place of the input, which is kept already; or the logits.
  static constexpr double kept_by_stage(const training_setup& setup,
                                        const batch_plan& plan,
                                        std::int64_t stage) {
    const parallelism& layout = setup.parallelism;
    const transformer& model = setup.model;
    const bool is_again = setup.recompute == recompute_mode::full;
    const bool is_known = setup.recompute_span == 1 && setup.recompute_period == 1;
    const std::int64_t first =
        is_again && setup.recompute_layers != 0 ? setup.recompute_layers : model.layers();
    const double logits =
        holds_last_chunk(layout, stage)
            ? 2 * tokens_of(setup, plan.micro_batch) *
                  of(detail::padded_rows_of_rank(model.vocab_size, layout.tensor_parallel))
            : 0;
    if (is_again && !is_known) return logits;
    if (setup.offloads != offloaded_activations{}) return logits;
    const auto kept_of = [&](recompute_mode mode, layer_kind kind) {
      return kept_of_layer(setup, mode, plan.micro_batch, kind);
    };
    const bool are_mixed = model.mixes_kinds();
    const bool has_mixtures = model.moe.num_experts != 0;
    // Layers one behind the other, all recomputed as this says.
    const auto kept_between = [&](const layer_range& range, recompute_mode mode) {
      double here = 0;
      if (range.size() == 0) return here;
      if (are_mixed) {
        const layer_counts kinds = layers_between(model, range.first, range.last);
        for (int kind = 0; kind < layer_kinds; ++kind)
          if (kinds.of[kind] != 0)
            here += of(kinds.of[kind]) * kept_of(mode, static_cast<layer_kind>(kind));
        return here;
      }
      const std::int64_t mixtures =
          has_mixtures ? model.moe_layers_before(range.last) - model.moe_layers_before(range.first)
                       : 0;
      if (mixtures != 0) here = of(mixtures) * kept_of(mode, layer_kind::experts);
      const std::int64_t plain = range.size() - mixtures;
      return here + (plain != 0 ? of(plain) * kept_of(mode, layer_kind::dense) : 0);
    };
    // Behind these of a chunk others are kept.
    const auto end_of_again = [&](const layer_range& range) {
      return range.size() > first ? range.first + first : range.last;
    };
    double least = detail::infinity;
    for (std::int64_t chunk = 0; chunk < chunks_held(layout); ++chunk) {
      const layer_range range = layers_of(setup, stage, chunk);
      const std::int64_t end = end_of_again(range);
      const double here = kept_between({range.first, end}, setup.recompute) +
                          kept_between({end, range.last}, recompute_mode::none);
      if (here < least) least = here;
      const bool are_alike = !has_mixtures || (is_again && end == range.last);
      if (layout.split.is_even() && !are_mixed && are_alike) break;
    }
    // What is kept of the last chunk is gone when its first layer is computed again.
    const layer_range last = layers_of(setup, stage, layout.virtual_pipeline - 1);
    const std::int64_t end = end_of_again(last);
    double working = 0;
    if (is_again && last.size() != 0)
      working = kept_of(recompute_mode::none, model.kind_of(end - 1)) -
                kept_between({end, last.last}, recompute_mode::none);
    return least * of(chunks_on_their_way(layout, stage, plan.accumulation)) +
           (working > logits ? working : logits);
  }
  static constexpr double tokens_of(const training_setup& setup, std::int64_t micro_batch) {
    return of(micro_batch) * of(setup.sequence_length) / of(setup.parallelism.context_parallel);
  }
  // Of one micro-batch.
  static constexpr double kept_of_layer(const training_setup& setup,
                                        recompute_mode recompute,
                                        std::int64_t micro_batch,
                                        layer_kind kind) {
    const bool has_experts = has_mixture(kind);
    const parallelism& layout = setup.parallelism;
    const transformer& model = setup.model;
    const double ways = of(layout.tensor_parallel);
    const double tokens = tokens_of(setup, micro_batch);
    const bool shares = layout.sequence_parallel || layout.shares_kept_inputs;
    const double input = tokens * of(model.hidden_size) / (shares ? ways : 1);
    if (recompute == recompute_mode::full) return 2 * input;
    // The inputs of norms and of the linear layers behind them; query, key, value and what
    // attention gives; what the activation takes and gives; softmax's result where it lies in
    // memory.
    const double heads = of(model.num_attention_heads) / ways;
    const double keys = model.is_latent() ? heads : of(model.key_value_heads()) / ways;
    const auto is_again = [&](bool recomputed_modules::*part) {
      return recompute == recompute_mode::selective && setup.modules.*part;
    };
    const double of_values = of(model.query_dim() + model.value_dim());
    double attended = 0;
    if (has_attention(kind))
      attended = is_again(&recomputed_modules::latent_projections)
                     ? tokens * heads * of(model.value_dim())
                     : tokens * (heads + keys) * of_values;
    // All that the scan reads, or queries, keys and values of all heads, and the result.
    const linear_attention& linear = model.linear;
    if (kind == layer_kind::state_space_alone)
      attended = tokens * of(model.mamba.channels() + 3 * model.mamba.inner()) / ways;
    if (has_linear_attention(kind))
      attended = tokens *
                 of(2 * linear.num_value_heads * linear.key_head_dim + 3 * linear.values()) / ways;
    const double cast = elements_of_cast(setup);
    const bool keeps_mlp =
        !is_again(has_experts ? &recomputed_modules::experts : &recomputed_modules::mlp);
    const bool has_none = !has_experts && !has_mlp(kind);
    const double of_mlp = ((model.gated_mlp ? 2 : 1) + cast) * of(model.intermediate_size) / ways;
    double wide = 0;
    if (keeps_mlp && !has_none)
      wide = has_experts ? kept_of_experts(setup, recompute, tokens) : tokens * of_mlp;
    const bool writes_scores =
        recompute == recompute_mode::none && setup.chosen_attention() == attention_kernel::eager;
    const double scores =
        writes_scores && has_attention(kind) ? tokens * of(setup.sequence_length) * heads : 0;
    const bool is_alone = kind >= layer_kind::attention_alone;
    const double norms = is_alone ? 1 : 2;
    const double normed =
        is_again(&recomputed_modules::norms) ? 0 : norms - (keeps_mlp || has_none ? 0 : 1);
    return 2 * ((norms + normed * cast) * input + attended + wide + scores);
  }
  // Of what a linear layer keeps of its input, in elements of 2 bytes.
  static constexpr double elements_of_cast(const training_setup& setup) {
    return quantises_linears(setup.precision) ? quantised_bytes(setup.precision, false) / 2 : 1;
  }
  // In elements of 2 bytes: tokens in the experts' order, what their activation takes, clamped, and
  // gives, where each token went, in integers of 4 bytes, and the shared experts likewise.
  static constexpr double kept_of_experts(const training_setup& setup,
                                          recompute_mode recompute,
                                          double tokens) {
    const expert_mixture& moe = setup.model.moe;
    const recomputed_modules& again = setup.modules;
    const bool is_selective = recompute == recompute_mode::selective;
    const double ways = of(setup.parallelism.tensor_parallel);
    const double rows = tokens / ways * of(moe.num_experts_per_tok) * setup.expert_capacity;
    // Ranks that have parts of the same experts have the rows of all of them.
    const double parts = of(setup.parallelism.expert_tensor_parallel);
    const std::int64_t outside =
        moe.moe_latent_size != 0 ? moe.moe_latent_size : setup.model.hidden_size;
    const double taken = setup.model.gated_mlp ? 2 : 1;
    const double cast = elements_of_cast(setup);
    const double clamped = setup.model.clamped_gate_up ? taken : 0;
    const double activated = is_selective && again.expert_activation ? 0 : clamped + cast;
    const double of_shared = is_selective && again.shared_experts
                                 ? 0
                                 : (taken + cast) * of(moe.shared_expert_intermediate_size);
    const bool is_all_to_all = setup.dispatcher == token_dispatcher::all_to_all;
    const double places = is_all_to_all ? of(2 * (2 * moe.num_experts + 1)) : 0;
    return rows *
               (parts * cast * of(outside) + (taken + activated) * of(moe.moe_intermediate_size)) +
           tokens / ways * (places + of_shared);
  }
  // A stage has as many micro-batches under way as there are stages from it on; interleaved, those
  // of all chunks but the last for as many as there are stages, and of the last for twice as many
  // as are behind it, and one (schedules.py of Megatron-Core), or for as many as are behind it, and
  // one, where gradients of weights wait. Where a pipeline folds or runs both ways all are full.
  static constexpr std::int64_t chunks_on_their_way(const parallelism& layout,
                                                    std::int64_t stage,
                                                    std::int64_t accumulation) {
    const std::int64_t stages = layout.pipeline_parallel;
    const std::int64_t chunks = layout.virtual_pipeline;
    if (layout.schedule == pipeline_schedule::zero_bubble_v) return 2 * stages;
    if (layout.schedule == pipeline_schedule::dual_pipe) return stages + 1;
    if (layout.schedule == pipeline_schedule::dual_pipe_v) return 2 * stages + 1;
    const std::int64_t behind = stages - 1 - stage;
    const bool goes_ahead = chunks > 1 && !traits_of(layout.schedule).defers_weights;
    const std::int64_t most = (chunks - 1) * stages + (goes_ahead ? 2 : 1) * behind + 1;
    return accumulation * chunks < most ? accumulation * chunks : most;
  }
};

}  // namespace gpuplan
