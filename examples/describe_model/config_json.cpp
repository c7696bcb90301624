#include "describe_model/config_json.hpp"

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/io/json_depth.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace describe_model {
namespace {

using gpuplan::head_kind;
using gpuplan::model_kind;
using gpuplan::norm_kind;
using gpuplan::norm_position;
using gpuplan::qk_norm_scope;
using gpuplan::transformer;
using gpuplan::detail::most_of_a_dimension;
using nlohmann::json;

// Keys that change no matrix of a model: how it is initialised, trained, sampled or stored.
constexpr std::string_view keys_without_shape =
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
std::string shortened(const std::string& text) {
  constexpr std::size_t most = 160;
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

bool has_no_shape(const std::string& key) {
  return keys_without_shape.find(" " + key + " ") != std::string_view::npos;
}

// One config.json, and which of its keys have been asked for. A key that is null is absent.
class config {
 public:
  explicit config(const json& object) : object_(object) {}

  [[nodiscard]] bool has(const char* key) {
    asked_.insert(key);
    const auto found = object_.find(key);
    return found != object_.end() && !found->is_null();
  }
  [[nodiscard]] std::int64_t integer(const char* key) {
    if (!has(key)) throw config_error(std::string("config.json has no ") + key);
    const json& value = object_.at(key);
    if (!value.is_number_unsigned() ||
        value.get<std::uint64_t>() > static_cast<std::uint64_t>(most_of_a_dimension))
      wrong(key, "a whole number from 0 to 2^40");
    return value.get<std::int64_t>();
  }
  // A dimension that is a multiple of what a key has.
  [[nodiscard]] std::int64_t product(const char* key, std::int64_t value, std::int64_t times) {
    const gpuplan::detail::checked_integer all = gpuplan::detail::checked_product(value, times);
    if (!all.ok || all.value > most_of_a_dimension)
      throw config_error(std::string(key) + " is " + std::to_string(value) + ", and " +
                         std::to_string(times) + " times that is more than 2^40");
    return all.value;
  }
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t absent) {
    return has(key) ? integer(key) : absent;
  }
  [[nodiscard]] bool flag(const char* key, bool absent) {
    if (!has(key)) return absent;
    if (!object_.at(key).is_boolean()) wrong(key, "true or false");
    return object_.at(key).get<bool>();
  }
  [[nodiscard]] std::string text(const char* key) {
    if (!has(key)) return "";
    if (!object_.at(key).is_string()) wrong(key, "a text");
    return object_.at(key).get<std::string>();
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
    if (!object_.at(key).is_array()) wrong(key, "a list");
    return object_.at(key).get<std::vector<json>>();
  }
  [[noreturn]] void wrong(const char* key, const std::string& wanted) const {
    throw config_error(std::string(key) + " must be " + wanted + ", not " +
                       shortened(object_.at(key).dump()));
  }
  // A value that would make another model than the reader's.
  void only(const char* key, bool wanted) {
    if (flag(key, wanted) != wanted)
      wrong(key, wanted ? "true for this reader" : "false for this reader");
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
};

// ---- what families have in common

void read_heads(config& from, transformer& model) {
  model.num_hidden_layers = from.integer("num_hidden_layers");
  model.hidden_size = from.integer("hidden_size");
  model.num_attention_heads = from.integer("num_attention_heads");
  model.vocab_size = from.integer("vocab_size");
}

// LLaMA's keys; those that a class gives another default are read by its own function first.
void read_llama(config& from, transformer& model) {
  read_heads(from, model);
  model.intermediate_size = from.integer("intermediate_size");
  model.num_key_value_heads = from.integer("num_key_value_heads", model.num_key_value_heads);
  model.head_dim = from.integer("head_dim", model.head_dim);
  model.tied_embeddings = from.flag("tie_word_embeddings", model.tied_embeddings);
}

void read_biases(config& from, transformer& model, bool absent = false) {
  model.attention_bias = model.attention_out_bias = from.flag("attention_bias", absent);
}

// Layer norms, and biases wherever there can be one.
void make_classic(transformer& model) {
  model.attention_bias = model.attention_out_bias = model.mlp_bias = model.norm_bias = true;
  model.gated_mlp = false;
  model.norm = norm_kind::layer_norm;
}

// Every layer has the window, or all but each `step`-th. Newer files list the layers.
void read_window(config& from, transformer& model, std::int64_t absent, std::int64_t step = 0) {
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

void read_latent_attention(config& from, transformer& model) {
  read_heads(from, model);
  model.mla = {.q_lora_rank = from.integer("q_lora_rank", 0),
               .kv_lora_rank = from.integer("kv_lora_rank"),
               .qk_nope_head_dim = from.integer("qk_nope_head_dim"),
               .qk_rope_head_dim = from.integer("qk_rope_head_dim"),
               .v_head_dim = from.integer("v_head_dim")};
  // Derived from the others, but some files have them.
  static_cast<void>(from.has("num_key_value_heads"));
  static_cast<void>(from.has("head_dim"));
  static_cast<void>(from.has("qk_head_dim"));
  model.intermediate_size = from.integer("intermediate_size");
  model.tied_embeddings = from.flag("tie_word_embeddings", false);
  read_biases(from, model);
}

// DeepSeek's words for experts.
void read_routed_experts(config& from, transformer& model) {
  model.moe.num_experts = from.integer("n_routed_experts");
  model.moe.num_experts_per_tok = from.integer("num_experts_per_tok");
  model.moe.moe_intermediate_size = from.integer("moe_intermediate_size");
  model.moe.shared_expert_intermediate_size = from.product(
      "n_shared_experts", from.integer("n_shared_experts", 0), model.moe.moe_intermediate_size);
  model.moe.first_k_dense_layers = from.integer("first_k_dense_replace");
  if (from.integer("moe_layer_freq", 1) != 1) from.wrong("moe_layer_freq", "1 for this reader");
  model.mtp_layers = from.integer("num_nextn_predict_layers", 0);
}

// Qwen's words for experts.
void read_sparse_experts(config& from, transformer& model) {
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
void read_experts(config& from, transformer& model, const char* how_many) {
  model.moe.num_experts = from.integer(how_many);
  model.moe.num_experts_per_tok = from.integer("num_experts_per_tok");
  model.moe.moe_intermediate_size = model.intermediate_size;
}

// ---- decoders

void read_deepseek(config& from, transformer& model) {
  read_latent_attention(from, model);
  read_routed_experts(from, model);
}

void read_falcon(config& from, transformer& model) {
  read_heads(from, model);
  make_classic(model);
  model.mlp_bias = model.attention_bias = model.attention_out_bias = from.flag("bias", false);
  model.intermediate_size =
      from.integer("ffn_hidden_size", from.product("hidden_size", model.hidden_size, 4));
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

void read_gpt2(config& from, transformer& model) {
  make_classic(model);
  model.num_hidden_layers = from.integer("n_layer");
  model.hidden_size = from.integer("n_embd");
  model.num_attention_heads = from.integer("n_head");
  model.vocab_size = from.integer("vocab_size");
  model.intermediate_size = from.integer("n_inner", from.product("n_embd", model.hidden_size, 4));
  model.position_rows = from.integer("n_positions");
  model.fused_qkv = true;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
  from.only("add_cross_attention", false);
}

void read_bloom(config& from, transformer& model) {
  make_classic(model);
  const char* width = from.has("hidden_size") ? "hidden_size" : "n_embed";
  const char* heads = from.has("n_head") ? "n_head" : "num_attention_heads";
  model.num_hidden_layers = from.integer("n_layer");
  model.hidden_size = from.integer(width);
  model.num_attention_heads = from.integer(heads);
  model.vocab_size = from.integer("vocab_size");
  model.intermediate_size = from.product(width, model.hidden_size, 4);
  model.fused_qkv = model.embedding_norm = true;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
}

void read_mpt(config& from, transformer& model) {
  make_classic(model);
  model.num_hidden_layers = from.integer("n_layers");
  model.hidden_size = from.integer("d_model");
  model.num_attention_heads = from.integer("n_heads");
  model.vocab_size = from.integer("vocab_size");
  from.only("no_bias", true);
  model.attention_bias = model.attention_out_bias = model.mlp_bias = model.norm_bias = false;
  // transformers builds 4 x d_model whatever the file says.
  if (from.integer("expansion_ratio", 4) != 4) from.wrong("expansion_ratio", "4 for this reader");
  model.intermediate_size = from.product("d_model", model.hidden_size, 4);
  model.fused_qkv = true;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
  static_cast<void>(from.has("learned_pos_emb"));  // ALiBi has none
  if (from.has_inside("attn_config", "kv_n_heads"))
    from.wrong("attn_config", "without kv_n_heads for this reader");
}

void read_opt(config& from, transformer& model) {
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

void read_phi(config& from, transformer& model) {
  read_llama(from, model);
  make_classic(model);
  model.parallel_attention = model.lm_head_bias = true;
  model.norms_per_layer = 1;
  if (from.flag("qk_layernorm", false)) model.qk_norm = qk_norm_scope::head;
  model.qk_norm_bias = true;
}

void read_stablelm(config& from, transformer& model) {
  read_llama(from, model);
  model.norm = norm_kind::layer_norm;
  model.norm_bias = true;
  model.attention_bias = from.flag("use_qkv_bias", false);
  if (from.flag("qk_layernorm", false)) model.qk_norm = qk_norm_scope::full_width;
  model.parallel_attention = from.flag("use_parallel_residual", false);
  model.norms_per_layer = model.parallel_attention ? 1 : 2;
}

void read_cohere(config& from, transformer& model) {
  model.tied_embeddings = true;
  read_llama(from, model);
  read_biases(from, model);
  model.norm = norm_kind::layer_norm;
  model.parallel_attention = true;
  model.norms_per_layer = 1;
  if (from.flag("use_qk_norm", false)) model.qk_norm = qk_norm_scope::full_width;
}

void read_gemma2(config& from, transformer& model) {
  model.tied_embeddings = true;
  model.head_dim = 256;
  read_llama(from, model);
  read_biases(from, model);
  model.norm_at = norm_position::around;
  model.norms_per_layer = 4;
}

void read_glm(config& from, transformer& model) {
  model.head_dim = 128;
  read_llama(from, model);
  model.attention_bias = from.flag("attention_bias", false);
  model.fused_gate_up = true;
}

void read_olmo2(config& from, transformer& model) {
  read_llama(from, model);
  read_biases(from, model);
  model.norm_at = norm_position::after_sublayer;
  model.qk_norm = qk_norm_scope::full_width;
}

void read_qwen3(config& from, transformer& model) {
  read_llama(from, model);
  read_biases(from, model);
  model.qk_norm = qk_norm_scope::head;
  from.only("use_sliding_window", false);
  static_cast<void>(from.has("sliding_window"));
  static_cast<void>(from.list("layer_types"));
}

void read_qwen2(config& from, transformer& model) {
  read_llama(from, model);
  model.attention_bias = true;
  from.only("use_sliding_window", false);
  static_cast<void>(from.has("sliding_window"));
  static_cast<void>(from.list("layer_types"));
}

void read_gpt_oss(config& from, transformer& model) {
  model.head_dim = 64;
  read_llama(from, model);
  read_biases(from, model, true);
  read_experts(from, model, "num_local_experts");
  static_cast<void>(from.has("experts_per_token"));  // the same number once more
  model.mlp_bias = model.moe.router_bias = model.attention_sinks = true;
  read_window(from, model, 128, 2);
}

// ---- encoders and T5

void read_bert(config& from, transformer& model) {
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

void read_mpnet(config& from, transformer& model) {
  read_bert(from, model);
  model.type_vocab_size = 0;
  model.relative_attention_buckets = from.integer("relative_attention_num_buckets", 32);
}

void read_distilbert(config& from, transformer& model) {
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

void read_t5(config& from, transformer& model) {
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

using reader = std::function<void(config&, transformer&)>;

const std::map<std::string, reader>& readers() {
  static const std::map<std::string, reader> all{
      {"bert", read_bert},
      {"bloom", read_bloom},
      {"camembert", read_bert},
      {"cohere", read_cohere},
      {"cohere2",
       [](config& from, transformer& model) {
         read_cohere(from, model);
         static_cast<void>(from.has("sliding_window_pattern"));
         read_window(from, model, 4096, 4);
       }},
      {"deepseek_v2", read_deepseek},
      {"deepseek_v3",
       [](config& from, transformer& model) {
         read_deepseek(from, model);
         model.moe.router_bias = true;  // e_score_correction_bias, in the file of weights
       }},
      {"distilbert", read_distilbert},
      {"falcon", read_falcon},
      {"gemma",
       [](config& from, transformer& model) {
         model.tied_embeddings = true;
         model.head_dim = 256;
         read_llama(from, model);
         read_biases(from, model);
         from.only("use_bidirectional_attention", false);
       }},
      {"gemma2",
       [](config& from, transformer& model) {
         read_gemma2(from, model);
         read_window(from, model, 4096, 2);
         from.only("use_bidirectional_attention", false);
       }},
      {"gemma3_text",
       [](config& from, transformer& model) {
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
       [](config& from, transformer& model) {
         read_glm(from, model);
         model.norm_at = norm_position::around;
         model.norms_per_layer = 4;
       }},
      {"glm4_moe",
       [](config& from, transformer& model) {
         model.head_dim = from.integer("head_dim", 128);
         read_llama(from, model);
         model.attention_bias = from.flag("attention_bias", false);
         if (from.flag("use_qk_norm", false)) model.qk_norm = qk_norm_scope::head;
         read_routed_experts(from, model);
         model.moe.router_bias = true;  // as DeepSeek-V3's
       }},
      {"gpt2", read_gpt2},
      {"gpt_neox",
       [](config& from, transformer& model) {
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
       [](config& from, transformer& model) {
         read_llama(from, model);
         read_biases(from, model);
         model.mlp_bias = from.flag("mlp_bias", false);
       }},
      {"llama",
       [](config& from, transformer& model) {
         read_llama(from, model);
         read_biases(from, model);
         model.mlp_bias = from.flag("mlp_bias", false);
       }},
      {"mistral",
       [](config& from, transformer& model) {
         read_llama(from, model);
         read_window(from, model, 4096);
       }},
      {"mixtral",
       [](config& from, transformer& model) {
         read_llama(from, model);
         read_experts(from, model, "num_local_experts");
         model.intermediate_size = 0;
         read_window(from, model, 0);
       }},
      {"mpnet", read_mpnet},
      {"mpt", read_mpt},
      {"nemotron",
       [](config& from, transformer& model) {
         read_llama(from, model);
         make_classic(model);
         read_biases(from, model);
         model.mlp_bias = from.flag("mlp_bias", false);
       }},
      {"olmo",
       [](config& from, transformer& model) {
         read_llama(from, model);
         read_biases(from, model);
         model.norm = norm_kind::layer_norm;
         model.norm_affine = false;
       }},
      {"olmo2", read_olmo2},
      {"olmo3",
       [](config& from, transformer& model) {
         read_olmo2(from, model);
         read_window(from, model, 4096, 4);
       }},
      {"olmoe",
       [](config& from, transformer& model) {
         read_llama(from, model);
         read_biases(from, model);
         model.qk_norm = qk_norm_scope::full_width;
         read_experts(from, model, "num_experts");
         model.intermediate_size = 0;
       }},
      {"opt", read_opt},
      {"phi", read_phi},
      {"phi3",
       [](config& from, transformer& model) {
         read_llama(from, model);
         model.fused_qkv = model.fused_gate_up = true;
         read_window(from, model, 0);
         from.only("attention_bias", false);
         from.only("mlp_bias", false);
         from.only("lm_head_bias", false);
       }},
      {"qwen2", read_qwen2},
      {"qwen2_moe",
       [](config& from, transformer& model) {
         read_qwen2(from, model);
         model.attention_bias = from.flag("qkv_bias", true);
         read_sparse_experts(from, model);
         model.moe.shared_expert_intermediate_size =
             from.integer("shared_expert_intermediate_size");
         model.moe.shared_expert_gate = true;
       }},
      {"qwen3",
       [](config& from, transformer& model) {
         model.head_dim = 128;
         read_qwen3(from, model);
       }},
      {"qwen3_moe",
       [](config& from, transformer& model) {
         read_qwen3(from, model);
         read_sparse_experts(from, model);
       }},
      {"roberta", read_bert},
      {"smollm3",
       [](config& from, transformer& model) {
         model.tied_embeddings = true;
         read_llama(from, model);
         read_biases(from, model);
         model.mlp_bias = from.flag("mlp_bias", false);
         from.only("use_sliding_window", false);
         static_cast<void>(from.has("sliding_window"));
         static_cast<void>(from.list("layer_types"));
       }},
      {"stablelm", read_stablelm},
      {"starcoder2",
       [](config& from, transformer& model) {
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
  return all;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// What is behind the layers, as the name of the class says; a file that names none has the head of
// a language model, or none where it is an encoder.
void read_head(config& from, const std::string& model_type, transformer& model) {
  const bool is_encoder = model.kind == model_kind::encoder;
  const bool is_bert = model_type == "bert";
  const auto classes = from.list("architectures");
  const std::string name = !classes.empty() && classes[0].is_string()
                               ? classes[0].get<std::string>()
                           : is_encoder ? "Model"
                                        : "ForCausalLM";
  const bool generates = ends_with(name, "ForCausalLM") || ends_with(name, "LMHeadModel") ||
                         ends_with(name, "ForConditionalGeneration");
  if (generates && !is_encoder) {
    model.head = head_kind::language_model;
  } else if (is_encoder && ends_with(name, "ForMaskedLM")) {
    model.head = head_kind::language_model;
    model.head_dense = model.head_norm = model.lm_head_bias = true;
    model.pooler = false;
  } else if (is_encoder && ends_with(name, "ForSequenceClassification")) {
    model.head = head_kind::classifier;
    const std::int64_t labels = from.entries("id2label");
    model.num_classes = from.integer("num_labels", labels != 0 ? labels : 2);
    model.pooler = is_bert;
    model.head_dense = !is_bert;
  } else if (ends_with(name, "Model")) {
    model.head = head_kind::none;
  } else {
    throw config_error("architectures: this reader does not know " + shortened(name));
  }
}

}  // namespace

std::vector<std::string> known_model_types() {
  std::vector<std::string> names;
  for (const auto& one : readers()) names.push_back(one.first);
  return names;
}

model_config read_config(const std::string& text) {
  if (gpuplan::io::is_too_deep(text))
    throw config_error("it nests deeper than " + std::to_string(gpuplan::io::most_json_depth) +
                       " lists and objects, which no model's does");
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) throw config_error("this is not a JSON object");
  config from(object);
  model_config made;
  made.model_type = from.text("model_type");
  if (made.model_type.empty()) throw config_error("config.json has no model_type");
  const auto found = readers().find(made.model_type);
  if (found == readers().end()) {
    std::string known;
    for (const std::string& name : known_model_types()) known += (known.empty() ? "" : ", ") + name;
    throw config_error("model_type: this reader does not know " + shortened(made.model_type) +
                       "; it knows " + known);
  }
  found->second(from, made.shape);
  read_head(from, made.model_type, made.shape);
  made.unknown_keys = from.keys_not_asked_for();
  return made;
}

}  // namespace describe_model
