#pragma once

// Mixtures of experts in a config.json. Private.

#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/io/hugging_face/decoders.hpp>
#include <gpuplan/model.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gpuplan::io::detail::hugging_face {

inline void read_latent_attention(config_reader& from, transformer& model) {
  read_heads(from, model);
  model.mla = {.q_lora_rank = from.integer("q_lora_rank", 0),
               .kv_lora_rank = from.integer("kv_lora_rank"),
               .qk_nope_head_dim = from.integer("qk_nope_head_dim"),
               .qk_rope_head_dim = from.integer("qk_rope_head_dim"),
               .v_head_dim = from.integer("v_head_dim")};
  // Derived from the others, but some files have them.
  from.ignore("num_key_value_heads");
  from.ignore("head_dim");
  from.ignore("qk_head_dim");
  model.intermediate_size = from.integer("intermediate_size");
  model.tied_embeddings = from.flag("tie_word_embeddings", false);
  read_biases(from, model);
}

// DeepSeek's words for experts.
inline void read_routed_experts(config_reader& from, transformer& model) {
  model.moe.norm_topk_prob = from.flag("norm_topk_prob", true);
  model.moe.n_group = from.integer("n_group", 1);
  model.moe.topk_group = from.integer("topk_group", 1);
  model.moe.output_router_logits = from.flag("output_router_logits", false);
  model.moe.num_experts = from.integer("n_routed_experts");
  model.moe.num_experts_per_tok = from.integer("num_experts_per_tok");
  model.moe.moe_intermediate_size = from.integer("moe_intermediate_size");
  model.moe.shared_expert_intermediate_size = from.multiple(
      "n_shared_experts", from.integer("n_shared_experts", 0), model.moe.moe_intermediate_size);
  model.moe.first_k_dense_layers =
      std::min(from.integer("first_k_dense_replace", 0), model.num_hidden_layers);
  if (from.integer("moe_layer_freq", 1) != 1) from.wrong("moe_layer_freq", "1 for this reader");
  model.mtp_layers = from.integer("num_nextn_predict_layers", 0);
}

// The layers by name: those without experts come first.
inline void read_sparse_layers(config_reader& from, transformer& model) {
  const std::vector<json> layers = from.list("mlp_layer_types");
  if (layers.empty()) return;
  std::size_t dense = 0;
  while (dense < layers.size() && layers[dense] == "dense") ++dense;
  for (std::size_t i = dense; i < layers.size(); ++i)
    if (layers[i] != "sparse") from.wrong("mlp_layer_types", "first dense, then sparse layers");
  model.moe.first_k_dense_layers = static_cast<std::int64_t>(dense);
}

// Qwen's words for experts.
inline void read_sparse_experts(config_reader& from, transformer& model) {
  model.moe.output_router_logits = from.flag("output_router_logits", false);
  const bool is_new = from.has("num_local_experts");  // transformers 5
  model.moe.num_experts = from.integer(is_new ? "num_local_experts" : "num_experts");
  model.moe.num_experts_per_tok = from.integer("num_experts_per_tok");
  model.moe.moe_intermediate_size = from.integer("moe_intermediate_size");
  model.moe.norm_topk_prob = from.flag("norm_topk_prob", false);
  model.moe.moe_layer_step = from.integer("decoder_sparse_step", 1);
  const std::vector<json> dense = from.list("mlp_only_layers");
  for (std::size_t i = 0; i < dense.size(); ++i)
    if (dense[i] != i) from.wrong("mlp_only_layers", "the first layers for this reader");
  model.moe.first_k_dense_layers = static_cast<std::int64_t>(dense.size());
}

// One width for all experts, and no MLP beside them.
inline void read_experts(config_reader& from, transformer& model, const char* how_many) {
  model.moe.output_router_logits = from.flag("output_router_logits", false);
  model.moe.num_experts = from.integer(how_many);
  model.moe.num_experts_per_tok = from.integer("num_experts_per_tok");
  model.moe.moe_intermediate_size = model.intermediate_size;
}

inline void read_granite_experts(config_reader& from, transformer& model) {
  read_llama(from, model);
  read_biases(from, model);
  read_experts(from, model, "num_local_experts");
  model.moe.shared_expert_intermediate_size = from.integer("shared_intermediate_size", 0);
  model.intermediate_size = 0;
  for (const char* key : {"residual_multiplier", "logits_scaling"}) from.ignore(key);
}

inline void read_deepseek(config_reader& from, transformer& model) {
  read_latent_attention(from, model);
  read_routed_experts(from, model);
}

