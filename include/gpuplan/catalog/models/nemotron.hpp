#pragma once

// Nemotron and Minitron.

#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// Nemotron: NVIDIA/NeMo-Framework-Launcher launcher_scripts/conf/training/nemotron. Squared ReLU,
// where the MLP has no gate.

inline constexpr transformer minitron_4b{
    .name = "minitron-4b",
    .num_hidden_layers = 32,
    .hidden_size = 3072,
    .intermediate_size = 9216,
    .num_attention_heads = 24,
    .num_key_value_heads = 8,
    .vocab_size = 256000,
    .gated_mlp = false,
    .hidden_act = activation_function::relu_squared,
    .norm = norm_kind::layer_norm,
    .norm_bias = true,
};

inline constexpr transformer nemotron_3_8b{
    .name = "nemotron-3-8b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 16384,
    .num_attention_heads = 32,
    .vocab_size = 256000,
    .gated_mlp = false,
    .hidden_act = activation_function::relu_squared,
    .norm = norm_kind::layer_norm,
    .norm_bias = true,
};

// arXiv 2402.16819: 3.2 B parameters are in token table and head, 12.5 B are not.
inline constexpr transformer nemotron_4_15b{
    .name = "nemotron-4-15b",
    .num_hidden_layers = 32,
    .hidden_size = 6144,
    .intermediate_size = 24576,
    .num_attention_heads = 48,
    .num_key_value_heads = 8,
    .vocab_size = 256000,
    .gated_mlp = false,
    .hidden_act = activation_function::relu_squared,
    .norm = norm_kind::layer_norm,
    .norm_bias = true,
};

// arXiv 2406.11704: 9.4 B and 331.6 B.
inline constexpr transformer nemotron_4_340b{
    .name = "nemotron-4-340b",
    .num_hidden_layers = 96,
    .hidden_size = 18432,
    .intermediate_size = 73728,
    .num_attention_heads = 96,
    .num_key_value_heads = 8,
    .vocab_size = 256000,
    .gated_mlp = false,
    .hidden_act = activation_function::relu_squared,
    .norm = norm_kind::layer_norm,
    .norm_bias = true,
};

// abhibambhaniya/GenZ-LLM-Analyzer@091bdd0 GenZ/Models/Model_sets/nvidia.py.
inline constexpr transformer mistral_nemo_minitron_8b{
    .name = "mistral-nemo-minitron-8b",
    .num_hidden_layers = 40,
    .hidden_size = 4096,
    .intermediate_size = 11520,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 131072,
};

// The shape of Llama 3.1 8B.
inline constexpr transformer llama_3_1_nemotron_nano_8b{
    .name = "llama-3.1-nemotron-nano-8b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 14336,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 128256,
};

}  // namespace gpuplan::catalog
