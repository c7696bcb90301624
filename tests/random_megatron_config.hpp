#pragma once

// Random trainings that Megatron can say, whole and without contradictions.

#include <gpuplan/io/trainer/training_config.hpp>

#include "random_numbers.hpp"

#include <cstdint>

namespace random_config {

using namespace gpuplan;
using gpuplan::io::rate_schedule;
using gpuplan::io::training_config;
using gpuplan::io::training_precision;

inline std::int64_t power_of_two(random_numbers& random, std::int64_t most) {
  return std::int64_t{1} << random.below(most + 1);
}

inline transformer random_megatron_shape(random_numbers& random,
                                         std::int64_t tensor,
                                         std::int64_t layers) {
  transformer is;
  const auto coin = [&random] { return random.below(2) == 1; };
  is.fused_qkv = true;
  is.num_hidden_layers = layers;
  is.num_attention_heads = tensor * power_of_two(random, 3);
  is.hidden_size = is.num_attention_heads * 64;
  is.intermediate_size = 64 * (1 + random.below(500));
  is.vocab_size = tensor * (1 + random.below(100'000));
  is.norm = coin() ? norm_kind::rms_norm : norm_kind::layer_norm;
  is.norm_bias = is.norm == norm_kind::layer_norm;
  is.mlp_bias = is.attention_out_bias = coin();
  is.attention_bias = is.mlp_bias || coin();
  is.gated_mlp = coin();
  is.hidden_act = is.gated_mlp
                      ? coin() ? activation_function::silu : activation_function::quick_gelu
                  : coin() ? activation_function::gelu
                           : activation_function::gelu_tanh;
  is.tied_embeddings = coin();
  if (coin())
    is.position_rows = 40'000 + random.below(10'000);
  else if (coin())
    is.mtp_layers = 1;
  if (coin()) is.attention_sinks = true;
  if (random.below(4) == 0) {
    is.mla = {.q_lora_rank = random.below(1000),
              .kv_lora_rank = 1 + random.below(1000),
              .qk_nope_head_dim = 1 + random.below(200),
              .qk_rope_head_dim = 1 + random.below(200),
              .v_head_dim = 1 + random.below(200)};
  } else {
    if (coin())
      is.num_key_value_heads = power_of_two(random, 0) * (coin() ? 1 : is.num_attention_heads);
    if (coin()) is.head_dim = 1 + random.below(200);
    if (coin()) is.qk_norm = qk_norm_scope::head;
    if (coin()) {
      is.sliding_window = 1 + random.below(5000);
      if (coin()) is.global_layer_step = 2 + random.below(5);
    }
  }
  if (random.below(3) == 0 && (tensor == 1 || !is.mlp_bias)) {
    is.moe = {.num_experts = 8 * (1 + random.below(8)),
              .num_experts_per_tok = 1 + random.below(8),
              .moe_intermediate_size = 1 + random.below(5000)};
    if (coin()) {
      is.moe.shared_expert_intermediate_size = 1 + random.below(5000);
      is.moe.shared_expert_gate = coin();
    }
    if (is.gated_mlp && coin()) is.clamped_gate_up = true;
    if (coin()) is.moe.first_k_dense_layers = 1 + random.below(is.num_hidden_layers - 1);
  }
  return is;
}

inline training_config random_megatron_config(random_numbers& random) {
  training_config is;
  const auto coin = [&random] { return random.below(2) == 1; };
  is.engine = "megatron";
  is.trains = training::full;
  is.packing = true;
  is.tensor_parallel = power_of_two(random, 3);
  if (coin()) is.pipeline_parallel = power_of_two(random, 3);
  if (is.pipeline_parallel && *is.pipeline_parallel > 1 && coin()) is.virtual_pipeline = 2;
  if (coin()) is.context_parallel = power_of_two(random, 2);
  is.data_parallel = 1 + random.below(16);
  is.gpus = *is.tensor_parallel * *is.data_parallel *
            (is.pipeline_parallel ? *is.pipeline_parallel : 1) *
            (is.context_parallel ? *is.context_parallel : 1);
  is.gpus_per_node = *is.gpus % 8 == 0 ? 8 : 1;
  is.nodes = *is.gpus / *is.gpus_per_node;
  is.fuses_loss = coin();
  is.micro_batch = 1 + random.below(8);
  is.accumulation = 1 + random.below(64);
  is.global_batch = *is.micro_batch * *is.accumulation * *is.data_parallel;
  const std::int64_t stages = is.pipeline_parallel ? *is.pipeline_parallel : 1;
  const std::int64_t of_stage = is.virtual_pipeline ? *is.virtual_pipeline : 1;
  const std::int64_t chunks = stages * of_stage;
  pipeline_split split;
  if (coin()) {
    split.embedding_layers = random.below(2);
    split.head_layers = random.below(2);
  }
  const std::int64_t ends = split.embedding_layers + split.head_layers;
  const std::int64_t least = (ends + 2 + chunks - 1) / chunks;
  std::int64_t layers = chunks * (least + random.below(60 / chunks)) - ends;
  if (stages > 1 && ends == 0 && coin()) {
    if (coin()) {
      split.first_stage_layers = of_stage * random.below(3);
      split.last_stage_layers = of_stage * (1 + random.below(3));
      layers =
          split.first_stage_layers + split.last_stage_layers +
          (stages - (split.first_stage_layers != 0 ? 2 : 1)) * of_stage * (2 + random.below(4));
    } else {
      layers = 0;
      for (std::int64_t at = 0; at < chunks; ++at) {
        const std::int64_t here = random.below(5);
        layers += here;
        split.listed.layers[split.listed.count++] = static_cast<std::uint8_t>(here);
      }
      for (; layers < 2; ++layers) ++split.listed.layers[0];
    }
  }
  if (!split.is_even()) is.split = split;
  is.shape = random_megatron_shape(random, *is.tensor_parallel, layers);
  if (is.context_parallel && *is.context_parallel > 1) {
    const bool by_heads = is.shape->sliding_window != 0 || is.shape->attention_sinks;
    is.context_exchange = by_heads || coin() ? context_exchange::a2a : context_exchange::p2p;
  }
  if (is.shape->moe.num_experts != 0 && coin()) is.expert_parallel = power_of_two(random, 3);
  if (is.shape->moe.num_experts != 0 && coin()) is.expert_capacity = coin() ? 1.5 : 2.0;
  if (is.expert_parallel && *is.expert_parallel > 1 && coin())
    is.dispatcher = coin() ? token_dispatcher::deepep : token_dispatcher::hybridep;
  // Of experts in parts biases have no code, and a width is divided by them.
  if (is.expert_parallel && *is.expert_parallel > 1 && !is.shape->mlp_bias && coin()) {
    const std::int64_t parts = power_of_two(random, 3);
    const std::int64_t ranks = *is.gpus / (is.pipeline_parallel ? *is.pipeline_parallel : 1);
    if (parts > 1 && is.shape->moe.moe_intermediate_size % parts == 0 &&
        ranks % (parts * *is.expert_parallel) == 0)
      is.expert_tensor_parallel = parts;
  }
  is.sequence_parallel = *is.tensor_parallel > 1 && (is.expert_parallel || coin());
  is.sequence_length = 512 * (1 + random.below(64));
  is.zero_stage = static_cast<int>(random.below(2));
  is.optimizer_on_host = false;
  const training_precision formats[] = {training_precision::fp32,
                                        training_precision::fp16,
                                        training_precision::bf16,
                                        training_precision::fp8};
  is.precision = formats[random.below(4)];
  const scaling_kind scalings[] = {
      scaling_kind::delayed, scaling_kind::tensor, scaling_kind::blocks, scaling_kind::micro};
  if (*is.precision == training_precision::fp8) is.scaling = scalings[random.below(4)];
  const optimizer_kind kinds[] = {optimizer_kind::adamw,
                                  optimizer_kind::sgd_momentum,
                                  optimizer_kind::muon,
                                  optimizer_kind::lion};
  is.optimizer = gpuplan::optimizer{.kind = kinds[random.below(4)], .loop = optimizer_loop::fused};
  const bool is_bf16 = *is.precision == training_precision::bf16;
  if (is_bf16 && coin()) is.reduced = number_format::bf16;
  if (*is.precision == training_precision::fp16 && coin()) is.reduced = number_format::fp32;
  if (is_bf16 && is.optimizer->kind == optimizer_kind::adamw && *is.zero_stage == 1 && coin())
    is.optimizer = gpuplan::optimizer{.loop = optimizer_loop::fused,
                                      .states = coin() ? number_format::bf16 : number_format::fp32,
                                      .reads_narrow_gradients = true};
  is.recompute = static_cast<recompute_mode>(random.below(3));
  if (*is.recompute == recompute_mode::full) {
    if (coin())
      is.recompute_span = 1 + random.below(8);
    else
      is.recompute_layers = 1 + random.below(8);
  }
  if (*is.recompute == recompute_mode::selective && coin())
    is.modules = recomputed_modules{.core_attention = coin(), .norms = true, .mlp = coin()};
  is.shares_kept_inputs = *is.recompute == recompute_mode::full && *is.tensor_parallel > 1 &&
                          !*is.sequence_parallel && coin();
  const attention_kernel kernels[] = {
      attention_kernel::automatic, attention_kernel::flash, attention_kernel::eager};
  if (coin()) is.attention = kernels[random.below(3)];
  is.dropout = static_cast<double>(random.below(100)) / 100;
  if (coin()) is.clip_norm = static_cast<double>(random.below(30)) / 10;
  is.learning_rate = static_cast<double>(1 + random.below(1'000'000)) * 1e-9;
  if (coin()) is.least_learning_rate = *is.learning_rate / 8;
  if (coin()) is.warm_up_steps = static_cast<double>(random.below(10'000));
  if (!is.warm_up_steps && coin()) is.warm_up_share = static_cast<double>(random.below(100)) / 100;
  if (coin()) is.schedule = static_cast<rate_schedule>(random.below(3));
  if (coin()) is.weight_decay = static_cast<double>(random.below(100)) / 100;
  // One of both, which Megatron-LM wants
  if (is.warm_up_steps || coin())
    is.steps = 1 + random.below(1'000'000);
  else
    is.samples = 1 + random.below(1'000'000'000);
  if (is.steps && coin()) {
    is.schedule = rate_schedule::wsd;
    is.decay_steps = 1 + random.below(*is.steps);
  }
  return is;
}

}  // namespace random_config
