#pragma once

// What is trained, and how: all but the batch.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/layer_code.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/trainable.hpp>

#include <cstdint>

namespace gpuplan {

/// What computes softmax(query x key) x value.
enum class attention_kernel {
  automatic,   // as PyTorch chooses: flash where it can, else efficient
  flash,       // FlashAttention-2
  efficient,   // xFormers' memory-efficient attention
  math,        // PyTorch's own products, in fp32
  written_out  // the model's own products
};

struct training_setup {
  transformer model{};
  trainable trains{};
  std::int64_t sequence_length = 0;  // vision: the image's own
  std::int64_t target_length = 0;    // of an encoder-decoder's decoder; 0: the same
  std::int64_t encodings = 1;        // texts of a sample, of one graph
  precision_recipe precision{};
  gpuplan::optimizer optimizer{};
  gpuplan::parallelism parallelism{};
  model_rank place{};  // whose memory it is
  recompute_mode recompute = recompute_mode::none;
  // full: layers between two inputs that are kept (Megatron's uniform method),
  std::int64_t recompute_span = 1;
  std::int64_t recompute_layers = 0;  // so many of each stage, from the first; 0: all
  std::int64_t recompute_period = 1;  // of these the last of so many
  // full: the results of attention, of reductions among ranks, and of every other matrix product
  // of a layer stay
  bool saves_costly_results = false;
  attention_kernel attention = attention_kernel::automatic;
  double dropout = 0;
  bool padding_mask = false;
  gpuplan::framework framework{};
};

/// The texts of a sample that a sentence encoder compares at most.
inline constexpr std::int64_t most_texts_beside = 5;

namespace detail {

// Whether the framework compiles such layers, and such a loss.
constexpr failure flaw_of_compilation(const training_setup& setup) {
  const transformer& model = setup.model;
  const bool compiles = setup.framework.compiles_layers || setup.framework.compiles_loss;
  if (compiles && setup.framework.layers != layer_code::torchtitan)
    return without_code("torch.compile");
  if (setup.framework.compiles_loss && setup.framework.loss_parallel)
    return without_code("compiled loss of divided logits");
  if (!setup.framework.compiles_layers) return {};
  if (setup.trains.what != training::full) return without_code("frozen compiled layers");
  if (setup.parallelism.tensor_parallel > 1)
    return without_code("compiled layers of several ranks");
  if (model.norm != norm_kind::rms_norm || !model.norm_affine)
    return without_code("compiled layer norms");
  if (model.key_value_heads() == model.num_attention_heads)
    return without_code("compiled layers without groups");
  return {};
}

constexpr failure flaw_of_precision(const training_setup& setup) {
  const precision_recipe& recipe = setup.precision;
  const sharding_code sharding = setup.framework.sharding;
  const bool gathers = sharding == sharding_code::fsdp2;
  if (recipe.weights != number_format::fp32 && !is_half(recipe.weights))
    return without_code("weights in this format");
  if (recipe.compute != number_format::fp32 && recipe.compute != number_format::tf32 &&
      !is_half(recipe.compute))
    return without_code("products in this format");
  if (!gathers && !is_half(recipe.compute) && is_half(recipe.weights))
    return without_code("fp32 products of such weights");
  if (gathers && recipe.under_autocast) return without_code("autocast of gathered weights");
  if (recipe.reduced != number_format::fp32 && !(gathers && is_half(recipe.reduced)))
    return without_code("reduction in this format");
  if (recipe.master_weights && (gathers || !is_half(recipe.weights)))
    return without_code("master weights");
  if (!recipe.master_weights && sharding == sharding_code::deepspeed)
    return without_code("no master weights");
  const bool sums = sharding == sharding_code::deepspeed || sharding == sharding_code::megatron;
  if (recipe.fp32_gradients && !sums) return without_code("fp32 gradients");
  return {};
}

constexpr failure flaw_of_fp8(const training_setup& setup) {
  if (setup.precision.fp4_linears) return without_code("fp4_linears");
  if (setup.precision.scales_by_row) return without_code("scales_by_row");
  if (!setup.precision.fp8_linears) return {};
  const layer_code layers = setup.framework.layers;
  const sharding_code sharding = setup.framework.sharding;
  if (!is_plain(layers) && layers != layer_code::decoder) return without_code("fp8_linears");
  if (setup.precision.compute != number_format::bf16)
    return without_code("fp8 beside such products");
  if (sharding == sharding_code::deepspeed || setup.parallelism.tensor_parallel > 1 ||
      setup.trains.what == training::adapters)
    return without_code("such layers in fp8");
  const transformer& model = setup.model;
  for (const std::int64_t width : {model.hidden_size,
                                   model.intermediate_size,
                                   model.num_attention_heads * model.query_dim(),
                                   model.key_value_heads() * model.query_dim()})
    if (width % 16 != 0) return without_code("such widths in fp8");
  return {};
}

// Which ZeRO stages there are, and what of them lies on the host.
constexpr failure flaw_of_sharding(const training_setup& setup) {
  const parallelism& division = setup.parallelism;
  const sharding_code sharding = setup.framework.sharding;
  const bool gathers = sharding == sharding_code::fsdp2;
  const bool is_deepspeed = sharding == sharding_code::deepspeed;
  const int stage = division.zero_stage;
  const int least = gathers ? 2 : 0;
  const int most = gathers || is_deepspeed ? 3 : 1;
  if (stage < least || stage > most) return without_code("this zero_stage");
  const bool is_of_megatron = is_megatron(setup.framework.layers);
  if (is_of_megatron ? sharding == sharding_code::none || gathers
                     : sharding == sharding_code::megatron)
    return without_code("this sharding of such layers");
  if (division.shard_group != 0 && !gathers) return without_code("shard_group");
  if (gathers && division.optimizer_on_host != division.weights_on_host)
    return without_code("weights or optimizer on host");
  if (!gathers && division.weights_on_host) return without_code("weights_on_host");
  const bool is_in_buffer = stage == 1 && setup.precision.fp32_gradients &&
                            setup.precision.weights == number_format::bf16;
  if (!gathers && division.optimizer_on_host && (!is_deepspeed || stage == 0 || is_in_buffer))
    return without_code("optimizer_on_host");
  if (!gathers && !setup.framework.reduces_every_micro_batch)
    return without_code("late reduction of gradients");
  const layer_code layers = setup.framework.layers;
  const bool has_hooks =
      layers == layer_code::decoder || layers == layer_code::gpt2 || layers == layer_code::bert;
  if (is_deepspeed && stage == 3 && !has_hooks) return without_code("ZeRO-3 of such layers");
  return {};
}

// Megatron-Core's stages, and chunks of them, are equally long; its ranks have equal parts of
// layers. DeepSpeed's pipeline engine has neither chunks nor ZeRO-2.
constexpr failure flaw_of_megatron_division(const training_setup& setup) {
  const parallelism& division = setup.parallelism;
  const transformer& model = setup.model;
  const std::int64_t ranks = division.tensor_parallel;
  const std::int64_t chunks = division.pipeline_parallel * division.virtual_pipeline;
  const bool is_deepspeed = setup.framework.sharding == sharding_code::deepspeed;
  if (is_deepspeed && division.zero_stage > 1 && division.pipeline_parallel > 1)
    return without_code("this zero_stage of stages");
  if (model.num_hidden_layers < division.pipeline_parallel ||
      (!is_deepspeed && model.num_hidden_layers % chunks != 0))
    return without_code("unequal stages");
  if (model.num_attention_heads % ranks != 0 || model.intermediate_size % ranks != 0 ||
      (model.key_value_heads() % ranks != 0 && ranks % model.key_value_heads() != 0))
    return without_code("unequal parts of a layer");
  // Within attention a context rank has all tokens of a part of a tensor rank's heads.
  const std::int64_t heads = model.num_attention_heads / ranks;
  const std::int64_t groups = model.key_value_heads() > ranks ? model.key_value_heads() / ranks : 1;
  if (heads % division.context_parallel != 0 || groups % division.context_parallel != 0)
    return without_code("unequal heads of context ranks");
  return {};
}

// A context rank has two chunks of a sequence, one from either end; along the sequence, each of its
// tensor ranks an equal part of their tokens.
constexpr bool divides_sequence_unequally(const training_setup& setup) {
  const parallelism& division = setup.parallelism;
  const std::int64_t context = division.context_parallel;
  const std::int64_t own = setup.sequence_length / context;
  if (context > 1 && (setup.sequence_length % context != 0 || own % 2 != 0)) return true;
  const bool is_along =
      division.sequence_parallel || setup.framework.layers == layer_code::torchtitan;
  return is_along && own % division.tensor_parallel != 0;
}

constexpr failure flaw_of_division(const training_setup& setup) {
  const parallelism& division = setup.parallelism;
  const layer_code layers = setup.framework.layers;
  const bool is_of_megatron = is_megatron(layers);
  const bool is_titan = layers == layer_code::torchtitan;
  const std::int64_t ranks = division.tensor_parallel;
  if (!is_of_megatron && division.pipeline_parallel > 1) return without_code("pipeline_parallel");
  const bool has_chunks = is_of_megatron && setup.framework.sharding != sharding_code::deepspeed;
  if (division.virtual_pipeline > 1 && (!has_chunks || division.pipeline_parallel == 1))
    return without_code("virtual_pipeline");
  const bool has_engine = setup.framework.transformer_engine;
  if (division.schedule != pipeline_schedule::one_f_one_b)
    return without_code("memory of this schedule");
  if (!has_engine && division.expert_parallel > 1) return without_code("expert_parallel");
  if (!has_engine && !is_titan && division.context_parallel > 1)
    return without_code("context_parallel");
  if (!is_of_megatron && division.shares_kept_inputs) return without_code("shares_kept_inputs");
  const model_rank& place = setup.place;
  if (place.stage < 0 || place.stage >= division.pipeline_parallel)
    return failure(errc::out_of_bounds,
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, division.pipeline_parallel - 1})
        .about("stage");
  if (place.tensor_rank != 0 || place.expert_rank != 0)
    return without_code("ranks other than the first");
  if (divides_sequence_unequally(setup)) return without_code("unequal parts of a sequence");
  if (is_of_megatron)
    if (const failure why = flaw_of_megatron_division(setup); failed(why)) return why;
  if (setup.framework.loss_parallel && (ranks == 1 || is_of_megatron))
    return without_code("loss_parallel");
  if (ranks == 1 || is_of_megatron) return {};
  if (layers != layer_code::llama && !is_titan) return without_code("tensor_parallel");
  const transformer& model = setup.model;
  if (model.num_attention_heads % ranks != 0 || model.key_value_heads() % ranks != 0 ||
      model.intermediate_size % ranks != 0)
    return without_code("unequal parts of a layer");
  if (model.attention_bias || model.attention_out_bias || model.mlp_bias || model.norm_bias)
    return without_code("biases under tensor_parallel");
  if (setup.trains.what != training::full && (division.sequence_parallel || is_titan))
    return without_code("frozen parts of layers");
  if (is_titan) return {};
  if (setup.framework.sharding != sharding_code::none || division.zero_stage != 0)
    return without_code("sharding of divided layers");
  if (setup.optimizer.clips_gradients && !division.sequence_parallel)
    return without_code("norms of parts and wholes");
  return {};
}

// What Megatron-Core can divide, as far as its code is known.
constexpr failure flaw_of_experts(const training_setup& setup) {
  const parallelism& division = setup.parallelism;
  const expert_mixture& moe = setup.model.moe;
  if (division.context_parallel > 1 && setup.model.is_latent())
    return without_code("latent context parallelism");
  if (moe.num_experts == 0) return {};
  if (division.tensor_parallel > 1) return without_code("experts in tensor parallelism");
  if (moe.num_experts % division.expert_parallel != 0)
    return without_code("experts for so many ranks");
  return {};
}

constexpr failure flaw_of_recomputation(const training_setup& setup) {
  const layer_code layers = setup.framework.layers;
  const bool is_of_megatron = is_megatron(layers);
  if (setup.recompute == recompute_mode::selective && !is_plain(layers) && !is_of_megatron)
    return without_code("selective recomputation");
  if (setup.recompute_span > 1 && !is_of_megatron) return without_code("recompute_span");
  if (setup.recompute_period > 1 && (is_of_megatron || layers == layer_code::t5))
    return without_code("recompute_period");
  if (setup.recompute_layers != 0 && layers == layer_code::t5)
    return without_code("recompute_layers");
  if (setup.saves_costly_results && layers != layer_code::torchtitan)
    return without_code("saves_costly_results");
  return {};
}

// Which kernels take what there is (sdp_utils.cpp of PyTorch).
constexpr failure flaw_of_attention(const training_setup& setup) {
  const transformer& model = setup.model;
  const layer_code layers = setup.framework.layers;
  const bool is_chosen = setup.attention != attention_kernel::automatic;
  if (setup.attention == attention_kernel::flash && layers == layer_code::t5)
    return without_code("flash attention with a bias by distance");
  if (layers == layer_code::torchtitan && is_chosen && setup.attention != attention_kernel::flash)
    return without_code("attention but by kernel");
  const bool is_flash = setup.attention == attention_kernel::flash ||
                        (!is_chosen && layers == layer_code::torchtitan);
  if (setup.framework.transformer_engine && is_chosen && !is_flash)
    return without_code("attention but by kernel");
  if (!is_flash) return {};
  if (!is_half(setup.precision.compute)) return without_code("flash attention in fp32");
  if (model.query_dim() > 256) return without_code("flash attention of wide heads");
  const bool is_windowed = model.sliding_window != 0 && layers == layer_code::decoder &&
                           model.sliding_window <= setup.sequence_length;
  if ((setup.padding_mask || is_windowed) && !is_megatron(layers))
    return without_code("flash attention with a mask");
  return {};
}

constexpr failure flaw_of_optimizer(const training_setup& setup) {
  const optimizer& by = setup.optimizer;
  const sharding_code sharding = setup.framework.sharding;
  const bool has_own = by.code != optimizer_code::torch;
  switch (by.code) {
    case optimizer_code::torch:
      // AnyPrecisionAdamW
      if (by.states != number_format::fp32 && by.states != setup.precision.weights &&
          (by.states != number_format::bf16 || by.kind != optimizer_kind::adamw ||
           by.loop != optimizer_loop::parameter))
        return without_code("states in this format");
      if (is_half(by.states) && setup.precision.master_weights)
        return without_code("states in this format");
      break;
    case optimizer_code::bitsandbytes:
      if (by.kind != optimizer_kind::adamw && by.kind != optimizer_kind::lion)
        return without_code("such an optimizer");
      if (by.states != number_format::fp32 && by.states != number_format::int8)
        return without_code("states in this format");
      if (sharding != sharding_code::none) return without_code("an optimizer of parts");
      break;
    case optimizer_code::torchao:
      if (by.kind != optimizer_kind::adamw) return without_code("such an optimizer");
      if (by.states != number_format::int8) return without_code("states in this format");
      break;
  }
  if (by.pages_states && by.code != optimizer_code::bitsandbytes)
    return without_code("pages_states");
  if (has_own && (setup.precision.master_weights || setup.parallelism.tensor_parallel > 1))
    return without_code("such an optimizer here");
  const bool is_fused = by.loop == optimizer_loop::fused && !has_own;
  switch (by.kind) {
    case optimizer_kind::adamw:
      return {};
    case optimizer_kind::sgd:
    case optimizer_kind::sgd_momentum:
    case optimizer_kind::adagrad:
      if (is_fused && sharding == sharding_code::fsdp2)
        return without_code("fused optimizer of parts");
      break;
    case optimizer_kind::lion:
    case optimizer_kind::rmsprop:
    case optimizer_kind::adafactor:
      if (is_fused) return without_code("fused optimizer");
      break;
    case optimizer_kind::muon:
      break;
  }
  if (sharding == sharding_code::deepspeed || sharding == sharding_code::megatron)
    return without_code("optimizers other than AdamW");
  const bool takes_matrices =
      by.kind == optimizer_kind::muon || by.kind == optimizer_kind::adafactor;
  const bool divides_layers = setup.parallelism.tensor_parallel > 1;
  if (takes_matrices && (sharding == sharding_code::fsdp2 || divides_layers))
    return without_code("an optimizer of parts");
  if (by.kind == optimizer_kind::muon && setup.parallelism.zero_stage != 0)
    return without_code("two optimizers in shares");
  if (divides_layers && (by.kind == optimizer_kind::adagrad || by.kind == optimizer_kind::lion))
    return without_code("an optimizer of parts");
  return {};
}

// What is left frozen, and who has code for that.
constexpr failure flaw_of_training(const training_setup& setup) {
  if (setup.trains.what == training::full) return {};
  const sharding_code sharding = setup.framework.sharding;
  if (is_megatron(setup.framework.layers) || sharding == sharding_code::deepspeed)
    return without_code("frozen parameters");
  if (setup.trains.what != training::adapters) return {};
  const lora& adapters = setup.trains.adapters;
  if (setup.parallelism.tensor_parallel > 1) return without_code("adapters of divided layers");
  if (sharding != sharding_code::fsdp2) return {};
  if (adapters.weights != setup.precision.weights)
    return without_code("adapters in another format");
  if (adapters.magnitudes) return without_code("magnitudes of parts");
  if (adapters.base.block != 0) return without_code("parts of quantised weights");
  return {};
}

// What any estimate of a setup reads, whoever's code it is: lengths, counts of recomputation, a
// probability.
constexpr failure flaw_of_lengths(const training_setup& setup) {
  const std::int64_t longest = std::int64_t{1} << 32;
  const bool reads_tokens = setup.model.kind != model_kind::vision;
  for (const named_fact count :
       {named_fact{fact::sequence_length, reads_tokens ? setup.sequence_length : 1},
        named_fact{fact::decoder_sequence_length,
                   setup.target_length != 0 ? setup.target_length : 1},
        named_fact{fact::encodings, setup.encodings},
        named_fact{fact::recompute_span, setup.recompute_span},
        named_fact{fact::recompute_period, setup.recompute_period}})
    if (count.value < 1 || count.value > longest)
      return failure(errc::out_of_bounds,
                     count,
                     named_fact{fact::at_least, 1},
                     named_fact{fact::at_most, longest});
  if (setup.recompute_layers < 0 || setup.recompute_layers > longest)
    return failure(errc::out_of_bounds,
                   named_fact{fact::recompute_layers, setup.recompute_layers},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, longest});
  if (!(setup.dropout >= 0 && setup.dropout <= 1))
    return failure(errc::out_of_bounds, named_fact{fact::at_least, 0}, named_fact{fact::at_most, 1})
        .about("dropout");
  return {};
}

