#pragma once

// Encoders of images, and pairs of them with encoders of text: ViT, DINOv2, DINOv3, Swin, CLIP,
// SigLIP.

#include <gpuplan/catalog/models/classic.hpp>
#include <gpuplan/model.hpp>

#include <cstdint>

namespace gpuplan::catalog {

// ViT (arXiv 2010.11929) with 1000 classes: pytorch/vision
// torchvision/models/vision_transformer.py.

inline constexpr transformer vit_base_patch16_224 = classic({
    .name = "vit-base-patch16-224",
    .kind = model_kind::vision,
    .num_hidden_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .position_rows = 197,
    .image = {.image_size = 224, .patch_size = 16},
    .head = head_kind::classifier,
    .num_classes = 1000,
});

inline constexpr transformer vit_large_patch16_224 = classic({
    .name = "vit-large-patch16-224",
    .kind = model_kind::vision,
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .position_rows = 197,
    .image = {.image_size = 224, .patch_size = 16},
    .head = head_kind::classifier,
    .num_classes = 1000,
});

inline constexpr transformer vit_huge_patch14_224 = classic({
    .name = "vit-huge-patch14-224",
    .kind = model_kind::vision,
    .num_hidden_layers = 32,
    .hidden_size = 1280,
    .intermediate_size = 5120,
    .num_attention_heads = 16,
    .position_rows = 257,
    .image = {.image_size = 224, .patch_size = 14},
    .head = head_kind::classifier,
    .num_classes = 1000,
});

inline constexpr transformer vit_huge_patch14_518 = classic({
    .name = "vit-huge-patch14-518",
    .kind = model_kind::vision,
    .num_hidden_layers = 32,
    .hidden_size = 1280,
    .intermediate_size = 5120,
    .num_attention_heads = 16,
    .position_rows = 1370,
    .image = {.image_size = 518, .patch_size = 14},
    .head = head_kind::classifier,
    .num_classes = 1000,
});

// DINOv2 (arXiv 2304.07193) with registers (2309.16588) as timm's vit_large_patch14_reg4_dinov2 at
// 224 pixels: no positions for the class and register tokens. Recalled, not read; the total of
// OpenVLA agrees.
inline constexpr transformer dinov2_large_reg4_224 = classic({
    .name = "dinov2-large-reg4-224",
    .kind = model_kind::vision,
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .fused_qkv = true,
    .layer_scale = true,
    .position_rows = 256,
    .image = {.image_size = 224, .patch_size = 14, .register_tokens = 4},
    .head = head_kind::none,
});

/// DINOv2 as transformers has it, with one linear layer of 1000 classes, which reads the class
/// token and the mean of the patches.
[[nodiscard]] constexpr transformer dinov2(const char* name,
                                           std::int64_t layers,
                                           std::int64_t width,
                                           std::int64_t heads) {
  return classic({
      .name = name,
      .kind = model_kind::vision,
      .num_hidden_layers = layers,
      .hidden_size = width,
      .intermediate_size = 4 * width,
      .num_attention_heads = heads,
      .layer_scale = true,
      .position_rows = 1370,
      .image = {.image_size = 518, .patch_size = 14, .mask_token = true},
      .head = head_kind::classifier,
      .num_classes = 1000,
      .classifier_inputs = 2,
  });
}

inline constexpr transformer dinov2_small_imagenet1k_1_layer =
    dinov2("dinov2-small-imagenet1k-1-layer", 12, 384, 6);
inline constexpr transformer dinov2_base_imagenet1k_1_layer =
    dinov2("dinov2-base-imagenet1k-1-layer", 12, 768, 12);
inline constexpr transformer dinov2_large_imagenet1k_1_layer =
    dinov2("dinov2-large-imagenet1k-1-layer", 24, 1024, 16);

/// DINOv3 (arXiv 2508.10104, table of its models) as transformers' DINOv3ViTModel has it, without a
/// head: heads of 64, rotary positions, four registers, and no bias of keys.
[[nodiscard]] constexpr transformer dinov3(const char* name,
                                           std::int64_t layers,
                                           std::int64_t width,
                                           std::int64_t inner) {
  return classic({
      .name = name,
      .kind = model_kind::vision,
      .num_hidden_layers = layers,
      .hidden_size = width,
      .intermediate_size = inner,
      .num_attention_heads = width / 64,
      .key_bias = false,
      .layer_scale = true,
      .image = {.image_size = 224, .patch_size = 16, .register_tokens = 4, .mask_token = true},
      .head = head_kind::none,
  });
}
/// Its sizes whose MLPs have a gate.
[[nodiscard]] constexpr transformer gated_dinov3(const char* name,
                                                 std::int64_t layers,
                                                 std::int64_t width,
                                                 std::int64_t inner) {
  transformer model = dinov3(name, layers, width, inner);
  model.gated_mlp = true;
  model.hidden_act = activation_function::silu;
  return model;
}

inline constexpr transformer dinov3_vits16_pretrain_lvd1689m =
    dinov3("dinov3-vits16-pretrain-lvd1689m", 12, 384, 1536);
inline constexpr transformer dinov3_vits16plus_pretrain_lvd1689m =
    gated_dinov3("dinov3-vits16plus-pretrain-lvd1689m", 12, 384, 1536);
inline constexpr transformer dinov3_vitb16_pretrain_lvd1689m =
    dinov3("dinov3-vitb16-pretrain-lvd1689m", 12, 768, 3072);
inline constexpr transformer dinov3_vitl16_pretrain_lvd1689m =
    dinov3("dinov3-vitl16-pretrain-lvd1689m", 24, 1024, 4096);
inline constexpr transformer dinov3_vith16plus_pretrain_lvd1689m =
    gated_dinov3("dinov3-vith16plus-pretrain-lvd1689m", 32, 1280, 5120);
// Heads of 128, and no biases of queries and values either.
inline constexpr transformer dinov3_vit7b16_pretrain_lvd1689m = [] {
  transformer model = gated_dinov3("dinov3-vit7b16-pretrain-lvd1689m", 40, 4096, 8192);
  model.num_attention_heads = 32;
  model.attention_bias = false;
  model.key_bias = true;  // as that of queries: none
  return model;
}();

/// Swin Transformer (arXiv 2103.14030) with 1000 classes: windows of 7 points, heads of 32.
[[nodiscard]] constexpr transformer swin(const char* name,
                                         std::int64_t width,
                                         std::int64_t third_depth) {
  transformer model = classic({
      .name = name,
      .kind = model_kind::vision,
      .num_hidden_layers = 6 + third_depth,
      .hidden_size = 8 * width,
      .intermediate_size = 32 * width,
      .num_attention_heads = width / 4,
      .embedding_norm = true,
      .image = {.image_size = 224, .patch_size = 4, .class_tokens = 0, .drop_path = true},
      .stages = {.depths = {2, 2, third_depth, 2}, .window_size = 7},
      .head = head_kind::classifier,
      .num_classes = 1000,
  });
  for (int at = 0; at < model.stages.size(); ++at) {
    model.stages.widths[at] = width << at;
    model.stages.heads[at] = (width << at) / 32;
    model.stages.inner[at] = 4 * (width << at);
  }
  return model;
}

inline constexpr transformer swin_tiny_patch4_window7_224 =
    swin("swin-tiny-patch4-window7-224", 96, 6);
inline constexpr transformer swin_small_patch4_window7_224 =
    swin("swin-small-patch4-window7-224", 96, 18);
inline constexpr transformer swin_base_patch4_window7_224 =
    swin("swin-base-patch4-window7-224", 128, 18);
inline constexpr transformer swin_large_patch4_window7_224 =
    swin("swin-large-patch4-window7-224", 192, 18);

// CLIP (arXiv 2103.00020): pytorch/torchtitan tests/assets/flux_test_encoders.

inline constexpr transformer clip_vit_large_patch14_vision = classic({
    .name = "clip-vit-large-patch14-vision",
    .kind = model_kind::vision,
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .hidden_act = activation_function::quick_gelu,
    .embedding_norm = true,
    .position_rows = 257,
    .image = {.image_size = 224, .patch_size = 14, .patch_bias = false},
    .head = head_kind::none,
    .projection_dim = 768,
});

// Tokens see those before them.
inline constexpr transformer clip_vit_large_patch14_text = classic({
    .name = "clip-vit-large-patch14-text",
    .num_hidden_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .vocab_size = 49408,
    .hidden_act = activation_function::quick_gelu,
    .position_rows = 77,
    .head = head_kind::none,
    .projection_dim = 768,
});

// The text stands first: what trains in an encoder of images sends no gradient to it. The pair has
// one parameter of its own, the logit scale.
inline constexpr composite_model clip_vit_large_patch14{
    .name = "clip-vit-large-patch14",
    .parts = {{.model = clip_vit_large_patch14_text, .sequence_length = 77},
              {.model = clip_vit_large_patch14_vision}},
    .other_parameters = 1,
};

// Other sizes, whose parts have the names of their classes' types.
namespace model_data {

/// CLIP's tower of images: patches of this many pixels a side.
[[nodiscard]] constexpr transformer clip_images(std::int64_t layers,
                                                std::int64_t width,
                                                std::int64_t image_size,
                                                std::int64_t patch_size) {
  transformer model = clip_vit_large_patch14_vision;
  model.name = "clip_vision_model";
  model.num_hidden_layers = layers;
  model.hidden_size = width;
  model.intermediate_size = 4 * width;
  model.num_attention_heads = width / 64;
  model.image.image_size = image_size;
  model.image.patch_size = patch_size;
  model.position_rows = model.image.tokens();
  return model;
}
/// Both towers, projected to the width of the texts.
[[nodiscard]] constexpr composite_model clip_pair(const char* name,
                                                  std::int64_t width,
                                                  transformer images) {
  composite_model pair = clip_vit_large_patch14;
  pair.name = name;
  transformer& texts = pair.parts[0].model;
  texts.name = "clip_text_model";
  texts.hidden_size = texts.projection_dim = images.projection_dim = width;
  texts.intermediate_size = 4 * width;
  texts.num_attention_heads = width / 64;
  pair.parts[1].model = images;
  return pair;
}

}  // namespace model_data

inline constexpr composite_model clip_vit_base_patch32 =
    model_data::clip_pair("clip-vit-base-patch32", 512, model_data::clip_images(12, 768, 224, 32));
inline constexpr composite_model clip_vit_base_patch16 =
    model_data::clip_pair("clip-vit-base-patch16", 512, model_data::clip_images(12, 768, 224, 16));
inline constexpr composite_model clip_vit_large_patch14_336 = model_data::clip_pair(
    "clip-vit-large-patch14-336", 768, model_data::clip_images(24, 1024, 336, 14));

// SigLIP (arXiv 2303.15343): recalled, not read; the totals of OpenVLA and of the pair agree.

inline constexpr transformer siglip_so400m_patch14_224_vision = classic({
    .name = "siglip-so400m-patch14-224-vision",
    .kind = model_kind::vision,
    .num_hidden_layers = 27,
    .hidden_size = 1152,
    .intermediate_size = 4304,
    .num_attention_heads = 16,
    .hidden_act = activation_function::gelu_tanh,
    .position_rows = 256,
    .image = {.image_size = 224, .patch_size = 14, .class_tokens = 0},
    .head = head_kind::none,
    .attention_pooling = true,
});

inline constexpr transformer siglip_so400m_patch14_224_text = classic({
    .name = "siglip-so400m-patch14-224-text",
    .kind = model_kind::encoder,
    .num_hidden_layers = 27,
    .hidden_size = 1152,
    .intermediate_size = 4304,
    .num_attention_heads = 16,
    .vocab_size = 32000,
    .hidden_act = activation_function::gelu_tanh,
    .position_rows = 16,
    .head = head_kind::none,
    .projection_dim = 1152,
    .projection_bias = true,
});

// A logit scale and a bias of it.
inline constexpr composite_model siglip_so400m_patch14_224{
    .name = "siglip-so400m-patch14-224",
    .parts = {{.model = siglip_so400m_patch14_224_text, .sequence_length = 16},
              {.model = siglip_so400m_patch14_224_vision}},
    .other_parameters = 2,
};

namespace model_data {

/// SigLIP's tower of images, without pooling.
[[nodiscard]] constexpr transformer siglip_images(std::int64_t image_size) {
  transformer model = siglip_so400m_patch14_224_vision;
  model.name = "siglip_vision_model";
  model.attention_pooling = false;
  model.image.image_size = image_size;
  model.position_rows = model.image.patches();
  return model;
}
/// Both towers, of one width.
[[nodiscard]] constexpr composite_model siglip_pair(const char* name,
                                                    transformer images,
                                                    std::int64_t text_length) {
  images.name = "siglip_vision_model";
  images.attention_pooling = true;
  transformer texts = siglip_so400m_patch14_224_text;
  texts.name = "siglip_text_model";
  texts.num_hidden_layers = images.num_hidden_layers;
  texts.hidden_size = texts.projection_dim = images.hidden_size;
  texts.intermediate_size = images.intermediate_size;
  texts.num_attention_heads = images.num_attention_heads;
  texts.position_rows = text_length;
  return {.name = name,
          .parts = {{.model = texts, .sequence_length = text_length}, {.model = images}},
          .other_parameters = 2};
}

}  // namespace model_data

inline constexpr composite_model siglip_base_patch16_224 = model_data::siglip_pair(
    "siglip-base-patch16-224",
    [] {
      transformer images = vit_base_patch16_224;
      images.hidden_act = activation_function::gelu_tanh;
      images.position_rows = 196;
      images.image.class_tokens = 0;
      images.head = head_kind::none;
      images.num_classes = 0;
      return images;
    }(),
    64);
inline constexpr composite_model siglip_so400m_patch14_384 =
    model_data::siglip_pair("siglip-so400m-patch14-384", model_data::siglip_images(384), 64);

}  // namespace gpuplan::catalog
