#pragma once

// LLaMA, and decoders of the same make: TinyLlama, SmolLM2, Yi, Falcon 3, Mistral, Mixtral.

#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// LLaMA (arXiv 2302.13971): NVIDIA/NeMo-Framework-Launcher launcher_scripts/conf/training/llama.
// Llama 2 to 3.2 and Code Llama: Lightning-AI/litgpt@2685705 litgpt/config.py.

inline constexpr transformer llama_7b{
    .name = "llama-7b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 11008,
    .num_attention_heads = 32,
    .vocab_size = 32000,
};

inline constexpr transformer llama_13b{
    .name = "llama-13b",
    .num_hidden_layers = 40,
    .hidden_size = 5120,
    .intermediate_size = 13824,
    .num_attention_heads = 40,
    .vocab_size = 32000,
};

inline constexpr transformer llama_33b{
    .name = "llama-33b",
    .num_hidden_layers = 60,
    .hidden_size = 6656,
    .intermediate_size = 17920,
    .num_attention_heads = 52,
    .vocab_size = 32000,
};

// cli99/llm-analysis prints an MLP of 32768, which is wrong.
inline constexpr transformer llama_65b{
    .name = "llama-65b",
    .num_hidden_layers = 80,
    .hidden_size = 8192,
    .intermediate_size = 22016,
    .num_attention_heads = 64,
    .vocab_size = 32000,
};

inline constexpr transformer llama_2_7b{
    .name = "llama-2-7b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 11008,
    .num_attention_heads = 32,
    .vocab_size = 32000,
};

inline constexpr transformer llama_2_13b{
    .name = "llama-2-13b",
    .num_hidden_layers = 40,
    .hidden_size = 5120,
    .intermediate_size = 13824,
    .num_attention_heads = 40,
    .vocab_size = 32000,
};

inline constexpr transformer llama_2_70b{
    .name = "llama-2-70b",
    .num_hidden_layers = 80,
    .hidden_size = 8192,
    .intermediate_size = 28672,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .vocab_size = 32000,
};

inline constexpr transformer codellama_7b{
    .name = "codellama-7b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 11008,
    .num_attention_heads = 32,
    .vocab_size = 32016,
};

inline constexpr transformer codellama_13b{
    .name = "codellama-13b",
    .num_hidden_layers = 40,
    .hidden_size = 5120,
    .intermediate_size = 13824,
    .num_attention_heads = 40,
    .vocab_size = 32016,
};

inline constexpr transformer codellama_34b{
    .name = "codellama-34b",
    .num_hidden_layers = 48,
    .hidden_size = 8192,
    .intermediate_size = 22016,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .vocab_size = 32000,
};

inline constexpr transformer codellama_70b{
    .name = "codellama-70b",
    .num_hidden_layers = 80,
    .hidden_size = 8192,
    .intermediate_size = 28672,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .vocab_size = 32016,
};

inline constexpr transformer llama_3_8b{
    .name = "meta-llama-3-8b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 14336,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 128256,
};

inline constexpr transformer llama_3_70b{
    .name = "meta-llama-3-70b",
    .num_hidden_layers = 80,
    .hidden_size = 8192,
    .intermediate_size = 28672,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .vocab_size = 128256,
};

inline constexpr transformer llama_3_1_8b{
    .name = "llama-3.1-8b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 14336,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 128256,
};

inline constexpr transformer llama_3_1_70b{
    .name = "llama-3.1-70b",
    .num_hidden_layers = 80,
    .hidden_size = 8192,
    .intermediate_size = 28672,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .vocab_size = 128256,
};

inline constexpr transformer llama_3_1_405b{
    .name = "llama-3.1-405b",
    .num_hidden_layers = 126,
    .hidden_size = 16384,
    .intermediate_size = 53248,
    .num_attention_heads = 128,
    .num_key_value_heads = 8,
    .vocab_size = 128256,
};

inline constexpr transformer llama_3_2_1b{
    .name = "llama-3.2-1b",
    .num_hidden_layers = 16,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 128256,
    .tied_embeddings = true,
};

inline constexpr transformer llama_3_2_3b{
    .name = "llama-3.2-3b",
    .num_hidden_layers = 28,
    .hidden_size = 3072,
    .intermediate_size = 8192,
    .num_attention_heads = 24,
    .num_key_value_heads = 8,
    .vocab_size = 128256,
    .tied_embeddings = true,
};

// Shapes like LLaMA's: Lightning-AI/litgpt@2685705 litgpt/config.py.

inline constexpr transformer tinyllama_1_1b{
    .name = "tinyllama-1.1b",
    .num_hidden_layers = 22,
    .hidden_size = 2048,
    .intermediate_size = 5632,
    .num_attention_heads = 32,
    .num_key_value_heads = 4,
    .vocab_size = 32000,
};

inline constexpr transformer smollm2_135m{
    .name = "smollm2-135m",
    .num_hidden_layers = 30,
    .hidden_size = 576,
    .intermediate_size = 1536,
    .num_attention_heads = 9,
    .num_key_value_heads = 3,
    .vocab_size = 49152,
    .tied_embeddings = true,
};

inline constexpr transformer smollm2_360m{
    .name = "smollm2-360m",
    .num_hidden_layers = 32,
    .hidden_size = 960,
    .intermediate_size = 2560,
    .num_attention_heads = 15,
    .num_key_value_heads = 5,
    .vocab_size = 49152,
    .tied_embeddings = true,
};