constexpr failure flaw_of_combination(const training_setup& setup) {
  for (const failure& why : {flaw_of_precision(setup),
                             flaw_of_fp8(setup),
                             flaw_of_sharding(setup),
                             flaw_of_division(setup),
                             flaw_of_experts(setup),
                             flaw_of_recomputation(setup),
                             flaw_of_compilation(setup),
                             flaw_of_attention(setup),
                             flaw_of_optimizer(setup),
                             flaw_of_training(setup)})
    if (failed(why)) return why;
  return {};
}

}  // namespace detail

/// The setup itself where its model and division are valid, the framework has code for such models
/// and for what is done with them, lengths are from 1 to 2^32 (of a vision model they are not
/// read), and dropout is a probability. Errors: those of the model and of the division;
/// `no_such_code` with what there is none for; `out_of_bounds`.
[[nodiscard]] constexpr result<training_setup> validate(const training_setup& setup) {
  if (const auto valid = validate(setup.model); !valid) return valid.why();
  if (const auto valid = validate(setup.parallelism); !valid) return valid.why();
  if (const failure why = detail::flaw_of_code(setup.model, setup.framework); detail::failed(why))
    return why;
  // Its gradient would leave the layer that is computed again.
  if (setup.recompute == recompute_mode::full && setup.framework.checkpoints_reenter &&
      setup.model.relative_attention_buckets != 0)
    return failure(errc::no_such_code).about("re-entrant checkpoints of layers that share a bias");
  if (const failure why = detail::flaw_of_lengths(setup); detail::failed(why)) return why;
  // An encoder without a head trains on the texts of a sample beside each other.
  const named_fact texts{fact::encodings, setup.encodings};
  const bool compares_texts =
      setup.framework.layers == layer_code::bert && setup.model.head == head_kind::none;
  if (compares_texts && (texts.value < 2 || texts.value > most_texts_beside))
    return failure(errc::out_of_bounds,
                   texts,
                   named_fact{fact::at_least, 2},
                   named_fact{fact::at_most, most_texts_beside});
  if (texts.value != 1 && !compares_texts) return detail::without_code("encodings");
  if (setup.target_length != 0 && setup.framework.layers != layer_code::t5)
    return detail::without_code("target_length");
  if (const failure why = detail::flaw_of_combination(setup); detail::failed(why)) return why;
  return setup;
}

