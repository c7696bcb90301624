#pragma once

// DBRX, Grok-1, StarCoder2, Command R, gpt-oss, GLM-4.5.

#include <gpuplan/catalog/models/classic.hpp>
#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// DBRX: huggingface/transformers@0b36d82 models/dbrx, abhibambhaniya/GenZ-LLM-Analyzer@091bdd0.

inline constexpr transformer dbrx{
    .name = "dbrx",
    .num_hidden_layers = 40,
    .hidden_size = 6144,
    .num_attention_heads = 48,
    .num_key_value_heads = 8,
    .vocab_size = 100352,
    .fused_qkv = true,
    .moe = {.num_experts = 16, .num_experts_per_tok = 4, .moe_intermediate_size = 10752},
    .norm = norm_kind::layer_norm,
};

// Grok-1: AMD-AGI/Primus primus/configs/models/megatron/grok1.yaml; four norms a layer and the tied
// head are what the published total needs. The 314 B in print may be without the token table
// (314.88 B); the 86 B active are not reproduced: 2 of 8 experts make 83.8 B.

inline constexpr transformer grok_1{
    .name = "grok-1",
    .num_hidden_layers = 64,
    .hidden_size = 6144,
    .num_attention_heads = 48,
    .num_key_value_heads = 8,
    .vocab_size = 131072,
    .hidden_act = activation_function::gelu,
    .moe = {.num_experts = 8, .num_experts_per_tok = 2, .moe_intermediate_size = 32768},
    .norm_at = norm_position::around,
    .norms_per_layer = 4,
    .tied_embeddings = true,
};

// StarCoder2 (arXiv 2402.19173).

// Defaults of Starcoder2Config, ml-explore/mlx-lm.
inline constexpr transformer starcoder2_3b = classic({
    .name = "starcoder2-3b",
    .num_hidden_layers = 30,
    .hidden_size = 3072,
    .intermediate_size = 12288,
    .num_attention_heads = 24,
    .num_key_value_heads = 2,
    .vocab_size = 49152,
    .sliding_window = 4096,
    .hidden_act = activation_function::gelu_tanh,
    .tied_embeddings = true,
});

// Recalled from its config.json, not read; the total confirms it.
inline constexpr transformer starcoder2_7b = classic({
    .name = "starcoder2-7b",
    .num_hidden_layers = 32,
    .hidden_size = 4608,
    .intermediate_size = 18432,
    .num_attention_heads = 36,
    .num_key_value_heads = 4,
    .vocab_size = 49152,
    .sliding_window = 4096,
    .hidden_act = activation_function::gelu_tanh,
    .tied_embeddings = true,
});

// Recalled from its config.json, not read.
inline constexpr transformer starcoder2_15b = classic({
    .name = "starcoder2-15b",
    .num_hidden_layers = 40,
    .hidden_size = 6144,
    .intermediate_size = 24576,
    .num_attention_heads = 48,
    .num_key_value_heads = 4,
    .vocab_size = 49152,
    .sliding_window = 4096,
    .hidden_act = activation_function::gelu_tanh,
});

// Command R.

// huggingface/transformers@008e574 models/cohere/configuration_cohere.py.
inline constexpr transformer command_r_v01{
    .name = "command-r-v01",
    .num_hidden_layers = 40,
    .hidden_size = 8192,
    .intermediate_size = 22528,
    .num_attention_heads = 64,
    .vocab_size = 256000,
    .parallel_attention = true,
    .norm = norm_kind::layer_norm,
    .norms_per_layer = 1,
    .tied_embeddings = true,
};

// Recalled from its config.json, not read.
inline constexpr transformer command_r_plus{
    .name = "command-r-plus",
    .num_hidden_layers = 64,
    .hidden_size = 12288,
    .intermediate_size = 33792,
    .num_attention_heads = 96,
    .num_key_value_heads = 8,
    .vocab_size = 256000,
    .parallel_attention = true,
    .norm = norm_kind::layer_norm,
    .norms_per_layer = 1,
    .qk_norm = qk_norm_scope::full_width,
    .tied_embeddings = true,
};

// gpt-oss (arXiv 2508.10925): ai-dynamo/aiconfigurator model_configs, the published config.json.
// The active parameters in print, 3.61 B and 5.13 B, leave out the token table.

inline constexpr transformer gpt_oss_20b{
    .name = "gpt-oss-20b",
    .num_hidden_layers = 24,
    .hidden_size = 2880,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .head_dim = 64,
    .vocab_size = 201088,
    .attention_bias = true,
    .attention_out_bias = true,
    .attention_sinks = true,
    .sliding_window = 128,
    .global_layer_step = 2,
    .mlp_bias = true,
    .clamped_gate_up = true,
    .moe = {.num_experts = 32,
            .num_experts_per_tok = 4,
            .moe_intermediate_size = 2880,
            .router_bias = true},
};

