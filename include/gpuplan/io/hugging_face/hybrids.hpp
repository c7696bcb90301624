#pragma once

// Models in a config.json whose layers are of several kinds: linear attention or state spaces
// beside attention. Private.

#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/io/hugging_face/experts.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/sequence_mixers.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace gpuplan::io::detail::hugging_face {

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

inline constexpr type_reader hybrid_readers[] = {
    {"nemotron_h", read_nemotron_h},
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