namespace detail {

// What is wrong with a valid batch on a valid setup's division, or no failure.
constexpr failure flaw_of_batch(const training_setup& setup, const batch_plan& plan) {
  const parallelism& division = setup.parallelism;
  if (plan.data_parallel * division.context_parallel % division.expert_parallel != 0)
    return failure(errc::no_such_code, named_fact{fact::data_parallel, plan.data_parallel})
        .about("experts for so many ranks");
  if (division.shard_group != 0 && plan.data_parallel % division.shard_group != 0)
    return failure(errc::no_such_code, named_fact{fact::data_parallel, plan.data_parallel})
        .about("unequal shard groups");
  if (plan.data_parallel > 1 && division.tensor_parallel > 1 &&
      setup.framework.layers == layer_code::llama)
    return without_code("replicas of divided layers");
  if (setup.precision.fp8_linears && plan.micro_batch * setup.sequence_length % 16 != 0)
    return without_code("so many tokens in fp8");
  return {};
}

}  // namespace detail

/// The setup itself where it is valid, and so is its batch on that division. Errors: those of the
/// setup and of the plan; `no_such_code`.
[[nodiscard]] constexpr result<training_setup> validate(const training_setup& setup,
                                                        const batch_plan& plan) {
  if (const auto valid = validate(setup); !valid) return valid.why();
  if (const auto valid = validate(plan); !valid) return valid.why();
  if (const failure why = detail::flaw_of_batch(setup, plan); detail::failed(why)) return why;
  if (setup.parallelism.virtual_pipeline > 1 &&
      plan.accumulation % setup.parallelism.pipeline_parallel != 0)
    return failure(errc::no_such_code,
                   named_fact{fact::accumulation, plan.accumulation},
                   named_fact{fact::pipeline_parallel, setup.parallelism.pipeline_parallel})
        .about("interleaving of so many");
  return setup;
}

}  // namespace gpuplan
