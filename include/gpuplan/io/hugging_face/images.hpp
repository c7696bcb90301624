#pragma once

// Encoders of images in a config.json. Private.

#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/model.hpp>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace gpuplan::io::detail::hugging_face {

// Leaves an image that others can count with, whatever the file says.
inline void check_patches(config_reader& from, image_input& image) {
  if (image.patch_size < 1)
    from.wrong("patch_size", "at least 1");
  else if (image.image_size / image.patch_size >= gpuplan::detail::most_patches_of_a_side)
    from.wrong("image_size", "fewer than 2^16 patches");
  else
    return;
  image.image_size = image.patch_size = 1;
}

// A layer's width, and the image.
inline void read_patches(config_reader& from, transformer& model, std::int64_t patch_size) {
  make_classic(model);
  model.kind = model_kind::vision;
  model.num_hidden_layers = from.integer("num_hidden_layers");
  model.hidden_size = from.integer("hidden_size");
  model.num_attention_heads = from.integer("num_attention_heads");
  model.attention_bias = from.flag("qkv_bias", true);
  model.image = {.image_size = from.integer("image_size", 224),
                 .patch_size = from.integer("patch_size", patch_size),
                 .num_channels = from.integer("num_channels", 3)};
  check_patches(from, model.image);
  model.position_rows = model.image.tokens();
  model.image.drop_path = from.largest({"drop_path_rate"}) > 0;
}

// ViT's keys.
inline void read_vit(config_reader& from, transformer& model) {
  read_patches(from, model, 16);
  model.intermediate_size = from.integer("intermediate_size");
  model.pooler = true;
  if (from.integer("pooler_output_size", model.hidden_size) != model.hidden_size)
    from.wrong("pooler_output_size", "hidden_size for this reader");
}

// The width of an MLP, int(times * hidden_size).
inline std::int64_t read_mlp_ratio(config_reader& from, const transformer& model, double absent) {
  const double times = from.has("mlp_ratio") ? from.largest({"mlp_ratio"}) : absent;
  const double width = times * static_cast<double>(model.hidden_size);
  if (width >= 1 && width <= static_cast<double>(gpuplan::detail::most_of_a_dimension))
    return static_cast<std::int64_t>(width);
  from.wrong("mlp_ratio", "a factor of hidden_size");
  return 1;
}

inline void read_dinov2(config_reader& from, transformer& model) {
  read_patches(from, model, 14);
  model.intermediate_size = read_mlp_ratio(from, model, 4);
  if (from.flag("use_swiglu_ffn", false)) {
    model.gated_mlp = true;
    model.intermediate_size = (model.intermediate_size * 2 / 3 + 7) / 8 * 8;
  }
  model.layer_scale = true;
  model.image.mask_token = from.flag("use_mask_token", true);
  model.classifier_inputs = 2;
}

// Rotary positions of patches in place of a table.
inline void read_dinov3(config_reader& from, transformer& model) {
  read_patches(from, model, 16);
  model.position_rows = 0;
  model.intermediate_size = from.integer("intermediate_size");
  model.image.register_tokens = from.integer("num_register_tokens", 0);
  model.image.mask_token = true;
  model.layer_scale = true;
  model.gated_mlp = from.flag("use_gated_mlp", false);
  model.mlp_bias = from.flag("mlp_bias", true);
  model.attention_out_bias = from.flag("proj_bias", true);
  model.attention_bias = from.flag("query_bias", true);
  model.key_bias = from.flag("key_bias", false);
  if (from.flag("value_bias", true) != model.attention_bias)
    from.wrong("value_bias", "as query_bias for this reader");
  if (model.key_bias && !model.attention_bias)
    from.wrong("key_bias", "false without query_bias for this reader");
  model.key_bias = model.key_bias || !model.attention_bias;
  for (const char* key : {"pos_embed_shift", "pos_embed_jitter", "pos_embed_rescale"})
    from.ignore(key);
}

// Numbers of stages: a list, as long as another.
inline std::size_t read_stages(config_reader& from,
                               const char* key,
                               std::int64_t (&into)[image_stages::most],
                               std::size_t wanted = 0) {
  if (!from.requires_key(key)) return 0;
  const std::vector<json> numbers = from.list(key);
  bool are_whole = !numbers.empty() && numbers.size() <= image_stages::most;
  for (const json& one : numbers) are_whole = are_whole && one.is_number_unsigned();
  if (!are_whole || (wanted != 0 && numbers.size() != wanted)) {
    from.wrong(key, "a whole number for each of at most six stages");
    return 0;
  }
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    const auto number = numbers[at].get<std::uint64_t>();
    if (number < 1 || number > std::uint64_t{gpuplan::detail::most_of_a_dimension} >> 16)
      from.wrong(key, "whole numbers from 1 to 2^24");
    else
      into[at] = static_cast<std::int64_t>(number);
  }
  return numbers.size();
}

inline void read_swin(config_reader& from, transformer& model) {
  make_classic(model);
  model.kind = model_kind::vision;
  image_stages& stages = model.stages;
  from.ignore("hidden_size");  // the last stage's
  from.ignore("num_layers");   // of stages
  const std::size_t count = read_stages(from, "depths", stages.depths);
  read_stages(from, "num_heads", stages.heads, count);
  stages.window_size = from.integer("window_size", 7);
  model.hidden_size = from.integer("embed_dim", 96);
  model.image = {.image_size = from.integer("image_size", 224),
                 .patch_size = from.integer("patch_size", 4),
                 .num_channels = from.integer("num_channels", 3),
                 .class_tokens = 0};
  check_patches(from, model.image);
  for (std::size_t at = 0; at < count; ++at) {
    if (at != 0) model.hidden_size = from.multiple("embed_dim", model.hidden_size, 2);
    stages.widths[at] = model.hidden_size;
    stages.inner[at] = model.intermediate_size = read_mlp_ratio(from, model, 4);
    model.num_attention_heads = stages.heads[at];
    model.num_hidden_layers += stages.depths[at];
  }
  model.embedding_norm = true;
  if (from.flag("use_absolute_embeddings", false)) model.position_rows = model.image.patches();
  model.attention_bias = from.flag("qkv_bias", true);
  const double drop_path = from.has("drop_path_rate") ? from.largest({"drop_path_rate"}) : 0.1;
  model.image.drop_path = drop_path > 0;
}

inline constexpr type_reader image_readers[] = {
    {"deit",
     [](config_reader& from, transformer& model) {
       read_vit(from, model);
       model.image.register_tokens = 1;  // of distillation
       model.position_rows = model.image.tokens();
     }},
    {"dinov2", read_dinov2},
    {"dinov2_with_registers",
     [](config_reader& from, transformer& model) {
       read_dinov2(from, model);
       model.image.register_tokens = from.integer("num_register_tokens", 4);
     }},
    {"dinov3_vit", read_dinov3},
    {"ijepa",
     [](config_reader& from, transformer& model) {
       read_vit(from, model);
       model.image.class_tokens = 0;
       model.position_rows = model.image.patches();
     }},
    {"swin", read_swin},
    {"vit", read_vit},
    {"vit_msn", read_vit},
};

}  // namespace gpuplan::io::detail::hugging_face
