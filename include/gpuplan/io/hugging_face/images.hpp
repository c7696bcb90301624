#pragma once

// Encoders of images in a config.json. Private.

#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/model.hpp>

#include <cstdint>

namespace gpuplan::io::detail::hugging_face {

// ViT's keys.
inline void read_vit(config_reader& from, transformer& model) {
  make_classic(model);
  model.kind = model_kind::vision;
  model.num_hidden_layers = from.integer("num_hidden_layers");
  model.hidden_size = from.integer("hidden_size");
  model.num_attention_heads = from.integer("num_attention_heads");
  model.intermediate_size = from.integer("intermediate_size");
  model.attention_bias = from.flag("qkv_bias", true);
  model.image = {.image_size = from.integer("image_size", 224),
                 .patch_size = from.integer("patch_size", 16),
                 .num_channels = from.integer("num_channels", 3)};
  if (model.image.patch_size < 1) return from.wrong("patch_size", "at least 1");
  if (model.image.image_size / model.image.patch_size < gpuplan::detail::most_patches_of_a_side)
    model.position_rows = model.image.tokens();
  model.pooler = true;
}

inline constexpr type_reader image_readers[] = {{"vit", read_vit}};

}  // namespace gpuplan::io::detail::hugging_face
