#pragma once

// What is trained, and how: all but the batch.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/layer_classes.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/trainable.hpp>

#include <cstdint>

namespace gpuplan {

/// What computes softmax(query x key) x value.
enum class attention_kernel {
  automatic,  // as PyTorch chooses: flash where it can, else efficient
  flash,      // FlashAttention-2
  efficient,  // xFormers' memory-efficient attention
  math,       // PyTorch's own matmuls, in fp32
  eager       // the model's own operators
};

struct training_setup {
  transformer model{};
  // Of several transformers in one step, whoever says so keeps it; `model` is then the one whose
  // tokens `sequence_length` counts. Null: `model` alone.
  const composite_model* composite = nullptr;
  trainable trains{};
  // Of frozen towers before the model, on the first stage: their weights are counted, and neither
  // what passes through them nor its time.
  std::int64_t frozen_parameters = 0;
  std::int64_t sequence_length = 0;  // vision: the image's own
  std::int64_t target_length = 0;    // of an encoder-decoder's decoder; 0: the same
  std::int64_t encodings = 1;        // texts of a sample, of one graph
  precision_recipe precision{};
  gpuplan::optimizer optimizer{};
  gpuplan::parallelism parallelism{};
  model_rank place{};  // whose memory it is
  recompute_mode recompute = recompute_mode::none;
  recomputed_modules modules{};  // selective: which
  offloaded_activations offloads{};
  captured_parts graphs{};
  // full: layers between two inputs that are kept, Megatron's recompute_method uniform with
  // recompute_num_layers,
  std::int64_t recompute_span = 1;
  // so many of each stage, from the first (recompute_method block); 0: all
  std::int64_t recompute_layers = 0;
  std::int64_t recompute_period = 1;  // of these the last of so many: torchtitan's selective, "2"
  // full: the results of attention, of reductions among ranks, and of every other matrix product
  // of a layer stay: torchtitan's selective, "op"
  bool saves_costly_results = false;
  attention_kernel attention = attention_kernel::automatic;
  double dropout = 0;
  known<double> attention_dropout{};   // of the weights of attention; else `dropout`
  known<double> activation_dropout{};  // within an MLP, where a class has one; likewise
  known<double> classifier_dropout{};  // before a classifier; likewise
  bool padding_mask = false;
  gpuplan::framework framework{};
};

/// The tokens of one sequence as the layers see it: an image's own; of an encoder-decoder's decoder
/// `target_length`, where it is stated.
[[nodiscard]] constexpr std::int64_t tokens_of_sequence(const training_setup& setup,
                                                        bool in_decoder) {
  if (setup.model.kind == model_kind::vision) return setup.model.image.tokens();
  const bool has_own = in_decoder && setup.model.kind == model_kind::encoder_decoder;
  return has_own && setup.target_length != 0 ? setup.target_length : setup.sequence_length;
}

/// The setup of a part of several, as if it trained alone. Precondition: the part says whose code
/// runs it.
[[nodiscard]] constexpr training_setup setup_of_part(const training_setup& all,
                                                     const component& part) {
  training_setup setup = all;
  setup.model = part.model;
  setup.composite = nullptr;
  setup.trains = part.trains;
  if (part.sequence_length != 0) setup.sequence_length = part.sequence_length;
  const bool builds_in_fp32 = all.framework.implementation.builds_in_fp32;
  setup.framework.implementation = *part.by;
  setup.framework.implementation.builds_in_fp32 = builds_in_fp32;
  return setup;
}

/// The texts of a sample that a sentence encoder compares at most.
inline constexpr std::int64_t most_texts_beside = 5;

namespace detail {

constexpr failure flaw_of_asked(const asked_property& asked, named_fact beside) {
  if (asked.is_there) return {};
  return flaw_unless({{asked.field, asked.takes}}, beside);
}
constexpr failure flaw_of_properties(const training_setup& setup) {
  const layer_class& code = setup.framework.layers();
  const engine_class& by = *setup.framework.engine.is;
  for (const asked_property& asked : asked_of_layers(code, setup))
    if (const failure why = flaw_of_asked(asked, {fact::layers, code.name}); failed(why))
      return why;
  for (const asked_property& asked : asked_of_engine(by, setup))
    if (const failure why = flaw_of_asked(asked, {fact::sharding, by.name}); failed(why))
      return why;
  return {};
}

// Whether the framework compiles such layers, and such a loss.
constexpr failure flaw_of_compilation(const training_setup& setup) {
  const transformer& model = setup.model;
  const implementation& by = setup.framework.implementation;
  const named_fact compiles_layers{fact::compiles_layers, by.compiles_layers};
  const named_fact compiles_loss{fact::compiles_loss, by.compiles_loss};
  if (by.compiles_loss && by.loss_parallel)
    return without_code({compiles_loss, {fact::loss_parallel, true}, {fact::takes, false}});
  if (!by.compiles_layers) return {};
  if (setup.trains.what != training::full)
    return without_code(
        {{fact::trains, setup.trains.what}, compiles_layers, {fact::takes, training::full}});
  if (setup.parallelism.tensor_parallel > 1)
    return without_code({{fact::tensor_parallel, setup.parallelism.tensor_parallel},
                         compiles_layers,
                         {fact::takes, 1}});
  if (model.norm != norm_kind::rms_norm)
    return without_code(
        {{fact::norm, model.norm}, compiles_layers, {fact::takes, norm_kind::rms_norm}});
  if (!model.norm_affine)
    return without_code({{fact::norm_affine, false}, compiles_layers, {fact::takes, true}});
  if (model.key_value_heads() == model.num_attention_heads)
    return without_code({{fact::num_key_value_heads, model.key_value_heads()},
                         compiles_layers,
                         {fact::at_most, model.num_attention_heads - 1}});
  return {};
}

constexpr failure flaw_of_precision(const training_setup& setup) {
  const precision_recipe& recipe = setup.precision;
  const named_fact sharding{fact::sharding, setup.framework.engine.is->name};
  const named_fact weights{fact::precision_weights, recipe.weights};
  const named_fact compute{fact::precision_compute, recipe.compute};
  const named_fact reduced{fact::precision_reduced, recipe.reduced};
  const named_fact fp32{fact::takes, number_format::fp32};
  const named_fact bf16{fact::takes, number_format::bf16};
  const named_fact fp16{fact::takes, number_format::fp16};
  const engine_class& engine = *setup.framework.engine.is;
  const bool gathers = engine.gathers_weights;
  const bool has_half_weights = is_half(recipe.weights);
  if (recipe.weights != number_format::fp32 && !has_half_weights)
    return without_code({weights, fp32, bf16, fp16});
  if (recipe.compute != number_format::fp32 && recipe.compute != number_format::tf32 &&
      !is_half(recipe.compute))
    return without_code({compute, fp32, {fact::takes, number_format::tf32}, bf16, fp16});
  if (!gathers && !is_half(recipe.compute) && has_half_weights)
    return without_code({compute, weights, sharding, bf16, fp16});
  if (gathers)
    if (const failure why = flaw_if_any({{fact::under_autocast, recipe.under_autocast},
                                         {fact::master_weights, recipe.master_weights}},
                                        sharding);
        failed(why))
      return why;
  if (recipe.reduced != number_format::fp32 && !gathers)
    return without_code({reduced, sharding, fp32});
  if (recipe.reduced != number_format::fp32 && !is_half(recipe.reduced))
    return without_code({reduced, fp32, bf16, fp16});
  if (recipe.master_weights && !has_half_weights)
    return without_code({{fact::master_weights, true}, weights, {fact::takes, false}});
  if (!recipe.master_weights && engine.has_own_step)
    return without_code({{fact::master_weights, false}, sharding, {fact::takes, true}});
  return {};
}

constexpr failure flaw_of_fp8(const training_setup& setup) {
  const precision_recipe& recipe = setup.precision;
  const named_fact layers{fact::layers, setup.framework.layers().name};
  const named_fact fp8 = recipe.fp4_linears ? named_fact{fact::fp4_linears, true}
                                            : named_fact{fact::fp8_linears, recipe.fp8_linears};
  const bool by_engine = setup.framework.layers().quantises_linears;
  const named_fact scaling{fact::scaling, recipe.scaling};
  const named_fact by_tensor{fact::takes, scaling_kind::tensor};
  if (recipe.fp8_linears && recipe.fp4_linears)
    return without_code({fp8, {fact::fp8_linears, true}, {fact::takes, false}});
  if (!quantises_linears(recipe)) {
    if (recipe.scaling != scaling_kind::tensor)
      return without_code({scaling, {fact::fp8_linears, false}, by_tensor});
    return flaw_if_any({{fact::quantised_weights, recipe.quantised_weights}}, fp8);
  }
  if (recipe.compute != number_format::bf16)
    return without_code(
        {{fact::precision_compute, recipe.compute}, fp8, {fact::takes, number_format::bf16}});
  if (by_engine) {
    if (recipe.scaling == scaling_kind::row)
      return without_code({scaling, layers, by_tensor, {fact::takes, scaling_kind::micro}});
    if (recipe.fp4_linears && recipe.scaling != scaling_kind::micro)
      return without_code({scaling, fp8, {fact::takes, scaling_kind::micro}});
    if (recipe.quantised_weights && recipe.weights != number_format::bf16)
      return without_code({{fact::precision_weights, recipe.weights},
                           {fact::quantised_weights, true},
                           {fact::takes, number_format::bf16}});
    return flaw_if_no_multiple({{fact::hidden_size, setup.model.hidden_size}},
                               {fact::fp8_block, 16});
  }
  if (recipe.scaling != scaling_kind::tensor) return without_code({scaling, layers, by_tensor});
  if (setup.parallelism.tensor_parallel > 1)
    return without_code(
        {fp8, {fact::tensor_parallel, setup.parallelism.tensor_parallel}, {fact::takes, false}});
  if (setup.trains.what == training::adapters)
    return without_code({fp8, {fact::trains, setup.trains.what}, {fact::takes, false}});
  const transformer& model = setup.model;
  const std::int64_t head_dim = model.query_dim();
  return flaw_if_no_multiple({{fact::hidden_size, model.hidden_size},
                              {fact::intermediate_size, model.intermediate_size},
                              {fact::query_size, model.num_attention_heads * head_dim},
                              {fact::key_value_size, model.key_value_heads() * head_dim}},
                             {fact::fp8_block, 16});
}

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
    return code.is_pipelined ? taken.runs_pipelines : taken.runs_others;
  };
  if (!runs_it(by)) return with_engines(without_code({sharding, layers}), runs_it);
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
  // Within attention a context rank has all tokens of a part of a tensor rank's heads; their number
  // is a multiple of that of its keys and values.
  const std::int64_t groups = model.key_value_heads() > ranks ? model.key_value_heads() / ranks : 1;
  return flaw_if_indivisible({fact::context_parallel, layout.context_parallel},
                             {{fact::key_value_heads_of_rank, groups}});
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
    if (!code.is_pipelined) return without_code({chunks, layers, one});
    if (!setup.framework.engine.is->runs_chunks) return without_code({chunks, sharding, one});
    if (layout.pipeline_parallel == 1) return without_code({chunks, stages, one});
  }
  if (layout.schedule != pipeline_schedule::one_f_one_b)
    return without_code(
        {{fact::schedule, layout.schedule}, {fact::takes, pipeline_schedule::one_f_one_b}});
  const bool has_engine = setup.framework.implementation.transformer_engine;
  const named_fact engine{fact::transformer_engine, has_engine};
  if (!has_engine && layout.expert_parallel > 1)
    return without_code({{fact::expert_parallel, layout.expert_parallel}, engine, one});
  if (!has_engine && !code.divides_context && layout.context_parallel > 1)
    return without_code({{fact::context_parallel, layout.context_parallel}, layers, engine, one});
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
  const named_fact loss_parallel{fact::loss_parallel, setup.framework.implementation.loss_parallel};
  if (setup.framework.implementation.loss_parallel && code.is_pipelined)
    return without_code({loss_parallel, layers, {fact::takes, false}});
  if (setup.framework.implementation.loss_parallel && ranks == 1)
    return without_code({loss_parallel, tensor_parallel, {fact::takes, false}});
  if (ranks == 1 || code.is_pipelined) return {};
  if (!code.divides_tensors) return without_code({tensor_parallel, layers, one});
  const transformer& model = setup.model;
  const bool has_groups = model.key_value_heads() != model.num_attention_heads;
  if (const failure why =
          flaw_if_indivisible(tensor_parallel,
                              {{has_groups ? fact::num_key_value_heads : fact::num_attention_heads,
                                model.key_value_heads()},
                               {fact::intermediate_size, model.intermediate_size}});
      failed(why))
    return why;
  if (const failure why = flaw_if_any({{fact::attention_bias, model.attention_bias},
                                       {fact::attention_out_bias, model.attention_out_bias},
                                       {fact::mlp_bias, model.mlp_bias},
                                       {fact::norm_bias, model.norm_bias}},
                                      tensor_parallel);
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

// What Megatron-Core can divide, as far as its code is known.
constexpr failure flaw_of_experts(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const expert_mixture& moe = setup.model.moe;
  const named_fact experts{fact::num_experts, moe.num_experts};
  if (moe.num_experts == 0) return {};
  // Tensor-parallel ranks have experts of their own (expert_tensor_parallel_size 1), and tokens: a
  // part of the sequence each.
  const named_fact tensor_parallel{fact::tensor_parallel, layout.tensor_parallel};
  if (layout.tensor_parallel > 1 && layout.expert_parallel == 1)
    return without_code({tensor_parallel,
                         experts,
                         {fact::expert_parallel, layout.expert_parallel},
                         {fact::takes, 1}});
  if (layout.tensor_parallel > 1 && !layout.sequence_parallel)
    return without_code(
        {{fact::sequence_parallel, false}, tensor_parallel, experts, {fact::takes, true}});
  return flaw_if_indivisible({fact::expert_parallel, layout.expert_parallel}, {experts});
}

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
  if (setup.recompute != recompute_mode::selective || code.recomputes_modules) return {};
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
  if (setup.dropout == 0) return {};
  const named_fact dropout{fact::dropout, setup.dropout};
  if (parts.iteration) return without_code({of_iteration, dropout, none});
  if (parts.attention && setup.modules.core_attention)
    return without_code({of_attention, dropout, none});
  if (parts.mlp && setup.modules.mlp) return without_code({of_mlp, dropout, none});
  return {};
}

