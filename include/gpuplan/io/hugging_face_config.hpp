#pragma once

// The shape of a model from the config.json that Hugging Face keeps beside its weights. Needs
// nlohmann/json, as json.hpp does.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/io/json_depth.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::io {

/// The most bytes of a config.json that are read: a hundred times what one has.
inline constexpr std::size_t most_of_a_config = std::size_t{4} << 20;

/// What a config.json says of a model.
struct hugging_face_config {
  result<transformer> shape = transformer{};  // or the error; its `name` is empty
  std::string reason{};                       // which key is wrong, and how, if one is
  std::string model_type{};
  std::vector<std::string> unknown_keys{};  // left out, whatever they mean
};

namespace detail::hugging_face {

using nlohmann::json;

// Keys that change no matrix of a model: how it is initialised, trained, sampled or stored.
inline constexpr std::string_view keys_without_shape =
    " "
    "_attn_implementation _flash_attn_2_enabled _name_or_path activation activation_dropout "
    "activation_function apply_residual_connection_post_layernorm attention_dropout "
    "attention_multiplier attention_probs_dropout_prob attention_softmax_in_fp32 "
    "attn_logit_softcapping attn_pdrop auto_map aux_loss_alpha bos_token_id cache_implementation "
    "chunk_size_feed_forward classifier_dropout classifier_dropout_prob clip_qkv "
    "decoder_start_token_id dense_act_fn dropout dropout_rate dtype emb_pdrop embd_pdrop "
    "embedding_dropout embedding_fraction embedding_multiplier encoder_no_repeat_ngram_size "
    "encoder_stride eos_token_id ep_size final_logit_softcapping gradient_checkpointing "
    "hidden_act hidden_activation hidden_dropout hidden_dropout_prob id2label init_device "
    "init_std initial_context_length initializer_factor initializer_range is_decoder "
    "is_encoder_decoder is_gated_act label2id layer_norm_eps layer_norm_epsilon layerdrop "
    "layernorm_epsilon logit_scale logits_scaling logits_to_keep max_position_embeddings "
    "max_seq_len max_window_layers model_max_length model_type n_ctx n_group n_positions "
    "no_rope_layer_interval no_rope_layers norm_eps norm_epsilon norm_topk_prob norm_type "
    "offset_alibi original_max_position_embeddings output_attentions output_hidden_states "
    "output_past output_router_logits pad_token_id partial_rotary_factor prefix pretraining_tp "
    "problem_type qa_dropout quantization_config query_pre_attn_scalar "
    "relative_attention_max_distance reorder_and_upcast_attn rescale_every resid_pdrop "
    "residual_dropout residual_multiplier return_dict rms_norm_eps rope_interleave "
    "rope_interleaved rope_local_base_freq rope_parameters rope_scaling rope_theta rope_type "
    "rotary_emb_base rotary_emb_fraction rotary_pct rotary_percentage routed_scaling_factor "
    "router_aux_loss_coef router_jitter_noise scale_attention_softmax_in_fp32 "
    "scale_attn_by_inverse_layer_idx scale_attn_weights scale_decoder_outputs scoring_func "
    "seq_aux seq_classif_dropout sinusoidal_pos_embds slow_but_exact softmax_scale "
    "summary_activation summary_first_dropout summary_proj_to_labels summary_type "
    "summary_use_proj swiglu_alpha swiglu_limit task_specific_params topk_group topk_method "
    "torch_dtype transformers_version unk_token_id use_cache use_mrope verbose ";

// What a message shows of a file's text.
[[nodiscard]] inline std::string shortened(const std::string& text) {
  constexpr std::size_t most = 160;
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

[[nodiscard]] inline bool has_no_shape(const std::string& key) {
  return keys_without_shape.find(" " + key + " ") != std::string_view::npos;
}

// One config.json, which of its keys have been asked for, and the first complaint about them, after
// which values mean nothing. A key that is null is absent.
class config_reader {
 public:
  explicit config_reader(const json& object) : object_(object) {}

  [[nodiscard]] const failure& why() const { return why_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }

  [[nodiscard]] bool has(const char* key) {
    asked_.insert(key);
    const auto found = object_.find(key);
    return found != object_.end() && !found->is_null();
  }
  [[nodiscard]] std::int64_t integer(const char* key) {
    if (!has(key)) return refuse(key, std::string("config.json has no ") + key), 0;
    const json& value = object_.at(key);
    if (value.is_number_unsigned() &&
        value.get<std::uint64_t>() <= std::uint64_t{gpuplan::detail::most_of_a_dimension})
      return value.get<std::int64_t>();
    return wrong(key, "a whole number from 0 to 2^40"), 0;
  }
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t absent) {
    return has(key) ? integer(key) : absent;
  }
  // A dimension that is a multiple of what a key has.
  [[nodiscard]] std::int64_t multiple(const char* key, std::int64_t value, std::int64_t times) {
    const gpuplan::detail::checked_integer all = gpuplan::detail::checked_product(value, times);
    if (all.ok && all.value <= gpuplan::detail::most_of_a_dimension) return all.value;
    refuse(key,
           std::string(key) + " is " + std::to_string(value) + ", and " + std::to_string(times) +
               " times that is more than 2^40");
    return 0;
  }
  [[nodiscard]] bool flag(const char* key, bool absent) {
    if (!has(key)) return absent;
    if (object_.at(key).is_boolean()) return object_.at(key).get<bool>();
    return wrong(key, "true or false"), absent;
  }
  [[nodiscard]] std::string text(const char* key) {
    if (!has(key)) return "";
    if (object_.at(key).is_string()) return object_.at(key).get<std::string>();
    return wrong(key, "a text"), "";
  }
  [[nodiscard]] bool has_inside(const char* key, const char* inner) {
    return has(key) && object_.at(key).is_object() && object_.at(key).contains(inner);
  }
  [[nodiscard]] std::int64_t entries(const char* key) {
    return has(key) && object_.at(key).is_object()
               ? static_cast<std::int64_t>(object_.at(key).size())
               : 0;
  }
  [[nodiscard]] std::vector<json> list(const char* key) {
    if (!has(key)) return {};
    if (object_.at(key).is_array()) return object_.at(key).get<std::vector<json>>();
    return wrong(key, "a list"), std::vector<json>{};
  }
  // For a key whose value changes no shape, or says what another key says.
  void ignore(const char* key) { static_cast<void>(has(key)); }
  // A value that would make another model than the reader's.
  void only(const char* key, bool wanted) {
    if (flag(key, wanted) != wanted)
      wrong(key, wanted ? "true for this reader" : "false for this reader");
  }

  void wrong(const char* key, const std::string& wanted) {
    refuse(key,
           std::string(key) + " must be " + wanted + ", not " + shortened(object_.at(key).dump()));
  }
  void refuse(const char* key, const std::string& reason) {
    if (gpuplan::detail::failed(why_)) return;
    why_ = failure(errc::malformed_config).about(key);
    reason_ = reason;
  }

  [[nodiscard]] std::vector<std::string> keys_not_asked_for() const {
    std::vector<std::string> keys;
    for (const auto& item : object_.items())
      if (asked_.count(item.key()) == 0 && !has_no_shape(item.key())) keys.push_back(item.key());
    return keys;
  }

 private:
  const json& object_;
  std::set<std::string> asked_;
  failure why_;
  std::string reason_;
};

// ---- what families have in common

inline void read_heads(config_reader& from, transformer& model) {
  model.num_hidden_layers = from.integer("num_hidden_layers");
  model.hidden_size = from.integer("hidden_size");
  model.num_attention_heads = from.integer("num_attention_heads");
  model.vocab_size = from.integer("vocab_size");
}

// LLaMA's keys; those that a class gives another default are read by its own function first.
inline void read_llama(config_reader& from, transformer& model) {
  read_heads(from, model);
  model.intermediate_size = from.integer("intermediate_size");
  model.num_key_value_heads = from.integer("num_key_value_heads", model.num_key_value_heads);
  model.head_dim = from.integer("head_dim", model.head_dim);
  model.tied_embeddings = from.flag("tie_word_embeddings", model.tied_embeddings);
}

inline void read_biases(config_reader& from, transformer& model, bool absent = false) {
  model.attention_bias = model.attention_out_bias = from.flag("attention_bias", absent);
}

// Layer norms, and biases wherever there can be one.
inline void make_classic(transformer& model) {
  model.attention_bias = model.attention_out_bias = model.mlp_bias = model.norm_bias = true;
  model.gated_mlp = false;
  model.norm = norm_kind::layer_norm;
}

// Every layer has the window, or all but each `step`-th. Newer files list the layers.
inline void read_window(config_reader& from,
                        transformer& model,
                        std::int64_t absent,
                        std::int64_t step = 0) {
  model.sliding_window = from.integer("sliding_window", absent);
  model.global_layer_step = step;
  const std::vector<json> layers = from.list("layer_types");
  if (layers.empty()) return;
  const auto is_windowed = [&](std::size_t i) { return layers[i] == "sliding_attention"; };
  bool as_said = layers.size() == static_cast<std::size_t>(model.num_hidden_layers);
  bool any = false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!is_windowed(i) && layers[i] != "full_attention")
      from.wrong("layer_types", "of sliding_attention and full_attention for this reader");
    any = any || is_windowed(i);
    as_said = as_said && is_windowed(i) == model.is_windowed(static_cast<std::int64_t>(i));
  }
  if (!any)
    model.sliding_window = model.global_layer_step = 0;
  else if (!as_said)
    from.wrong("layer_types", "the regular pattern of this model type for this reader");
}

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
  model.moe.num_experts = from.integer("n_routed_experts");
  model.moe.num_experts_per_tok = from.integer("num_experts_per_tok");
  model.moe.moe_intermediate_size = from.integer("moe_intermediate_size");
  model.moe.shared_expert_intermediate_size = from.multiple(
      "n_shared_experts", from.integer("n_shared_experts", 0), model.moe.moe_intermediate_size);
  model.moe.first_k_dense_layers = from.integer("first_k_dense_replace");
  if (from.integer("moe_layer_freq", 1) != 1) from.wrong("moe_layer_freq", "1 for this reader");
  model.mtp_layers = from.integer("num_nextn_predict_layers", 0);
}

