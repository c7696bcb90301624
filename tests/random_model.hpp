#pragma once

// Random models of every make that `validate` accepts, small enough to be taken apart tensor by
// tensor, and random ways to train them.

#include <gpuplan/flops.hpp>

#include <cstdint>
#include <random>

struct dice {
  std::mt19937_64 random;

  std::int64_t from(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
  bool one_in(std::int64_t count) { return from(1, count) == 1; }
  bool coin() { return one_in(2); }
};

template <class Dice>
gpuplan::transformer random_model(Dice& roll) {
  using namespace gpuplan;
  transformer model;
  model.kind = static_cast<model_kind>(roll.from(0, 3));
  const bool is_decoder = model.kind == model_kind::decoder;
  const bool is_vision = model.kind == model_kind::vision;
  model.num_hidden_layers = roll.from(1, 5);
  if (model.kind == model_kind::encoder_decoder) model.num_decoder_layers = roll.from(1, 4);

  const std::int64_t divisor = roll.from(1, 3);
  model.num_attention_heads = divisor * roll.from(1, 3);
  if (roll.coin()) model.num_key_value_heads = divisor;
  model.hidden_size = model.num_attention_heads * roll.from(1, 6);
  if (roll.one_in(3)) {
    model.head_dim = roll.from(1, 7);
    model.hidden_size = roll.from(1, 40);
  }
  model.intermediate_size = roll.from(1, 50);
  model.vocab_size = roll.from(1, 60);
  if (is_decoder && roll.one_in(3)) {
    model.mla = {.q_lora_rank = roll.coin() ? roll.from(1, 9) : 0,
                 .kv_lora_rank = roll.from(1, 9),
                 .qk_nope_head_dim = roll.from(1, 5),
                 .qk_rope_head_dim = roll.from(1, 5),
                 .v_head_dim = roll.from(1, 5)};
  }
  model.attention_bias = roll.coin();
  model.attention_out_bias = roll.coin();
  model.fused_qkv = roll.one_in(3);
  model.key_bias = model.fused_qkv || roll.coin();
  model.attention_sinks = roll.one_in(5);
  if (roll.one_in(3)) {
    model.sliding_window = roll.from(1, 7);
    model.global_layer_step = roll.from(0, 3);
  }
  model.gated_mlp = roll.coin();
  model.mlp_bias = roll.coin();
  model.fused_gate_up = roll.one_in(3);
  if (is_decoder && roll.coin()) {
    model.moe = {.num_experts = roll.from(1, 5),
                 .moe_intermediate_size = roll.from(1, 20),
                 .shared_expert_intermediate_size = roll.coin() ? roll.from(1, 20) : 0,
                 .router_bias = roll.coin(),
                 .first_k_dense_layers = roll.from(0, model.num_hidden_layers),
                 .moe_layer_step = roll.from(1, 3)};
    model.moe.num_experts_per_tok = roll.from(1, model.moe.num_experts);
    model.moe.shared_expert_gate = model.moe.shared_expert_intermediate_size != 0 && roll.coin();
  }

  model.norm_bias = roll.coin();
  model.norm_affine = !roll.one_in(5);
  model.final_norm = roll.coin();
  model.embedding_norm = roll.one_in(3);
  model.norm_at = static_cast<norm_position>(roll.from(0, 3));
  model.norms_per_layer = model.norm_at == norm_position::around ? 4 : 2;
  if (model.kind != model_kind::encoder_decoder && roll.one_in(4)) {
    model.parallel_attention = true;
    model.norm_at = norm_position::before;
    model.norms_per_layer = roll.from(1, 2);
  }
  model.qk_norm = static_cast<qk_norm_scope>(roll.from(0, 2));
  model.qk_norm_bias = roll.coin();
  model.layer_scale = !model.parallel_attention && roll.one_in(4);

  if (roll.coin()) model.position_rows = roll.from(30, 40);
  if (roll.one_in(4)) model.relative_attention_buckets = roll.from(1, 5);
  if (roll.one_in(4)) model.type_vocab_size = roll.from(1, 3);
  if (model.kind != model_kind::encoder_decoder && roll.one_in(4))
    model.embedding_dim = roll.from(1, 20);
  model.embedding_projection_bias = roll.coin();
  if (is_vision) {
    model.image = {.image_size = roll.from(6, 14),
                   .patch_size = roll.from(2, 6),
                   .num_channels = roll.from(1, 3),
                   .patch_bias = roll.coin(),
                   .class_tokens = roll.from(0, 2),
                   .register_tokens = roll.from(0, 2),
                   .mask_token = roll.coin()};
    model.attention_pooling = roll.one_in(4);
    if (roll.coin()) model.vocab_size = 0;
  }

  model.head = model.vocab_size == 0 ? static_cast<head_kind>(2 * roll.from(0, 1))
                                     : static_cast<head_kind>(roll.from(0, 2));
  model.tied_embeddings = roll.coin();
  model.lm_head_bias = roll.coin();
  model.pooler = roll.one_in(3);
  model.head_dense = roll.one_in(3);
  model.head_dense_bias = roll.coin();
  model.head_norm = roll.one_in(3);
  model.num_classes = roll.from(1, 9);
  model.classifier_bias = roll.coin();
  model.classifier_inputs = roll.from(1, 2);
  if (model.head == head_kind::none && roll.one_in(4)) {
    model.projection_dim = roll.from(1, 9);
    model.projection_bias = roll.coin();
  }
  if (is_decoder && model.head == head_kind::language_model && model.embedding_dim == 0 &&
      roll.one_in(3))
    model.mtp_layers = roll.from(1, 3);
  if (roll.one_in(4)) model.other_parameters = roll.from(1, 99);
  return model;
}

template <class Dice>
gpuplan::trainable random_training(Dice& roll, const gpuplan::transformer& model) {
  using namespace gpuplan;
  trainable trains;
  trains.what = static_cast<training>(roll.from(0, 4));
  trains.last_layers = roll.from(1, model.layers());
  trains.tied_head = roll.coin();
  lora_targets& targets = trains.adapters.targets;
  const auto some = [&] { return roll.one_in(3); };
  targets = {.query = some(),
             .key = some(),
             .value = some(),
             .attention_out = some(),
             .query_down = some(),
             .key_value_down = some(),
             .key_value_up = some(),
             .gate = some(),
             .up = some(),
             .down = some(),
             .experts = some(),
             .router = some(),
             .shared_expert_gate = some(),
             .other = some(),
             .classifier = some(),
             .patches = some(),
             .embedding = roll.one_in(6),
             .head = roll.one_in(6)};
  if (model.fused_qkv) targets.key = targets.value = targets.query;
  if (model.fused_gate_up) targets.up = targets.gate;
  trains.adapters.rank = roll.from(1, 4);
  trains.adapters.magnitudes = roll.one_in(4);
  trains.adapters.bias = static_cast<lora_bias>(roll.from(0, 2));
  trains.adapters.copy_embedding = roll.one_in(6);
  trains.adapters.copy_head = roll.one_in(6);
  return trains;
}

template <class Dice>
gpuplan::training_pass random_pass(Dice& roll, const gpuplan::transformer& model) {
  using namespace gpuplan;
  training_pass pass;
  pass.sequence_length = model.kind == model_kind::vision ? 0 : roll.from(1, 12);
  if (roll.coin()) pass.decoder_sequence_length = roll.from(1, 12);
  pass.trains = random_training(roll, model);
  pass.recompute = static_cast<recompute_mode>(roll.from(0, 2));
  pass.recompute_stops_early = roll.coin();
  pass.output_dropout = roll.one_in(4);
  pass.fused_attention = roll.coin();
  pass.pairs = static_cast<attention_pairs>(roll.from(0, 2));
  pass.input_requires_grad = roll.one_in(3);
  return pass;
}
