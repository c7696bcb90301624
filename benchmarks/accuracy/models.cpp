#include "models.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <regex>
#include <string_view>

#include <gpuplan/result.hpp>

namespace accuracy {
namespace {

using gpuplan::head_kind;
using gpuplan::model_kind;
using gpuplan::norm_kind;
using gpuplan::norm_position;
using gpuplan::qk_norm_scope;
using gpuplan::transformer;

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return parts;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <std::size_t Count>
bool is_one_of(std::string_view text, const std::array<std::string_view, Count>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Facts of a family that no column holds.
bool normalises_behind_sublayers(const row& source) {
  constexpr std::array<std::string_view, 4> families{"olmo2", "olmo3", "flex_olmo", "exaone4"};
  return is_one_of(source.text("family"), families) ||
         contains(source.text("notes"), "norms after attention and MLP");
}
bool has_fused_qkv(std::string_view family) {
  constexpr std::array<std::string_view, 18> families{"gpt2",
                                                      "gpt3",
                                                      "gpt_neox",
                                                      "gpt-neox",
                                                      "pythia",
                                                      "bloom",
                                                      "falcon",
                                                      "mpt",
                                                      "phi3",
                                                      "phi4",
                                                      "persimmon",
                                                      "codegen",
                                                      "dbrx",
                                                      "chatglm",
                                                      "gpt_bigcode",
                                                      "openai-gpt",
                                                      "modernbert",
                                                      "nomic_bert"};
  return is_one_of(family, families);
}
bool has_fused_gate_up(std::string_view family) {
  constexpr std::array<std::string_view, 5> families{"phi3", "phi4", "glm", "glm4", "modernbert"};
  return is_one_of(family, families);
}

std::optional<model_kind> kind_of(const row& source) {
  const std::string_view architecture = source.text("architecture");
  if (architecture == "decoder") return model_kind::decoder;
  if (architecture == "encoder") return model_kind::encoder;
  if (architecture == "encoder_decoder") return model_kind::encoder_decoder;
  if (architecture == "vision") return model_kind::vision;
  return {};
}

void read_stack(const row& source, transformer& model) {
  const std::int64_t layers = source.integer_or("layers", 0);
  model.num_hidden_layers = layers;
  if (model.kind == model_kind::encoder_decoder) {
    model.num_hidden_layers = source.integer_or("encoder_layers", layers);
    model.num_decoder_layers = source.integer_or("decoder_layers", layers);
  }
  model.hidden_size = source.integer_or("hidden_size", 0);
  model.intermediate_size = source.integer_or("intermediate_size", 0);
  model.num_attention_heads = source.integer_or("num_attention_heads", 0);
  model.num_key_value_heads = source.integer_or("num_key_value_heads", 0);
  model.head_dim = source.integer_or("head_dim", 0);
  model.vocab_size = source.integer_or("vocab_size", 0);
}

void read_attention(const row& source, transformer& model) {
  model.mla = {.q_lora_rank = source.integer_or("q_lora_rank", 0),
               .kv_lora_rank = source.integer_or("kv_lora_rank", 0),
               .qk_nope_head_dim = source.integer_or("qk_nope_head_dim", 0),
               .qk_rope_head_dim = source.integer_or("qk_rope_head_dim", 0),
               .v_head_dim = source.integer_or("v_head_dim", 0)};
  model.attention_bias = source.flag("attention_bias");
  model.attention_out_bias = source.flag("attention_out_bias");
  model.fused_qkv = has_fused_qkv(source.text("family"));
  model.parallel_attention = source.flag("parallel_attention");
  model.attention_sinks = source.flag("attention_sinks");
  const std::string_view pattern = source.text("layer_pattern");
  model.sliding_window = source.integer_or("sliding_window", 0);
  if (pattern.starts_with("alternate ")) model.global_layer_step = 2;
  if (pattern.starts_with("3 sliding-window layers, then 1")) model.global_layer_step = 4;
  if (pattern.starts_with("5 sliding-window layers, then 1")) model.global_layer_step = 6;
}

void read_mlp(const row& source, transformer& model) {
  model.gated_mlp = source.flag("gated_mlp");
  model.mlp_bias = source.flag("mlp_bias");
  model.fused_gate_up = has_fused_gate_up(source.text("family"));
  model.moe = {
      .num_experts = source.integer_or("num_experts", 0),
      .num_experts_per_tok = source.integer_or("experts_per_token", 0),
      .moe_intermediate_size = source.integer_or("moe_intermediate_size", 0),
      .shared_expert_intermediate_size = source.integer_or("shared_expert_intermediate_size", 0),
      .shared_expert_gate = source.flag("shared_expert_gate"),
      .router_bias = source.flag("router_bias"),
      .first_k_dense_layers = source.integer_or("first_k_dense_layers", 0)};
  model.mtp_layers = source.integer_or("mtp_layers", 0);
}

void read_norms(const row& source, transformer& model) {
  model.norm = source.text("norm") == "layernorm" ? norm_kind::layer_norm : norm_kind::rms_norm;
  model.norm_bias = source.flag("norm_bias");
  model.norm_affine = source.integer_or("norm_affine", 1) != 0;
  model.final_norm = source.flag("final_norm");
  model.embedding_norm = source.flag("embedding_norm");
  const std::string_view norms = source.text("norms_per_layer");
  model.norms_per_layer =
      norms.starts_with("2 enc") || norms.empty() ? 2 : source.integer_or("norms_per_layer", 2);
  model.norm_at = model.norms_per_layer == 4                     ? norm_position::around
                  : normalises_behind_sublayers(source)          ? norm_position::after_sublayer
                  : model.final_norm || model.parallel_attention ? norm_position::before
                                                                 : norm_position::after_residual;
  if (source.flag("qk_norm"))
    model.qk_norm = source.text("qk_norm_scope") == "full_width" ? qk_norm_scope::full_width
                                                                 : qk_norm_scope::head;
  model.qk_norm_bias = source.flag("qk_norm_bias");
}

void read_ends(const row& source, transformer& model) {
  if (source.flag("learned_positions"))
    model.position_rows =
        source.integer_or("position_rows", source.integer_or("max_position_embeddings", 0));
  model.relative_attention_buckets = source.integer_or("relative_attention_buckets", 0);
  model.type_vocab_size = source.integer_or("token_type_vocab", 0);
  model.embedding_dim = source.integer_or("embedding_dim", 0);
  if (model.embedding_dim == model.hidden_size) model.embedding_dim = 0;
  model.image = {.image_size = source.integer_or("image_size", 0),
                 .patch_size = source.integer_or("patch_size", 0),
                 .patch_bias = source.flag("patch_bias"),
                 .class_tokens = source.integer_or("class_tokens", 0)};
  model.tied_embeddings = source.flag("tied_embeddings");
  model.lm_head_bias = source.flag("lm_head_bias");
  model.pooler = source.flag("pooler");
  model.num_classes = source.integer_or("num_classes", 0);
  model.classifier_bias = model.kind != model_kind::decoder;

  const std::string_view head = source.text("head");
  const bool generates =
      model.kind == model_kind::decoder || model.kind == model_kind::encoder_decoder;
  if (head == "classifier" || (head.empty() && model.num_classes != 0))
    model.head = head_kind::classifier;
  else if (head == "lm" || head == "mlm" ||
           (head.empty() && source.integer_or("has_lm_head", generates ? 1 : 0) != 0))
    model.head = head_kind::language_model;
  else
    model.head = head_kind::none;
}

// What `extra_params_note` describes becomes a part of the model; the integer beside it must cover
// it, and what it counts besides stays a number.
class extras {
 public:
  extras(const row& source, transformer& the_model) : model_(the_model) {
    for (const std::string& clause : split(source.text("extra_params_note"), "; "))
      if (!is_part(clause) && !has_no_matmuls(clause)) unknown_ = clause;
    const std::int64_t all = source.integer_or("extra_params", 0);
    if (all < described_)
      source.fail("extra_params",
                  "is less than what extra_params_note describes: " + std::to_string(all));
    model_.other_parameters = all - described_;
  }

  [[nodiscard]] const std::string& unknown_matmuls() const { return unknown_; }

 private:
  transformer& model_;
  std::int64_t described_ = 0;
  std::string unknown_;

  [[nodiscard]] std::int64_t of_norm(std::int64_t width) const {
    return width * (model_.norm_bias ? 2 : 1);
  }
  void add_dense(std::int64_t out, bool bias, bool norm) {
    model_.head_dense = true;
    model_.head_dense_bias = bias;
    model_.head_norm = norm;
    described_ += model_.hidden_size * out + (bias ? out : 0) + (norm ? of_norm(out) : 0);
  }
  void add_image_tokens(const std::string& clause) {
    std::smatch match;
    if (std::regex_search(clause, match, std::regex(R"((\d{1,9}) register tokens)")))
      model_.image.register_tokens = std::stoll(match[1]);
    model_.image.mask_token = contains(clause, "mask token");
    model_.layer_scale = contains(clause, "layer-scale");
    described_ +=
        model_.hidden_size * (model_.image.register_tokens + (model_.image.mask_token ? 1 : 0) +
                              (model_.layer_scale ? 2 * model_.num_hidden_layers : 0));
  }

  bool is_part(const std::string& clause) {
    const std::int64_t width = model_.hidden_size;
    std::smatch match;
    if (std::regex_search(
            clause,
            match,
            std::regex(R"(^relative attention bias (\d{1,9}) buckets x (\d+ )?heads)"))) {
      model_.relative_attention_buckets = std::stoll(match[1]);
      described_ += model_.relative_attention_buckets * model_.num_attention_heads;
      return true;
    }
    if (clause.starts_with("MLM transform")) {
      add_dense(
          model_.token_width(), !contains(clause, "without bias"), contains(clause, "layer norm"));
      return true;
    }
    if (clause.starts_with("dense h x h")) {
      add_dense(width, !contains(clause, "without bias"), contains(clause, "layer norm"));
      return true;
    }
    if (std::regex_search(
            clause,
            match,
            std::regex(R"(^(visual projection|text projection|text head) \d+ x (\d{1,9}))"))) {
      model_.projection_dim = std::stoll(match[2]);
      model_.projection_bias = contains(clause, "+");
      described_ +=
          width * model_.projection_dim + (model_.projection_bias ? model_.projection_dim : 0);
      return true;
    }
    if (clause.starts_with("embedding projection")) {
      model_.embedding_projection_bias = true;
      described_ += model_.token_width() * width + width;
      return true;
    }
    if (clause.starts_with("attention-pooling head")) {
      model_.attention_pooling = true;
      described_ += 5 * width + 4 * width * width + of_norm(width) +
                    2 * width * model_.intermediate_size + model_.intermediate_size + width;
      return true;
    }
    if (contains(clause, "register tokens") || contains(clause, "mask token") ||
        contains(clause, "layer-scale")) {
      add_image_tokens(clause);
      return true;
    }
    if (clause.starts_with("the classifier reads 2h")) {
      model_.classifier_inputs = 2;
      described_ += width * model_.num_classes;
      return true;
    }
    return false;
  }

  static bool has_no_matmuls(const std::string& clause) {
    constexpr std::array<std::string_view, 7> words{
        "relative attention bias", "norm", "scalar", "logit", "bias of", "table of", "tokens"};
    return std::any_of(
        words.begin(), words.end(), [&](std::string_view word) { return contains(clause, word); });
  }
};

}  // namespace

described_model describe_model(const row& source) {
  described_model described;
  const std::string_view formula = source.text("formula");
  if (formula == "none") {
    described.why_not = "its shape is not published as one a column can hold";
    return described;
  }
  if (source.blank("layers") || source.blank("hidden_size")) {
    described.why_not = formula.empty() ? "layers or hidden_size is blank"
                                        : "not a transformer: " + std::string(formula);
    return described;
  }
  transformer& model = described.shape;
  const auto kind = kind_of(source);
  if (!kind) {
    described.why_not = "architecture '" + std::string(source.text("architecture")) +
                        "' is none of decoder, encoder, encoder_decoder, vision";
    return described;
  }
  model.kind = *kind;
  read_stack(source, model);
  read_attention(source, model);
  read_mlp(source, model);
  read_norms(source, model);
  read_ends(source, model);
  if (const auto valid = validate(model); !valid) {
    described.why_not = gpuplan::failure_text(valid.why()).c_str();
    return described;
  }
  described.unknown_matmuls = extras(source, model).unknown_matmuls();
  if (const auto valid = validate(model); !valid)
    described.why_not = gpuplan::failure_text(valid.why()).c_str();
  return described;
}

std::vector<std::string> parts_of_sum(const row& source) {
  return split(source.text("sum_of"), "+");
}

}  // namespace accuracy