// Which kernels take what there is (sdp_utils.cpp of PyTorch).
constexpr failure flaw_of_attention(const training_setup& setup) {
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
  if (setup.attention != attention_kernel::flash && (is_chosen || !code.has_flash_alone)) return {};
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
  if (model.sliding_window != 0 && !code.has_windowed_flash &&
      model.sliding_window <= setup.sequence_length)
    return without_code({{fact::sliding_window, model.sliding_window},
                         attention,
                         {fact::sequence_length, setup.sequence_length},
                         {fact::takes, 0},
                         {fact::at_least, setup.sequence_length + 1}});
  return flaw_if_any({{fact::padding_mask, setup.padding_mask}}, attention);
}

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
      if (by.kind != optimizer_kind::adamw && by.kind != optimizer_kind::lion)
        return without_code({kind, code, adamw, {fact::takes, optimizer_kind::lion}});
      if (by.states != number_format::fp32 && by.states != number_format::int8)
        return without_code({states, code, fp32, int8});
      if (!around.takes_any_optimizer) return without_code({code, engine, torch});
      break;
    case optimizer_library::torchao:
      if (by.kind != optimizer_kind::adamw) return without_code({kind, code, adamw});
      if (by.states != number_format::int8) return without_code({states, code, int8});
      break;
  }
  if (by.library != optimizer_library::bitsandbytes)
    if (const failure why = flaw_if_any({{fact::pages_states, by.pages_states}}, code); failed(why))
      return why;
  const named_fact tensor_parallel{fact::tensor_parallel, setup.parallelism.tensor_parallel};
  const bool divides_layers = setup.parallelism.tensor_parallel > 1;
  if (has_own && setup.precision.master_weights)
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
  if (!around.has_all_optimizers) return without_code({kind, engine, adamw});
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
                                       {fact::adapter_base_block, adapters.base.block}},
                                      trains);
      failed(why))
    return why;
  if (setup.parallelism.zero_stage > 1)
    return without_code(
        {{fact::zero_stage, setup.parallelism.zero_stage}, trains, {fact::takes, 1}});
  const bool is_split = targets.query != targets.key || targets.key != targets.value ||
                        (setup.model.gated_mlp && targets.gate != targets.up);
  const bool has_others =
      targets.embedding || targets.head || targets.classifier || targets.other || targets.patches;
  if (is_split || has_others || adapters.bias != lora_bias::none || adapters.copy_embedding ||
      adapters.copy_head)
    return without_code({trains, layers, {fact::takes, training::full}});
  return {};
}

