#pragma once

// OpenVLA's configuration: towers by the names that timm has for them, and a LLaMA. Private.

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models/vla.hpp>
#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/io/hugging_face/parts.hpp>
#include <gpuplan/model.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::io::detail::hugging_face {

// What timm's names stand for; the image's size is the file's.
struct timm_tower {
  std::string_view id;
  const transformer* model;
};
inline constexpr timm_tower timm_towers[] = {
    {"vit_large_patch14_reg4_dinov2", &catalog::openvla_7b.parts[0].model},
    {"vit_so400m_patch14_siglip", &catalog::openvla_7b.parts[1].model}};

inline void read_timm_tower(config_reader& from, std::size_t which, component& tower) {
  const std::vector<json> ids = from.list("timm_model_ids");
  const std::vector<json> sizes = from.list("image_sizes");
  const bool is_there = which < ids.size() && ids[which].is_string() && which < sizes.size() &&
                        sizes[which].is_number_integer();
  if (!is_there)
    return from.refuse("timm_model_ids", "timm_model_ids and image_sizes must be of two towers");
  const auto id = ids[which].get<std::string>();
  const auto size = sizes[which].get<std::int64_t>();
  for (const timm_tower& known : timm_towers) {
    if (!id.starts_with(known.id)) continue;
    tower = catalog::openvla_7b.parts[&known - timm_towers];
    image_input& image = tower.model.image;
    if (size < image.patch_size || size > 4096)
      return from.refuse("image_sizes", "image_sizes must be from 14 to 4096 pixels");
    image.image_size = size;
    tower.model.position_rows = image.patches();
    tower.by = &catalog::timm_tower.implementation;
    return;
  }
  from.refuse("timm_model_ids",
              "timm_model_ids: this reader does not know " + shortened(id) +
                  " as a tower; it knows vit_large_patch14_reg4_dinov2 and "
                  "vit_so400m_patch14_siglip");
}

inline void read_openvla(config_reader& from, composite_model& model) {
  component& language = model.parts[2];
  for (std::size_t which = 0; which < 2; ++which) read_timm_tower(from, which, model.parts[which]);
  if (gpuplan::detail::failed(from.why())) return;
  read_part(from, "text_config", "llama", language);
  from.only("use_fused_vision_backbone", true);
  for (const char* key : {"arch_specifier",
                          "hf_llm_id",
                          "image_resize_strategy",
                          "llm_backbone_id",
                          "llm_max_length",
                          "n_action_bins",
                          "norm_stats",
                          "output_projector_states",
                          "pad_to_multiple_of",
                          "timm_override_act_layers",
                          "vision_backbone_id"})
    from.ignore(key);
  const image_input& image = model.parts[0].model.image;
  if (image.patches() != model.parts[1].model.image.patches())
    return from.refuse("image_sizes", "image_sizes must be alike for both towers");
  const std::int64_t seen = model.parts[0].model.hidden_size + model.parts[1].model.hidden_size;
  const std::int64_t width = language.model.hidden_size;
  model.parts[0].next = {};
  model.parts[1].next = {.widths = {seen, 4 * seen, width, width}, .tokens = image.patches()};
}

}  // namespace gpuplan::io::detail::hugging_face
