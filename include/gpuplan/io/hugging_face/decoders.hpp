#pragma once

// Decoders in a config.json. Private.

#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/model.hpp>

#include <cstdint>
#include <string>

namespace gpuplan::io::detail::hugging_face {

inline void read_falcon(config_reader& from, transformer& model) {
  read_heads(from, model);
  make_classic(model);
  model.mlp_bias = model.attention_bias = model.attention_out_bias = from.flag("bias", false);
  model.intermediate_size =
      from.integer("ffn_hidden_size", from.multiple("hidden_size", model.hidden_size, 4));
  model.fused_qkv = true;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
  model.alibi_positions = from.flag("alibi", false) ? 1 : 0;
  const bool grouped = from.flag("new_decoder_architecture", false);
  const bool one_group = from.flag("multi_query", true);
  const std::int64_t groups = from.integer("num_kv_heads", model.num_attention_heads);
  const std::int64_t norms = from.integer("num_ln_in_parallel_attn", grouped ? 2 : 1);
  model.num_key_value_heads = grouped ? groups : one_group ? 1 : model.num_attention_heads;
  model.parallel_attention = from.flag("parallel_attn", true) || grouped;
  if (grouped && norms == 1 && (groups == 1 || groups == model.num_attention_heads))
    from.wrong("num_kv_heads",
               "more than 1 and less than num_attention_heads beside one norm for this reader");
  if (!grouped && norms != 1) from.wrong("num_ln_in_parallel_attn", "1 for this reader");
  model.norms_per_layer = !model.parallel_attention ? 2 : norms;
}

inline void read_gpt2(config_reader& from, transformer& model) {
  make_classic(model);
  model.hidden_act = activation_function::gelu_new;
  model.num_hidden_layers = from.integer("n_layer");
  model.hidden_size = from.integer("n_embd");
  model.num_attention_heads = from.integer("n_head");
  model.vocab_size = from.integer("vocab_size");
  model.intermediate_size = from.integer("n_inner", from.multiple("n_embd", model.hidden_size, 4));
  model.position_rows = from.integer("n_positions");
  model.fused_qkv = true;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
  from.only("scale_attn_by_inverse_layer_idx", false);
  from.only("reorder_and_upcast_attn", false);
  from.only("add_cross_attention", false);
}

inline void read_gptj(config_reader& from, transformer& model) {
  make_classic(model);
  model.hidden_act = activation_function::gelu_new;
  model.num_hidden_layers = from.integer("n_layer");
  model.hidden_size = from.integer("n_embd");
  model.num_attention_heads = from.integer("n_head");
  model.vocab_size = from.integer("vocab_size");
  model.intermediate_size = from.integer("n_inner", from.multiple("n_embd", model.hidden_size, 4));
  model.sinusoid_rows = from.integer("n_positions", 2048);
  model.rotary_dim = from.integer("rotary_dim", 64);
  model.attention_bias = model.attention_out_bias = false;
  model.parallel_attention = model.lm_head_bias = true;
  model.norms_per_layer = 1;
  model.tied_embeddings = from.flag("tie_word_embeddings", false);
}

inline void read_gpt_bigcode(config_reader& from, transformer& model) {
  read_gpt2(from, model);
  model.hidden_act = activation_function::gelu_tanh;
  if (from.flag("multi_query", true)) model.num_key_value_heads = 1;
  from.ignore("num_key_value_heads");  // the same once more
}

inline void read_bloom(config_reader& from, transformer& model) {
  make_classic(model);
  const char* width = from.has("hidden_size") ? "hidden_size" : "n_embed";
  const char* heads = from.has("n_head") ? "n_head" : "num_attention_heads";
  model.num_hidden_layers = from.integer("n_layer");
  model.hidden_size = from.integer(width);
  model.num_attention_heads = from.integer(heads);
  model.vocab_size = from.integer("vocab_size");
  model.intermediate_size = from.multiple(width, model.hidden_size, 4);
  model.fused_qkv = model.embedding_norm = true;
  model.alibi_positions = 1;
  from.only("apply_residual_connection_post_layernorm", false);
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
}

inline void read_mpt(config_reader& from, transformer& model) {
  make_classic(model);
  model.num_hidden_layers = from.integer("n_layers");
  model.hidden_size = from.integer("d_model");
  model.num_attention_heads = from.integer("n_heads");
  model.vocab_size = from.integer("vocab_size");
  from.only("no_bias", true);
  model.attention_bias = model.attention_out_bias = model.mlp_bias = model.norm_bias = false;
  // transformers builds 4 x d_model whatever the file says.
  if (from.integer("expansion_ratio", 4) != 4) from.wrong("expansion_ratio", "4 for this reader");
  model.intermediate_size = from.multiple("d_model", model.hidden_size, 4);
  model.fused_qkv = true;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
  from.ignore("learned_pos_emb");  // ALiBi has none
  model.alibi_positions = from.integer("max_seq_len", 2048);
  model.clip_qkv = from.inside("attn_config").largest({"clip_qkv"}) > 0;
  if (from.has_inside("attn_config", "kv_n_heads"))
    from.wrong("attn_config", "without kv_n_heads for this reader");
}

inline void read_opt(config_reader& from, transformer& model) {
  from.leaves_out_layers("layerdrop");
  read_heads(from, model);
  make_classic(model);
  model.hidden_act = activation_function::relu;
  model.intermediate_size = from.integer("ffn_dim");
  model.attention_bias = model.attention_out_bias = model.mlp_bias = from.flag("enable_bias", true);
  model.norm_affine = from.flag("layer_norm_elementwise_affine", true);
  const bool before = from.flag("do_layer_norm_before", true);
  model.norm_at = before ? norm_position::before : norm_position::after_residual;
  model.final_norm = before && !from.flag("_remove_final_layer_norm", false);
  model.position_rows = from.integer("max_position_embeddings") + 2;
  const std::int64_t narrow = from.integer("word_embed_proj_dim", model.hidden_size);
  model.embedding_dim = narrow == model.hidden_size ? 0 : narrow;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
}

inline void read_phi(config_reader& from, transformer& model) {
  read_llama(from, model);
  make_classic(model);
  model.hidden_act = activation_function::gelu_new;
  model.parallel_attention = model.lm_head_bias = true;
  model.norms_per_layer = 1;
  if (from.flag("qk_layernorm", false)) model.qk_norm = qk_norm_scope::head;
  model.qk_norm_bias = true;
  read_rotary_part(from, model);
}

inline void read_stablelm(config_reader& from, transformer& model) {
  read_llama(from, model);
  model.norm = norm_kind::layer_norm;
  model.norm_bias = true;
  model.attention_bias = from.flag("use_qkv_bias", false);
  if (from.flag("qk_layernorm", false)) model.qk_norm = qk_norm_scope::full_width;
  model.parallel_attention = from.flag("use_parallel_residual", false);
  model.norms_per_layer = model.parallel_attention ? 1 : 2;
  read_rotary_part(from, model);
}

inline void read_cohere(config_reader& from, transformer& model) {
  model.tied_embeddings = true;
  read_llama(from, model);
  read_biases(from, model);
  model.norm = norm_kind::layer_norm;
  model.parallel_attention = true;
  model.norms_per_layer = 1;
  if (from.flag("use_qk_norm", false)) model.qk_norm = qk_norm_scope::full_width;
}

// Layers without a window rotate nothing.
inline void rotate_windowed_layers(config_reader& from, transformer& model) {
  model.no_rope_layer_interval = model.global_layer_step;
  if (model.max_window_layers != 0)
    from.wrong("layer_types", "without a window in each so many-th layer for this reader");
}

inline void read_gemma2(config_reader& from, transformer& model) {
  model.hidden_act = activation_function::gelu_tanh;
  model.tied_embeddings = true;
  model.head_dim = 256;
  read_llama(from, model);
  read_biases(from, model);
  model.norm_at = norm_position::around;
  model.norms_per_layer = 4;
}

inline void read_glm(config_reader& from, transformer& model) {
  model.head_dim = 128;
  read_llama(from, model);
  model.attention_bias = from.flag("attention_bias", true);
  model.fused_gate_up = true;
  read_rotary_part(from, model);
}

inline void read_olmo2(config_reader& from, transformer& model) {
  read_llama(from, model);
  read_biases(from, model);
  model.norm_at = norm_position::after_sublayer;
  model.qk_norm = qk_norm_scope::full_width;
}

// A window is there where `use_sliding_window` says so, in layers from `max_window_layers` on.
inline void read_window_of_qwen(config_reader& from, transformer& model) {
  const bool has_window = from.flag("use_sliding_window", false);
  model.max_window_layers = from.integer("max_window_layers", 28);
  read_window(from, model);
  if (!has_window) model.sliding_window = 0;
  if (model.sliding_window == 0) model.max_window_layers = model.global_layer_step = 0;
}

inline void read_qwen3(config_reader& from, transformer& model) {
  read_llama(from, model);
  read_biases(from, model);
  model.qk_norm = qk_norm_scope::head;
  read_window_of_qwen(from, model);
}

inline void read_qwen2(config_reader& from, transformer& model) {
  read_llama(from, model);
  model.attention_bias = true;
  read_window_of_qwen(from, model);
}

inline void read_smollm3(config_reader& from, transformer& model) {
  model.tied_embeddings = true;
  read_llama(from, model);
  read_biases(from, model);
  model.mlp_bias = from.flag("mlp_bias", false);
  from.only("use_sliding_window", false);
  from.ignore("sliding_window");
  static_cast<void>(from.list("layer_types"));
  model.no_rope_layer_interval = from.integer("no_rope_layer_interval", 4);
  std::int64_t layer = 0;
  for (const json& rotates : from.list("no_rope_layers"))
    if (layer < model.num_hidden_layers && model.has_rope(layer++) != (rotates == 1))
      from.wrong("no_rope_layers", "0 for each no_rope_layer_interval-th layer for this reader");
}

inline void read_llama_with_biases(config_reader& from, transformer& model) {
  read_llama(from, model);
  read_biases(from, model);
  model.mlp_bias = from.flag("mlp_bias", false);
}

// Heads of its state stand for those of attention, which it has not.
inline void read_mamba2(config_reader& from, transformer& model) {
  state_space& mamba = model.mamba;
  model.num_hidden_layers = from.integer("num_hidden_layers", 64);
  model.hidden_size = from.integer("hidden_size", 4096);
  model.vocab_size = from.integer("vocab_size", 32768);
  mamba.num_heads = from.integer("num_heads", 128);
  mamba.head_dim = from.integer("head_dim", 64);
  mamba.state_size = from.integer("state_size", 128);
  mamba.n_groups = from.integer("n_groups", 8);
  mamba.conv_kernel = from.integer("conv_kernel", 4);
  mamba.chunk_size = from.integer("chunk_size", 256);
  mamba.conv_bias = from.flag("use_conv_bias", true);
  mamba.proj_bias = from.flag("use_bias", false);
  mamba.residual_in_fp32 = from.flag("residual_in_fp32", true);
  const std::int64_t expand = from.integer("expand", 2);
  const std::int64_t most = gpuplan::detail::most_of_a_dimension;
  if (model.hidden_size == 0 || expand > most / model.hidden_size || mamba.head_dim == 0 ||
      mamba.num_heads > most / mamba.head_dim || expand * model.hidden_size != mamba.inner())
    from.refuse("expand", "expand must be num_heads * head_dim / hidden_size");
  if (model.num_hidden_layers > gpuplan::detail::most_state_spaces)
    return from.wrong("num_hidden_layers", "at most 1024 for this reader");
  for (const char* key : {"rms_norm",  // which nothing reads
                          "rescale_prenorm_residual",
                          "time_step_floor",
                          "time_step_limit",
                          "time_step_max",
                          "time_step_min",
                          "time_step_rank"})
    from.ignore(key);
  model.hybrid_pattern = state_spaces_alone(model.num_hidden_layers);
  model.num_attention_heads = mamba.num_heads;
  model.head_dim = mamba.head_dim;
  model.tied_embeddings = from.flag("tie_word_embeddings", false);
}

inline constexpr type_reader decoder_readers[] = {
    {"arcee",
     [](config_reader& from, transformer& model) {
       read_llama_with_biases(from, model);
       model.gated_mlp = false;
       model.hidden_act = activation_function::relu_squared;
     }},
    {"bloom", read_bloom},
    {"cohere", read_cohere},
    {"cohere2",
     [](config_reader& from, transformer& model) {
       read_cohere(from, model);
       from.ignore("sliding_window_pattern");
       read_window(from, model, 4);
       rotate_windowed_layers(from, model);
     }},
    {"cwm",
     [](config_reader& from, transformer& model) {
       model.head_dim = 128;
       read_llama(from, model);
       model.mlp_bias = from.flag("mlp_bias", false);
       model.global_layer_first = true;
       read_window(from, model, 4);
     }},
    {"ernie4_5",
     [](config_reader& from, transformer& model) {
       model.tied_embeddings = true;
       read_llama(from, model);
       model.attention_bias = model.attention_out_bias = model.mlp_bias =
           from.flag("use_bias", false);
     }},
    {"exaone4",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       model.norm_at = norm_position::after_sublayer;
       model.qk_norm = qk_norm_scope::head;
       const bool is_number = !from.has_text("sliding_window_pattern");
       const bool has_list = !from.list("layer_types").empty();
       read_window(
           from, model, is_number && !has_list ? from.integer("sliding_window_pattern", 4) : 4);
       rotate_windowed_layers(from, model);
     }},
    {"falcon", read_falcon},
    {"gemma",
     [](config_reader& from, transformer& model) {
       model.hidden_act = activation_function::gelu_tanh;
       model.tied_embeddings = true;
       model.head_dim = 256;
       read_llama(from, model);
       read_biases(from, model);
       from.only_alone("use_bidirectional_attention", false);
     }},
    {"gemma2",
     [](config_reader& from, transformer& model) {
       read_gemma2(from, model);
       if (from.is_null("attn_logit_softcapping") || from.is_null("final_logit_softcapping"))
         from.refuse("attn_logit_softcapping", "this reader knows Gemma 2 with its caps alone");
       read_window(from, model, 2);
       from.only_alone("use_bidirectional_attention", false);
     }},
    {"gemma3_text",
     [](config_reader& from, transformer& model) {
       read_gemma2(from, model);
       model.qk_norm = qk_norm_scope::head;
       const std::int64_t step = from.has("sliding_window_pattern")
                                     ? from.integer("sliding_window_pattern")
                                     : from.integer("_sliding_window_pattern", 6);
       read_window(from, model, step);
       if (from.has("final_logit_softcapping"))
         from.wrong("final_logit_softcapping", "null for this reader");
       from.only_alone("use_bidirectional_attention", false);
     }},
    {"glm", read_glm},
    {"glm4",
     [](config_reader& from, transformer& model) {
       read_glm(from, model);
       model.norm_at = norm_position::around;
       model.norms_per_layer = 4;
     }},
    {"gpt2", read_gpt2},
    {"gpt_bigcode", read_gpt_bigcode},
    {"gptj", read_gptj},
    {"gpt_neox",
     [](config_reader& from, transformer& model) {
       read_heads(from, model);
       make_classic(model);
       read_biases(from, model, true);
       model.intermediate_size = from.integer("intermediate_size");
       model.parallel_attention = from.flag("use_parallel_residual", true);
       read_rotary_part(from, model);
       model.fused_qkv = true;
       model.tied_embeddings = from.flag("tie_word_embeddings", false);
     }},
    {"granite", read_llama_with_biases},
    {"helium",
     [](config_reader& from, transformer& model) {
       model.head_dim = 128;
       read_llama_with_biases(from, model);
       model.attention_out_bias = false;
       if (model.num_attention_heads * model.head_dim != model.hidden_size)
         from.wrong("head_dim", "hidden_size / num_attention_heads for this reader");
     }},
    {"hunyuan_v1_dense",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_biases(from, model);
       model.qk_norm = qk_norm_scope::head;
       from.ignore("eod_token_id");
     }},
    {"jais2",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       make_classic(model);
       read_biases(from, model, true);
       model.mlp_bias = from.flag("mlp_bias", true);
       model.hidden_act = activation_function::relu_squared;
     }},
    {"llama", read_llama_with_biases},
    {"mamba2", read_mamba2},
    {"ministral",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_window(from, model);
     }},
    {"ministral3",
     [](config_reader& from, transformer& model) {
       model.head_dim = 128;
       read_llama(from, model);
       read_window(from, model);
     }},
    {"mistral",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_window(from, model);
     }},
    {"mpt", read_mpt},
    {"nemotron",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       make_classic(model);
       read_biases(from, model);
       model.mlp_bias = from.flag("mlp_bias", false);
       model.hidden_act = activation_function::relu_squared;
       read_rotary_part(from, model);
     }},
    {"olmo",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       model.clip_qkv = from.has("clip_qkv");
       read_biases(from, model);
       model.norm = norm_kind::layer_norm;
       model.norm_affine = false;
     }},
    {"olmo2", read_olmo2},
    {"olmo3",
     [](config_reader& from, transformer& model) {
       read_olmo2(from, model);
       read_window(from, model, 4);
     }},
    {"opt", read_opt},
    {"phi", read_phi},
    {"phi3",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       model.fused_qkv = model.fused_gate_up = true;
       read_window(from, model);
       read_rotary_part(from, model);
       from.only("attention_bias", false);
       from.only("mlp_bias", false);
       from.only("lm_head_bias", false);
     }},
    {"qwen2", read_qwen2},
    {"qwen3",
     [](config_reader& from, transformer& model) {
       model.head_dim = 128;
       read_qwen3(from, model);
     }},
    {"seed_oss",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       model.attention_bias = from.flag("attention_bias", true);
       model.attention_out_bias = from.flag("attention_out_bias", false);
       model.mlp_bias = from.flag("mlp_bias", false);
     }},
    {"smollm3", read_smollm3},
    {"stablelm", read_stablelm},
    {"starcoder2",
     [](config_reader& from, transformer& model) {
       model.tied_embeddings = true;
       read_llama(from, model);
       make_classic(model);
       model.attention_bias = model.attention_out_bias = model.mlp_bias =
           from.flag("use_bias", true);
       model.hidden_act = activation_function::gelu_tanh;
       read_window(from, model);
     }},
    {"vaultgemma",
     [](config_reader& from, transformer& model) {
       read_gemma2(from, model);
       model.norm_at = norm_position::before;
       model.norms_per_layer = 2;
       if (from.is_null("attn_logit_softcapping") || from.is_null("final_logit_softcapping"))
         from.refuse("attn_logit_softcapping", "this reader knows VaultGemma with its caps alone");
       read_window(from, model, 2);
     }},
};

}  // namespace gpuplan::io::detail::hugging_face
