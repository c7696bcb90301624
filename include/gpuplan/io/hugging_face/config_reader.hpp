#pragma once

// A config.json of Hugging Face, key by key, and what the readers of its model types have in
// common. Private.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

namespace detail::hugging_face {

using nlohmann::json;

// Keys that change no matrix of a model: how it is initialised, trained, sampled or stored.
inline constexpr std::string_view keys_without_shape =
    " "
    "_attn_implementation _flash_attn_2_enabled _name_or_path apply_layernorm activation "
    "activation_dropout "
    "activation_function attention_dropout "
    "attention_multiplier attention_probs_dropout_prob attention_softmax_in_fp32 attn_scale "
    "attn_logit_softcapping attn_pdrop auto_map aux_loss_alpha bos_token_id cache_implementation "
    "chunk_size_feed_forward classifier_dropout classifier_dropout_prob clip_qkv "
    "decoder_start_token_id dense_act_fn dropout dropout_rate dtype emb_pdrop embd_pdrop "
    "embedding_dropout embedding_fraction embedding_multiplier encoder_no_repeat_ngram_size "
    "encoder_stride eod_token_id eos_token_id ep_size final_logit_softcapping floor_scale "
    "gradient_checkpointing "
    "hidden_act hidden_activation hidden_dropout hidden_dropout_prob id2label init_device "
    "init_std initial_context_length initializer_factor initializer_range is_decoder "
    "is_encoder_decoder is_gated_act label2id layer_norm_eps layer_norm_epsilon "
    "layernorm_epsilon layerscale_value logit_scale logits_scaling logits_to_keep "
    "mamba_dt_init_floor mamba_dt_limit mamba_dt_max mamba_dt_min mamba_hidden_act "
    "mamba_ssm_cache_dtype max_position_embeddings moe_norm_min moe_shared_expert_overlap "
    "num_logits_to_keep "
    "max_seq_len max_window_layers model_max_length model_type n_ctx n_group n_positions "
    "no_rope_layer_interval no_rope_layers norm_eps norm_epsilon norm_topk_prob norm_type "
    "offset_alibi out_features out_indices original_max_position_embeddings output_attentions "
    "output_hidden_states "
    "output_past output_router_logits pad_token_id partial_rotary_factor pooler_act prefix "
    "pretraining_tp "
    "problem_type qa_dropout query_pre_attn_scalar "
    "relative_attention_max_distance rescale_every rescale_prenorm_residual reshape_hidden_states "
    "resid_pdrop "
    "residual_dropout residual_multiplier return_dict rms_norm_eps rope_interleave "
    "rope_interleaved rope_local_base_freq rope_parameters rope_scaling rope_theta rope_type "
    "rotary_emb_base rotary_emb_fraction rotary_pct rotary_percentage routed_scaling_factor "
    "router_aux_loss_coef router_jitter_noise scale_attention_softmax_in_fp32 "
    "scale_attn_weights scale_decoder_outputs scoring_func "
    "sep_token_id seq_aux seq_classif_dropout sinusoidal_pos_embds slow_but_exact softmax_scale "
    "stage_names "
    "summary_activation summary_first_dropout summary_last_dropout summary_proj_to_labels "
    "summary_type "
    "summary_use_proj swiglu_alpha swiglu_limit task_specific_params time_step_floor "
    "time_step_limit time_step_max time_step_min topk_group topk_method "
    "torch_dtype transformers_version unk_token_id use_cache use_mamba_kernels use_mrope verbose ";

// Keys of what a model has one or more of.
inline constexpr std::string_view keys_of_one_or_more =
    " d_kv decoder_ffn_dim embedding_size head_dim kv_lora_rank max_target_positions "
    "moe_num_experts "
    "n_routed_experts num_experts num_hidden_groups num_kv_heads num_local_experts q_lora_rank "
    "word_embed_proj_dim ";

// What a message shows of a file's text.
[[nodiscard]] inline std::string shortened(const std::string& text) {
  constexpr std::size_t most = 160;
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

[[nodiscard]] inline bool is_one_of(std::string_view keys, const std::string& key) {
  return keys.find(" " + key + " ") != std::string_view::npos;
}

// One config.json, which of its keys have been asked for, and the first complaint about them, after
// which values mean nothing. A key that is null is absent.
class config_reader {
 public:
  explicit config_reader(json object) : object_(std::move(object)) {}
  config_reader(const config_reader&) = delete;  // what is asked for is in one object
  config_reader& operator=(const config_reader&) = delete;
  config_reader(config_reader&&) = default;
  config_reader& operator=(config_reader&&) = delete;
  ~config_reader() = default;

  [[nodiscard]] const failure& why() const { return why_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }

  [[nodiscard]] bool has(const char* key) { return find(key) != nullptr; }
  [[nodiscard]] bool is_null(const char* key) const {
    const auto found = object_.find(std::string_view(key));
    return found != object_.end() && found->is_null();
  }
  // Whether it is there, and a complaint where it is not.
  [[nodiscard]] bool requires_key(const char* key) {
    if (!has(key)) refuse(key, std::string("config.json has no ") + key);
    return has(key);
  }
  [[nodiscard]] std::int64_t integer(const char* key) {
    if (!requires_key(key)) return 0;
    const json& value = *find(key);
    const bool is_count =
        value.is_number_unsigned() &&
        value.get<std::uint64_t>() <= std::uint64_t{gpuplan::detail::most_of_a_dimension};
    const std::int64_t count = is_count ? value.get<std::int64_t>() : 0;
    if (count > 0) return count;
    const bool has_one = is_one_of(keys_of_one_or_more, key);
    if (is_count && !has_one) return 0;
    return wrong(key, std::string("a whole number from ") + (has_one ? "1" : "0") + " to 2^40"), 0;
  }
  [[nodiscard]] std::int64_t signed_integer(const char* key) {
    const json* const value = find(key);
    if (value != nullptr && value->is_number_integer() && *value < 0 &&
        *value >= -gpuplan::detail::most_of_a_dimension)
      return value->get<std::int64_t>();
    return integer(key);
  }
  // The configuration within; its complaints and its unknown keys are taken with `take`.
  [[nodiscard]] config_reader inside(const char* key) {
    const json* const value = find(key);
    if (value != nullptr && !value->is_object()) wrong(key, "an object");
    config_reader part(value != nullptr && value->is_object() ? *value : json::object());
    part.is_part_ = true;
    return part;
  }
  void take(const config_reader& inner, const char* key) {
    if (gpuplan::detail::failed(inner.why_)) refuse(key, key + (": " + inner.reason_));
    for (const std::string& unknown : inner.keys_not_asked_for())
      unknown_within_.push_back(key + ("." + unknown));
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
  // Whether a dimension is no larger; 64 bits hold the product of three of up to 2^20.
  [[nodiscard]] bool is_at_most(const char* key,
                                std::int64_t value,
                                std::int64_t most = std::int64_t{1} << 20) {
    if (value <= most) return true;
    refuse(key,
           std::string(key) + " is " + std::to_string(value) + "; at most " + std::to_string(most) +
               " is taken");
    return false;
  }
  [[nodiscard]] bool flag(const char* key, bool absent) {
    const json* const value = find(key);
    if (value == nullptr) return absent;
    if (value->is_boolean()) return value->get<bool>();
    return wrong(key, "true or false"), absent;
  }
  [[nodiscard]] std::string text(const char* key) {
    const json* const value = find(key);
    if (value == nullptr) return "";
    if (value->is_string()) return value->get<std::string>();
    return wrong(key, "a text"), "";
  }
  [[nodiscard]] bool has_inside(const char* key, const char* inner) {
    const json* const value = find(key);
    return value != nullptr && value->is_object() && value->contains(inner);
  }
  [[nodiscard]] std::int64_t entries(const char* key) {
    const json* const value = find(key);
    return value != nullptr && value->is_object() ? static_cast<std::int64_t>(value->size()) : 0;
  }
  [[nodiscard]] std::vector<json> list(const char* key) {
    const json* const value = find(key);
    if (value == nullptr) return {};
    if (value->is_array()) return value->get<std::vector<json>>();
    return wrong(key, "a list"), std::vector<json>{};
  }
  [[nodiscard]] bool has_list(const char* key) {
    const json* const value = find(key);
    return value != nullptr && value->is_array();
  }
  // The class that the file names first.
  [[nodiscard]] std::string architecture() {
    const std::vector<json> classes = list("architectures");
    return !classes.empty() && classes[0].is_string() ? classes[0].get<std::string>() : "";
  }
  [[nodiscard]] bool has_text(const char* key) {
    const json* const value = find(key);
    return value != nullptr && value->is_string();
  }
  [[nodiscard]] bool is_negative(const char* key) {
    const json* const value = find(key);
    return value != nullptr && value->is_number_integer() && !value->is_number_unsigned();
  }
  // The largest of the numbers that these keys have.
  [[nodiscard]] double largest(std::initializer_list<const char*> keys) {
    double most = 0;
    for (const char* key : keys)
      if (const json* const value = find(key); value != nullptr && value->is_number())
        most = std::max(most, value->get<double>());
    return most;
  }
  // The part of a head that is rotated; 0 where nothing says.
  [[nodiscard]] double part_rotated() {
    constexpr const char* key = "partial_rotary_factor";
    if (has_inside("rope_parameters", key) && object_.at("rope_parameters").at(key).is_number())
      return object_.at("rope_parameters").at(key).get<double>();
    return largest({key, "rotary_pct"});
  }
  // What a class has where the file has no such key; one that is null is there.
  void assume(const char* key, const json& absent) {
    if (object_.contains(std::string_view(key))) return;
    object_[key] = absent;
    static_cast<void>(find(key));
    assumed_.insert(key);
  }
  [[nodiscard]] bool is_assumed(const char* key) const { return assumed_.count(key) != 0; }
  [[nodiscard]] bool is_part() const { return is_part_; }
  // For a key whose value is none that the reader knows.
  void leave_out(const char* key) { unknown_within_.emplace_back(key); }
  // For a key whose value changes no shape, or says what another key says.
  void ignore(const char* key) { static_cast<void>(has(key)); }
  // A probability that is not reproduced: 0, or the class's own where the file says nothing.
  void only_zero(const char* key, std::string_view type) {
    if (largest({key}) == 0) return;
    if (!is_assumed(key)) return wrong(key, "0 for this reader");
    refuse(key,
           std::string(key) + " must be 0 for this reader; left out, it is " +
               object_.at(key).dump() + " in transformers' class of " + std::string(type));
  }
  // With such a probability a layer is left out of a step; what is asked of steps is asked of those
  // that leave out none, whose memory is a run's peak.
  void leaves_out_layers(const char* key) {
    if (largest({key}) != 0 && !is_assumed(key)) leave_out(key);
  }
  // A value that would make another model than the reader's.
  void only(const char* key, bool wanted) {
    if (flag(key, wanted) != wanted)
      wrong(key, wanted ? "true for this reader" : "false for this reader");
  }

  // Likewise, where it is no matter of a part, whose masks the whole makes.
  void only_alone(const char* key, bool wanted) {
    if (is_part_)
      ignore(key);
    else
      only(key, wanted);
  }

  void wrong(const char* key, const std::string& wanted) {
    const auto found = object_.find(key);
    refuse(key,
           std::string(key) + " must be " + wanted + ", not " +
               (found != object_.end() ? shortened(found->dump()) : "absent"));
  }
  void refuse(const char* key, const std::string& reason) {
    if (gpuplan::detail::failed(why_)) return;
    why_ = failure(errc::malformed_config).about(key);
    reason_ = reason;
  }

  [[nodiscard]] std::vector<std::string> keys_not_asked_for() const {
    std::vector<std::string> keys = unknown_within_;
    for (const auto& item : object_.items())
      if (!item.value().is_null() &&
          std::find(asked_.begin(), asked_.end(), &item.value()) == asked_.end() &&
          !is_one_of(keys_without_shape, item.key()))
        keys.push_back(item.key());
    return keys;
  }

 private:
  // The value of a key, where it is there and not null.
  [[nodiscard]] const json* find(std::string_view key) {
    const auto found = std::as_const(object_).find(key);
    if (found == object_.cend()) return nullptr;
    if (std::find(asked_.begin(), asked_.end(), &*found) == asked_.end()) asked_.push_back(&*found);
    return found->is_null() ? nullptr : &*found;
  }

  json object_;
  std::vector<const json*> asked_;  // of its values
  std::set<std::string> assumed_;
  failure why_;
  std::string reason_;
  std::vector<std::string> unknown_within_;
  bool is_part_ = false;
};

// What configuration classes of transformers 5.24 take where a file has no such key, where that
// differs from what readers of many types take: all heads, and none of what a type need not have.
inline void take_class_defaults(config_reader& from, std::string_view type) {
  struct class_default {
    std::string_view model_type;
    const char* key;
    std::uint64_t value;
  };
  static constexpr class_default numbers[] = {{"mistral", "num_key_value_heads", 8},
                                              {"mixtral", "num_key_value_heads", 8},
                                              {"gemma", "num_key_value_heads", 16},
                                              {"gemma2", "num_key_value_heads", 4},
                                              {"gemma3_text", "num_key_value_heads", 4},
                                              {"glm", "num_key_value_heads", 2},
                                              {"glm4", "num_key_value_heads", 2},
                                              {"starcoder2", "num_key_value_heads", 2},
                                              {"smollm3", "num_key_value_heads", 4},
                                              {"gpt_oss", "num_key_value_heads", 8},
                                              {"qwen2", "num_key_value_heads", 32},
                                              {"qwen2_moe", "num_key_value_heads", 16},
                                              {"qwen3", "num_key_value_heads", 32},
                                              {"qwen3_moe", "num_key_value_heads", 4},
                                              {"stablelm", "num_key_value_heads", 32},
                                              {"glm4_moe", "num_key_value_heads", 8},
                                              {"minimax_m2", "num_key_value_heads", 8},
                                              {"ernie4_5_moe", "num_key_value_heads", 4},
                                              {"ministral", "num_key_value_heads", 8},
                                              {"ministral3", "num_key_value_heads", 8},
                                              {"cwm", "num_key_value_heads", 8},
                                              {"dots1", "num_key_value_heads", 32},
                                              {"ernie4_5", "num_key_value_heads", 2},
                                              {"exaone4", "num_key_value_heads", 32},
                                              {"helium", "num_key_value_heads", 20},
                                              {"seed_oss", "num_key_value_heads", 8},
                                              {"vaultgemma", "num_key_value_heads", 4},
                                              {"qwen2_vl_text", "num_key_value_heads", 8},
                                              {"qwen2_5_vl_text", "num_key_value_heads", 8},
                                              {"qwen3_vl_text", "num_key_value_heads", 32},
                                              {"ernie4_5", "head_dim", 128},
                                              {"seed_oss", "head_dim", 128},
                                              {"cohere2", "sliding_window", 4096},
                                              {"cwm", "sliding_window", 8192},
                                              {"exaone4", "sliding_window", 4096},
                                              {"gemma2", "sliding_window", 4096},
                                              {"gemma3_text", "sliding_window", 4096},
                                              {"gpt_oss", "sliding_window", 128},
                                              {"ministral", "sliding_window", 4096},
                                              {"mistral", "sliding_window", 4096},
                                              {"olmo3", "sliding_window", 4096},
                                              {"vaultgemma", "sliding_window", 4096},
                                              {"qwen2", "sliding_window", 4096},
                                              {"qwen2_moe", "sliding_window", 4096},
                                              {"qwen3", "sliding_window", 4096},
                                              {"qwen3_moe", "sliding_window", 4096},
                                              {"qwen2_vl_text", "sliding_window", 4096},
                                              {"qwen2_5_vl_text", "sliding_window", 4096},
                                              {"qwen2_vl_text", "max_window_layers", 80},
                                              {"qwen2_5_vl_text", "max_window_layers", 80},
                                              {"deepseek_v2", "q_lora_rank", 1536},
                                              {"deepseek_v2", "n_shared_experts", 2},
                                              {"deepseek_v3", "q_lora_rank", 1536},
                                              {"deepseek_v3", "n_shared_experts", 1},
                                              {"deepseek_v3", "first_k_dense_replace", 3},
                                              {"deepseek_v3", "n_group", 8},
                                              {"deepseek_v3", "topk_group", 4},
                                              {"glm4_moe", "n_shared_experts", 1},
                                              {"glm4_moe", "first_k_dense_replace", 1},
                                              {"glm4_moe_lite", "q_lora_rank", 768},
                                              {"glm4_moe_lite", "n_shared_experts", 1},
                                              {"solar_open", "n_shared_experts", 1},
                                              {"bart", "max_position_embeddings", 1024},
                                              {"blenderbot", "max_position_embeddings", 128},
                                              {"blenderbot-small", "max_position_embeddings", 512},
                                              {"m2m_100", "max_position_embeddings", 1024},
                                              {"marian", "max_position_embeddings", 1024},
                                              {"mbart", "max_position_embeddings", 1024},
                                              {"pegasus", "max_position_embeddings", 1024},
                                              {"plbart", "max_position_embeddings", 1024},
                                              {"dinov2_with_registers", "patch_size", 16},
                                              {"idefics3_vision", "hidden_size", 1152},
                                              {"idefics3_vision", "num_attention_heads", 16},
                                              {"qwen2_vl_vision", "hidden_size", 3584},
                                              {"qwen2_5_vl_vision", "hidden_size", 3584},
                                              {"qwen2_5_vl_vision", "out_hidden_size", 3584},
                                              {"qwen3_vl_vision", "depth", 27},
                                              {"qwen3_vl_vision", "hidden_size", 1152},
                                              {"qwen3_vl_vision", "out_hidden_size", 3584},
                                              {"qwen3_5_text", "intermediate_size", 12288},
                                              {"qwen3_next", "intermediate_size", 5632},
                                              {"smolvlm_vision", "hidden_size", 1152},
                                              {"smolvlm_vision", "num_attention_heads", 16}};
  for (const class_default& one : numbers)
    if (one.model_type == type) from.assume(one.key, one.value);
  if (type == "mt5" || type == "umt5") from.assume("feed_forward_proj", "gated-gelu");
  if (type == "deberta-v2") from.assume("relative_attention", false);
  if (type == "dots1") from.assume("norm_topk_prob", false);
  struct class_share {
    std::string_view model_type;
    const char* key;
    double value;
  };
  static constexpr class_share shares[] = {{"albert", "classifier_dropout_prob", 0.1},
                                           {"bart", "classifier_dropout", 0},
                                           {"bart", "dropout", 0.1},
                                           {"blenderbot", "dropout", 0.1},
                                           {"blenderbot-small", "dropout", 0.1},
                                           {"distilbert", "attention_dropout", 0.1},
                                           {"distilbert", "dropout", 0.1},
                                           {"distilbert", "qa_dropout", 0.1},
                                           {"distilbert", "seq_classif_dropout", 0.2},
                                           {"glm", "partial_rotary_factor", 0.5},
                                           {"glm4", "partial_rotary_factor", 0.5},
                                           {"glm4_moe", "partial_rotary_factor", 0.5},
                                           {"gpt2", "attn_pdrop", 0.1},
                                           {"gpt2", "embd_pdrop", 0.1},
                                           {"gpt2", "resid_pdrop", 0.1},
                                           {"gpt_bigcode", "attn_pdrop", 0.1},
                                           {"gpt_bigcode", "embd_pdrop", 0.1},
                                           {"gpt_bigcode", "resid_pdrop", 0.1},
                                           {"gpt_neox", "classifier_dropout", 0.1},
                                           {"gpt_neox", "rotary_pct", 0.25},
                                           {"hubert", "activation_dropout", 0.1},
                                           {"hubert", "attention_dropout", 0.1},
                                           {"hubert", "final_dropout", 0.1},
                                           {"hubert", "hidden_dropout", 0.1},
                                           {"hubert", "layerdrop", 0.1},
                                           {"hubert", "mask_time_prob", 0.05},
                                           {"m2m_100", "attention_dropout", 0.1},
                                           {"m2m_100", "decoder_layerdrop", 0.05},
                                           {"m2m_100", "dropout", 0.1},
                                           {"m2m_100", "encoder_layerdrop", 0.05},
                                           {"marian", "dropout", 0.1},
                                           {"mbart", "classifier_dropout", 0},
                                           {"mbart", "dropout", 0.1},
                                           {"modernbert", "classifier_dropout", 0},
                                           {"mt5", "classifier_dropout", 0},
                                           {"mt5", "dropout_rate", 0.1},
                                           {"nemotron", "partial_rotary_factor", 0.5},
                                           {"opt", "dropout", 0.1},
                                           {"pegasus", "dropout", 0.1},
                                           {"phi", "partial_rotary_factor", 0.5},
                                           {"phi3", "partial_rotary_factor", 1},
                                           {"plbart", "attention_dropout", 0.1},
                                           {"plbart", "classifier_dropout", 0},
                                           {"plbart", "dropout", 0.1},
                                           {"seed_oss", "attention_dropout", 0.1},
                                           {"seed_oss", "residual_dropout", 0.1},
                                           {"stablelm", "partial_rotary_factor", 0.25},
                                           {"t5", "classifier_dropout", 0},
                                           {"t5", "dropout_rate", 0.1},
                                           {"umt5", "classifier_dropout", 0},
                                           {"umt5", "dropout_rate", 0.1},
                                           {"wav2vec2", "activation_dropout", 0.1},
                                           {"wav2vec2", "attention_dropout", 0.1},
                                           {"wav2vec2", "final_dropout", 0.1},
                                           {"wav2vec2", "hidden_dropout", 0.1},
                                           {"wav2vec2", "layerdrop", 0.1},
                                           {"wav2vec2", "mask_time_prob", 0.05}};
  for (const class_share& one : shares)
    if (one.model_type == type) from.assume(one.key, one.value);
  for (const char* like_bert : {"bert",
                                "camembert",
                                "data2vec-text",
                                "deberta-v2",
                                "electra",
                                "ernie",
                                "mpnet",
                                "roberta",
                                "xlm-roberta"})
    if (like_bert == type)
      for (const char* key : {"attention_probs_dropout_prob", "hidden_dropout_prob"})
        from.assume(key, 0.1);
  if (!from.is_part()) return;  // which says its widths itself
  struct class_shape {
    std::string_view model_type;
    std::uint64_t hidden_size;
    std::uint64_t num_hidden_layers;
    std::uint64_t num_attention_heads;
    std::uint64_t intermediate_size;
    std::uint64_t vocab_size;
  };
  static constexpr class_shape shapes[] = {{"llama", 4096, 32, 32, 11008, 32000},
                                           {"mistral", 4096, 32, 32, 14336, 32000},
                                           {"gemma", 3072, 28, 16, 24576, 256000},
                                           {"gemma2", 2304, 26, 8, 9216, 256000},
                                           {"gemma3_text", 2304, 26, 8, 9216, 262208},
                                           {"qwen2", 4096, 32, 32, 22016, 151936},
                                           {"qwen3", 4096, 32, 32, 22016, 151936},
                                           {"qwen2_vl_text", 8192, 80, 64, 29568, 152064},
                                           {"qwen2_5_vl_text", 8192, 80, 64, 29568, 152064},
                                           {"qwen3_vl_text", 4096, 32, 32, 22016, 151936},
                                           {"cohere2", 8192, 40, 64, 22528, 256000}};
  for (const class_shape& one : shapes) {
    if (one.model_type != type) continue;
    from.assume("hidden_size", one.hidden_size);
    from.assume("num_hidden_layers", one.num_hidden_layers);
    from.assume("num_attention_heads", one.num_attention_heads);
    from.assume("intermediate_size", one.intermediate_size);
    from.assume("vocab_size", one.vocab_size);
  }
}

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

// Layer norms, GELU, and biases wherever there can be one.
inline void make_classic(transformer& model) {
  model.attention_bias = model.attention_out_bias = model.mlp_bias = model.norm_bias = true;
  model.gated_mlp = false;
  model.hidden_act = activation_function::gelu;
  model.norm = norm_kind::layer_norm;
}

// Every layer has the window, or all but each `step`-th. Newer files list the layers.
inline void read_window(config_reader& from, transformer& model, std::int64_t step = 0) {
  model.sliding_window = from.integer("sliding_window", 0);
  model.global_layer_step = step;
  const std::vector<json> layers = from.list("layer_types");
  if (layers.empty()) return;
  const auto is_windowed = [&](std::size_t i) { return layers[i] == "sliding_attention"; };
  std::size_t first_windowed = layers.size();
  std::size_t first_global = layers.size();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!is_windowed(i) && layers[i] != "full_attention")
      from.wrong("layer_types", "of sliding_attention and full_attention for this reader");
    std::size_t& first = is_windowed(i) ? first_windowed : first_global;
    if (first == layers.size()) first = i;
  }
  if (first_windowed == layers.size()) {
    model.sliding_window = model.global_layer_step = 0;
    return;
  }
  const auto is_as_said = [&] {
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (is_windowed(i) != model.is_windowed(static_cast<std::int64_t>(i))) return false;
    return layers.size() == static_cast<std::size_t>(model.num_hidden_layers);
  };
  // As its class has it, each so many-th layer without, or the first ones.
  if (is_as_said()) return;
  model.global_layer_step = static_cast<std::int64_t>(first_global) + 1;
  if (is_as_said()) return;
  model.global_layer_step = 0;
  model.max_window_layers = static_cast<std::int64_t>(first_windowed);
  if (!is_as_said())
    from.wrong("layer_types",
               "a window in all layers but each so many-th, or but the first, for this reader");
}

// Of each head, as a part of it: in rope_parameters, or beside them in older files.
inline void read_rotary_part(config_reader& from, transformer& model) {
  const double part = from.part_rotated();
  if (part == 0) return;
  if (!(part > 0 && part <= 1)) {
    from.refuse("partial_rotary_factor", "partial_rotary_factor must be above 0 and at most 1");
    return;
  }
  model.rotary_dim = static_cast<std::int64_t>(static_cast<double>(model.query_dim()) * part);
}

/// What reads a model type.
struct type_reader {
  std::string_view model_type;
  void (*read)(config_reader& from, transformer& model);
};

}  // namespace detail::hugging_face

}  // namespace gpuplan::io
