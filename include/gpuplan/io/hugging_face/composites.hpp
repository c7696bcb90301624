#pragma once

// Models of several transformers in a config.json, each part a configuration within. Private.

#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/io/hugging_face/openvla.hpp>
#include <gpuplan/io/hugging_face/parts.hpp>
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

// None where the part could not be read.
inline std::int64_t patches_of_a_side(const component& tower) {
  const image_input& image = tower.model.image;
  return image.patch_size < 1 ? 0 : image.image_size / image.patch_size;
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
  // What its class then has is not CLIP's own.
  if (!from.requires_key("vision_config")) return;
  read_part(from, "vision_config", "clip_vision_model", tower);
  read_part(from, "text_config", "llama", language);
  read_features(from, tower, -2);
  from.only("multimodal_projector_bias", true);
  for (const char* key : {"ignore_index", "image_seq_length", "image_token_index", "vocab_size"})
    from.ignore(key);
  language.model.tied_embeddings = from.flag("tie_word_embeddings", false);
  const std::int64_t width = language.model.hidden_size;
  tower.next = {.widths = {tower.model.hidden_size, width, width},
                .tokens = tower.model.image.tokens()};
  tower.next.act = activation_of(from, "projector_hidden_act", activation_function::gelu);
}

inline void read_paligemma(config_reader& from, composite_model& model) {
  component& tower = model.parts[0];
  component& language = model.parts[1];
  // What its class then has is not Gemma's own.
  if (!from.requires_key("text_config") || !from.requires_key("vision_config")) return;
  read_part(from, "vision_config", "siglip_vision_model", tower);
  read_part(from, "text_config", "gemma", language);
  if (tower.model.attention_pooling)
    from.refuse("vision_config", "vision_use_head must be false for this reader, and not absent");
  language.model.tied_embeddings = from.flag("tie_word_embeddings", true);
  if (from.integer("projection_dim", 2048) != language.model.hidden_size)
    from.wrong("projection_dim", "the language model's hidden_size");
  for (const char* key : {"hidden_size", "vocab_size"}) from.ignore(key);
  const std::int64_t vocabulary = language.model.vocab_size;
  if (from.integer("image_token_index", vocabulary - 1) >= vocabulary)
    from.wrong("image_token_index", "less than the vocabulary for this reader");
  tower.next = {.widths = {tower.model.hidden_size, language.model.hidden_size},
                .tokens = tower.model.image.tokens()};
}

inline void read_smolvlm(config_reader& from, composite_model& model) {
  component& tower = model.parts[0];
  component& language = model.parts[1];
  read_part(from, "vision_config", "smolvlm_vision", tower);
  read_part(from, "text_config", "llama", language);
  language.model.tied_embeddings = from.flag("tie_word_embeddings", false);
  for (const char* key : {"image_token_id", "use_cache", "vocab_size", "_pad_token_id"})
    from.ignore(key);
  const std::int64_t joined = from.integer("scale_factor", 2);
  const std::int64_t side = patches_of_a_side(tower);
  if (joined < 1 || joined > side || side % joined != 0)
    return from.wrong("scale_factor", "a divisor of the patches of a side");
  tower.joined_patches = joined * joined;
  model.other_parameters =
      from.multiple("scale_factor",
                    from.multiple("scale_factor", tower.joined_patches, tower.model.hidden_size),
                    language.model.hidden_size);
}

