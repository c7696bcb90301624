#pragma once

// Phi 1.5 to 4.

#include <gpuplan/catalog/models/classic.hpp>
#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// Phi-1.5 and Phi-2: Lightning-AI/litgpt@2685705 litgpt/config.py.

inline constexpr transformer phi_1_5 = classic({
    .name = "phi-1.5",
    .num_hidden_layers = 24,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 32,
    .vocab_size = 51200,
    .parallel_attention = true,
    .hidden_act = activation_function::gelu_new,
    .norms_per_layer = 1,
    .lm_head_bias = true,
});

inline constexpr transformer phi_2 = classic({
    .name = "phi-2",
    .num_hidden_layers = 32,
    .hidden_size = 2560,
    .intermediate_size = 10240,
    .num_attention_heads = 32,
    .vocab_size = 51200,
    .parallel_attention = true,
    .hidden_act = activation_function::gelu_new,
    .norms_per_layer = 1,
    .lm_head_bias = true,
});

// Phi-3 (arXiv 2404.14219).

// Lightning-AI/litgpt@2685705 litgpt/config.py.
inline constexpr transformer phi_3_mini_4k{
    .name = "phi-3-mini-4k",
    .num_hidden_layers = 32,
    .hidden_size = 3072,
    .intermediate_size = 8192,
    .num_attention_heads = 32,
    .vocab_size = 32064,
    .fused_qkv = true,
    .sliding_window = 2047,
    .fused_gate_up = true,
};

inline constexpr transformer phi_3_5_mini = [] {
  transformer model = phi_3_mini_4k;
  model.name = "phi-3.5-mini";
  model.sliding_window = 262144;
  return model;
}();

// abhibambhaniya/GenZ-LLM-Analyzer@091bdd0 GenZ/Models/Model_sets/microsoft.py.
inline constexpr transformer phi_3_medium_4k{
    .name = "phi-3-medium-4k",
    .num_hidden_layers = 40,
    .hidden_size = 5120,
    .intermediate_size = 17920,
    .num_attention_heads = 40,
    .num_key_value_heads = 10,
    .vocab_size = 32064,
    .fused_qkv = true,
    .fused_gate_up = true,
};

// Phi-4 (arXiv 2412.08905): Lightning-AI/litgpt@2685705 litgpt/config.py.

inline constexpr transformer phi_4{
    .name = "phi-4",
    .num_hidden_layers = 40,
    .hidden_size = 5120,
    .intermediate_size = 17920,
    .num_attention_heads = 40,
    .num_key_value_heads = 10,
    .vocab_size = 100352,
    .fused_qkv = true,
    .fused_gate_up = true,
};

inline constexpr transformer phi_4_mini{
    .name = "phi-4-mini",
    .num_hidden_layers = 32,
    .hidden_size = 3072,
    .intermediate_size = 8192,
    .num_attention_heads = 24,
    .num_key_value_heads = 8,
    .vocab_size = 200064,
    .fused_qkv = true,
    .fused_gate_up = true,
    .tied_embeddings = true,
};

}  // namespace gpuplan::catalog