// What is left frozen, and who has code for that.
constexpr failure flaw_of_training(const training_setup& setup) {
  if (setup.trains.what == training::full) return {};
  const transformer& model = setup.model;
  const layer_class& code = setup.framework.layers();
  const engine_class& by = *setup.framework.engine.is;
  const named_fact trains{fact::trains, setup.trains.what};
  const named_fact layers{fact::layers, code.name};
  const named_fact sharding{fact::sharding, by.name};
  const named_fact all{fact::takes, training::full};
  if (!code.trains_adapters) return without_code({trains, layers, all});
  if (!by.trains_parts) return without_code({trains, sharding, all});
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
  if (!code.trains_parts && setup.trains.what != training::adapters)
    return without_code({trains, layers, all, {fact::takes, training::adapters}});
  if (setup.trains.what != training::adapters) return {};
  const lora& adapters = setup.trains.adapters;
  if (code.is_pipelined) return flaw_of_pipelined_adapters(setup);
  if (setup.parallelism.tensor_parallel > 1)
    return without_code({trains,
                         {fact::tensor_parallel, setup.parallelism.tensor_parallel},
                         all,
                         {fact::takes, training::head},
                         {fact::takes, training::last_layers}});
  if (!by.gathers_weights) return {};
  if (adapters.weights != setup.precision.weights)
    return without_code({{fact::adapter_weights, adapters.weights},
                         sharding,
                         {fact::takes, setup.precision.weights}});
  return flaw_if_any({{fact::adapter_magnitudes, adapters.magnitudes},
                      {fact::adapter_base_block, adapters.base.block}},
                     sharding);
}