// Qwen's words for experts.
inline void read_sparse_experts(config_reader& from, transformer& model) {
  const bool is_new = from.has("num_local_experts");  // transformers 5
  model.moe.num_experts = from.integer(is_new ? "num_local_experts" : "num_experts");
  model.moe.num_experts_per_tok = from.integer("num_experts_per_tok");
  model.moe.moe_intermediate_size = from.integer("moe_intermediate_size");
  model.moe.moe_layer_step = from.integer("decoder_sparse_step", 1);
  const std::vector<json> dense = from.list("mlp_only_layers");
  for (std::size_t i = 0; i < dense.size(); ++i)
    if (dense[i] != i) from.wrong("mlp_only_layers", "the first layers for this reader");
  model.moe.first_k_dense_layers = static_cast<std::int64_t>(dense.size());
}

// One width for all experts, and no MLP beside them.
inline void read_experts(config_reader& from, transformer& model, const char* how_many) {
  model.moe.num_experts = from.integer(how_many);
  model.moe.num_experts_per_tok = from.integer("num_experts_per_tok");
  model.moe.moe_intermediate_size = model.intermediate_size;
}

// ---- decoders

inline void read_deepseek(config_reader& from, transformer& model) {
  read_latent_attention(from, model);
  read_routed_experts(from, model);
}

