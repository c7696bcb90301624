#include "steps.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "adapters.hpp"

namespace accuracy {
namespace {

using gpuplan::head_kind;
using gpuplan::model_kind;
using gpuplan::norm_kind;
using gpuplan::norm_position;
using gpuplan::qk_norm_scope;
using gpuplan::transformer;

// The models that the measurements bring along, not those of transformers.
bool is_plain(const row& source) { return source.text("code").starts_with("plain"); }

void read_dimensions(const row& source, transformer& model) {
  model.num_hidden_layers = source.integer_or("layers", 0);
  model.hidden_size = source.integer_or("hidden", 0);
  model.intermediate_size = source.integer_or("ffn", 0);
  model.num_attention_heads = source.integer_or("heads", 0);
  model.num_key_value_heads = source.integer_or("kv_heads", 0);
  model.head_dim = source.integer_or("head_dim", 0);
  model.vocab_size = source.integer_or("vocab", 0);
  model.position_rows = source.integer_or("learned_positions", 0);
  model.tied_embeddings = source.flag("tied_embeddings");
  model.gated_mlp = source.flag("gated_mlp");
  const bool bias = source.flag("linear_bias");
  model.attention_bias = model.attention_out_bias = model.mlp_bias = bias;
  model.norm = source.text("norm") == "layernorm" ? norm_kind::layer_norm : norm_kind::rms_norm;
  model.norm_bias = model.norm == norm_kind::layer_norm && (bias || !is_plain(source));
  if (source.flag("qk_norm")) model.qk_norm = qk_norm_scope::head;
}

// Encoders of BERT's kin normalise sums, and the embedding.
void make_encoder(std::int64_t token_types, transformer& model) {
  model.kind = model_kind::encoder;
  model.norm_at = norm_position::after_residual;
  model.final_norm = false;
  model.embedding_norm = true;
  model.type_vocab_size = token_types;
  model.head = head_kind::none;
}

// BERT's head: a dense layer, a norm, and the token table with a bias of its own.
void add_masked_head(transformer& model) {
  model.head = head_kind::language_model;
  model.head_dense = true;
  model.head_norm = true;
  model.lm_head_bias = true;
}

void add_classifier(std::int64_t classes, transformer& model) {
  model.head = head_kind::classifier;
  model.num_classes = classes;
}

// ViT, and what differs in CLIP and SigLIP.
void make_vision(const row& source, std::string_view name, transformer& model) {
  const bool is_clip = name == "CLIPForImageClassification";
  const bool is_siglip = name == "SiglipForImageClassification";
  model.kind = model_kind::vision;
  model.image = {.image_size = source.integer_or("image_size", 0),
                 .patch_size = source.integer_or("patch_size", 0),
                 .patch_bias = !is_clip,
                 .class_tokens = is_siglip ? 0 : 1};
  model.embedding_norm = is_clip;
  // Of an image too large there is no model, as `validate` will say.
  const std::int64_t patch = model.image.patch_size;
  if (patch > 0 && model.image.image_size / patch < 1'000'000)
    model.position_rows = model.image.tokens();
  model.vocab_size = 0;
  add_classifier(source.integer_or("num_classes", 0), model);
}

// Decoders like LLaMA. False for another class.
bool add_facts_of_decoder(std::string_view name, transformer& model) {
  constexpr std::array<std::string_view, 4> without_more{
      "LlamaForCausalLM", "MistralForCausalLM", "GemmaForCausalLM", "Qwen3ForCausalLM"};
  if (std::find(without_more.begin(), without_more.end(), name) != without_more.end()) {
    if (name == "Qwen3ForCausalLM") model.qk_norm = qk_norm_scope::head;
    return true;
  }
  if (name == "Qwen2ForCausalLM") {
    model.attention_bias = true;
    return true;
  }
  if (name == "Gemma2ForCausalLM" || name == "Gemma3ForCausalLM") {
    model.norm_at = norm_position::around;
    model.norms_per_layer = 4;
    if (name == "Gemma3ForCausalLM") model.qk_norm = qk_norm_scope::head;
    return true;
  }
  if (name == "PhiForCausalLM") {
    model.parallel_attention = true;
    model.norms_per_layer = 1;
    model.lm_head_bias = true;
    model.qk_norm_bias = model.qk_norm != qk_norm_scope::none;
    return true;
  }
  if (name == "Phi3ForCausalLM") {
    model.fused_qkv = true;
    model.fused_gate_up = true;
    return true;
  }
  if (name == "OlmoForCausalLM") {
    model.norm_affine = false;
    model.norm_bias = false;
    return true;
  }
  if (name == "Olmo2ForCausalLM") {
    model.norm_at = norm_position::after_sublayer;
    model.qk_norm = qk_norm_scope::full_width;
    return true;
  }
  return false;
}

// What the classes of transformers hold that no column says. False for one that is not known.
bool add_facts_of_class(const row& source, std::string_view name, transformer& model) {
  if (add_facts_of_decoder(name, model)) return true;
  if (name == "GPT2LMHeadModel") {
    model.fused_qkv = true;
    return true;
  }
  if (name == "OPTForCausalLM") return true;
  if (name == "GPTJForCausalLM") {
    model.attention_bias = model.attention_out_bias = false;
    model.parallel_attention = true;
    model.norms_per_layer = 1;
    model.lm_head_bias = true;
    return true;
  }
  if (name == "GPTNeoXForCausalLM") {
    model.fused_qkv = true;
    model.parallel_attention = true;
    return true;
  }
  if (name == "T5ForConditionalGeneration") {
    model.kind = model_kind::encoder_decoder;
    model.num_decoder_layers = model.num_hidden_layers;
    model.relative_attention_buckets = 32;
    model.tied_embeddings = true;  // whatever the configuration says
    return true;
  }
  if (name == "ViTForImageClassification" || name == "CLIPForImageClassification" ||
      name == "SiglipForImageClassification") {
    make_vision(source, name, model);
    return true;
  }
  const std::int64_t classes = std::max<std::int64_t>(source.integer_or("num_classes", 0), 2);
  if (name.starts_with("Bert")) {
    make_encoder(2, model);
    if (name == "BertForMaskedLM") {
      add_masked_head(model);
      return true;
    }
    if (name == "BertForSequenceClassification") {
      add_classifier(classes, model);
      model.head_dense = true;  // the pooler, which trains with the head here
      return true;
    }
    model.pooler = name == "BertModel";
    return model.pooler;
  }
  if (name.starts_with("Roberta")) {
    make_encoder(1, model);
    if (name == "RobertaForMaskedLM") add_masked_head(model);
    if (name == "RobertaForSequenceClassification") {
      add_classifier(classes, model);
      model.head_dense = true;
    }
    model.pooler = name == "RobertaModel";
    return name == "RobertaForMaskedLM" || name == "RobertaForSequenceClassification" ||
           name == "RobertaModel";
  }
  if (name.starts_with("MPNet")) {
    make_encoder(0, model);
    model.relative_attention_buckets = 32;
    if (name == "MPNetForMaskedLM") add_masked_head(model);
    if (name == "MPNetForSequenceClassification") {
      add_classifier(2, model);
      model.head_dense = true;
    }
    model.pooler = name == "MPNetModel";
    return name == "MPNetForMaskedLM" || name == "MPNetForSequenceClassification" ||
           name == "MPNetModel";
  }
  if (name.starts_with("DistilBert")) {
    make_encoder(0, model);
    if (name == "DistilBertForMaskedLM") add_masked_head(model);
    return name == "DistilBertForMaskedLM" || name == "DistilBertModel";
  }
  return false;
}

std::string read_model(const row& source, described_step& step) {
  transformer& model = step.shape;
  read_dimensions(source, model);
  if (source.integer_or("experts", 0) != 0) return "the columns do not describe its experts";
  const std::string_view code = source.text("code");
  if (code == "plain_gpt") {
    model.fused_qkv = true;
    return {};
  }
  if (code == "plain_llama" || code == "plain_llama_fp32") {
    // A tied head gets rows of its own where it is divided.
    if (model.tied_embeddings && source.text("parallel").starts_with("tp"))
      step.more_parameters = model.vocab_size * model.hidden_size;
    return {};
  }
  if (code == "plain_bert") {
    make_encoder(2, model);
    add_masked_head(model);
    return {};
  }
  if (code == "plain_vit") {
    make_vision(source, code, model);
    return {};
  }
  const std::size_t colon = code.find(':');
  const std::string_view where = code.substr(0, colon);
  if (colon == std::string_view::npos || (where != "hf" && where != "sbert") ||
      !add_facts_of_class(source, code.substr(colon + 1), model))
    return "what a model of code " + std::string(code) + " holds is not known";
  step.pools_in_vain = where == "sbert" && model.pooler;
  // A masked head that is not tied has a bias beside its layer's.
  const bool has_two_biases = code.find("MaskedLM") != std::string_view::npos &&
                              code != "hf:DistilBertForMaskedLM" && !model.tied_embeddings;
  if (has_two_biases) step.more_parameters = model.vocab_size;
  return {};
}

std::string read_trained_part(const row& source, described_step& step) {
  gpuplan::training_pass& pass = step.pass;
  const std::string_view part = source.text("trainable");
  const std::string_view peft = source.text("peft");
  if (peft == "lora" || peft == "dora") {
    if (part != "all") return "adapters in a part of the model";
    const described_adapters adapters = describe_adapters(
        "lora", source.integer_or("lora_rank", 0), source.text("lora_targets"), step.shape);
    pass.trains = adapters.trains;
    pass.trains.adapters.dropout = source.number("lora_dropout").value_or(0);
    pass.trains.adapters.magnitudes = peft == "dora";
    if (source.text("adapter_weights") == "bf16")
      pass.trains.adapters.weights = gpuplan::number_format::bf16;
    return adapters.why_not;
  }
  if (peft != "none" && !peft.empty())
    return "what trains with method " + std::string(peft) + " is not known";
  if (part == "all") return {};
  // The plain models' head is a module that shares the table; one of transformers, where the
  // columns call it tied, stays frozen.
  const bool trains_tied_head = is_plain(source) || !source.flag("tied_embeddings");
  if (part == "head") {
    pass.trains.what = gpuplan::training::head;
    if (step.shape.has_tied_head() && !trains_tied_head)
      return "a tied head alone does not train in this code";
    pass.trains.tied_head = trains_tied_head;
    return {};
  }
  constexpr std::string_view last = "last:";
  if (part.starts_with(last)) {
    pass.trains.what = gpuplan::training::last_layers;
    const std::string_view count = part.substr(last.size());
    const auto [end, error] =
        std::from_chars(count.data(), count.data() + count.size(), pass.trains.last_layers);
    if (error != std::errc{} || end != count.data() + count.size())
      source.fail("trainable", "is not like last:2: " + std::string(part));
    pass.trains.last_layers = std::min(pass.trains.last_layers, step.shape.layers());
    pass.trains.tied_head = trains_tied_head;
    // The measurements find it by one of three names.
    constexpr std::array<std::string_view, 6> with_another_name{
        "hf:Phi", "hf:OPT", "hf:GPTNeoX", "hf:T5", "hf:CLIP", "hf:Siglip"};
    const std::string_view code = source.text("code");
    pass.trains.final_norm =
        code.starts_with("hf:Phi3") ||
        std::none_of(with_another_name.begin(),
                     with_another_name.end(),
                     [&](std::string_view name) { return code.starts_with(name); });
    return {};
  }
  return "what trains of the model, '" + std::string(part) + "', is not known";
}

bool has_output_dropout(const row& source) {
  constexpr std::array<std::string_view, 12> without{"plain_llama",
                                                     "hf:CLIP",
                                                     "hf:Siglip",
                                                     "hf:LlamaForCausalLM",
                                                     "hf:MistralForCausalLM",
                                                     "hf:Qwen2ForCausalLM",
                                                     "hf:Qwen3ForCausalLM",
                                                     "hf:GemmaForCausalLM",
                                                     "hf:Gemma2ForCausalLM",
                                                     "hf:Gemma3ForCausalLM",
                                                     "hf:OlmoForCausalLM",
                                                     "hf:Olmo2ForCausalLM"};
  const std::string_view code = source.text("code");
  return std::none_of(without.begin(), without.end(), [&](std::string_view name) {
    return code.starts_with(name);
  });
}

std::string read_pass(const row& source, described_step& step) {
  gpuplan::training_pass& pass = step.pass;
  const bool is_vision = step.shape.kind == model_kind::vision;
  pass.sequence_length = is_vision ? 0 : source.integer_or("seq_len", 0);
  pass.decoder_sequence_length = source.integer_or("decoder_seq_len", 0);
  pass.recompute_stops_early = true;  // non-reentrant checkpoints
  // Decoders like LLaMA have dropout in attention alone.
  pass.output_dropout = source.number("dropout").value_or(0) > 0 && has_output_dropout(source);
  const std::string_view recompute = source.text("recompute");
  if (recompute == "full")
    pass.recompute = gpuplan::recompute_mode::full;
  else if (recompute == "selective")
    pass.recompute = gpuplan::recompute_mode::selective;
  else if (recompute != "none" && !recompute.empty())
    return "what recomputation '" + std::string(recompute) + "' repeats is not known";
  // Where transformers recomputes, it wants a gradient of the token embedding's output.
  pass.input_requires_grad =
      pass.recompute == gpuplan::recompute_mode::full && !is_plain(source) && !is_vision;
  // PyTorch's `math` is matrix products with a softmax between them, as eager code is.
  const std::string_view attention = source.text("attention");
  pass.fused_attention = attention != "eager" && attention != "math";
  return read_trained_part(source, step);
}

}  // namespace

described_step describe_step(const row& source) {
  described_step step;
  step.why_not = read_model(source, step);
  if (!step.why_not.empty()) return step;
  if (const auto valid = validate(step.shape); !valid) {
    step.why_not = gpuplan::failure_text(valid.why()).c_str();
    return step;
  }
  step.why_not = read_pass(source, step);
  if (!step.why_not.empty()) return step;
  if (const auto valid = validate(step.pass, step.shape); !valid) {
    step.why_not = gpuplan::failure_text(valid.why()).c_str();
    return step;
  }
  const std::int64_t micro_batch = source.integer_or("micro_batch", 1);
  const std::int64_t encodings = source.integer_or("encodings", 1);
  const std::int64_t accumulation = source.integer_or("accumulation", 1);
  constexpr std::int64_t most = 1'000'000;
  for (const std::int64_t count : {micro_batch, encodings, accumulation})
    if (count < 1 || count > most)
      step.why_not = "micro_batch, encodings and accumulation must be from 1 to 1000000";
  if (!step.why_not.empty()) return step;
  step.sequences = micro_batch * encodings * accumulation;
  // Each text's embedding times those of the other encodings.
  if (source.text("loss") == "mnrl")
    step.other_flops_forward =
        2.0 * static_cast<double>(accumulation) * static_cast<double>(micro_batch * micro_batch) *
        static_cast<double>(encodings - 1) * static_cast<double>(step.shape.hidden_size);
  return step;
}

}  // namespace accuracy
