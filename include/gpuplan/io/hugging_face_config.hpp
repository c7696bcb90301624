#pragma once

// The shape of a model from the config.json that Hugging Face keeps beside its weights. Needs
// nlohmann/json, as json.hpp does.

#include <gpuplan/detail/text.hpp>
#include <gpuplan/io/hugging_face/composites.hpp>
#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/io/hugging_face/type_readers.hpp>
#include <gpuplan/io/json_depth.hpp>
#include <gpuplan/io/json_flaw.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup/description.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// The most bytes of a config.json that are read: a hundred times what one has.
inline constexpr std::size_t most_of_a_config = std::size_t{4} << 20;

/// What a config.json says of a model.
struct hugging_face_config {
  result<transformer> shape = transformer{};  // or the error; its `name` is empty
  std::string reason{};                       // which key is wrong, and how, if one is
  composite_model composite{};  // of several transformers, of which `shape` is the language model
  std::string model_type{};
  std::string architecture{};               // the class, where the file names one
  layer_dropouts dropouts{};                // of the model's own class
  std::vector<std::string> unknown_keys{};  // left out, whatever they mean
};

namespace detail::hugging_face {

// Encoders of images that have no attention.
[[nodiscard]] inline bool is_of_convolutions(std::string_view model_type) {
  for (const char* type :
       {"convnext", "convnextv2", "dinov3_convnext", "efficientnet", "regnet", "resnet"})
    if (model_type == type) return true;
  return false;
}

// Older files have numbers that Python writes and JSON has not, of keys that change no shape: 0 as
// long as they are, so that a complaint finds its column.
[[nodiscard]] inline std::string with_finite_numbers(std::string_view text) {
  std::string made(text);
  bool is_quoted = false;
  for (std::size_t at = 0; at < made.size(); ++at) {
    if (made[at] == '"') is_quoted = !is_quoted;
    if (is_quoted && made[at] == '\\') ++at;
    if (is_quoted) continue;
    for (const std::string_view word : {"Infinity", "NaN"})
      if (text.substr(at, word.size()) == word)
        made.replace(at, word.size(), "0" + std::string(word.size() - 1, ' '));
  }
  return made;
}

inline void read_classes(config_reader& from, transformer& model) {
  model.head = head_kind::classifier;
  const std::int64_t labels = from.entries("id2label");
  model.num_classes = from.integer("num_labels", labels != 0 ? labels : 2);
  model.pooler = false;
}
// Whether a classifier of sequences reads a pooler's result.
[[nodiscard]] inline bool pools_classes(std::string_view model_type) {
  return model_type == "bert" || model_type == "ernie" || model_type == "albert";
}
// The dropout before a classifier, where it has a key of its own.
[[nodiscard]] inline known<double> classifier_dropout(config_reader& from,
                                                      const transformer& model) {
  const bool finds_spans = model.classified == classified_kind::spans;
  for (const char* key : {"classifier_dropout",
                          "classifier_dropout_prob",
                          "final_dropout",
                          finds_spans ? "qa_dropout" : "seq_classif_dropout"})
    if (from.has(key) && (model.classified != classified_kind::tokens || key[0] != 's'))
      return from.largest({key});
  return {};
}

// What layers drop in training. Embeddings drop as layers do; Phi3Model has no such.
[[nodiscard]] inline layer_dropouts read_dropouts(config_reader& from,
                                                  const std::string& model_type,
                                                  const transformer& model) {
  layer_dropouts read{.hidden = from.largest(
                          {model_type == "modernbert" ? "embedding_dropout" : "hidden_dropout_prob",
                           "hidden_dropout",
                           "dropout",
                           "resid_pdrop",
                           "dropout_rate",
                           "residual_dropout"})};
  for (const char* key : {"embd_pdrop", "embedding_dropout"})
    if (model_type != "phi3" && from.has(key) && (from.largest({key}) > 0) != (read.hidden > 0))
      from.wrong(key, read.hidden > 0 ? "above 0, as in layers" : "0, as in layers");
  // T5's classes have one number for all.
  read.attention = from.largest(
      {"attention_probs_dropout_prob", "attention_dropout", "attn_pdrop", "dropout_rate"});
  read.activation = from.largest({"activation_dropout", "mlp_dropout"});
  read.classifier = classifier_dropout(from, model);
  if (model_type == "mpt")  // which knows no other
    read.attention = read.hidden = from.inside("attn_config").largest({"attn_pdrop"});
  return read;
}

// What is behind the layers, as the name of the class says; a file that names none has the head
// of a language model, or none where it is an encoder.
inline void read_head(config_reader& from, const std::string& model_type, transformer& model) {
  const bool is_encoder = model.kind == model_kind::encoder;
  const bool is_vision = model.kind == model_kind::vision;
  const std::string named = from.architecture();
  const std::string name = !named.empty()            ? named
                           : is_encoder || is_vision ? "Model"
                                                     : "ForCausalLM";
  const bool generates = name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel") ||
                         name.ends_with("ForConditionalGeneration") || name.ends_with("MTModel");
  if (generates && !is_encoder) {
    model.head = head_kind::language_model;
  } else if (is_encoder && name.ends_with("ForMaskedLM")) {
    model.head = head_kind::language_model;
    model.head_dense = model.head_norm = true;
    if (model_type != "modernbert") model.lm_head_bias = true;
    // Not tied, they have two of these biases.
    if (model_type != "modernbert" && model_type != "distilbert")
      from.only("tie_word_embeddings", true);
    model.pooler = false;
  } else if (is_encoder && name.ends_with("ForCTC")) {
    model.head = head_kind::classifier;
  } else if (is_encoder && name.ends_with("ForSequenceClassification")) {
    read_classes(from, model);
    model.pooler = pools_classes(model_type);
    model.head_dense = !model.pooler && model.audio.convolutions() == 0;
  } else if (is_encoder && name.ends_with("ForTokenClassification")) {
    read_classes(from, model);
    model.classified = classified_kind::tokens;
  } else if (is_encoder && name.ends_with("ForQuestionAnswering")) {
    read_classes(from, model);
    model.classified = classified_kind::spans;
    if (model.num_classes != 2) from.refuse("id2label", "num_labels must be 2 for spans of tokens");
  } else if (model_type == "electra" && name.ends_with("ForPreTraining")) {
    model.head = head_kind::classifier;
    model.classified = classified_kind::replaced;
    model.num_classes = 1;
    model.head_dense = true;
  } else if (is_vision && name.ends_with("ForImageClassification")) {
    read_classes(from, model);
  } else if (name.ends_with("Model") && !name.ends_with("EncoderModel") &&
             !name.ends_with("ForRewardModel")) {
    model.head = head_kind::none;
  } else {
    from.refuse("architectures", "architectures: this reader does not know " + shortened(name));
  }
}

}  // namespace detail::hugging_face

