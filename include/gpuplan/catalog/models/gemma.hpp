#pragma once

// Gemma 1 to 3.

#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// Gemma (arXiv 2403.08295): Lightning-AI/litgpt@2685705 litgpt/config.py,
// abhibambhaniya/GenZ-LLM-Analyzer@091bdd0.

inline constexpr transformer gemma_2b{
    .name = "gemma-2b",
    .num_hidden_layers = 18,
    .hidden_size = 2048,
    .intermediate_size = 16384,
    .num_attention_heads = 8,
    .num_key_value_heads = 1,
    .vocab_size = 256000,
    .hidden_act = activation_function::gelu_tanh,
    .tied_embeddings = true,
};

inline constexpr transformer gemma_7b{
    .name = "gemma-7b",
    .num_hidden_layers = 28,
    .hidden_size = 3072,
    .intermediate_size = 24576,
    .num_attention_heads = 16,
    .head_dim = 256,
    .vocab_size = 256000,
    .hidden_act = activation_function::gelu_tanh,
    .tied_embeddings = true,
};

// Gemma 2 (arXiv 2408.00118): the same sources.

inline constexpr transformer gemma_2_2b{
    .name = "gemma-2-2b",
    .num_hidden_layers = 26,
    .hidden_size = 2304,
    .intermediate_size = 9216,
    .num_attention_heads = 8,
    .num_key_value_heads = 4,
    .head_dim = 256,
    .vocab_size = 256000,
    .sliding_window = 4096,
    .global_layer_step = 2,
    .hidden_act = activation_function::gelu_tanh,
    .norm_at = norm_position::around,
    .norms_per_layer = 4,
    .tied_embeddings = true,
};

inline constexpr transformer gemma_2_9b{
    .name = "gemma-2-9b",
    .num_hidden_layers = 42,
    .hidden_size = 3584,
    .intermediate_size = 14336,
    .num_attention_heads = 16,
    .num_key_value_heads = 8,
    .head_dim = 256,
    .vocab_size = 256000,
    .sliding_window = 4096,
    .global_layer_step = 2,
    .hidden_act = activation_function::gelu_tanh,
    .norm_at = norm_position::around,
    .norms_per_layer = 4,
    .tied_embeddings = true,
};

inline constexpr transformer gemma_2_27b{
    .name = "gemma-2-27b",
    .num_hidden_layers = 46,
    .hidden_size = 4608,
    .intermediate_size = 36864,
    .num_attention_heads = 32,
    .num_key_value_heads = 16,
    .head_dim = 128,
    .vocab_size = 256000,
    .sliding_window = 4096,
    .global_layer_step = 2,
    .hidden_act = activation_function::gelu_tanh,
    .norm_at = norm_position::around,
    .norms_per_layer = 4,
    .tied_embeddings = true,
};

// Gemma 3 (arXiv 2503.19786): Lightning-AI/litgpt@2685705 litgpt/config.py, with the vocabulary of
// 262208 of the Hugging Face releases with images. Without the vision tower.

// Recalled from its config.json, not read; the total confirms it.
inline constexpr transformer gemma_3_270m{
    .name = "gemma-3-270m",
    .num_hidden_layers = 18,
    .hidden_size = 640,
    .intermediate_size = 2048,
    .num_attention_heads = 4,
    .num_key_value_heads = 1,
    .head_dim = 256,
    .vocab_size = 262144,
    .sliding_window = 512,
    .global_layer_step = 6,
    .hidden_act = activation_function::gelu_tanh,
    .norm_at = norm_position::around,
    .norms_per_layer = 4,
    .qk_norm = qk_norm_scope::head,
    .tied_embeddings = true,
};

inline constexpr transformer gemma_3_1b{
    .name = "gemma-3-1b",
    .num_hidden_layers = 26,
    .hidden_size = 1152,
    .intermediate_size = 6912,
    .num_attention_heads = 4,
    .num_key_value_heads = 1,
    .head_dim = 256,
    .vocab_size = 262144,
    .sliding_window = 512,
    .global_layer_step = 6,
    .hidden_act = activation_function::gelu_tanh,
    .norm_at = norm_position::around,
    .norms_per_layer = 4,
    .qk_norm = qk_norm_scope::head,
    .tied_embeddings = true,
};

inline constexpr transformer gemma_3_4b_text{
    .name = "gemma-3-4b-text",
    .num_hidden_layers = 34,
    .hidden_size = 2560,
    .intermediate_size = 10240,
    .num_attention_heads = 8,
    .num_key_value_heads = 4,
    .head_dim = 256,
    .vocab_size = 262208,
    .sliding_window = 1024,
    .global_layer_step = 6,
    .hidden_act = activation_function::gelu_tanh,
    .norm_at = norm_position::around,
    .norms_per_layer = 4,
    .qk_norm = qk_norm_scope::head,
    .tied_embeddings = true,
};

inline constexpr transformer gemma_3_12b_text{
    .name = "gemma-3-12b-text",
    .num_hidden_layers = 48,
    .hidden_size = 3840,
    .intermediate_size = 15360,
    .num_attention_heads = 16,
    .num_key_value_heads = 8,
    .head_dim = 256,
    .vocab_size = 262208,
    .sliding_window = 1024,
    .global_layer_step = 6,
    .hidden_act = activation_function::gelu_tanh,
    .norm_at = norm_position::around,
    .norms_per_layer = 4,
    .qk_norm = qk_norm_scope::head,
    .tied_embeddings = true,
};

inline constexpr transformer gemma_3_27b_text{
    .name = "gemma-3-27b-text",
    .num_hidden_layers = 62,
    .hidden_size = 5376,
    .intermediate_size = 21504,
    .num_attention_heads = 32,
    .num_key_value_heads = 16,
    .head_dim = 128,
    .vocab_size = 262208,
    .sliding_window = 1024,
    .global_layer_step = 6,
    .hidden_act = activation_function::gelu_tanh,
    .norm_at = norm_position::around,
    .norms_per_layer = 4,
    .qk_norm = qk_norm_scope::head,
    .tied_embeddings = true,
};

}  // namespace gpuplan::catalog
