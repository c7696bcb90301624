#pragma once

// Qwen 1.5 to 3.

#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// Qwen1.5. Recalled from its config.json, not read.

inline constexpr transformer qwen1_5_0_5b{
    .name = "qwen1.5-0.5b",
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 2816,
    .num_attention_heads = 16,
    .vocab_size = 151936,
    .attention_bias = true,
};

// Four shared experts of 1408, made as one.
inline constexpr transformer qwen1_5_moe_a2_7b{
    .name = "qwen1.5-moe-a2.7b",
    .num_hidden_layers = 24,
    .hidden_size = 2048,
    .num_attention_heads = 16,
    .vocab_size = 151936,
    .attention_bias = true,
    .moe = {.num_experts = 60,
            .num_experts_per_tok = 4,
            .moe_intermediate_size = 1408,
            .shared_expert_intermediate_size = 5632,
            .shared_expert_gate = true},
};

// Qwen2 (arXiv 2407.10671), of the same shapes as Qwen2.5: Lightning-AI/litgpt@2685705
// litgpt/config.py.

inline constexpr transformer qwen2_7b{
    .name = "qwen2-7b",
    .num_hidden_layers = 28,
    .hidden_size = 3584,
    .intermediate_size = 18944,
    .num_attention_heads = 28,
    .num_key_value_heads = 4,
    .vocab_size = 152064,
    .attention_bias = true,
};

inline constexpr transformer qwen2_72b{
    .name = "qwen2-72b",
    .num_hidden_layers = 80,
    .hidden_size = 8192,
    .intermediate_size = 29568,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .vocab_size = 152064,
    .attention_bias = true,
};

inline constexpr transformer qwen2_0_5b{
    .name = "qwen2-0.5b",
    .num_hidden_layers = 24,
    .hidden_size = 896,
    .intermediate_size = 4864,
    .num_attention_heads = 14,
    .num_key_value_heads = 2,
    .vocab_size = 151936,
    .attention_bias = true,
    .tied_embeddings = true,
};

inline constexpr transformer qwen2_1_5b{
    .name = "qwen2-1.5b",
    .num_hidden_layers = 28,
    .hidden_size = 1536,
    .intermediate_size = 8960,
    .num_attention_heads = 12,
    .num_key_value_heads = 2,
    .vocab_size = 151936,
    .attention_bias = true,
    .tied_embeddings = true,
};

// Qwen2.5 (arXiv 2412.15115): Lightning-AI/litgpt@2685705 litgpt/config.py.

inline constexpr transformer qwen2_5_0_5b{
    .name = "qwen2.5-0.5b",
    .num_hidden_layers = 24,
    .hidden_size = 896,
    .intermediate_size = 4864,
    .num_attention_heads = 14,
    .num_key_value_heads = 2,
    .vocab_size = 151936,
    .attention_bias = true,
    .tied_embeddings = true,
};

inline constexpr transformer qwen2_5_1_5b{
    .name = "qwen2.5-1.5b",
    .num_hidden_layers = 28,
    .hidden_size = 1536,
    .intermediate_size = 8960,
    .num_attention_heads = 12,
    .num_key_value_heads = 2,
    .vocab_size = 151936,
    .attention_bias = true,
    .tied_embeddings = true,
};

inline constexpr transformer qwen2_5_3b{
    .name = "qwen2.5-3b",
    .num_hidden_layers = 36,
    .hidden_size = 2048,
    .intermediate_size = 11008,
    .num_attention_heads = 16,
    .num_key_value_heads = 2,
    .vocab_size = 151936,
    .attention_bias = true,
    .tied_embeddings = true,
};

inline constexpr transformer qwen2_5_7b{
    .name = "qwen2.5-7b",
    .num_hidden_layers = 28,
    .hidden_size = 3584,
    .intermediate_size = 18944,
    .num_attention_heads = 28,
    .num_key_value_heads = 4,
    .vocab_size = 152064,
    .attention_bias = true,
};

inline constexpr transformer qwen2_5_14b{
    .name = "qwen2.5-14b",
    .num_hidden_layers = 48,
    .hidden_size = 5120,
    .intermediate_size = 13824,
    .num_attention_heads = 40,
    .num_key_value_heads = 8,
    .vocab_size = 152064,
    .attention_bias = true,
};

inline constexpr transformer qwen2_5_32b{
    .name = "qwen2.5-32b",
    .num_hidden_layers = 64,
    .hidden_size = 5120,
    .intermediate_size = 27648,
    .num_attention_heads = 40,
    .num_key_value_heads = 8,
    .vocab_size = 152064,
    .attention_bias = true,
};

inline constexpr transformer qwen2_5_72b{
    .name = "qwen2.5-72b",
    .num_hidden_layers = 80,
    .hidden_size = 8192,
    .intermediate_size = 29568,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .vocab_size = 152064,
    .attention_bias = true,
};

// DeepSeek's distillate of Qwen2.5-Math-1.5B, whose head is a matrix of its own: its config.json in
// AlexsJones/llmfit 1.1.17, whose total confirms it.
inline constexpr transformer deepseek_r1_distill_qwen_1_5b = [] {
  transformer other = qwen2_5_1_5b;
  other.name = "deepseek-r1-distill-qwen-1.5b";
  other.tied_embeddings = false;
  return other;
}();

// Qwen3 (arXiv 2505.09388): Lightning-AI/litgpt@2685705 litgpt/config.py.

inline constexpr transformer qwen3_0_6b{
    .name = "qwen3-0.6b",
    .num_hidden_layers = 28,
    .hidden_size = 1024,
    .intermediate_size = 3072,
    .num_attention_heads = 16,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 151936,
    .qk_norm = qk_norm_scope::head,
    .tied_embeddings = true,
};