/// The model types that `read_hugging_face_config` knows, in alphabetical order.
[[nodiscard]] inline std::vector<std::string_view> hugging_face_model_types() {
  std::vector<std::string_view> names;
  for (const auto readers : detail::hugging_face::type_readers)
    for (const auto& each : readers) names.push_back(each.model_type);
  for (const auto& each : detail::hugging_face::composite_readers) names.push_back(each.model_type);
  std::sort(names.begin(), names.end());
  return names;
}

namespace detail::hugging_face {

// What an object says that a config.json is.
[[nodiscard]] inline hugging_face_config configuration_of(json object) {
  hugging_face_config read;
  const auto refuse = [&read](const failure& why, const std::string& reason) {
    read.shape = why;
    read.reason = reason;
    return read;
  };
  if (!object.is_object())
    return refuse(failure(errc::malformed_config), "this is not a JSON object");
  config_reader from(std::move(object));
  read.model_type = from.text("model_type");
  if (read.model_type.empty()) from.refuse("model_type", "config.json has no model_type");
  if (gpuplan::detail::failed(from.why())) return refuse(from.why(), from.reason());
  const auto* const found = reader_of(read.model_type);
  const auto* const of_parts = composite_reader_of(read.model_type);
  if (is_of_convolutions(read.model_type))
    return refuse(failure(errc::unknown_model_type).about(read.model_type.c_str()),
                  "model_type: " + shortened(read.model_type) +
                      " is made of convolutions, and this reader knows transformers alone; of "
                      "encoders of images it knows dinov3_vit, dinov2, swin, vit and others");
  if (found == nullptr && of_parts == nullptr) {
    gpuplan::detail::nearest_name nearest(read.model_type,
                                          gpuplan::detail::plain_name(read.model_type));
    for (const std::string_view name : hugging_face_model_types())
      nearest.offer(name, gpuplan::detail::plain_name(name), name.data());  // a literal
    return refuse(failure(errc::unknown_model_type).about(read.model_type.c_str()),
                  "model_type: this reader does not know " + shortened(read.model_type) +
                      "; of those that it knows, the nearest is " + std::string(nearest.id()));
  }
  take_class_defaults(from, read.model_type);
  transformer shape;
  if (of_parts != nullptr) {
    of_parts->read(from, read.composite);
    shape = read.composite.parts[of_parts->language].model;
    if (from.architecture().ends_with("ForImageClassification")) {
      // the tower of images alone
      shape = read.composite.parts[0].model;
      read.composite = composite_model();
      shape.projection_dim = 0;
      read_head(from, read.model_type, shape);
    }
  } else {
    found->read(from, shape);
    read_activation(from, shape);
    read_head(from, read.model_type, shape);
    if (read.model_type == "modernbert" && shape.head == head_kind::classifier) {
      shape.head_dense = shape.head_norm = true;
      shape.classifier_reads_mean = shape.classified == classified_kind::sequences &&
                                    from.text("classifier_pooling") == "mean";
    }
    // No class of transformers classifies by it; whoever does says how many classes there are.
    if (read.model_type == "dinov3_vit" && (from.has("num_labels") || from.has("id2label")))
      read_classes(from, shape);
  }
  read.dropouts = read_dropouts(from, read.model_type, shape);
  if (of_parts != nullptr)
    for (const char* part : {"vision_config", "text_config"})
      read.dropouts.attention =
          std::max(*read.dropouts.attention, from.inside(part).largest({"attention_dropout"}));
  if (gpuplan::detail::failed(from.why())) return refuse(from.why(), from.reason());
  read.shape = shape;
  read.architecture = from.architecture();
  read.unknown_keys = from.keys_not_asked_for();
  return read;
}

}  // namespace detail::hugging_face

/// The shape that a config.json describes, as transformers 5 builds it: what a file leaves out is
/// the default of its configuration class. Besides, it has what checkpoints hold and transformers
/// does not count: layers of multi-token prediction, and the buffer that is a router's bias.
/// Whether such a model can be is for `validate` of the shape.
/// Layers that a step may leave out (`layerdrop`) are all there; the key is among the unknown ones.
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
  const std::string finite = reading::with_finite_numbers(text);
  auto object = nlohmann::json::parse(finite, nullptr, false);
  if (object.is_discarded())
    return refuse(malformed, "this is not a JSON object: " + flaw_of_json(finite));
  return reading::configuration_of(std::move(object));
}

}  // namespace gpuplan::io