// What any estimate of a setup reads, whoever's code it is: lengths, counts of recomputation, a
// probability.
constexpr failure flaw_of_lengths(const training_setup& setup) {
  const named_fact frozen{fact::frozen_parameters, setup.frozen_parameters};
  if (frozen.value < 0 || frozen.value > most_of_a_dimension)
    return failure(errc::out_of_bounds,
                   {frozen, {fact::at_least, 0}, {fact::at_most, most_of_a_dimension}});
  const std::int64_t longest = std::int64_t{1} << 32;
  const bool reads_tokens = setup.model.kind != model_kind::vision;
  for (const named_fact count :
       {named_fact{fact::sequence_length, reads_tokens ? setup.sequence_length : 1},
        named_fact{fact::decoder_sequence_length,
                   setup.target_length != 0 ? setup.target_length : 1},
        named_fact{fact::encodings, setup.encodings}})
    if (count.value < 1 || count.value > longest)
      return failure(errc::out_of_bounds,
                     count,
                     named_fact{fact::at_least, 1},
                     named_fact{fact::at_most, longest});
  // Whisper's encoder reads as many frames as it has positions for.
  const std::int64_t frames = setup.model.audio.num_mel_bins != 0 ? setup.model.position_rows : 0;
  if (frames != 0 && setup.sequence_length != frames)
    return failure(errc::out_of_bounds,
                   {{fact::sequence_length, setup.sequence_length},
                    {fact::at_least, frames},
                    {fact::at_most, frames}});
  // Layers: a model has no more.
  const auto flaw_of_layers = [](named_fact count, std::int64_t least) -> failure {
    if (count.value >= least && count.value <= most_layers) return {};
    return failure(errc::out_of_bounds,
                   {count, {fact::at_least, least}, {fact::at_most, most_layers}});
  };
  for (const failure& why : {flaw_of_layers({fact::recompute_span, setup.recompute_span}, 1),
                             flaw_of_layers({fact::recompute_period, setup.recompute_period}, 1),
                             flaw_of_layers({fact::recompute_layers, setup.recompute_layers}, 0)})
    if (failed(why)) return why;
  const auto flaw_of_dropout = [](auto field, double probability) -> failure {
    if (probability >= 0 && probability <= 1) return {};
    return failure(errc::out_of_bounds,
                   {{field, probability}, {fact::at_least, 0}, {fact::at_most, 1}});
  };
  for (const failure& why :
       {flaw_of_dropout(fact::dropout, setup.dropout),
        flaw_of_dropout(fact::attention_dropout,
                        setup.attention_dropout ? *setup.attention_dropout : 0),
        flaw_of_dropout(fact::activation_dropout,
                        setup.activation_dropout ? *setup.activation_dropout : 0),
        flaw_of_dropout(fact::classifier_dropout,
                        setup.classifier_dropout ? *setup.classifier_dropout : 0)})
    if (failed(why)) return why;
  return {};
}