inline void read_internvl(config_reader& from, composite_model& model) {
  component& tower = model.parts[0];
  component& language = model.parts[1];
  read_part(from, "vision_config", "internvl_vision", tower);
  read_part(from, "text_config", "qwen2", language);
  language.model.tied_embeddings = from.flag("tie_word_embeddings", true);
  for (const char* key : {"image_token_id", "image_seq_length"}) from.ignore(key);
  read_features(from, tower, -1);
  if (from.has("vision_feature_select_strategy") && tower.class_token_read)
    from.wrong("vision_feature_select_strategy", "default for this reader");
  tower.class_token_read = false;
  if (tower.unread_layers != 0) from.wrong("vision_feature_layer", "-1 for this reader");
  if (from.has("downsample_ratio") && from.largest({"downsample_ratio"}) != 0.5)
    from.wrong("downsample_ratio", "0.5 for this reader");
  const std::int64_t patches = patches_of_a_side(tower);
  if (patches < 2 || patches % 2 != 0)
    return from.refuse("vision_config", "an image must have an even number of patches a side");
  tower.joined_patches = 4;
  const std::int64_t joined = from.multiple("downsample_ratio", tower.model.hidden_size, 4);
  const std::int64_t width = language.model.hidden_size;
  tower.next = {.widths = {joined, width, width}, .tokens = tower.model.image.patches() / 4};
  tower.next.act = activation_of(from, "projector_hidden_act", activation_function::gelu);
  model.other_parameters = 2 * joined;
}

inline void read_deepseek_vl(config_reader& from, composite_model& model) {
  component& tower = model.parts[0];
  component& language = model.parts[1];
  read_part(from, "vision_config", "siglip_vision_model", tower);
  read_part(from, "text_config", "llama", language);
  language.model.tied_embeddings = from.flag("tie_word_embeddings", true);
  from.ignore("image_token_id");
  const std::int64_t width = language.model.hidden_size;
  tower.next = {.widths = {tower.model.hidden_size, width, width},
                .tokens = tower.model.image.tokens()};
}

inline void read_cohere2_vision(config_reader& from, composite_model& model) {
  component& tower = model.parts[0];
  component& language = model.parts[1];
  // What its class then has is not SigLIP's own.
  if (!from.requires_key("vision_config")) return;
  read_part(from, "vision_config", "siglip_vision_model", tower);
  read_part(from, "text_config", "cohere2", language);
  language.model.tied_embeddings = from.flag("tie_word_embeddings", true);
  from.ignore("image_token_id");
  const std::int64_t factor = from.integer("downsample_factor", 2);
  const std::int64_t side = patches_of_a_side(tower);
  if (factor < 1 || factor > side || side % factor != 0)
    return from.refuse("downsample_factor",
                       "downsample_factor must be a divisor of the patches of a side");
  tower.joined_patches = factor * factor;
  const std::int64_t joined =
      from.multiple("downsample_factor", tower.joined_patches, tower.model.hidden_size);
  const std::int64_t inner = from.integer("alignment_intermediate_size", 36864);
  if (inner < 2 || inner % 2 != 0)
    return from.refuse("alignment_intermediate_size", "alignment_intermediate_size must be even");
  tower.next = {.widths = {joined, inner},
                .tokens = tower.model.image.patches() / tower.joined_patches};
  model.other_parameters =
      from.multiple("alignment_intermediate_size", inner / 2 + 1, language.model.hidden_size);
}

inline void read_gemma3(config_reader& from, composite_model& model) {
  component& tower = model.parts[0];
  component& language = model.parts[1];
  read_part(from, "vision_config", "siglip_vision_model", tower);
  read_part(from, "text_config", "gemma3_text", language);
  language.model.tied_embeddings = from.flag("tie_word_embeddings", true);
  for (const char* key : {"boi_token_index", "eoi_token_index"}) from.ignore(key);
  const std::int64_t vocabulary = language.model.vocab_size;
  if (from.integer("image_token_index", 262144) >= vocabulary)
    return from.refuse("image_token_index",
                       "image_token_index must be less than the vocabulary for this reader");
  const std::int64_t tokens = from.integer("mm_tokens_per_image", 256);
  const std::int64_t side = patches_of_a_side(tower);
  std::int64_t pooled = 1;
  while (pooled < side && pooled * pooled < tokens) ++pooled;
  if (pooled * pooled != tokens || side < 1 || side % pooled != 0)
    return from.refuse(
        "mm_tokens_per_image",
        "mm_tokens_per_image must be a square of a divisor of the patches of a side");
  tower.joined_patches = (side / pooled) * (side / pooled);
  model.other_parameters =
      from.multiple("mm_tokens_per_image", tower.model.hidden_size, language.model.hidden_size + 1);
}

