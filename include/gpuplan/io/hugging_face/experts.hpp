#pragma once

// Mixtures of experts in a config.json. Private.

#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/io/hugging_face/decoders.hpp>
#include <gpuplan/model.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
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
  model.mlp_bias = model.moe.router_bias = model.attention_sinks = true;
  read_window(from, model, 128, 2);
}

// What AutoModelForCausalLM makes of a file of several models: the one for language alone.
inline void read_language(config_reader& from,
                          transformer& model,
                          void (*read)(config_reader& from, transformer& model)) {
  config_reader inner = from.inside("text_config");
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
  for (const char* key : {"moe_layers", "no_rope_layers", "layer_types"}) from.ignore(key);
}

// Qwen3-Next's words, and Qwen3.5's: linear attention, and in every fourth layer attention with a
// gate. A file may name the layers besides.
inline void read_linear_attention(config_reader& from, transformer& model) {
  model.head_dim = 256;
  model.num_key_value_heads = from.integer("num_key_value_heads");
  read_heads(from, model);
  model.head_dim = from.integer("head_dim", model.head_dim);
  model.tied_embeddings = from.flag("tie_word_embeddings", false);
  model.intermediate_size = from.integer("intermediate_size", 0);
  read_biases(from, model);
  model.rotary_dim = model.head_dim / 4;
  read_rotary_part(from, model);
  model.qk_norm = qk_norm_scope::head;
  model.attention_gate = true;
  model.full_attention_interval = from.integer("full_attention_interval", 4);
  model.linear = {.num_key_heads = from.integer("linear_num_key_heads", 16),
                  .key_head_dim = from.integer("linear_key_head_dim", 128),
                  .num_value_heads = from.integer("linear_num_value_heads", 32),
                  .value_head_dim = from.integer("linear_value_head_dim", 128),
                  .conv_kernel_dim = from.integer("linear_conv_kernel_dim", 4)};
  if (model.full_attention_interval < 1) return from.wrong("full_attention_interval", "at least 1");
  std::int64_t layer = 0;
  for (const json& kind : from.list("layer_types")) {
    const bool is_full = ++layer % model.full_attention_interval == 0;
    if (kind != (is_full ? "full_attention" : "linear_attention"))
      return from.wrong("layer_types",
                        "full_attention for every " +
                            std::to_string(model.full_attention_interval) +
                            "th layer and linear_attention for the others");
  }
}
inline void read_linear_experts(config_reader& from, transformer& model) {
  read_linear_attention(from, model);
  read_sparse_experts(from, model);
  model.moe.norm_topk_prob = from.flag("norm_topk_prob", true);
  model.moe.shared_expert_intermediate_size = from.integer("shared_expert_intermediate_size", 512);
  model.moe.shared_expert_gate = true;
  model.mtp_layers = from.integer("mtp_num_hidden_layers", 0);
  from.ignore("mtp_use_dedicated_embeddings");
}

// Letters of layers that last as long as the program, since shapes refer to theirs: each pattern
// once, of at most 1024 letters.
inline const char* lasting_letters(const std::string& letters) {
  static std::mutex one_at_a_time;
  static std::set<std::string> all;
  const std::lock_guard<std::mutex> locked(one_at_a_time);
  return all.insert(letters).first->c_str();
}

// Nemotron-H's layers: a letter each under the key `letters`, or as newer files have them a word
// under one of the others.
inline layer_pattern read_layers(config_reader& from,
                                 const char* letters,
                                 std::initializer_list<const char*> words,
                                 const char* absent) {
  struct named_layer {
    const char* name;
    char letter;
  };
  constexpr named_layer known[] = {{"linear_attention", 'M'},
                                   {"mamba", 'M'},
                                   {"full_attention", '*'},
                                   {"attention", '*'},
                                   {"mlp", '-'},
                                   {"moe", 'E'}};
  const char* key = letters;
  std::string found = from.has(letters) ? from.text(letters) : absent;
  for (const char* listed : words) {
    if (!from.has(listed)) continue;
    key = listed;
    found.clear();
    for (const json& layer : from.list(listed)) {
      char letter = '?';
      for (const named_layer& one : known)
        if (layer == one.name) letter = one.letter;
      found += letter;
    }
  }
  const bool are_known = std::all_of(
      found.begin(), found.end(), [](char one) { return layer_pattern::is_letter(one); });
  if (!found.empty() && found.size() <= gpuplan::detail::most_state_spaces && are_known)
    return {lasting_letters(found)};
  from.wrong(key, "1 to 1024 layers of Mamba-2, attention, an MLP or experts");
  return {};
}

