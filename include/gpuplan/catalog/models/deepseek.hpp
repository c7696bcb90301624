#pragma once

// DeepSeek, Kimi, Moonlight: experts, and latent attention in most.

#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// DeepSeekMoE (arXiv 2401.06066), DeepSeek-V2 (2405.04434), DeepSeek-V3 (2412.19437) and R1.

// Recalled from its config.json, not read; the total confirms it. GenZ-LLM-Analyzer prints 2
// key-value heads and shared experts of 1408, which is wrong.
inline constexpr transformer deepseek_moe_16b{
    .name = "deepseek-moe-16b",
    .num_hidden_layers = 28,
    .hidden_size = 2048,
    .intermediate_size = 10944,
    .num_attention_heads = 16,
    .vocab_size = 102400,
    .moe = {.num_experts = 64,
            .num_experts_per_tok = 6,
            .moe_intermediate_size = 1408,
            .shared_expert_intermediate_size = 2816,
            .first_k_dense_layers = 1},
};

// AMD-AGI/Primus deepseek_v2_lite.yaml. SimuMax prints 28 layers, which is wrong.
inline constexpr transformer deepseek_v2_lite{
    .name = "deepseek-v2-lite",
    .num_hidden_layers = 27,
    .hidden_size = 2048,
    .intermediate_size = 10944,
    .num_attention_heads = 16,
    .vocab_size = 102400,
    .mla = {.kv_lora_rank = 512,
            .qk_nope_head_dim = 128,
            .qk_rope_head_dim = 64,
            .v_head_dim = 128},
    .moe = {.num_experts = 64,
            .num_experts_per_tok = 6,
            .moe_intermediate_size = 1408,
            .shared_expert_intermediate_size = 2816,
            .first_k_dense_layers = 1},
};

// AMD-AGI/Primus deepseek_v2.yaml.
inline constexpr transformer deepseek_v2{
    .name = "deepseek-v2",
    .num_hidden_layers = 60,
    .hidden_size = 5120,
    .intermediate_size = 12288,
    .num_attention_heads = 128,
    .vocab_size = 102400,
    .mla = {.q_lora_rank = 1536,
            .kv_lora_rank = 512,
            .qk_nope_head_dim = 128,
            .qk_rope_head_dim = 64,
            .v_head_dim = 128},
    .moe = {.num_experts = 160,
            .num_experts_per_tok = 6,
            .moe_intermediate_size = 1536,
            .shared_expert_intermediate_size = 3072,
            .first_k_dense_layers = 1},
};

// ai-dynamo/aiconfigurator model_configs, the published config.json. `router_bias` is the vector
// that balances experts, which checkpoints hold and optimizers do not train.
inline constexpr transformer deepseek_v3{
    .name = "deepseek-v3",
    .num_hidden_layers = 61,
    .hidden_size = 7168,
    .intermediate_size = 18432,
    .num_attention_heads = 128,
    .vocab_size = 129280,
    .mla = {.q_lora_rank = 1536,
            .kv_lora_rank = 512,
            .qk_nope_head_dim = 128,
            .qk_rope_head_dim = 64,
            .v_head_dim = 128},
    .moe = {.num_experts = 256,
            .num_experts_per_tok = 8,
            .moe_intermediate_size = 2048,
            .shared_expert_intermediate_size = 2048,
            .router_bias = true,
            .first_k_dense_layers = 3},
    .mtp_layers = 1,
};

// The same shape.
inline constexpr transformer deepseek_r1 = [] {
  transformer shape = deepseek_v3;
  shape.name = "deepseek-r1";
  return shape;
}();

// Kimi K2 (arXiv 2507.20534) and Moonlight (2502.16982), shaped like DeepSeek-V3.

// ai-dynamo/aiconfigurator model_configs, the published config.json.
inline constexpr transformer kimi_k2{
    .name = "kimi-k2",
    .num_hidden_layers = 61,
    .hidden_size = 7168,
    .intermediate_size = 18432,
    .num_attention_heads = 64,
    .vocab_size = 163840,
    .mla = {.q_lora_rank = 1536,
            .kv_lora_rank = 512,
            .qk_nope_head_dim = 128,
            .qk_rope_head_dim = 64,
            .v_head_dim = 128},
    .moe = {.num_experts = 384,
            .num_experts_per_tok = 8,
            .moe_intermediate_size = 2048,
            .shared_expert_intermediate_size = 2048,
            .router_bias = true,
            .first_k_dense_layers = 1},
};

// Recalled from its config.json, not read.
inline constexpr transformer moonlight_16b_a3b{
    .name = "moonlight-16b-a3b",
    .num_hidden_layers = 27,
    .hidden_size = 2048,
    .intermediate_size = 11264,
    .num_attention_heads = 16,
    .vocab_size = 163840,
    .mla = {.kv_lora_rank = 512,
            .qk_nope_head_dim = 128,
            .qk_rope_head_dim = 64,
            .v_head_dim = 128},
    .moe = {.num_experts = 64,
            .num_experts_per_tok = 6,
            .moe_intermediate_size = 1408,
            .shared_expert_intermediate_size = 2816,
            .router_bias = true,
            .first_k_dense_layers = 1},
};

}  // namespace gpuplan::catalog