// What Qwen2-VL, Qwen2.5-VL and Qwen3-VL have alike; older files have the language model's keys
// beside vision_config.
inline void read_qwen_vl(config_reader& from,
                         composite_model& model,
                         const char* tower_type,
                         const char* language_type) {
  component& tower = model.parts[0];
  component& language = model.parts[1];
  config_reader seen = from.inside("vision_config");
  const std::int64_t side = seen.integer("spatial_merge_size", 2);
  seen.ignore("model_type");  // older files have the whole model's
  read_as(seen, tower_type, tower);
  const std::int64_t width = tower.model.hidden_size;
  if (side < 1 || side > 64)
    return from.refuse("vision_config", "spatial_merge_size must be from 1 to 64");
  tower.joined_patches = side * side;
  tower.model.image.grid_height = tower.model.image.grid_width = (32 + side - 1) / side * side;
  if (tower.model.image.window_size != 0 &&
      tower.model.image.window_size < side * tower.model.image.patch_size)
    seen.refuse("window_size", "window_size must be at least spatial_merge_size patches");
  const std::int64_t joined = seen.multiple("hidden_size", width, side * side);
  const bool is_inside = from.has("text_config");
  if (is_inside) {
    config_reader inner = from.inside("text_config");
    inner.ignore("model_type");
    read_as(inner, language_type, language);
    inner.ignore("architectures");
    inner.ignore("vision_config");
    from.take(inner, "text_config");
  } else {
    read_as(from, language_type, language);
  }
  const std::int64_t out =
      seen.has("out_hidden_size") ? seen.integer("out_hidden_size") : language.model.hidden_size;
  if (std::string_view(tower_type) != "qwen2_vl_vision" && out != language.model.hidden_size)
    seen.wrong("out_hidden_size", "the language model's hidden_size");
  if (std::string_view(tower_type) == "qwen2_vl_vision" && seen.has("hidden_size") &&
      seen.integer("hidden_size") != language.model.hidden_size)
    seen.wrong("hidden_size", "the language model's");
  from.take(seen, "vision_config");
  language.model.tied_embeddings = from.flag("tie_word_embeddings", language.model.tied_embeddings);
  for (const char* key : {"image_token_id",
                          "video_token_id",
                          "vision_start_token_id",
                          "vision_end_token_id",
                          "vision_token_id"})
    from.ignore(key);
  tower.next = {.widths = {joined, joined, language.model.hidden_size},
                .tokens = tower.model.image.patches() / tower.joined_patches};
  if (tower.model.image.tapped.count > language.model.num_hidden_layers)
    return from.refuse("vision_config",
                       "deepstack_visual_indexes must be at most as many as the language model's "
                       "layers for this reader");
  const std::int64_t of_merger =
      from.multiple("vision_config", joined + 1, joined + language.model.hidden_size);
  model.other_parameters = (tower.model.norm_bias ? 2 : 1) * width +
                           tower.model.image.tapped.count * (2 * joined + of_merger);
}

inline void read_pi0(config_reader& from, composite_model& model) {
  config_reader paired = from.inside("vlm_config");
  read_paligemma(paired, model);
  paired.ignore("model_type");
  from.take(paired, "vlm_config");
  component& expert = model.parts[2];
  read_part(from, "dit_config", "gemma", expert);
  const transformer& language = model.parts[1].model;
  if (expert.model.num_hidden_layers != language.num_hidden_layers ||
      expert.model.key_value_heads() != language.key_value_heads() ||
      expert.model.query_dim() != language.query_dim())
    from.wrong("dit_config", "of as many layers, and of such keys, as those of vlm_config");
  model.actions = {.state_dim = from.integer("max_state_dim", 32),
                   .action_dim = from.integer("max_action_dim", 32),
                   .horizon = from.integer("chunk_size", 50)};
  expert.model.vocab_size = language.vocab_size;  // whatever dit_config says
  expert.sequence_length = model.actions.horizon + 1;
  expert.model.head = head_kind::none;
  model.parts[1].model.head = head_kind::none;
  for (const char* key : {"loss_reduction",
                          "max_period",
                          "min_period",
                          "num_inference_steps",
                          "time_sampling_beta_alpha",
                          "time_sampling_beta_beta",
                          "time_sampling_offset",
                          "time_sampling_scale"})
    from.ignore(key);
  const std::int64_t width = expert.model.hidden_size;
  const action_head& head = model.actions;
  if (!from.is_at_most("dit_config", width) || !from.is_at_most("max_state_dim", head.state_dim) ||
      !from.is_at_most("max_action_dim", head.action_dim))
    return;
  model.other_parameters = (head.state_dim + head.action_dim + 2) * width +
                           (width + 1) * head.action_dim + (2 * width + 1) * width +
                           (width + 1) * width;
}

