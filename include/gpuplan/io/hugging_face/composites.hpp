#pragma once

// Models of several transformers in a config.json, each part a configuration within. Private.

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/io/hugging_face/type_readers.hpp>
#include <gpuplan/model.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuplan::io::detail::hugging_face {

/// Reads a model of several parts; the one that `language` numbers is that whose tokens count.
struct composite_reader {
  std::string_view model_type;
  void (*read)(config_reader& from, composite_model& model);
  int language = 1;
};

// A part of this type, or of that which the configuration within names.
inline void read_part(config_reader& from,
                      const char* key,
                      const char* absent_type,
                      component& part) {
  config_reader inner = from.inside(key);
  std::string type = inner.text("model_type");
  if (type.empty()) type = absent_type;
  const type_reader* const reader = reader_of(type);
  const catalog::listed_framework* const by = catalog::listed_implementation_of(type);
  if (reader == nullptr || by == nullptr)
    return from.refuse(key,
                       std::string(key) + ": this reader does not know " + shortened(type) +
                           " as a part of a model");
  reader->read(inner, part.model);
  read_activation(inner, part.model);
  part.model.head =
      part.model.kind == model_kind::vision ? head_kind::none : head_kind::language_model;
  part.by = &by->software->implementation;
  from.take(inner, key);
}

// vision_feature_layer and vision_feature_select_strategy.
inline void read_features(config_reader& from, component& tower, std::int64_t absent_layer) {
  std::int64_t layer = absent_layer;
  if (from.has("vision_feature_layer")) layer = from.signed_integer("vision_feature_layer");
  const std::int64_t layers = tower.model.num_hidden_layers;
  tower.unread_layers = layer < 0 ? -1 - layer : layers - layer;
  if (tower.unread_layers < 0 || tower.unread_layers > layers)
    return from.wrong("vision_feature_layer", "one of the layers");
  const std::string strategy = from.text("vision_feature_select_strategy");
  tower.class_token_read = strategy == "full";
}

inline void read_llava(config_reader& from, composite_model& model) {
  component& tower = model.parts[0];
  component& language = model.parts[1];
  read_part(from, "vision_config", "clip_vision_model", tower);
  read_part(from, "text_config", "llama", language);
  read_features(from, tower, -2);
  from.only("multimodal_projector_bias", true);
  from.ignore("image_seq_length");
  from.ignore("image_token_index");
  language.model.tied_embeddings = from.flag("tie_word_embeddings", false);
  const std::int64_t width = language.model.hidden_size;
  tower.next = {.widths = {tower.model.hidden_size, width, width},
                .tokens = tower.model.image.tokens()};
  tower.next.act = activation_of(from, "projector_hidden_act", activation_function::gelu);
}

inline constexpr composite_reader composite_readers[] = {{"llava", read_llava}};

[[nodiscard]] inline const composite_reader* composite_reader_of(std::string_view model_type) {
  for (const composite_reader& each : composite_readers)
    if (each.model_type == model_type) return &each;
  return nullptr;
}

}  // namespace gpuplan::io::detail::hugging_face