inline constexpr transformer smollm2_1_7b{
    .name = "smollm2-1.7b",
    .num_hidden_layers = 24,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 32,
    .vocab_size = 49152,
    .tied_embeddings = true,
};

// Yi (arXiv 2403.04652).

// InternLM/InternEvo-HFModels huggingface_model/yi/yi_6B.
inline constexpr transformer yi_6b{
    .name = "yi-6b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 11008,
    .num_attention_heads = 32,
    .num_key_value_heads = 4,
    .vocab_size = 64000,
};

// Recalled from its config.json, not read.
inline constexpr transformer yi_9b{
    .name = "yi-9b",
    .num_hidden_layers = 48,
    .hidden_size = 4096,
    .intermediate_size = 11008,
    .num_attention_heads = 32,
    .num_key_value_heads = 4,
    .vocab_size = 64000,
};

// Recalled from its config.json, not read.
inline constexpr transformer yi_34b{
    .name = "yi-34b",
    .num_hidden_layers = 60,
    .hidden_size = 7168,
    .intermediate_size = 20480,
    .num_attention_heads = 56,
    .num_key_value_heads = 8,
    .vocab_size = 64000,
};

// Falcon 3, which is of LLaMA's make as earlier Falcons are not: litgpt 0.5.13 litgpt/config.py.

inline constexpr transformer falcon3_1b{
    .name = "falcon3-1b",
    .num_hidden_layers = 18,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 8,
    .num_key_value_heads = 4,
    .vocab_size = 131072,
};

inline constexpr transformer falcon3_3b{
    .name = "falcon3-3b",
    .num_hidden_layers = 22,
    .hidden_size = 3072,
    .intermediate_size = 9216,
    .num_attention_heads = 12,
    .num_key_value_heads = 4,
    .vocab_size = 131072,
};

inline constexpr transformer falcon3_7b{
    .name = "falcon3-7b",
    .num_hidden_layers = 28,
    .hidden_size = 3072,
    .intermediate_size = 23040,
    .num_attention_heads = 12,
    .num_key_value_heads = 4,
    .vocab_size = 131072,
};

inline constexpr transformer falcon3_10b{
    .name = "falcon3-10b",
    .num_hidden_layers = 40,
    .hidden_size = 3072,
    .intermediate_size = 23040,
    .num_attention_heads = 12,
    .num_key_value_heads = 4,
    .vocab_size = 131072,
};

// Mistral: Lightning-AI/litgpt@2685705 litgpt/config.py.

inline constexpr transformer mistral_7b_v0_1{
    .name = "mistral-7b-v0.1",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 14336,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 32000,
    .sliding_window = 4096,
};

// As v0.1, without its window.
inline constexpr transformer mistral_7b_v0_2{
    .name = "mistral-7b-v0.2",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 14336,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 32000,
};

inline constexpr transformer mistral_7b_v0_3{
    .name = "mistral-7b-v0.3",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 14336,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 32768,
};

// NVIDIA/NeMo-Framework-Launcher launcher_scripts/conf/training/mistral/mistral_nemo_12b.yaml.
inline constexpr transformer mistral_nemo_12b{
    .name = "mistral-nemo-12b",
    .num_hidden_layers = 40,
    .hidden_size = 5120,
    .intermediate_size = 14336,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 131072,
};

// Recalled from its config.json, not read; the total confirms it.
inline constexpr transformer mistral_small_24b_2501{
    .name = "mistral-small-24b-2501",
    .num_hidden_layers = 40,
    .hidden_size = 5120,
    .intermediate_size = 32768,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 131072,
};

// Llama 4, the model for language alone, without its tower of images: the defaults of transformers
// 5.23's Llama4TextConfig. What Maverick has otherwise is recalled from its config.json, not read:
// the total confirms its experts, and nothing its use_qk_norm and attn_temperature_tuning.

inline constexpr transformer llama_4_scout_17b_16e{
    .name = "llama-4-scout-17b-16e",
    .num_hidden_layers = 48,
    .hidden_size = 5120,
    .intermediate_size = 16384,
    .num_attention_heads = 40,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 202048,
    .chunks = {.use_qk_norm = true, .attn_temperature_tuning = true},
    .sliding_window = 8192,
    .global_layer_step = 4,
    .moe = {.num_experts = 16,
            .num_experts_per_tok = 1,
            .moe_intermediate_size = 8192,
            .shared_expert_intermediate_size = 8192},
};

inline constexpr transformer llama_4_maverick_17b_128e = [] {
  transformer other = llama_4_scout_17b_16e;
  other.name = "llama-4-maverick-17b-128e";
  other.chunks.attn_temperature_tuning = false;
  other.moe.num_experts = 128;
  other.moe.moe_layer_step = 2;
  return other;
}();

// Mixtral (arXiv 2401.04088): Lightning-AI/litgpt@2685705 litgpt/config.py.

inline constexpr transformer mixtral_8x7b_v0_1{
    .name = "mixtral-8x7b-v0.1",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 32000,
    .moe = {.num_experts = 8, .num_experts_per_tok = 2, .moe_intermediate_size = 14336},
};

inline constexpr transformer mixtral_8x22b_v0_1{
    .name = "mixtral-8x22b-v0.1",
    .num_hidden_layers = 56,
    .hidden_size = 6144,
    .num_attention_heads = 48,
    .num_key_value_heads = 8,
    .vocab_size = 32768,
    .moe = {.num_experts = 8, .num_experts_per_tok = 2, .moe_intermediate_size = 16384},
};

}  // namespace gpuplan::catalog
