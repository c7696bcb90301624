#pragma once

// A configuration within another: a part of a model of several. Private.

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/io/hugging_face/type_readers.hpp>
#include <gpuplan/model.hpp>

#include <string>
#include <string_view>

namespace gpuplan::io::detail::hugging_face {

// What a model has as a part alone.
inline constexpr type_reader part_readers[] = {
    {"qwen2_vl_vision", read_qwen2_vl_tower},
    {"qwen2_5_vl_vision", read_qwen2_5_vl_tower},
    {"qwen3_vl_vision", read_qwen3_vl_tower},
    {"qwen2_vl_text", read_qwen2},
    {"qwen2_5_vl_text", read_qwen2},
    {"qwen3_vl_text", [](config_reader& from, transformer& model) {
       model.head_dim = 128;
       read_qwen3(from, model);
     }}};
[[nodiscard]] inline const type_reader* part_reader_of(std::string_view model_type) {
  for (const type_reader& each : part_readers)
    if (each.model_type == model_type) return &each;
  return reader_of(model_type);
}

// A configuration of this type as a part.
inline void read_as(config_reader& from, const std::string& type, component& part) {
  const type_reader* const reader = part_reader_of(type);
  const catalog::listed_framework* const by = catalog::listed_implementation_of(type);
  if (reader == nullptr || by == nullptr)
    return from.refuse("model_type",
                       "this reader does not know " + shortened(type) + " as a part of a model");
  take_class_defaults(from, type);
  reader->read(from, part.model);
  read_activation(from, part.model);
  part.model.head =
      part.model.kind == model_kind::vision ? head_kind::none : head_kind::language_model;
  part.by = &by->software->implementation;
}

// A part of this type, or of that which the configuration within names.
inline void read_part(config_reader& from,
                      const char* key,
                      const char* absent_type,
                      component& part) {
  config_reader inner = from.inside(key);
  std::string type = inner.text("model_type");
  if (type.empty()) type = absent_type;
  read_as(inner, type, part);
  for (const char* of_whole : {"architectures", "is_causal", "num_image_tokens"})
    inner.ignore(of_whole);
  if (part.model.kind == model_kind::vision)  // LLaVA's files have those of CLIP's texts
    for (const char* of_pair : {"projection_dim", "vocab_size"}) inner.ignore(of_pair);
  const bool sees = std::string_view(key).starts_with("vision");
  if (sees && part.model.kind != model_kind::vision) {
    inner.refuse("model_type", "model_type must be an encoder of images, not " + shortened(type));
    part.model.image.image_size = part.model.image.patch_size = 1;  // others count with these
  }
  from.take(inner, key);
}

}  // namespace gpuplan::io::detail::hugging_face