constexpr failure flaw_of_combination(const training_setup& setup) {
  for (const failure& why : {flaw_of_properties(setup),
                             flaw_of_precision(setup),
                             flaw_of_fp8(setup),
                             flaw_of_sharding(setup),
                             flaw_of_layout(setup),
                             flaw_of_experts(setup),
                             flaw_of_recomputation(setup),
                             flaw_of_graphs(setup),
                             flaw_of_compilation(setup),
                             flaw_of_attention(setup),
                             flaw_of_optimizer(setup),
                             flaw_of_training(setup)})
    if (failed(why)) return why;
  return {};
}

constexpr failure flaw_of_parts(const training_setup& setup);

}  // namespace detail

/// The setup itself where its model and layout are valid, the framework has code for such models
/// and for what is done with them, lengths are from 1 to 2^32 (of a vision model they are not
/// read), counts of layers to 2^16, and dropout is a probability. Errors: those of the model and of
/// the layout; `no_such_code`, `does_not_divide` and `not_a_multiple` with the field, what it
/// stands beside and what would be taken; `out_of_bounds`.
[[nodiscard]] constexpr result<training_setup> validate(const training_setup& setup) {
  if (const auto valid = validate(setup.model); !valid) return valid.why();
  if (const failure why = detail::flaw_of_engine(setup.framework.engine); detail::failed(why))
    return why;
  // Before the layout's own: it says which stages this framework has, not which there are.
  if (const failure why = detail::flaw_of_zero_stage(setup); detail::failed(why)) return why;
  if (const auto valid = validate(setup.parallelism); !valid) return valid.why();
  if (const failure why =
          detail::flaw_of_implementation(setup.model, setup.framework.implementation);
      detail::failed(why))
    return why;
  // Its gradient would leave the layer that is computed again.
  if (setup.recompute == recompute_mode::full &&
      setup.framework.implementation.checkpoints_reenter &&
      setup.model.relative_attention_buckets != 0)
    return detail::without_code(
        {{fact::recompute, setup.recompute},
         {fact::checkpoints_reenter, true},
         {fact::relative_attention_buckets, setup.model.relative_attention_buckets},
         {fact::takes, recompute_mode::none}});
  if (setup.recompute == recompute_mode::full && setup.framework.layers().has_gradients_beside)
    if (const failure why = detail::flaw_if_any(
            {{fact::checkpoints_reenter, setup.framework.implementation.checkpoints_reenter}},
            {fact::layers, setup.framework.layers().name});
        detail::failed(why))
      return why;
  if (setup.framework.layers().runs_composites && setup.composite == nullptr)
    return detail::without_code({{fact::composite, false},
                                 {fact::layers, setup.framework.layers().name},
                                 {fact::takes, true}});
  if (setup.composite != nullptr)
    if (const failure why = detail::flaw_of_parts(setup); detail::failed(why)) return why;
  if (const failure why = detail::flaw_of_lengths(setup); detail::failed(why)) return why;
  // An encoder without a head trains on the texts of a sample beside each other.
  const named_fact texts{fact::encodings, setup.encodings};
  const bool compares_texts =
      setup.framework.layers().compares_texts && setup.model.head == head_kind::none;
  if (compares_texts && (texts.value < 2 || texts.value > most_texts_beside))
    return failure(errc::out_of_bounds,
                   texts,
                   named_fact{fact::at_least, 2},
                   named_fact{fact::at_most, most_texts_beside});
  const named_fact layers{fact::layers, setup.framework.layers().name};
  if (texts.value != 1 && !compares_texts)
    return detail::without_code({texts, layers, {fact::head, setup.model.head}, {fact::takes, 1}});
  if (const failure why = detail::flaw_of_combination(setup); detail::failed(why)) return why;
  return setup;
}

