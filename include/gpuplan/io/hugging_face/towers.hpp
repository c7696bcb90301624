#pragma once

// Encoders of images that are parts of larger models, in a config.json. Private.

#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/io/hugging_face/images.hpp>
#include <gpuplan/model.hpp>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gpuplan::io::detail::hugging_face {

inline void read_tower(config_reader& from, transformer& model, std::int64_t patch_size) {
  make_classic(model);
  model.kind = model_kind::vision;
  model.num_hidden_layers = from.integer("num_hidden_layers", 12);
  model.hidden_size = from.integer("hidden_size", 768);
  model.num_attention_heads = from.integer("num_attention_heads", 12);
  model.intermediate_size = from.integer("intermediate_size", 3072);
  model.image = {.image_size = from.integer("image_size", 224),
                 .patch_size = from.integer("patch_size", patch_size),
                 .num_channels = from.integer("num_channels", 3)};
  check_patches(from, model.image);
}

inline void read_clip_tower(config_reader& from, transformer& model) {
  read_tower(from, model, 32);
  model.hidden_act = activation_function::quick_gelu;
  model.image.patch_bias = false;
  model.embedding_norm = true;
  model.position_rows = model.image.tokens();
  from.ignore("projection_dim");  // of the model that pairs it with texts
}

inline void read_siglip_tower(config_reader& from, transformer& model) {
  read_tower(from, model, 16);
  model.hidden_act = activation_function::gelu_tanh;
  model.image.class_tokens = 0;
  model.position_rows = model.image.tokens();
  from.ignore("projection_dim");
  model.attention_pooling = from.flag("vision_use_head", true);
}

inline void read_smolvlm_tower(config_reader& from, transformer& model) {
  read_tower(from, model, 32);
  model.hidden_act = activation_function::gelu_tanh;
  model.image.class_tokens = 0;
  model.position_rows = model.image.tokens();
}

// A side of an image or of a patch, in newer files two sides.
inline std::int64_t read_side(config_reader& from, const char* key, std::int64_t absent) {
  if (!from.has_list(key)) return from.integer(key, absent);
  const std::vector<json> sides = from.list(key);
  if (sides.size() == 2 && sides[0] == sides[1] && sides[0].is_number_unsigned() &&
      sides[0] <= gpuplan::detail::most_of_a_dimension)
    return sides[0].get<std::int64_t>();
  from.wrong(key, "a number, or two that are the same, for this reader");
  return absent;
}

inline void read_internvl_tower(config_reader& from, transformer& model) {
  make_classic(model);
  model.kind = model_kind::vision;
  model.hidden_act = activation_function::gelu;
  model.num_hidden_layers = from.integer("num_hidden_layers", 24);
  model.hidden_size = from.integer("hidden_size", 1024);
  model.num_attention_heads = from.integer("num_attention_heads", 16);
  model.intermediate_size = from.integer("intermediate_size", 4096);
  model.attention_bias = from.flag("attention_bias", false);
  model.image = {.image_size = read_side(from, "image_size", 448),
                 .patch_size = read_side(from, "patch_size", 14),
                 .num_channels = from.integer("num_channels", 3)};
  check_patches(from, model.image);
  model.image.mask_token = from.flag("use_mask_token", false);
  model.position_rows = model.image.tokens();
  model.layer_scale = true;
  model.final_norm = !from.flag("use_mean_pooling", true);
  from.only("use_absolute_position_embeddings", true);
  from.ignore("layer_scale_init_value");
  from.ignore("projection_dropout");
  const bool norms_heads = from.flag("use_qk_norm", false);
  const std::string norm = from.has("norm_type") ? from.text("norm_type") : "layer_norm";
  if (norm == "rms_norm") {
    model.norm = norm_kind::rms_norm;
    model.norm_bias = false;
    if (norms_heads) model.qk_norm = qk_norm_scope::full_width;
    if (model.final_norm) from.wrong("use_mean_pooling", "true beside rms_norm for this reader");
  } else if (norm != "layer_norm") {
    from.wrong("norm_type", "layer_norm or rms_norm");
  } else if (norms_heads) {
    from.wrong("use_qk_norm", "false beside layer_norm for this reader");
  }
}

// Numbers of layers that a key lists.
inline layer_numbers read_layers(config_reader& from,
                                 const char* key,
                                 const transformer& model,
                                 const layer_numbers& absent) {
  if (!from.has(key)) return absent;
  layer_numbers read;
  for (const json& one : from.list(key)) {
    const bool is_layer =
        one.is_number_unsigned() &&
        one.get<std::uint64_t>() < static_cast<std::uint64_t>(model.num_hidden_layers);
    if (!is_layer || read.count == layer_numbers::most || read.has(one.get<std::int64_t>())) {
      from.wrong(key, "at most 16 different layers, counted from 0");
      return {};
    }
    read.of[read.count++] = one.get<std::int64_t>();
  }
  return read;
}

