#pragma once

// OLMo 1 to 3, OLMoE.

#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// OLMo (arXiv 2402.00838): Lightning-AI/litgpt@2685705 litgpt/config.py. Its norms have no
// parameters.

inline constexpr transformer olmo_1b{
    .name = "olmo-1b",
    .num_hidden_layers = 16,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 16,
    .vocab_size = 50304,
    .norm = norm_kind::layer_norm,
    .norm_affine = false,
    .tied_embeddings = true,
};

inline constexpr transformer olmo_7b{
    .name = "olmo-7b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 11008,
    .num_attention_heads = 32,
    .vocab_size = 50304,
    .norm = norm_kind::layer_norm,
    .norm_affine = false,
};

// OLMo 2 (arXiv 2501.00656).

// allenai/OLMo configs/official-0425/OLMo2-1B-stage1.yaml.
inline constexpr transformer olmo_2_0425_1b{
    .name = "olmo-2-0425-1b",
    .num_hidden_layers = 16,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 16,
    .vocab_size = 100352,
    .norm_at = norm_position::after_sublayer,
    .qk_norm = qk_norm_scope::full_width,
};

// Lightning-AI/litgpt@2685705 litgpt/config.py, as the next.
inline constexpr transformer olmo_2_1124_7b{
    .name = "olmo-2-1124-7b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 11008,
    .num_attention_heads = 32,
    .vocab_size = 100352,
    .norm_at = norm_position::after_sublayer,
    .qk_norm = qk_norm_scope::full_width,
};

inline constexpr transformer olmo_2_1124_13b{
    .name = "olmo-2-1124-13b",
    .num_hidden_layers = 40,
    .hidden_size = 5120,
    .intermediate_size = 13824,
    .num_attention_heads = 40,
    .vocab_size = 100352,
    .norm_at = norm_position::after_sublayer,
    .qk_norm = qk_norm_scope::full_width,
};

// allenai/OLMo-core src/olmo_core/nn/transformer/config.py.
inline constexpr transformer olmo_2_0325_32b{
    .name = "olmo-2-0325-32b",
    .num_hidden_layers = 64,
    .hidden_size = 5120,
    .intermediate_size = 27648,
    .num_attention_heads = 40,
    .num_key_value_heads = 8,
    .vocab_size = 100352,
    .norm_at = norm_position::after_sublayer,
    .qk_norm = qk_norm_scope::full_width,
};

// OLMo 3: shapes of OLMo 2 with windows, allenai/OLMo-core; the rest recalled from config.json,
// not read.

inline constexpr transformer olmo_3_7b{
    .name = "olmo-3-7b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 11008,
    .num_attention_heads = 32,
    .vocab_size = 100278,
    .sliding_window = 4096,
    .global_layer_step = 4,
    .norm_at = norm_position::after_sublayer,
    .qk_norm = qk_norm_scope::full_width,
};

inline constexpr transformer olmo_3_32b{
    .name = "olmo-3-32b",
    .num_hidden_layers = 64,
    .hidden_size = 5120,
    .intermediate_size = 27648,
    .num_attention_heads = 40,
    .num_key_value_heads = 8,
    .vocab_size = 100278,
    .sliding_window = 4096,
    .global_layer_step = 4,
    .norm_at = norm_position::after_sublayer,
    .qk_norm = qk_norm_scope::full_width,
};

// OLMoE (arXiv 2409.02060): NVIDIA-NeMo/Megatron-Bridge models/olmoe/olmoe_provider.py.

inline constexpr transformer olmoe_1b_7b{
    .name = "olmoe-1b-7b",
    .num_hidden_layers = 16,
    .hidden_size = 2048,
    .num_attention_heads = 16,
    .vocab_size = 50304,
    .moe = {.num_experts = 64, .num_experts_per_tok = 8, .moe_intermediate_size = 1024},
    .qk_norm = qk_norm_scope::full_width,
};

}  // namespace gpuplan::catalog