inline constexpr transformer gpt_oss_120b{
    .name = "gpt-oss-120b",
    .num_hidden_layers = 36,
    .hidden_size = 2880,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .head_dim = 64,
    .vocab_size = 201088,
    .attention_bias = true,
    .attention_out_bias = true,
    .attention_sinks = true,
    .sliding_window = 128,
    .global_layer_step = 2,
    .mlp_bias = true,
    .clamped_gate_up = true,
    .moe = {.num_experts = 128,
            .num_experts_per_tok = 4,
            .moe_intermediate_size = 2880,
            .router_bias = true},
};

// GLM-4.5 (arXiv 2508.06471): NVIDIA-NeMo/Megatron-Bridge
// tests/unit_tests/models/glm/test_glm45_bridge.py.

inline constexpr transformer glm_4_5{
    .name = "glm-4.5",
    .num_hidden_layers = 92,
    .hidden_size = 5120,
    .intermediate_size = 12288,
    .num_attention_heads = 96,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 151552,
    .attention_bias = true,
    .moe = {.num_experts = 160,
            .num_experts_per_tok = 8,
            .moe_intermediate_size = 1536,
            .shared_expert_intermediate_size = 1536,
            .router_bias = true,
            .first_k_dense_layers = 3},
    .qk_norm = qk_norm_scope::head,
    .mtp_layers = 1,
};

inline constexpr transformer glm_4_5_air{
    .name = "glm-4.5-air",
    .num_hidden_layers = 46,
    .hidden_size = 4096,
    .intermediate_size = 10944,
    .num_attention_heads = 96,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 151552,
    .attention_bias = true,
    .moe = {.num_experts = 128,
            .num_experts_per_tok = 8,
            .moe_intermediate_size = 1408,
            .shared_expert_intermediate_size = 1408,
            .router_bias = true,
            .first_k_dense_layers = 1},
    .mtp_layers = 1,
};

// Models of 2024 and later, recalled from their config.json, not read. Their totals are what
// transformers 5.23 counts in classes of these shapes.

// Every fourth layer rotates nothing.
inline constexpr transformer smollm3_3b{
    .name = "smollm3-3b",
    .num_hidden_layers = 36,
    .hidden_size = 2048,
    .intermediate_size = 11008,
    .num_attention_heads = 16,
    .num_key_value_heads = 4,
    .vocab_size = 128256,
    .no_rope_layer_interval = 4,
    .tied_embeddings = true,
};

// Multiplied embeddings, residuals and logits have no parameters.
inline constexpr transformer granite_3_3_2b{
    .name = "granite-3.3-2b",
    .num_hidden_layers = 40,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 49159,
    .tied_embeddings = true,
};

inline constexpr transformer granite_3_3_8b{
    .name = "granite-3.3-8b",
    .num_hidden_layers = 40,
    .hidden_size = 4096,
    .intermediate_size = 12800,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 49159,
    .tied_embeddings = true,
};

inline constexpr transformer granite_3_1_1b_a400m{
    .name = "granite-3.1-1b-a400m",
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .num_attention_heads = 16,
    .num_key_value_heads = 8,
    .vocab_size = 49155,
    .moe = {.num_experts = 32, .num_experts_per_tok = 8, .moe_intermediate_size = 512},
    .tied_embeddings = true,
};

inline constexpr transformer granite_3_1_3b_a800m{
    .name = "granite-3.1-3b-a800m",
    .num_hidden_layers = 32,
    .hidden_size = 1536,
    .num_attention_heads = 24,
    .num_key_value_heads = 8,
    .vocab_size = 49155,
    .moe = {.num_experts = 40, .num_experts_per_tok = 8, .moe_intermediate_size = 512},
    .tied_embeddings = true,
};

inline constexpr transformer glm_4_9b_0414{
    .name = "glm-4-9b-0414",
    .num_hidden_layers = 40,
    .hidden_size = 4096,
    .intermediate_size = 13696,
    .num_attention_heads = 32,
    .num_key_value_heads = 2,
    .head_dim = 128,
    .vocab_size = 151552,
    .attention_bias = true,
    .rotary_dim = 64,
    .fused_gate_up = true,
    .norm_at = norm_position::around,
    .norms_per_layer = 4,
};

inline constexpr transformer glm_4_32b_0414{
    .name = "glm-4-32b-0414",
    .num_hidden_layers = 61,
    .hidden_size = 6144,
    .intermediate_size = 23040,
    .num_attention_heads = 48,
    .num_key_value_heads = 2,
    .head_dim = 128,
    .vocab_size = 151552,
    .rotary_dim = 64,
    .fused_gate_up = true,
    .norm_at = norm_position::around,
    .norms_per_layer = 4,
};