inline constexpr transformer qwen3_1_7b{
    .name = "qwen3-1.7b",
    .num_hidden_layers = 28,
    .hidden_size = 2048,
    .intermediate_size = 6144,
    .num_attention_heads = 16,
    .num_key_value_heads = 8,
    .vocab_size = 151936,
    .qk_norm = qk_norm_scope::head,
    .tied_embeddings = true,
};

inline constexpr transformer qwen3_4b{
    .name = "qwen3-4b",
    .num_hidden_layers = 36,
    .hidden_size = 2560,
    .intermediate_size = 9728,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 151936,
    .qk_norm = qk_norm_scope::head,
    .tied_embeddings = true,
};

inline constexpr transformer qwen3_8b{
    .name = "qwen3-8b",
    .num_hidden_layers = 36,
    .hidden_size = 4096,
    .intermediate_size = 12288,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .vocab_size = 151936,
    .qk_norm = qk_norm_scope::head,
};

inline constexpr transformer qwen3_14b{
    .name = "qwen3-14b",
    .num_hidden_layers = 40,
    .hidden_size = 5120,
    .intermediate_size = 17408,
    .num_attention_heads = 40,
    .num_key_value_heads = 8,
    .vocab_size = 151936,
    .qk_norm = qk_norm_scope::head,
};

inline constexpr transformer qwen3_32b{
    .name = "qwen3-32b",
    .num_hidden_layers = 64,
    .hidden_size = 5120,
    .intermediate_size = 25600,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 151936,
    .qk_norm = qk_norm_scope::head,
};

// Qwen3's mixtures of experts: ai-dynamo/aiconfigurator model_configs, the published config.json.

inline constexpr transformer qwen3_30b_a3b{
    .name = "qwen3-30b-a3b",
    .num_hidden_layers = 48,
    .hidden_size = 2048,
    .num_attention_heads = 32,
    .num_key_value_heads = 4,
    .head_dim = 128,
    .vocab_size = 151936,
    .moe = {.num_experts = 128, .num_experts_per_tok = 8, .moe_intermediate_size = 768},
    .qk_norm = qk_norm_scope::head,
};

inline constexpr transformer qwen3_235b_a22b{
    .name = "qwen3-235b-a22b",
    .num_hidden_layers = 94,
    .hidden_size = 4096,
    .num_attention_heads = 64,
    .num_key_value_heads = 4,
    .head_dim = 128,
    .vocab_size = 151936,
    .moe = {.num_experts = 128, .num_experts_per_tok = 8, .moe_intermediate_size = 1536},
    .qk_norm = qk_norm_scope::head,
};

inline constexpr transformer qwen3_coder_480b_a35b{
    .name = "qwen3-coder-480b-a35b",
    .num_hidden_layers = 62,
    .hidden_size = 6144,
    .num_attention_heads = 96,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .vocab_size = 151936,
    .moe = {.num_experts = 160, .num_experts_per_tok = 8, .moe_intermediate_size = 2560},
    .qk_norm = qk_norm_scope::head,
};

// Qwen3-Next and Qwen3.5, without layers of multi-token prediction, the latter for language alone:
// the defaults of transformers 5.23's Qwen3NextConfig and Qwen3_5MoeTextConfig.

inline constexpr transformer qwen3_next_80b_a3b{
    .name = "qwen3-next-80b-a3b",
    .num_hidden_layers = 48,
    .hidden_size = 2048,
    .num_attention_heads = 16,
    .num_key_value_heads = 2,
    .head_dim = 256,
    .vocab_size = 151936,
    .rotary_dim = 64,
    .attention_gate = true,
    .linear = {.num_key_heads = 16,
               .key_head_dim = 128,
               .num_value_heads = 32,
               .value_head_dim = 128},
    .full_attention_interval = 4,
    .moe = {.num_experts = 512,
            .num_experts_per_tok = 10,
            .moe_intermediate_size = 512,
            .shared_expert_intermediate_size = 512,
            .shared_expert_gate = true,
            .norm_topk_prob = true},
    .qk_norm = qk_norm_scope::head,
};

inline constexpr transformer qwen3_5_35b_a3b = [] {
  transformer other = qwen3_next_80b_a3b;
  other.name = "qwen3.5-35b-a3b";
  other.num_hidden_layers = 40;
  other.vocab_size = 248320;
  other.moe.num_experts = 256;
  other.moe.num_experts_per_tok = 8;
  return other;
}();

// The dense ones: the defaults of Qwen3_5TextConfig are those of 9B; THUDM/slime
// scripts/models/qwen3.5-27B.sh. What 4B has otherwise, and the heads of linear attention, are
// recalled from their config.json, not read; the totals of checkpoints without images confirm them.

inline constexpr transformer qwen3_5_9b = [] {
  transformer other = qwen3_next_80b_a3b;
  other.name = "qwen3.5-9b";
  other.num_hidden_layers = 32;
  other.hidden_size = 4096;
  other.intermediate_size = 12288;
  other.num_key_value_heads = 4;
  other.vocab_size = 248320;
  other.moe = {};
  return other;
}();

inline constexpr transformer qwen3_5_4b = [] {
  transformer other = qwen3_5_9b;
  other.name = "qwen3.5-4b";
  other.hidden_size = 2560;
  other.intermediate_size = 9216;
  other.tied_embeddings = true;
  return other;
}();

inline constexpr transformer qwen3_5_27b = [] {
  transformer other = qwen3_5_9b;
  other.name = "qwen3.5-27b";
  other.num_hidden_layers = 64;
  other.hidden_size = 5120;
  other.intermediate_size = 17408;
  other.num_attention_heads = 24;
  other.linear.num_value_heads = 48;
  return other;
}();

}  // namespace gpuplan::catalog