inline void read_falcon(config_reader& from, transformer& model) {
  read_heads(from, model);
  make_classic(model);
  model.mlp_bias = model.attention_bias = model.attention_out_bias = from.flag("bias", false);
  model.intermediate_size =
      from.integer("ffn_hidden_size", from.multiple("hidden_size", model.hidden_size, 4));
  model.fused_qkv = true;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
  static_cast<void>(from.flag("alibi", false));  // no parameters either way
  const bool grouped = from.flag("new_decoder_architecture", false);
  const bool one_group = from.flag("multi_query", true);
  const std::int64_t groups = from.integer("num_kv_heads", model.num_attention_heads);
  const std::int64_t norms = from.integer("num_ln_in_parallel_attn", grouped ? 2 : 1);
  model.num_key_value_heads = grouped ? groups : one_group ? 1 : model.num_attention_heads;
  model.parallel_attention = from.flag("parallel_attn", true) || grouped;
  model.norms_per_layer = !model.parallel_attention ? 2 : grouped ? norms : 1;
}

inline void read_gpt2(config_reader& from, transformer& model) {
  make_classic(model);
  model.num_hidden_layers = from.integer("n_layer");
  model.hidden_size = from.integer("n_embd");
  model.num_attention_heads = from.integer("n_head");
  model.vocab_size = from.integer("vocab_size");
  model.intermediate_size = from.integer("n_inner", from.multiple("n_embd", model.hidden_size, 4));
  model.position_rows = from.integer("n_positions");
  model.fused_qkv = true;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
  from.only("add_cross_attention", false);
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
  if (from.has_inside("attn_config", "kv_n_heads"))
    from.wrong("attn_config", "without kv_n_heads for this reader");
}

