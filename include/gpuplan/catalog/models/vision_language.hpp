#pragma once

// Models that read images and write text: LLaVA, PaliGemma, Gemma 3, Qwen-VL, SmolVLM, InternVL.
// Parts have the names of their classes' types, and stand in the order of their classes.
// Recalled from their config.json, not read; totals are what transformers 5.23 counts in classes
// of these shapes.

#include <gpuplan/catalog/models/gemma.hpp>
#include <gpuplan/catalog/models/llama.hpp>
#include <gpuplan/catalog/models/qwen.hpp>
#include <gpuplan/catalog/models/vision.hpp>
#include <gpuplan/model.hpp>

#include <cstdint>

namespace gpuplan::catalog {
namespace model_data {

/// A language model as the part of this type, with so many rows in its token table.
[[nodiscard]] constexpr component language(const char* type,
                                           transformer model,
                                           std::int64_t rows,
                                           bool tied) {
  model.name = type;
  model.vocab_size = rows;
  model.tied_embeddings = tied;
  return {.model = model};
}

/// LLaVA 1.5 (arXiv 2310.03744): CLIP's patches before its last layer, and two linear layers. The
/// class token is projected too.
[[nodiscard]] constexpr composite_model llava(const char* name, transformer text) {
  transformer images = clip_images(24, 1024, 336, 14);
  images.projection_dim = 0;
  const std::int64_t width = text.hidden_size;
  return {.name = name,
          .parts = {{.model = images,
                     .next = {.widths = {1024, width, width}, .tokens = 577},
                     .unread_layers = 1,
                     .class_token_read = false},
                    language("llama", text, 32064, false)}};
}

/// PaliGemma (arXiv 2407.07726, 2412.03555): SigLIP's patches and one linear layer.
[[nodiscard]] constexpr composite_model paligemma(const char* name,
                                                  const char* type,
                                                  const transformer& text,
                                                  std::int64_t image_size) {
  const transformer images = siglip_images(image_size);
  return {.name = name,
          .parts = {{.model = images,
                     .next = {.widths = {images.hidden_size, text.hidden_size},
                              .tokens = images.image.tokens()}},
                    language(type, text, 257216, true)}};
}

/// Gemma 3 (arXiv 2503.19786): means of 16 patches each, a norm and one matrix, which no field
/// describes.
[[nodiscard]] constexpr composite_model gemma_3(const char* name, const transformer& text) {
  const transformer images = siglip_images(896);
  return {.name = name,
          .parts = {{.model = images, .joined_patches = 16},
                    language("gemma3_text", text, text.vocab_size, true)},
          .other_parameters = images.hidden_size * (text.hidden_size + 1)};
}

/// The tower of Qwen2.5-VL (arXiv 2502.13923): windows, but in four layers. Images have 32 patches
/// of a side, as where a file names none; what is above each other is of two moments.
[[nodiscard]] constexpr transformer qwen2_5_vl_images(std::int64_t inner) {
  return {
      .name = "qwen2_5_vl_vision",
      .kind = model_kind::vision,
      .num_hidden_layers = 32,
      .hidden_size = 1280,
      .intermediate_size = inner,
      .num_attention_heads = 16,
      .attention_bias = true,
      .attention_out_bias = true,
      .fused_qkv = true,
      .mlp_bias = true,
      .final_norm = false,
      .image = {.patch_size = 14,
                .num_channels = 6,
                .patch_bias = false,
                .class_tokens = 0,
                .grid_height = 32,
                .grid_width = 32,
                .window_size = 112,
                .whole = {.of = {7, 15, 23, 31}, .count = 4}},
      .head = head_kind::none,
  };
}
/// That of Qwen2-VL (arXiv 2409.12191).
inline constexpr transformer qwen2_vl_images = [] {
  transformer model = classic(qwen2_5_vl_images(5120));
  model.name = "qwen2_vl_vision";
  model.hidden_act = activation_function::quick_gelu;
  model.image.window_size = 0;
  model.image.whole = {};
  return model;
}();
/// That of Qwen3-VL (arXiv 2511.21631): of three layers the results are read by the language model
/// too.
[[nodiscard]] constexpr transformer qwen3_vl_images(std::int64_t layers,
                                                    std::int64_t width,
                                                    std::int64_t inner,
                                                    layer_numbers tapped) {
  transformer model = classic(qwen2_5_vl_images(inner));
  model.name = "qwen3_vl_vision";
  model.num_hidden_layers = layers;
  model.hidden_size = width;
  model.hidden_act = activation_function::gelu_tanh;
  model.position_rows = 2304;
  model.image.patch_size = 16;
  model.image.patch_bias = true;
  model.image.window_size = 0;
  model.image.whole = {};
  model.image.tapped = tapped;
  return model;
}

/// Four patches joined, a norm, which no field describes, and two linear layers; as many for each
/// layer that is tapped.
[[nodiscard]] constexpr composite_model qwen_vl(const char* name,
                                                const transformer& images,
                                                const char* type,
                                                const transformer& text) {
  const std::int64_t joined = 4 * images.hidden_size;
  const std::int64_t width = text.hidden_size;
  const std::int64_t of_tap = 2 * joined + (joined + 1) * (joined + width);
  return {.name = name,
          .parts = {{.model = images,
                     .next = {.widths = {joined, joined, width}, .tokens = 256},
                     .joined_patches = 4},
                    language(type, text, text.vocab_size, text.tied_embeddings)},
          .other_parameters =
              (images.norm_bias ? 2 : 1) * images.hidden_size + images.image.tapped.count * of_tap};
}

/// SmolVLM (arXiv 2504.05299) and Idefics3 (2408.12637): joined patches and one matrix, which no
/// field describes.
[[nodiscard]] constexpr composite_model smolvlm(const char* name,
                                                transformer images,
                                                std::int64_t joined_patches,
                                                const transformer& text,
                                                std::int64_t rows) {
  images.name = "smolvlm_vision";
  return {.name = name,
          .parts = {{.model = images, .joined_patches = joined_patches},
                    language("llama", text, rows, false)},
          .other_parameters = joined_patches * images.hidden_size * text.hidden_size};
}
inline constexpr transformer smolvlm_images = [] {
  transformer model = siglip_base_patch16_224.parts[1].model;
  model.attention_pooling = false;
  model.image.image_size = 512;
  model.position_rows = 1024;
  return model;
}();

/// InternVL3 (arXiv 2504.10479): InternViT's patches, four joined, a norm, which no field
/// describes, and two linear layers.
[[nodiscard]] constexpr composite_model internvl_3(const char* name, const transformer& text) {
  const std::int64_t width = text.hidden_size;
  const transformer images = classic({
      .name = "internvl_vision",
      .kind = model_kind::vision,
      .num_hidden_layers = 24,
      .hidden_size = 1024,
      .intermediate_size = 4096,
      .num_attention_heads = 16,
      .final_norm = false,
      .layer_scale = true,
      .position_rows = 1025,
      .image = {.image_size = 448, .patch_size = 14},
      .head = head_kind::none,
  });
  return {.name = name,
          .parts = {{.model = images,
                     .next = {.widths = {4096, width, width}, .tokens = 256},
                     .class_token_read = false,
                     .joined_patches = 4},
                    language("qwen2", text, 151674, false)},
          .other_parameters = 2 * 4096};
}

}  // namespace model_data

inline constexpr composite_model llava_1_5_7b = model_data::llava("llava-1.5-7b", llama_2_7b);
inline constexpr composite_model llava_1_5_13b = model_data::llava("llava-1.5-13b", llama_2_13b);

inline constexpr composite_model paligemma_3b_pt_224 =
    model_data::paligemma("paligemma-3b-pt-224", "gemma", gemma_2b, 224);
inline constexpr composite_model paligemma_3b_pt_448 =
    model_data::paligemma("paligemma-3b-pt-448", "gemma", gemma_2b, 448);
inline constexpr composite_model paligemma2_3b_pt_224 =
    model_data::paligemma("paligemma2-3b-pt-224", "gemma2", gemma_2_2b, 224);

inline constexpr composite_model gemma_3_4b_it =
    model_data::gemma_3("gemma-3-4b-it", gemma_3_4b_text);
inline constexpr composite_model gemma_3_12b_it =
    model_data::gemma_3("gemma-3-12b-it", gemma_3_12b_text);
inline constexpr composite_model gemma_3_27b_it =
    model_data::gemma_3("gemma-3-27b-it", gemma_3_27b_text);

inline constexpr composite_model qwen2_vl_2b =
    model_data::qwen_vl("qwen2-vl-2b", model_data::qwen2_vl_images, "qwen2_vl_text", qwen2_1_5b);
inline constexpr composite_model qwen2_vl_7b =
    model_data::qwen_vl("qwen2-vl-7b", model_data::qwen2_vl_images, "qwen2_vl_text", qwen2_7b);
inline constexpr composite_model qwen2_vl_72b =
    model_data::qwen_vl("qwen2-vl-72b", model_data::qwen2_vl_images, "qwen2_vl_text", qwen2_72b);

inline constexpr composite_model qwen2_5_vl_3b = model_data::qwen_vl(
    "qwen2.5-vl-3b", model_data::qwen2_5_vl_images(3420), "qwen2_5_vl_text", qwen2_5_3b);
inline constexpr composite_model qwen2_5_vl_7b = model_data::qwen_vl(
    "qwen2.5-vl-7b", model_data::qwen2_5_vl_images(3420), "qwen2_5_vl_text", qwen2_5_7b);
inline constexpr composite_model qwen2_5_vl_32b = model_data::qwen_vl(
    "qwen2.5-vl-32b", model_data::qwen2_5_vl_images(3456), "qwen2_5_vl_text", qwen2_5_32b);
inline constexpr composite_model qwen2_5_vl_72b = model_data::qwen_vl(
    "qwen2.5-vl-72b", model_data::qwen2_5_vl_images(3456), "qwen2_5_vl_text", qwen2_5_72b);

namespace model_data {
inline constexpr transformer small_qwen3_vl_images =
    qwen3_vl_images(24, 1024, 4096, {.of = {5, 11, 17}, .count = 3});
inline constexpr transformer large_qwen3_vl_images =
    qwen3_vl_images(27, 1152, 4304, {.of = {8, 16, 24}, .count = 3});
}  // namespace model_data

inline constexpr composite_model qwen3_vl_2b = model_data::qwen_vl(
    "qwen3-vl-2b", model_data::small_qwen3_vl_images, "qwen3_vl_text", qwen3_1_7b);
inline constexpr composite_model qwen3_vl_4b = model_data::qwen_vl(
    "qwen3-vl-4b", model_data::small_qwen3_vl_images, "qwen3_vl_text", qwen3_4b);
inline constexpr composite_model qwen3_vl_8b = model_data::qwen_vl(
    "qwen3-vl-8b", model_data::large_qwen3_vl_images, "qwen3_vl_text", qwen3_8b);
inline constexpr composite_model qwen3_vl_32b = model_data::qwen_vl(
    "qwen3-vl-32b", model_data::large_qwen3_vl_images, "qwen3_vl_text", qwen3_32b);

inline constexpr composite_model smolvlm_256m =
    model_data::smolvlm("smolvlm-256m", model_data::smolvlm_images, 16, smollm2_135m, 49280);
inline constexpr composite_model smolvlm_500m =
    model_data::smolvlm("smolvlm-500m", model_data::smolvlm_images, 16, smollm2_360m, 49280);
inline constexpr composite_model smolvlm2_2_2b =
    model_data::smolvlm("smolvlm2-2.2b", model_data::siglip_images(384), 9, smollm2_1_7b, 49280);
inline constexpr composite_model idefics3_8b_llama3 = model_data::smolvlm(
    "idefics3-8b-llama3", model_data::siglip_images(364), 4, llama_3_1_8b, 128259);

inline constexpr composite_model internvl3_1b =
    model_data::internvl_3("internvl3-1b", qwen2_5_0_5b);
inline constexpr composite_model internvl3_2b =
    model_data::internvl_3("internvl3-2b", qwen2_5_1_5b);
inline constexpr composite_model internvl3_8b = model_data::internvl_3("internvl3-8b", qwen2_5_7b);

}  // namespace gpuplan::catalog
