#pragma once

// Decoders with layer norms: GPT-2 and 3, GPT-J, GPT-NeoX, Pythia, OPT, BLOOM, Falcon, MPT.

#include <gpuplan/catalog/models/classic.hpp>
#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// GPT-2 (Radford et al. 2019): cli99/llm-analysis llm_analysis/model_configs.

inline constexpr transformer gpt2 = classic({
    .name = "gpt2",
    .num_hidden_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 1024,
    .tied_embeddings = true,
});

inline constexpr transformer gpt2_medium = classic({
    .name = "gpt2-medium",
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 1024,
    .tied_embeddings = true,
});

inline constexpr transformer gpt2_large = classic({
    .name = "gpt2-large",
    .num_hidden_layers = 36,
    .hidden_size = 1280,
    .intermediate_size = 5120,
    .num_attention_heads = 20,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 1024,
    .tied_embeddings = true,
});

inline constexpr transformer gpt2_xl = classic({
    .name = "gpt2-xl",
    .num_hidden_layers = 48,
    .hidden_size = 1600,
    .intermediate_size = 6400,
    .num_attention_heads = 25,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 1024,
    .tied_embeddings = true,
});

// GPT-3 (arXiv 2005.14165, table 2.1, recalled; layers, width and heads agree with the
// configurations of EleutherAI/gpt-neox). Every other layer sees a band of the tokens alone; its
// width is not published, so that here all see all.

inline constexpr transformer gpt3_125m = classic({
    .name = "gpt3-125m",
    .num_hidden_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 2048,
    .tied_embeddings = true,
});

inline constexpr transformer gpt3_350m = classic({
    .name = "gpt3-350m",
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 2048,
    .tied_embeddings = true,
});

inline constexpr transformer gpt3_760m = classic({
    .name = "gpt3-760m",
    .num_hidden_layers = 24,
    .hidden_size = 1536,
    .intermediate_size = 6144,
    .num_attention_heads = 16,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 2048,
    .tied_embeddings = true,
});

// The table prints 24 heads of 128, which is not the width of 2048; 16 as in configs/1-3B.yml.
inline constexpr transformer gpt3_1_3b = classic({
    .name = "gpt3-1.3b",
    .num_hidden_layers = 24,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 16,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 2048,
    .tied_embeddings = true,
});

inline constexpr transformer gpt3_2_7b = classic({
    .name = "gpt3-2.7b",
    .num_hidden_layers = 32,
    .hidden_size = 2560,
    .intermediate_size = 10240,
    .num_attention_heads = 32,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 2048,
    .tied_embeddings = true,
});

inline constexpr transformer gpt3_6_7b = classic({
    .name = "gpt3-6.7b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 16384,
    .num_attention_heads = 32,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 2048,
    .tied_embeddings = true,
});

// The table prints a width of 5140, which 40 heads of 128 do not have; 5120 as in configs/13B.yml.
inline constexpr transformer gpt3_13b = classic({
    .name = "gpt3-13b",
    .num_hidden_layers = 40,
    .hidden_size = 5120,
    .intermediate_size = 20480,
    .num_attention_heads = 40,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 2048,
    .tied_embeddings = true,
});

inline constexpr transformer gpt3_175b = classic({
    .name = "gpt3-175b",
    .num_hidden_layers = 96,
    .hidden_size = 12288,
    .intermediate_size = 49152,
    .num_attention_heads = 96,
    .vocab_size = 50257,
    .fused_qkv = true,
    .hidden_act = activation_function::gelu_new,
    .position_rows = 2048,
    .tied_embeddings = true,
});

// GPT-J: cli99/llm-analysis EleutherAI_gpt-j-6b.json, and the model card.

inline constexpr transformer gpt_j_6b{
    .name = "gpt-j-6b",
    .num_hidden_layers = 28,
    .hidden_size = 4096,
    .intermediate_size = 16384,
    .num_attention_heads = 16,
    .vocab_size = 50400,
    .parallel_attention = true,
    .gated_mlp = false,
    .hidden_act = activation_function::gelu_new,
    .mlp_bias = true,
    .norm = norm_kind::layer_norm,
    .norms_per_layer = 1,
    .norm_bias = true,
    .lm_head_bias = true,
};