// What the head of GR00T N1.5 has beside: one linear layer before it, and nothing but it trains.
inline void read_robots(config_reader& from, composite_model& model) {
  component& tower = model.parts[0];
  action_head& head = model.actions;
  head.embodiments = from.integer("embodiments");
  head.encoder_size = from.integer("encoded");
  head.context_layers = from.integer("context_layers");
  head.future_tokens = from.integer("future_tokens");
  head.position_rows = from.integer("positions");
  head.drops = from.largest({"dropout"}) > 0;
  if (from.integer("context_heads") != head.num_attention_heads)
    from.wrong("context_heads", "as many as those of dit");
  const std::int64_t width = model.parts[1].model.hidden_size;
  if (!from.is_at_most("encoded", head.encoder_size) ||
      !from.is_at_most("future_tokens", head.future_tokens) ||
      !from.is_at_most("positions", head.position_rows) ||
      !from.is_at_most("embodiments", head.embodiments, 65'536) ||
      !from.is_at_most("context_layers", head.context_layers, 65'536))
    return;
  tower.next = {.widths = {tower.model.hidden_size, width},
                .tokens = tower.model.image.tokens(),
                .trains = false};
  for (int which = 0; which < 2; ++which)
    model.parts[which].frozen_in_compute_format = from.text("frozen") == "bf16";
  model.other_parameters = head.parameters(width);
}

// A language model's own keys, and beside them `vla_composite`: a tower of SigLIP, the diffusion
// transformer, the widths of states and actions, and which of vision, llm and head train.
inline void read_vision_language_action(config_reader& from, composite_model& model) {
  component& tower = model.parts[0];
  component& language = model.parts[1];
  const std::string named = from.architecture();
  const std::string type = named == "Qwen3Model"   ? "qwen3"
                           : named == "Qwen2Model" ? "qwen2"
                           : named == "LlamaModel" ? "llama"
                                                   : "";
  if (type.empty())
    return from.refuse("architectures",
                       "architectures: this reader does not know " + shortened(named));
  read_as(from, type, language);
  language.model.head = head_kind::none;
  config_reader within = from.inside("vla_composite");
  read_part(within, "vision", "siglip_vision_model", tower);
  tower.model.attention_pooling = false;
  const bool is_of_robots = within.has("embodiments");
  if (is_of_robots != (from.text("model_type") == "gr00t_composite"))
    return from.refuse("vla_composite",
                       is_of_robots
                           ? "vla_composite: embodiments are of model_type gr00t_composite; a "
                             "vla_composite has no such key"
                           : "vla_composite: a gr00t_composite has embodiments, one or more; the "
                             "model_type without them is vla_composite");
  if (is_of_robots && within.integer("embodiments") < 1)
    within.wrong("embodiments", "1 or more in a gr00t_composite");
  if (!is_of_robots && tower.model.image.patch_size != 0 &&
      tower.model.image.image_size / tower.model.image.patch_size % 2 != 0)
    within.wrong("vision", "of an even number of patches a side");
  config_reader diffusion = within.inside("dit");
  model.actions = {.num_hidden_layers = diffusion.integer("layers"),
                   .hidden_size = diffusion.integer("hidden"),
                   .num_attention_heads = diffusion.integer("heads"),
                   .state_dim = within.integer("state_dim"),
                   .action_dim = within.integer("action_dim"),
                   .horizon = within.integer("horizon", 16)};
  // as many parameters as 64 bits count
  const bool is_counted = diffusion.is_at_most("layers", model.actions.num_hidden_layers, 65'536) &&
                          diffusion.is_at_most("hidden", model.actions.hidden_size) &&
                          within.is_at_most("state_dim", model.actions.state_dim) &&
                          within.is_at_most("action_dim", model.actions.action_dim) &&
                          from.is_at_most("hidden_size", language.model.hidden_size);
  within.take(diffusion, "dit");
  if (!is_counted) return from.take(within, "vla_composite");
  bool trains_tower = false;
  bool trains_language = false;
  for (const json& part : within.list("tune")) {
    trains_tower = trains_tower || part == "vision";
    trains_language = trains_language || part == "llm";
  }
  if (!trains_tower) tower.trains.what = training::frozen;
  if (!trains_language) language.trains.what = training::frozen;
  if (is_of_robots) read_robots(within, model);
  from.take(within, "vla_composite");
  if (is_of_robots) return;
  const std::int64_t seen = 4 * tower.model.hidden_size;
  const std::int64_t width = language.model.hidden_size;
  tower.next = {.widths = {seen, width, width}, .tokens = tower.model.image.tokens() / 4};
  model.other_parameters = model.actions.parameters(width) + 2 * seen;
}

inline void read_clip(config_reader& from, composite_model& model) {
  read_part(from, "vision_config", "clip_vision_model", model.parts[0]);
  read_part(from, "text_config", "clip_text_model", model.parts[1]);
  const std::int64_t width = from.integer("projection_dim", 512);
  for (int which = 0; which < 2; ++which) {
    model.parts[which].model.projection_dim = width;
    model.parts[which].model.head = head_kind::none;
  }
  from.ignore("logit_scale_init_value");
  model.other_parameters = 1;
}

inline void read_siglip(config_reader& from, composite_model& model) {
  component& images = model.parts[0];
  component& texts = model.parts[1];
  read_part(from, "vision_config", "siglip_vision_model", images);
  read_part(from, "text_config", "siglip_text_model", texts);
  images.model.head = texts.model.head = head_kind::none;
  if (!images.model.attention_pooling)
    from.refuse("vision_config", "vision_use_head must be true for this reader");
  if (images.model.hidden_size != texts.model.projection_dim)
    from.refuse("text_config", "projection_size must be the hidden_size of vision_config");
  model.other_parameters = 2;
}

inline constexpr composite_reader composite_readers[] = {
    {"clip", read_clip},
    {"cohere2_vision", read_cohere2_vision},
    {"deepseek_vl", read_deepseek_vl},
    {"gemma3", read_gemma3},
    {"internvl", read_internvl},
    {"llava", read_llava},
    {"openvla", read_openvla, 2},
    {"paligemma", read_paligemma},
    {"pi0", read_pi0},
    {"qwen2_vl",
     [](config_reader& from, composite_model& model) {
       read_qwen_vl(from, model, "qwen2_vl_vision", "qwen2_vl_text");
     }},
    {"qwen2_5_vl",
     [](config_reader& from, composite_model& model) {
       read_qwen_vl(from, model, "qwen2_5_vl_vision", "qwen2_5_vl_text");
     }},
    {"qwen3_vl",
     [](config_reader& from, composite_model& model) {
       read_qwen_vl(from, model, "qwen3_vl_vision", "qwen3_vl_text");
     }},
    {"siglip", read_siglip},
    {"smolvlm", read_smolvlm},
    {"idefics3", read_smolvlm},
    {"vla_composite", read_vision_language_action},
    {"gr00t_composite", read_vision_language_action}};

[[nodiscard]] inline const composite_reader* composite_reader_of(std::string_view model_type) {
  for (const composite_reader& each : composite_readers)
    if (each.model_type == model_type) return &each;
  return nullptr;
}

}  // namespace gpuplan::io::detail::hugging_face