inline constexpr transformer ministral_8b_2410{
    .name = "ministral-8b-2410",
    .num_hidden_layers = 36,
    .hidden_size = 4096,
    .intermediate_size = 12288,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 131072,
    .sliding_window = 32768,
};

inline constexpr transformer stablelm_3b_4e1t{
    .name = "stablelm-3b-4e1t",
    .num_hidden_layers = 32,
    .hidden_size = 2560,
    .intermediate_size = 6912,
    .num_attention_heads = 32,
    .vocab_size = 50304,
    .rotary_dim = 20,
    .norm = norm_kind::layer_norm,
    .norm_bias = true,
};

inline constexpr transformer stablelm_2_1_6b{
    .name = "stablelm-2-1.6b",
    .num_hidden_layers = 24,
    .hidden_size = 2048,
    .intermediate_size = 5632,
    .num_attention_heads = 32,
    .vocab_size = 100352,
    .attention_bias = true,
    .rotary_dim = 16,
    .norm = norm_kind::layer_norm,
    .norm_bias = true,
};

inline constexpr transformer seed_oss_36b{
    .name = "seed-oss-36b",
    .num_hidden_layers = 64,
    .hidden_size = 5120,
    .intermediate_size = 27648,
    .num_attention_heads = 80,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 155136,
    .attention_bias = true,
};

inline constexpr transformer ernie_4_5_0_3b{
    .name = "ernie-4.5-0.3b",
    .num_hidden_layers = 18,
    .hidden_size = 1024,
    .intermediate_size = 3072,
    .num_attention_heads = 16,
    .num_key_value_heads = 2,
    .head_dim = 128,
    .vocab_size = 103424,
    .tied_embeddings = true,
};

inline constexpr transformer ernie_4_5_21b_a3b{
    .name = "ernie-4.5-21b-a3b",
    .num_hidden_layers = 28,
    .hidden_size = 2560,
    .intermediate_size = 12288,
    .num_attention_heads = 20,
    .num_key_value_heads = 4,
    .vocab_size = 103424,
    .moe = {.num_experts = 64,
            .num_experts_per_tok = 6,
            .moe_intermediate_size = 1536,
            .shared_expert_intermediate_size = 3072,
            .router_bias = true,
            .first_k_dense_layers = 1},
    .tied_embeddings = true,
};

inline constexpr transformer afm_4_5b{
    .name = "afm-4.5b",
    .num_hidden_layers = 36,
    .hidden_size = 2560,
    .intermediate_size = 18432,
    .num_attention_heads = 20,
    .num_key_value_heads = 4,
    .head_dim = 128,
    .vocab_size = 128004,
    .gated_mlp = false,
    .hidden_act = activation_function::relu_squared,
};

inline constexpr transformer helium_1_2b{
    .name = "helium-1-2b",
    .num_hidden_layers = 28,
    .hidden_size = 2048,
    .intermediate_size = 8192,
    .num_attention_heads = 16,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 64000,
};

inline constexpr transformer vaultgemma_1b{
    .name = "vaultgemma-1b",
    .num_hidden_layers = 26,
    .hidden_size = 1152,
    .intermediate_size = 6912,
    .num_attention_heads = 4,
    .head_dim = 256,
    .vocab_size = 256000,
    .sliding_window = 512,
    .global_layer_step = 2,
    .hidden_act = activation_function::gelu_tanh,
    .tied_embeddings = true,
};

// Without rotation where all tokens are seen.
inline constexpr transformer exaone_4_0_32b{
    .name = "exaone-4.0-32b",
    .num_hidden_layers = 64,
    .hidden_size = 5120,
    .intermediate_size = 27392,
    .num_attention_heads = 40,
    .num_key_value_heads = 8,
    .vocab_size = 102400,
    .sliding_window = 4096,
    .global_layer_step = 4,
    .no_rope_layer_interval = 4,
    .norm_at = norm_position::after_sublayer,
    .qk_norm = qk_norm_scope::head,
};

// Mamba-2 (arXiv 2405.21060).
inline constexpr transformer mamba2_2_7b{
    .name = "mamba2-2.7b",
    .num_hidden_layers = 64,
    .hidden_size = 2560,
    .num_attention_heads = 80,
    .head_dim = 64,
    .vocab_size = 50288,
    .mamba = {.num_heads = 80,
              .head_dim = 64,
              .state_size = 128,
              .chunk_size = 256,
              .residual_in_fp32 = true},
    .hybrid_pattern = state_spaces_alone(64),
    .tied_embeddings = true,
};

}  // namespace gpuplan::catalog