// GPT-NeoX-20B (arXiv 2204.06745): EleutherAI/gpt-neox configs/20B.yml; by the model card, a
// vocabulary of 50257 is padded to 50432.

inline constexpr transformer gpt_neox_20b = classic({
    .name = "gpt-neox-20b",
    .num_hidden_layers = 44,
    .hidden_size = 6144,
    .intermediate_size = 24576,
    .num_attention_heads = 64,
    .vocab_size = 50432,
    .fused_qkv = true,
    .parallel_attention = true,
});

// Pythia (arXiv 2304.01373): Lightning-AI/litgpt@2685705 litgpt/config.py,
// RahulSChand/gpu_poor@ad2fc0e public/all_configs.json.

inline constexpr transformer pythia_70m = classic({
    .name = "pythia-70m",
    .num_hidden_layers = 6,
    .hidden_size = 512,
    .intermediate_size = 2048,
    .num_attention_heads = 8,
    .vocab_size = 50304,
    .fused_qkv = true,
    .parallel_attention = true,
});

inline constexpr transformer pythia_160m = classic({
    .name = "pythia-160m",
    .num_hidden_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .vocab_size = 50304,
    .fused_qkv = true,
    .parallel_attention = true,
});

inline constexpr transformer pythia_410m = classic({
    .name = "pythia-410m",
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .vocab_size = 50304,
    .fused_qkv = true,
    .parallel_attention = true,
});

inline constexpr transformer pythia_1b = classic({
    .name = "pythia-1b",
    .num_hidden_layers = 16,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 8,
    .vocab_size = 50304,
    .fused_qkv = true,
    .parallel_attention = true,
});

// MrYxJ/calculate-flops prints 1,311,625,216: without the head's matrix.
inline constexpr transformer pythia_1_4b = classic({
    .name = "pythia-1.4b",
    .num_hidden_layers = 24,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 16,
    .vocab_size = 50304,
    .fused_qkv = true,
    .parallel_attention = true,
});

inline constexpr transformer pythia_2_8b = classic({
    .name = "pythia-2.8b",
    .num_hidden_layers = 32,
    .hidden_size = 2560,
    .intermediate_size = 10240,
    .num_attention_heads = 32,
    .vocab_size = 50304,
    .fused_qkv = true,
    .parallel_attention = true,
});

inline constexpr transformer pythia_6_9b = classic({
    .name = "pythia-6.9b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 16384,
    .num_attention_heads = 32,
    .vocab_size = 50432,
    .fused_qkv = true,
    .parallel_attention = true,
});

inline constexpr transformer pythia_12b = classic({
    .name = "pythia-12b",
    .num_hidden_layers = 36,
    .hidden_size = 5120,
    .intermediate_size = 20480,
    .num_attention_heads = 40,
    .vocab_size = 50688,
    .fused_qkv = true,
    .parallel_attention = true,
});

// OPT (arXiv 2205.01068): cli99/llm-analysis llm_analysis/model_configs. The table has two rows
// more than there are positions.

inline constexpr transformer opt_125m = classic({
    .name = "opt-125m",
    .num_hidden_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .vocab_size = 50272,
    .hidden_act = activation_function::relu,
    .position_rows = 2050,
    .tied_embeddings = true,
});

// Norms behind the residual, and a token table of half the width (print of the module:
// if001/alpaca-lora gomi.md).
inline constexpr transformer opt_350m = classic({
    .name = "opt-350m",
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .vocab_size = 50272,
    .hidden_act = activation_function::relu,
    .norm_at = norm_position::after_residual,
    .final_norm = false,
    .position_rows = 2050,
    .embedding_dim = 512,
    .tied_embeddings = true,
});

inline constexpr transformer opt_1_3b = classic({
    .name = "opt-1.3b",
    .num_hidden_layers = 24,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 32,
    .vocab_size = 50272,
    .hidden_act = activation_function::relu,
    .position_rows = 2050,
    .tied_embeddings = true,
});