// Without an image of its own: 32 patches of a side, until whoever trains says how many.
inline void read_qwen_vl_tower(config_reader& from,
                               transformer& model,
                               const char* width,
                               std::int64_t patch_size) {
  make_classic(model);
  model.kind = model_kind::vision;
  model.fused_qkv = true;
  model.final_norm = false;
  model.num_hidden_layers = from.integer("depth", 32);
  model.hidden_size = from.integer(width, 1280);
  model.num_attention_heads = from.integer("num_heads", 16);
  const std::int64_t channels = from.integer("in_channels", 3);
  const std::int64_t frames = read_side(from, "temporal_patch_size", 2);
  model.image = {.patch_size = read_side(from, "patch_size", patch_size),
                 .num_channels = from.multiple("in_channels", channels, frames),
                 .patch_bias = false,
                 .class_tokens = 0,
                 .grid_height = 32,
                 .grid_width = 32};
  if (model.image.patch_size < 1) {
    from.wrong("patch_size", "at least 1");
    model.image.patch_size = 1;
  }
  for (const char* key : {"spatial_merge_size", "spatial_patch_size", "tokens_per_second"})
    from.ignore(key);
}
inline void read_qwen2_vl_tower(config_reader& from, transformer& model) {
  read_qwen_vl_tower(from, model, "embed_dim", 14);
  from.ignore("hidden_size");  // of the language model
  model.hidden_act = activation_function::quick_gelu;
  model.intermediate_size = read_mlp_ratio(from, model, 4);
}
inline void read_qwen2_5_vl_tower(config_reader& from, transformer& model) {
  read_qwen_vl_tower(from, model, "hidden_size", 14);
  model.hidden_act = activation_function::silu;
  model.intermediate_size = from.integer("intermediate_size", 3420);
  model.gated_mlp = true;
  model.norm = norm_kind::rms_norm;
  model.norm_bias = false;
  model.image.window_size = from.integer("window_size", 112);
  model.image.whole =
      read_layers(from, "fullatt_block_indexes", model, {.of = {7, 15, 23, 31}, .count = 4});
  from.ignore("out_hidden_size");
}
inline void read_qwen3_vl_tower(config_reader& from, transformer& model) {
  read_qwen_vl_tower(from, model, "hidden_size", 16);
  model.hidden_act = activation_function::gelu_tanh;
  model.intermediate_size = from.integer("intermediate_size", 4304);
  model.image.patch_bias = true;
  model.position_rows = from.integer("num_position_embeddings", 2304);
  if (model.position_rows < 1) from.wrong("num_position_embeddings", "at least 1");
  model.image.tapped =
      read_layers(from, "deepstack_visual_indexes", model, {.of = {8, 16, 24}, .count = 3});
  from.ignore("out_hidden_size");
}

inline void read_clip_texts(config_reader& from, transformer& model) {
  make_classic(model);
  model.num_hidden_layers = from.integer("num_hidden_layers", 12);
  model.hidden_size = from.integer("hidden_size", 512);
  model.num_attention_heads = from.integer("num_attention_heads", 8);
  model.intermediate_size = from.integer("intermediate_size", 2048);
  model.vocab_size = from.integer("vocab_size", 49408);
  model.position_rows = from.integer("max_position_embeddings", 77);
  model.hidden_act = activation_function::quick_gelu;
  from.ignore("projection_dim");
}

inline void read_siglip_texts(config_reader& from, transformer& model) {
  make_classic(model);
  model.kind = model_kind::encoder;
  model.num_hidden_layers = from.integer("num_hidden_layers", 12);
  model.hidden_size = from.integer("hidden_size", 768);
  model.num_attention_heads = from.integer("num_attention_heads", 12);
  model.intermediate_size = from.integer("intermediate_size", 3072);
  model.vocab_size = from.integer("vocab_size", 32000);
  model.position_rows = from.integer("max_position_embeddings", 64);
  model.hidden_act = activation_function::gelu_tanh;
  model.projection_dim = from.integer("projection_size", model.hidden_size);
  model.projection_bias = true;
}

inline constexpr type_reader tower_readers[] = {{"idefics3_vision", read_smolvlm_tower},
                                                {"smolvlm_vision", read_smolvlm_tower},
                                                {"internvl_vision", read_internvl_tower},
                                                {"clip_text_model", read_clip_texts},
                                                {"clip_vision_model", read_clip_tower},
                                                {"siglip_text_model", read_siglip_texts},
                                                {"siglip_vision_model", read_siglip_tower}};

}  // namespace gpuplan::io::detail::hugging_face