inline void read_gpt_oss(config_reader& from, transformer& model) {
  model.head_dim = 64;
  read_llama(from, model);
  read_biases(from, model, true);
  read_experts(from, model, "num_local_experts");
  from.ignore("experts_per_token");  // the same number once more
  model.mlp_bias = model.moe.router_bias = model.attention_sinks = model.clamped_gate_up = true;
  read_window(from, model, 2);
}

// What AutoModelForCausalLM makes of a file of several models: the one for language alone.
inline void read_language(config_reader& from,
                          transformer& model,
                          void (*read)(config_reader& from, transformer& model)) {
  config_reader inner = from.inside("text_config");
  take_class_defaults(inner, from.text("model_type") + "_text");
  read(inner, model);
  const std::string applied = inner.text("hidden_act");
  if (!applied.empty() && applied != "silu") inner.wrong("hidden_act", "silu for this reader");
  inner.ignore("model_type");
  from.take(inner, "text_config");
}

inline void read_llama4(config_reader& from, transformer& model) {
  read_heads(from, model);
  model.num_key_value_heads = from.integer("num_key_value_heads", 8);
  model.head_dim = from.integer("head_dim", 128);
  model.tied_embeddings = from.flag("tie_word_embeddings", false);
  read_biases(from, model);
  model.intermediate_size = from.integer("intermediate_size_mlp", 16384);
  const std::int64_t width = from.integer("intermediate_size", 8192);
  const std::int64_t step = from.integer("interleave_moe_layer_step", 1);
  model.moe = {.num_experts = from.integer("num_local_experts", 16),
               .num_experts_per_tok = from.integer("num_experts_per_tok", 1),
               .moe_intermediate_size = width,
               .shared_expert_intermediate_size = width,
               .output_router_logits = from.flag("output_router_logits", false),
               .moe_layer_step = step};
  model.sliding_window = from.integer("attention_chunk_size", 8192);
  model.global_layer_step = from.integer("no_rope_layer_interval", 4);
  model.chunks = {.use_qk_norm = from.flag("use_qk_norm", true),
                  .attn_temperature_tuning = from.flag("attn_temperature_tuning", true)};
  const std::vector<json> sparse = from.list("moe_layers");
  bool is_each =
      step > 0 && static_cast<std::int64_t>(sparse.size()) == model.num_hidden_layers / step;
  for (std::size_t i = 0; is_each && i < sparse.size(); ++i)
    is_each = sparse[i] == step * (static_cast<std::int64_t>(i) + 1) - 1;
  if (from.has("moe_layers") && !is_each)
    from.wrong("moe_layers", "each interleave_moe_layer_step-th layer for this reader");
  for (const char* key : {"no_rope_layers", "layer_types"}) from.ignore(key);
}