// The total confirms the shape.
inline constexpr transformer opt_2_7b = classic({
    .name = "opt-2.7b",
    .num_hidden_layers = 32,
    .hidden_size = 2560,
    .intermediate_size = 10240,
    .num_attention_heads = 32,
    .vocab_size = 50272,
    .hidden_act = activation_function::relu,
    .position_rows = 2050,
    .tied_embeddings = true,
});

inline constexpr transformer opt_6_7b = classic({
    .name = "opt-6.7b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 16384,
    .num_attention_heads = 32,
    .vocab_size = 50272,
    .hidden_act = activation_function::relu,
    .position_rows = 2050,
    .tied_embeddings = true,
});

// GenZ-LLM-Analyzer prints a width of 5140, which is wrong.
inline constexpr transformer opt_13b = classic({
    .name = "opt-13b",
    .num_hidden_layers = 40,
    .hidden_size = 5120,
    .intermediate_size = 20480,
    .num_attention_heads = 40,
    .vocab_size = 50272,
    .hidden_act = activation_function::relu,
    .position_rows = 2050,
    .tied_embeddings = true,
});

// lrq619/LLMLayer config.py, abhibambhaniya/GenZ-LLM-Analyzer@091bdd0.
inline constexpr transformer opt_30b = classic({
    .name = "opt-30b",
    .num_hidden_layers = 48,
    .hidden_size = 7168,
    .intermediate_size = 28672,
    .num_attention_heads = 56,
    .vocab_size = 50272,
    .hidden_act = activation_function::relu,
    .position_rows = 2050,
    .tied_embeddings = true,
});

inline constexpr transformer opt_66b = classic({
    .name = "opt-66b",
    .num_hidden_layers = 64,
    .hidden_size = 9216,
    .intermediate_size = 36864,
    .num_attention_heads = 72,
    .vocab_size = 50272,
    .hidden_act = activation_function::relu,
    .position_rows = 2050,
    .tied_embeddings = true,
});

// BLOOM (arXiv 2211.05100): cli99/llm-analysis llm_analysis/model_configs. ALiBi: no table of
// positions.

inline constexpr transformer bloom_560m = classic({
    .name = "bloom-560m",
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .vocab_size = 250880,
    .fused_qkv = true,
    .embedding_norm = true,
    .alibi_positions = 1,
    .tied_embeddings = true,
});

// Widths up to 3b are what published totals need (RahulSChand/gpu_poor@ad2fc0e has the rest).
inline constexpr transformer bloom_1b1 = classic({
    .name = "bloom-1b1",
    .num_hidden_layers = 24,
    .hidden_size = 1536,
    .intermediate_size = 6144,
    .num_attention_heads = 16,
    .vocab_size = 250880,
    .fused_qkv = true,
    .embedding_norm = true,
    .alibi_positions = 1,
    .tied_embeddings = true,
});

inline constexpr transformer bloom_1b7 = classic({
    .name = "bloom-1b7",
    .num_hidden_layers = 24,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 16,
    .vocab_size = 250880,
    .fused_qkv = true,
    .embedding_norm = true,
    .alibi_positions = 1,
    .tied_embeddings = true,
});

inline constexpr transformer bloom_3b = classic({
    .name = "bloom-3b",
    .num_hidden_layers = 30,
    .hidden_size = 2560,
    .intermediate_size = 10240,
    .num_attention_heads = 32,
    .vocab_size = 250880,
    .fused_qkv = true,
    .embedding_norm = true,
    .alibi_positions = 1,
    .tied_embeddings = true,
});

inline constexpr transformer bloom_7b1 = classic({
    .name = "bloom-7b1",
    .num_hidden_layers = 30,
    .hidden_size = 4096,
    .intermediate_size = 16384,
    .num_attention_heads = 32,
    .vocab_size = 250880,
    .fused_qkv = true,
    .embedding_norm = true,
    .alibi_positions = 1,
    .tied_embeddings = true,
});