namespace detail {

// What keeps a composite's classes from running its parts, each as if it trained alone.
constexpr failure flaw_of_parts(const training_setup& setup) {
  const composite_model& model = *setup.composite;
  const layer_class& classes = setup.framework.layers();
  const named_fact layers{fact::layers, classes.name};
  if (const failure why = flaw_if_any({{fact::composite, !classes.runs_composites}}, layers);
      failed(why))
    return why;
  int parts = 0;
  while (parts < composite_model::most_parts && classes.parts[parts] != nullptr) ++parts;
  if (const failure why = flaw_unless({{{fact::parts, model.size()}, parts}}, layers); failed(why))
    return why;
  for (int at = 0; at < parts; ++at) {
    const component& part = model.parts[at];
    const layer_class& by = *classes.parts[at];
    if (part.by == nullptr || part.by->layers != &by)
      return without_code({{fact::part, at}, layers, {fact::takes, by.name}});
    const std::int64_t most_sequences = std::int64_t{1} << 20;
    if (part.sequences < 1 || part.sequences > most_sequences)
      return failure(errc::out_of_bounds,
                     {{fact::sequences, part.sequences},
                      {fact::at_least, 1},
                      {fact::at_most, most_sequences}});
    if (part.unread_layers < 0 || part.unread_layers > part.model.num_hidden_layers)
      return failure(errc::out_of_bounds,
                     {{fact::unread_layers, part.unread_layers},
                      {fact::at_least, 0},
                      {fact::at_most, part.model.num_hidden_layers}});
    if (const failure why =
            flaw_if_any({{fact::attention_pooling,
                          part.model.attention_pooling && !classes.pools_by_attention}},
                        layers);
        failed(why))
      return why;
    training_setup alone = setup_of_part(setup, part);
    // A query that attends reads the matrix of its output past an adapter.
    if (part.model.attention_pooling && part.trains.what == training::adapters &&
        part.trains.adapters.targets.attention_out)
      return without_code({{fact::attention_pooling, true},
                           {fact::trains, part.trains.what},
                           layers,
                           {fact::takes, training::full}});
    // What is behind its layers is the composite's; what is frozen may be a part.
    alone.model.head =
        part.model.kind == model_kind::vision ? head_kind::classifier : head_kind::language_model;
    alone.model.num_classes = 1;
    alone.model.pooler = alone.model.attention_pooling = false;
    alone.framework.implementation.images.counts_patches = false;
    alone.framework.implementation.is_part = false;
    if (alone.trains.what == training::frozen) alone.trains.what = training::full;
    if (const failure why =
            flaw_if_any({{fact::adapter_base_block, alone.trains.adapters.base.block}}, layers);
        failed(why))
      return why;
    if (const auto valid = validate(alone); !valid) return valid.why();
  }
  return {};
}

// What is wrong with a valid batch on a valid setup's layout, or no failure.
constexpr failure flaw_of_batch(const training_setup& setup, const batch_plan& plan) {
  const parallelism& layout = setup.parallelism;
  const named_fact replicas{fact::data_parallel, plan.data_parallel};
  const checked_integer ranks = checked_product(plan.data_parallel, layout.context_parallel);
  if (!ranks.ok)
    return failure(errc::overflow, {replicas, {fact::context_parallel, layout.context_parallel}});
  const checked_integer tokens = checked_product(plan.micro_batch, setup.sequence_length);
  const bool casts_tokens =
      setup.precision.fp8_linears && !setup.framework.layers().quantises_linears;
  if (casts_tokens && !tokens.ok)
    return failure(
        errc::overflow,
        {{fact::micro_batch, plan.micro_batch}, {fact::sequence_length, setup.sequence_length}});
  // Experts are shared by the ranks of data, context and tensor parallelism.
  const checked_integer of_stage = checked_product(ranks.value, layout.tensor_parallel);
  if (!of_stage.ok)
    return failure(errc::overflow, {replicas, {fact::tensor_parallel, layout.tensor_parallel}});
  if (const failure why = flaw_if_indivisible({fact::expert_parallel, layout.expert_parallel},
                                              {{fact::context_ranks, of_stage.value}});
      failed(why))
    return why;
  if (layout.shard_group != 0)
    if (const failure why =
            flaw_if_indivisible({fact::shard_group, layout.shard_group}, {replicas});
        failed(why))
      return why;
  if (plan.data_parallel > 1 && layout.tensor_parallel > 1 &&
      !setup.framework.layers().divides_replicas)
    return without_code({replicas,
                         {fact::tensor_parallel, layout.tensor_parallel},
                         {fact::layers, setup.framework.layers().name},
                         {fact::takes, 1}});
  if (casts_tokens)
    return flaw_if_no_multiple({{fact::tokens, tokens.value}}, {fact::fp8_block, 16});
  return {};
}

}  // namespace detail

/// The setup itself where it is valid, and so is its batch on that layout. Errors: those of the
/// setup and of the plan; `no_such_code`.
[[nodiscard]] constexpr result<training_setup> validate(const training_setup& setup,
                                                        const batch_plan& plan) {
  if (const auto valid = validate(setup); !valid) return valid.why();
  if (const auto valid = validate(plan); !valid) return valid.why();
  if (const failure why = detail::flaw_of_batch(setup, plan); detail::failed(why)) return why;
  if (setup.parallelism.virtual_pipeline > 1)
    if (const failure why = detail::flaw_if_no_multiple(
            {{fact::accumulation, plan.accumulation}},
            {fact::pipeline_parallel, setup.parallelism.pipeline_parallel});
        detail::failed(why))
      return why;
  return setup;
}

}  // namespace gpuplan