inline void read_opt(config_reader& from, transformer& model) {
  read_heads(from, model);
  make_classic(model);
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
  model.parallel_attention = model.lm_head_bias = true;
  model.norms_per_layer = 1;
  if (from.flag("qk_layernorm", false)) model.qk_norm = qk_norm_scope::head;
  model.qk_norm_bias = true;
}

inline void read_stablelm(config_reader& from, transformer& model) {
  read_llama(from, model);
  model.norm = norm_kind::layer_norm;
  model.norm_bias = true;
  model.attention_bias = from.flag("use_qkv_bias", false);
  if (from.flag("qk_layernorm", false)) model.qk_norm = qk_norm_scope::full_width;
  model.parallel_attention = from.flag("use_parallel_residual", false);
  model.norms_per_layer = model.parallel_attention ? 1 : 2;
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

inline void read_gemma2(config_reader& from, transformer& model) {
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
  model.attention_bias = from.flag("attention_bias", false);
  model.fused_gate_up = true;
}

inline void read_olmo2(config_reader& from, transformer& model) {
  read_llama(from, model);
  read_biases(from, model);
  model.norm_at = norm_position::after_sublayer;
  model.qk_norm = qk_norm_scope::full_width;
}

inline void read_qwen3(config_reader& from, transformer& model) {
  read_llama(from, model);
  read_biases(from, model);
  model.qk_norm = qk_norm_scope::head;
  from.only("use_sliding_window", false);
  from.ignore("sliding_window");
  static_cast<void>(from.list("layer_types"));
}

inline void read_qwen2(config_reader& from, transformer& model) {
  read_llama(from, model);
  model.attention_bias = true;
  from.only("use_sliding_window", false);
  from.ignore("sliding_window");
  static_cast<void>(from.list("layer_types"));
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

// ---- encoders and T5

inline void read_bert(config_reader& from, transformer& model) {
  read_heads(from, model);
  make_classic(model);
  model.kind = model_kind::encoder;
  model.intermediate_size = from.integer("intermediate_size");
  model.norm_at = norm_position::after_residual;
  model.final_norm = false;
  model.embedding_norm = true;
  model.position_rows = from.integer("max_position_embeddings");
  model.type_vocab_size = from.integer("type_vocab_size", 2);
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
  model.pooler = from.flag("add_pooling_layer", true);
  const std::string positions = from.text("position_embedding_type");
  if (!positions.empty() && positions != "absolute")
    from.wrong("position_embedding_type", "absolute for this reader");
  from.only("is_decoder", false);
  from.only("add_cross_attention", false);
}

inline void read_mpnet(config_reader& from, transformer& model) {
  read_bert(from, model);
  model.type_vocab_size = 0;
  model.relative_attention_buckets = from.integer("relative_attention_num_buckets", 32);
}

inline void read_distilbert(config_reader& from, transformer& model) {
  make_classic(model);
  model.kind = model_kind::encoder;
  model.num_hidden_layers = from.integer("n_layers");
  model.hidden_size = from.integer("dim");
  model.intermediate_size = from.integer("hidden_dim");
  model.num_attention_heads = from.integer("n_heads");
  model.vocab_size = from.integer("vocab_size");
  model.position_rows = from.integer("max_position_embeddings");
  model.norm_at = norm_position::after_residual;
  model.final_norm = false;
  model.embedding_norm = true;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
}

inline void read_t5(config_reader& from, transformer& model) {
  model.kind = model_kind::encoder_decoder;
  model.num_hidden_layers = from.integer("num_layers");
  model.num_decoder_layers = from.integer("num_decoder_layers", model.num_hidden_layers);
  model.hidden_size = from.integer("d_model");
  model.intermediate_size = from.integer("d_ff");
  model.num_attention_heads = from.integer("num_heads");
  model.head_dim = from.integer("d_kv");
  model.vocab_size = from.integer("vocab_size");
  model.relative_attention_buckets = from.integer("relative_attention_num_buckets", 32);
  model.gated_mlp = from.text("feed_forward_proj").rfind("gated", 0) == 0;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
}

// ---- which reader reads what

struct type_reader {
  std::string_view model_type;
  void (*read)(config_reader& from, transformer& model);
};
inline constexpr type_reader type_readers[] = {
    {"bert", read_bert},
    {"bloom", read_bloom},
    {"camembert", read_bert},
    {"cohere", read_cohere},
    {"cohere2",
     [](config_reader& from, transformer& model) {
       read_cohere(from, model);
       from.ignore("sliding_window_pattern");
       read_window(from, model, 4096, 4);
     }},
    {"deepseek_v2", read_deepseek},
    {"deepseek_v3",
     [](config_reader& from, transformer& model) {
       read_deepseek(from, model);
       model.moe.router_bias = true;  // e_score_correction_bias, in the file of weights
     }},
    {"distilbert", read_distilbert},
    {"falcon", read_falcon},
    {"gemma",
     [](config_reader& from, transformer& model) {
       model.tied_embeddings = true;
       model.head_dim = 256;
       read_llama(from, model);
       read_biases(from, model);
       from.only("use_bidirectional_attention", false);
     }},
    {"gemma2",
     [](config_reader& from, transformer& model) {
       read_gemma2(from, model);
       read_window(from, model, 4096, 2);
       from.only("use_bidirectional_attention", false);
     }},
    {"gemma3_text",
     [](config_reader& from, transformer& model) {
       read_gemma2(from, model);
       model.qk_norm = qk_norm_scope::head;
       const std::int64_t step = from.has("sliding_window_pattern")
                                     ? from.integer("sliding_window_pattern")
                                     : from.integer("_sliding_window_pattern", 6);
       read_window(from, model, 4096, step);
       from.only("use_bidirectional_attention", false);
     }},
    {"glm", read_glm},
    {"glm4",
     [](config_reader& from, transformer& model) {
       read_glm(from, model);
       model.norm_at = norm_position::around;
       model.norms_per_layer = 4;
     }},
    {"glm4_moe",
     [](config_reader& from, transformer& model) {
       model.head_dim = from.integer("head_dim", 128);
       read_llama(from, model);
       model.attention_bias = from.flag("attention_bias", false);
       if (from.flag("use_qk_norm", false)) model.qk_norm = qk_norm_scope::head;
       read_routed_experts(from, model);
       model.moe.router_bias = true;  // as DeepSeek-V3's
     }},
    {"gpt2", read_gpt2},
    {"gpt_neox",
     [](config_reader& from, transformer& model) {
       read_heads(from, model);
       make_classic(model);
       read_biases(from, model, true);
       model.intermediate_size = from.integer("intermediate_size");
       model.parallel_attention = from.flag("use_parallel_residual", true);
       model.fused_qkv = true;
       model.tied_embeddings = from.flag("tie_word_embeddings", false);
     }},
    {"gpt_oss", read_gpt_oss},
    {"granite",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_biases(from, model);
       model.mlp_bias = from.flag("mlp_bias", false);
     }},
    {"llama",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_biases(from, model);
       model.mlp_bias = from.flag("mlp_bias", false);
     }},
    {"mistral",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_window(from, model, 4096);
     }},
    {"mixtral",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_experts(from, model, "num_local_experts");
       model.intermediate_size = 0;
       read_window(from, model, 0);
     }},
    {"mpnet", read_mpnet},
    {"mpt", read_mpt},
    {"nemotron",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       make_classic(model);
       read_biases(from, model);
       model.mlp_bias = from.flag("mlp_bias", false);
     }},
    {"olmo",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_biases(from, model);
       model.norm = norm_kind::layer_norm;
       model.norm_affine = false;
     }},
    {"olmo2", read_olmo2},
    {"olmo3",
     [](config_reader& from, transformer& model) {
       read_olmo2(from, model);
       read_window(from, model, 4096, 4);
     }},
    {"olmoe",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       read_biases(from, model);
       model.qk_norm = qk_norm_scope::full_width;
       read_experts(from, model, "num_experts");
       model.intermediate_size = 0;
     }},
    {"opt", read_opt},
    {"phi", read_phi},
    {"phi3",
     [](config_reader& from, transformer& model) {
       read_llama(from, model);
       model.fused_qkv = model.fused_gate_up = true;
       read_window(from, model, 0);
       from.only("attention_bias", false);
       from.only("mlp_bias", false);
       from.only("lm_head_bias", false);
     }},
    {"qwen2", read_qwen2},
    {"qwen2_moe",
     [](config_reader& from, transformer& model) {
       read_qwen2(from, model);
       model.attention_bias = from.flag("qkv_bias", true);
       read_sparse_experts(from, model);
       model.moe.shared_expert_intermediate_size = from.integer("shared_expert_intermediate_size");
       model.moe.shared_expert_gate = true;
     }},
    {"qwen3",
     [](config_reader& from, transformer& model) {
       model.head_dim = 128;
       read_qwen3(from, model);
     }},
    {"qwen3_moe",
     [](config_reader& from, transformer& model) {
       read_qwen3(from, model);
       read_sparse_experts(from, model);
     }},
    {"roberta", read_bert},
    {"smollm3",
     [](config_reader& from, transformer& model) {
       model.tied_embeddings = true;
       read_llama(from, model);
       read_biases(from, model);
       model.mlp_bias = from.flag("mlp_bias", false);
       from.only("use_sliding_window", false);
       from.ignore("sliding_window");
       static_cast<void>(from.list("layer_types"));
     }},
    {"stablelm", read_stablelm},
    {"starcoder2",
     [](config_reader& from, transformer& model) {
       model.tied_embeddings = true;
       read_llama(from, model);
       make_classic(model);
       model.attention_bias = model.attention_out_bias = model.mlp_bias =
           from.flag("use_bias", true);
       read_window(from, model, 0);
     }},
    {"t5", read_t5},
    {"xlm-roberta", read_bert},
};