// BLOOM-176B.
inline constexpr transformer bloom = classic({
    .name = "bloom",
    .num_hidden_layers = 70,
    .hidden_size = 14336,
    .intermediate_size = 57344,
    .num_attention_heads = 112,
    .vocab_size = 250880,
    .fused_qkv = true,
    .embedding_norm = true,
    .alibi_positions = 1,
    .tied_embeddings = true,
});

// Falcon (arXiv 2311.16867): Lightning-AI/litgpt@2685705 litgpt/config.py.

inline constexpr transformer falcon_7b{
    .name = "falcon-7b",
    .num_hidden_layers = 32,
    .hidden_size = 4544,
    .intermediate_size = 18176,
    .num_attention_heads = 71,
    .num_key_value_heads = 1,
    .vocab_size = 65024,
    .fused_qkv = true,
    .parallel_attention = true,
    .gated_mlp = false,
    .hidden_act = activation_function::gelu,
    .norm = norm_kind::layer_norm,
    .norms_per_layer = 1,
    .norm_bias = true,
    .tied_embeddings = true,
};

inline constexpr transformer falcon_40b{
    .name = "falcon-40b",
    .num_hidden_layers = 60,
    .hidden_size = 8192,
    .intermediate_size = 32768,
    .num_attention_heads = 128,
    .num_key_value_heads = 8,
    .vocab_size = 65024,
    .fused_qkv = true,
    .parallel_attention = true,
    .gated_mlp = false,
    .hidden_act = activation_function::gelu,
    .norm = norm_kind::layer_norm,
    .norm_bias = true,
    .tied_embeddings = true,
};

// Unlike the others' its head is not tied.
inline constexpr transformer falcon_180b{
    .name = "falcon-180b",
    .num_hidden_layers = 80,
    .hidden_size = 14848,
    .intermediate_size = 59392,
    .num_attention_heads = 232,
    .num_key_value_heads = 8,
    .vocab_size = 65024,
    .fused_qkv = true,
    .parallel_attention = true,
    .gated_mlp = false,
    .hidden_act = activation_function::gelu,
    .norm = norm_kind::layer_norm,
    .norm_bias = true,
};

// MPT: mosaicml/llm-foundry scripts/train/yamls/pretrain, with a vocabulary of 50368; the 50432 of
// the released checkpoints are recalled. ALiBi, and no bias at all.

inline constexpr transformer mpt_7b{
    .name = "mpt-7b",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 16384,
    .num_attention_heads = 32,
    .vocab_size = 50432,
    .fused_qkv = true,
    .gated_mlp = false,
    .hidden_act = activation_function::gelu,
    .norm = norm_kind::layer_norm,
    .alibi_positions = 2048,
    .tied_embeddings = true,
};

inline constexpr transformer mpt_30b{
    .name = "mpt-30b",
    .num_hidden_layers = 48,
    .hidden_size = 7168,
    .intermediate_size = 28672,
    .num_attention_heads = 64,
    .vocab_size = 50432,
    .fused_qkv = true,
    .gated_mlp = false,
    .hidden_act = activation_function::gelu,
    .norm = norm_kind::layer_norm,
    .alibi_positions = 8192,
    .tied_embeddings = true,
};

/// StarCoder and SantaCoder (arXiv 2305.06161, 2301.03988): all heads share one key and value.
[[nodiscard]] constexpr transformer gpt_bigcode(const char* name,
                                                std::int64_t layers,
                                                std::int64_t width,
                                                std::int64_t heads,
                                                std::int64_t positions,
                                                std::int64_t vocabulary) {
  return classic({
      .name = name,
      .num_hidden_layers = layers,
      .hidden_size = width,
      .intermediate_size = 4 * width,
      .num_attention_heads = heads,
      .num_key_value_heads = 1,
      .vocab_size = vocabulary,
      .fused_qkv = true,
      .hidden_act = activation_function::gelu_tanh,
      .position_rows = positions,
      .tied_embeddings = true,
  });
}

inline constexpr transformer starcoder = gpt_bigcode("starcoder", 40, 6144, 48, 8192, 49152);
inline constexpr transformer santacoder = gpt_bigcode("santacoder", 24, 2048, 16, 2048, 49280);

}  // namespace gpuplan::catalog