inline void read_nemotron_h(config_reader& from, transformer& model) {
  model.hybrid_pattern =
      read_layers(from, "hybrid_override_pattern", {"layer_types", "layers_block_type"}, "ME*-");
  if (gpuplan::detail::failed(from.why())) return;
  model.num_hidden_layers = model.hybrid_pattern.size();
  from.ignore("num_hidden_layers");
  model.hidden_size = from.integer("hidden_size", 4096);
  model.vocab_size = from.integer("vocab_size", 131072);
  model.num_attention_heads = from.integer("num_attention_heads", 32);
  model.num_key_value_heads = from.integer("num_key_value_heads", 8);
  model.head_dim =
      from.integer(from.has("attention_head_dim") ? "attention_head_dim" : "head_dim", 128);
  for (const char* key : {"tie_word_embeddings", "attention_bias", "mamba_proj_bias", "expand"})
    from.ignore(key);  // of which its class takes none
  model.gated_mlp = false;
  model.hidden_act = activation_function::relu_squared;
  if (from.has_text("mlp_hidden_act") && from.text("mlp_hidden_act") != "relu2")
    from.wrong("mlp_hidden_act", "relu2 for this reader");
  model.mlp_bias = from.flag("mlp_bias", false);
  model.intermediate_size = from.integer("intermediate_size", 21504);
  state_space& mamba = model.mamba;
  mamba.num_heads = from.integer("mamba_num_heads", 128);
  mamba.head_dim = from.integer("mamba_head_dim", 64);
  mamba.state_size = from.integer("ssm_state_size", 128);
  mamba.n_groups = from.integer(from.has("mamba_n_groups") ? "mamba_n_groups" : "n_groups", 8);
  mamba.conv_kernel = from.integer(from.has("mamba_d_conv") ? "mamba_d_conv" : "conv_kernel", 4);
  mamba.conv_bias =
      from.flag(from.has("mamba_conv_bias") ? "mamba_conv_bias" : "use_conv_bias", true);
  mamba.chunk_size =
      from.integer(from.has("mamba_chunk_size") ? "mamba_chunk_size" : "chunk_size", 128);
  mamba.proj_bias = from.flag("use_bias", false);
  mamba.residual_in_fp32 = from.flag("residual_in_fp32", false);
  model.mtp_layers = from.integer("num_nextn_predict_layers", 0);
  const layer_pattern predicting =
      read_layers(from, "mtp_hybrid_override_pattern", {"mtp_layers_block_type"}, "*E");
  if (model.mtp_layers != 0) model.mtp_pattern = predicting;
  if (!model.hybrid_pattern.has('-')) model.intermediate_size = 0;
  if (!model.hybrid_pattern.has('E')) return;
  from.ignore("n_shared_experts");
  from.only("mlp_bias", false);
  model.moe = {
      .num_experts = from.integer("n_routed_experts", 8),
      .num_experts_per_tok = from.integer("num_experts_per_tok", 2),
      .moe_intermediate_size = from.integer("moe_intermediate_size", 7688),
      .shared_expert_intermediate_size = from.integer("moe_shared_expert_intermediate_size", 7688),
      .router_bias = true,  // as DeepSeek-V3's
      .norm_topk_prob = from.flag("norm_topk_prob", true),
      .n_group = from.integer("n_group", 1),
      .topk_group = from.integer("topk_group", 1),
      .moe_latent_size = from.integer("moe_latent_size", 0)};
}

inline constexpr type_reader expert_readers[] = {
    {"deepseek_v2",
     [](config_reader& from, transformer& model) {
       read_deepseek(from, model);
       if (from.text("topk_method") != "group_limited_greedy") model.moe.n_group = 0;
       model.moe.norm_topk_prob = false;  // its class has no code for that
     }},
    {"deepseek_v3",
     [](config_reader& from, transformer& model) {
       read_deepseek(from, model);
       model.mla.rope_interleave = from.flag("rope_interleave", true);
       model.moe.router_bias = true;  // e_score_correction_bias, in the file of weights
     }},
    {"glm4_moe",
     [](config_reader& from, transformer& model) {
       model.head_dim = from.integer("head_dim", 128);
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
       read_window(from, model, 0);
       from.ignore("max_window_layers");
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
       read_window(from, model, 0);
     }},
    {"nemotron_h", read_nemotron_h},
    {"olmoe",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_biases(from, model);
       model.qk_norm = qk_norm_scope::full_width;
       if (from.has("clip_qkv")) from.wrong("clip_qkv", "null for this reader");
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
       model.head_dim = 128;
       read_llama(from, model);
       read_biases(from, model);
       model.qk_norm = qk_norm_scope::head;
       if (from.flag("use_sliding_window", false)) read_window(from, model, 4096);
       from.ignore("sliding_window");
       read_sparse_experts(from, model);
     }},
    {"qwen3_next", read_linear_experts},
    {"qwen3_5",
     [](config_reader& from, transformer& model) {
       read_language(from, model, read_linear_attention);
     }},
    {"qwen3_5_moe",
     [](config_reader& from, transformer& model) {
       read_language(from, model, read_linear_experts);
     }},
    {"qwen3_5_moe_text", read_linear_experts},
    {"qwen3_5_text", read_linear_attention},
};

}  // namespace gpuplan::io::detail::hugging_face