// What is behind the layers, as the name of the class says; a file that names none has the head
// of a language model, or none where it is an encoder.
inline void read_head(config_reader& from, const std::string& model_type, transformer& model) {
  const bool is_encoder = model.kind == model_kind::encoder;
  const bool is_bert = model_type == "bert";
  const auto classes = from.list("architectures");
  const std::string name = !classes.empty() && classes[0].is_string()
                               ? classes[0].get<std::string>()
                           : is_encoder ? "Model"
                                        : "ForCausalLM";
  const bool generates = name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel") ||
                         name.ends_with("ForConditionalGeneration");
  if (generates && !is_encoder) {
    model.head = head_kind::language_model;
  } else if (is_encoder && name.ends_with("ForMaskedLM")) {
    model.head = head_kind::language_model;
    model.head_dense = model.head_norm = model.lm_head_bias = true;
    model.pooler = false;
  } else if (is_encoder && name.ends_with("ForSequenceClassification")) {
    model.head = head_kind::classifier;
    const std::int64_t labels = from.entries("id2label");
    model.num_classes = from.integer("num_labels", labels != 0 ? labels : 2);
    model.pooler = is_bert;
    model.head_dense = !is_bert;
  } else if (name.ends_with("Model")) {
    model.head = head_kind::none;
  } else {
    from.refuse("architectures", "architectures: this reader does not know " + shortened(name));
  }
}

}  // namespace detail::hugging_face