inline constexpr type_reader expert_readers[] = {
    {"deepseek_v2",
     [](config_reader& from, transformer& model) {
       read_deepseek(from, model);
       if (from.text("topk_method") != "group_limited_greedy")
         model.moe.n_group = model.moe.topk_group = 0;
       model.moe.norm_topk_prob = false;  // its class has no code for that
       from.only("mlp_bias", false);
     }},
    {"deepseek_v3",
     [](config_reader& from, transformer& model) {
       read_deepseek(from, model);
       model.mla.rope_interleave = from.flag("rope_interleave", true);
       model.moe.router_bias = true;  // e_score_correction_bias, in the file of weights
     }},
    {"glm4_moe",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_rotary_part(from, model);
       model.attention_bias = from.flag("attention_bias", false);
       if (from.flag("use_qk_norm", false)) model.qk_norm = qk_norm_scope::head;
       read_routed_experts(from, model);
       model.moe.router_bias = true;  // as DeepSeek-V3's
     }},
    {"dots1",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_biases(from, model);
       model.qk_norm = qk_norm_scope::head;
       model.max_window_layers = from.integer("max_window_layers", 62);
       read_window(from, model);
       if (model.max_window_layers >= model.num_hidden_layers) model.sliding_window = 0;
       if (model.sliding_window == 0) model.max_window_layers = 0;
       read_routed_experts(from, model);
       model.moe.router_bias = true;  // as DeepSeek-V3's
     }},
    {"ernie4_5_moe",
     [](config_reader& from, transformer& model) {
       model.tied_embeddings = true;
       read_llama(from, model);
       from.only("use_bias", false);
       const std::int64_t width = from.integer("moe_intermediate_size");
       const bool is_new = from.has("num_experts");
       model.moe = {
           .num_experts = from.integer(is_new ? "num_experts" : "moe_num_experts"),
           .num_experts_per_tok = from.integer(from.has("moe_k") ? "moe_k" : "num_experts_per_tok"),
           .moe_intermediate_size = width,
           .shared_expert_intermediate_size = from.multiple(
               "moe_num_shared_experts", from.integer("moe_num_shared_experts", 2), width),
           .router_bias = true,  // which never trains
           .output_router_logits = from.flag("output_router_logits", false),
           .first_k_dense_layers = from.integer("moe_layer_start_index", 1),
           .moe_layer_step = from.integer("moe_layer_interval", 1)};
       const std::int64_t last = model.num_hidden_layers - 1;
       if (from.has("moe_layer_end_index") && !from.is_negative("moe_layer_end_index") &&
           from.integer("moe_layer_end_index") != last)
         from.wrong("moe_layer_end_index", "the last layer for this reader");
     }},
    {"flex_olmo",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_biases(from, model);
       model.qk_norm = qk_norm_scope::full_width;
       model.norm_at = norm_position::after_sublayer;
       read_experts(
           from, model, from.has("num_local_experts") ? "num_local_experts" : "num_experts");
       model.moe.norm_topk_prob = from.flag("norm_topk_prob", false);
       model.intermediate_size = 0;
     }},
    {"glm4_moe_lite",
     [](config_reader& from, transformer& model) {
       read_latent_attention(from, model);
       model.mla.rope_interleave = from.flag("rope_interleave", true);
       read_routed_experts(from, model);
       model.moe.first_k_dense_layers = 1;  // where the file does not name its layers
       read_sparse_layers(from, model);
       model.moe.router_bias = true;  // as DeepSeek-V3's
     }},
    {"gpt_oss", read_gpt_oss},
    {"granitemoe", read_granite_experts},
    {"granitemoeshared", read_granite_experts},
    {"hunyuan_v1_moe",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_biases(from, model);
       model.qk_norm = qk_norm_scope::head;
       model.moe.num_experts =
           from.integer(from.has("num_local_experts") ? "num_local_experts" : "num_experts");
       model.moe.num_experts_per_tok =
           from.integer(from.has("num_experts_per_tok") ? "num_experts_per_tok" : "moe_topk");
       model.moe.moe_intermediate_size = model.intermediate_size;
       model.moe.shared_expert_intermediate_size = model.intermediate_size;
       model.moe.output_router_logits = from.flag("output_router_logits", false);
       model.intermediate_size = 0;
     }},
    {"llama4",
     [](config_reader& from, transformer& model) { read_language(from, model, read_llama4); }},
    {"llama4_text", read_llama4},
    {"minimax_m2",
     [](config_reader& from, transformer& model) {
       model.head_dim = 128;
       read_llama(from, model);
       read_rotary_part(from, model);
       model.qk_norm = qk_norm_scope::full_width;
       read_experts(
           from, model, from.has("num_local_experts") ? "num_local_experts" : "num_experts");
       model.intermediate_size = 0;
       model.moe.router_bias = true;  // as DeepSeek-V3's
     }},
    {"mixtral",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_experts(from, model, "num_local_experts");
       model.intermediate_size = 0;
       read_window(from, model);
     }},
    {"olmoe",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_biases(from, model);
       model.qk_norm = qk_norm_scope::full_width;
       model.clip_qkv = from.has("clip_qkv");
       read_experts(
           from, model, from.has("num_local_experts") ? "num_local_experts" : "num_experts");
       model.moe.norm_topk_prob = from.flag("norm_topk_prob", false);
       model.intermediate_size = 0;
     }},
    {"solar_open",
     [](config_reader& from, transformer& model) {
       model.head_dim = 128;
       read_heads(from, model);
       model.num_key_value_heads = from.integer("num_key_value_heads", 8);
       model.head_dim = from.integer("head_dim", model.head_dim);
       model.tied_embeddings = from.flag("tie_word_embeddings", false);
       model.attention_bias = from.flag("attention_bias", false);
       read_routed_experts(from, model);
       model.moe.first_k_dense_layers = 0;
       model.moe.router_bias = true;  // as DeepSeek-V3's
     }},
    {"qwen2_moe",
     [](config_reader& from, transformer& model) {
       read_qwen2(from, model);
       model.attention_bias = from.flag("qkv_bias", true);
       read_sparse_experts(from, model);
       model.moe.shared_expert_intermediate_size = from.integer("shared_expert_intermediate_size");
       model.moe.shared_expert_gate = true;
     }},
    {"qwen3_moe",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_biases(from, model);
       model.qk_norm = qk_norm_scope::head;
       if (from.flag("use_sliding_window", false)) read_window(from, model);
       from.ignore("sliding_window");
       read_sparse_experts(from, model);
     }},
};

}  // namespace gpuplan::io::detail::hugging_face
