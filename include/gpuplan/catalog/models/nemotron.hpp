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

// Nemotron-H (arXiv 2504.03624) and Nemotron 3 Nano: layers of one part each, most of them Mamba-2.
// Of 8B the counts of a read config.json, whose total confirms them; the others by
// NVIDIA-NeMo/Megatron-Bridge's recipes of release 26.08.

inline constexpr transformer nemotron_h_8b{
    .name = "nemotron-h-8b",
    .num_hidden_layers = 52,
    .hidden_size = 4096,
    .intermediate_size = 21504,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 131072,
    .mamba = {.num_heads = 128, .head_dim = 64, .state_size = 128, .n_groups = 8},
    .hybrid_pattern = {"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"},
    .gated_mlp = false,
    .hidden_act = activation_function::relu_squared,
};

inline constexpr transformer nemotron_h_56b{
    .name = "nemotron-h-56b",
    .num_hidden_layers = 118,
    .hidden_size = 8192,
    .intermediate_size = 32768,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 131072,
    .mamba = {.num_heads = 256, .head_dim = 64, .state_size = 256, .n_groups = 8},
    .hybrid_pattern = {"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M"
                       "-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"},
    .gated_mlp = false,
    .hidden_act = activation_function::relu_squared,
};

inline constexpr transformer nemotron_3_nano_30b_a3b{
    .name = "nemotron-3-nano-30b-a3b",
    .num_hidden_layers = 52,
    .hidden_size = 2688,
    .num_attention_heads = 32,
    .num_key_value_heads = 2,
    .head_dim = 128,
    .vocab_size = 131072,
    .mamba = {.num_heads = 64, .head_dim = 64, .state_size = 128, .n_groups = 8},
    .hybrid_pattern = {"MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"},
    .gated_mlp = false,
    .hidden_act = activation_function::relu_squared,
    .moe = {.num_experts = 128,
            .num_experts_per_tok = 6,
            .moe_intermediate_size = 1856,
            .shared_expert_intermediate_size = 3712,
            .router_bias = true,
            .norm_topk_prob = true},
};

}  // namespace gpuplan::catalog