/// The model types that `read_hugging_face_config` knows, in alphabetical order.
[[nodiscard]] inline std::vector<std::string_view> hugging_face_model_types() {
  std::vector<std::string_view> names;
  for (const auto& each : detail::hugging_face::type_readers) names.push_back(each.model_type);
  return names;
}

/// The shape that a config.json describes, as transformers 5 builds it: what a file leaves out is
/// the default of its configuration class. Besides, it has what checkpoints hold and transformers
/// does not count: layers of multi-token prediction, and the buffer that is a router's bias.
/// Whether such a model can be is for `validate` of the shape.
///
/// At most `most_of_a_config` bytes are read, lists and objects at most `most_json_depth` deep, and
/// dimensions of at most 2^40. Errors, each with a `reason` of one line: `malformed_config` for
/// text that is no such JSON object, and for a class, a value or a missing key, about that key;
/// `unknown_model_type` about a type that this reader does not know.
[[nodiscard]] inline hugging_face_config read_hugging_face_config(std::string_view text) {
  namespace reading = detail::hugging_face;
  hugging_face_config read;
  const auto refuse = [&read](const failure& why, const std::string& reason) {
    read.shape = why;
    read.reason = reason;
    return read;
  };
  const failure malformed(errc::malformed_config);
  if (text.size() > most_of_a_config)
    return refuse(malformed,
                  "it holds " + std::to_string(text.size()) + " bytes, and at most " +
                      std::to_string(most_of_a_config) + " are read");
  if (is_too_deep(text))
    return refuse(malformed.about("its nesting"),
                  "it nests deeper than " + std::to_string(most_json_depth) +
                      " lists and objects, which no model's does");
  const auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) return refuse(malformed, "this is not a JSON object");
  reading::config_reader from(object);
  read.model_type = from.text("model_type");
  if (read.model_type.empty()) from.refuse("model_type", "config.json has no model_type");
  if (gpuplan::detail::failed(from.why())) return refuse(from.why(), from.reason());
  const auto* const found = std::find_if(
      std::begin(reading::type_readers), std::end(reading::type_readers), [&](const auto& each) {
        return each.model_type == read.model_type;
      });
  if (found == std::end(reading::type_readers)) {
    std::string known;
    for (const std::string_view name : hugging_face_model_types())
      known += (known.empty() ? "" : ", ") + std::string(name);
    return refuse(failure(errc::unknown_model_type).about(read.model_type.c_str()),
                  "model_type: this reader does not know " + reading::shortened(read.model_type) +
                      "; it knows " + known);
  }
  transformer shape;
  found->read(from, shape);
  reading::read_head(from, read.model_type, shape);
  if (gpuplan::detail::failed(from.why())) return refuse(from.why(), from.reason());
  read.shape = shape;
  read.unknown_keys = from.keys_not_asked_for();
  return read;
}

}  // namespace gpuplan::io
