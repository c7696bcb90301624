#pragma once

// Encoders of images, and pairs of them with encoders of text: ViT, DINOv2, CLIP, SigLIP.

#include <gpuplan/catalog/models/classic.hpp>
#include <gpuplan/model.hpp>

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

}  // namespace gpuplan::catalog
