#pragma once

// T5 and T5 1.1.

#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// T5 (arXiv 1910.10683) and T5 1.1: keras-team/keras-hub@71453d0 (its hidden_dim is the width of
// the MLP), RahulSChand/gpu_poor@ad2fc0e. Cross-attention has no biases of positions.

inline constexpr transformer t5_small{
    .name = "t5-small",
    .kind = model_kind::encoder_decoder,
    .num_hidden_layers = 6,
    .num_decoder_layers = 6,
    .hidden_size = 512,
    .intermediate_size = 2048,
    .num_attention_heads = 8,
    .vocab_size = 32128,
    .gated_mlp = false,
    .hidden_act = activation_function::relu,
    .relative_attention_buckets = 32,
    .tied_embeddings = true,
};

inline constexpr transformer t5_base{
    .name = "t5-base",
    .kind = model_kind::encoder_decoder,
    .num_hidden_layers = 12,
    .num_decoder_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .vocab_size = 32128,
    .gated_mlp = false,
    .hidden_act = activation_function::relu,
    .relative_attention_buckets = 32,
    .tied_embeddings = true,
};

inline constexpr transformer t5_large{
    .name = "t5-large",
    .kind = model_kind::encoder_decoder,
    .num_hidden_layers = 24,
    .num_decoder_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .vocab_size = 32128,
    .gated_mlp = false,
    .hidden_act = activation_function::relu,
    .relative_attention_buckets = 32,
    .tied_embeddings = true,
};

inline constexpr transformer t5_3b{
    .name = "t5-3b",
    .kind = model_kind::encoder_decoder,
    .num_hidden_layers = 24,
    .num_decoder_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 16384,
    .num_attention_heads = 32,
    .head_dim = 128,
    .vocab_size = 32128,
    .gated_mlp = false,
    .hidden_act = activation_function::relu,
    .relative_attention_buckets = 32,
    .tied_embeddings = true,
};

inline constexpr transformer t5_11b{
    .name = "t5-11b",
    .kind = model_kind::encoder_decoder,
    .num_hidden_layers = 24,
    .num_decoder_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 65536,
    .num_attention_heads = 128,
    .head_dim = 128,
    .vocab_size = 32128,
    .gated_mlp = false,
    .hidden_act = activation_function::relu,
    .relative_attention_buckets = 32,
    .tied_embeddings = true,
};

inline constexpr transformer t5_v1_1_small{
    .name = "t5-v1.1-small",
    .kind = model_kind::encoder_decoder,
    .num_hidden_layers = 8,
    .num_decoder_layers = 8,
    .hidden_size = 512,
    .intermediate_size = 1024,
    .num_attention_heads = 6,
    .head_dim = 64,
    .vocab_size = 32128,
    .hidden_act = activation_function::gelu_new,
    .relative_attention_buckets = 32,
};

inline constexpr transformer t5_v1_1_base{
    .name = "t5-v1.1-base",
    .kind = model_kind::encoder_decoder,
    .num_hidden_layers = 12,
    .num_decoder_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 2048,
    .num_attention_heads = 12,
    .vocab_size = 32128,
    .hidden_act = activation_function::gelu_new,
    .relative_attention_buckets = 32,
};

inline constexpr transformer t5_v1_1_large{
    .name = "t5-v1.1-large",
    .kind = model_kind::encoder_decoder,
    .num_hidden_layers = 24,
    .num_decoder_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 2816,
    .num_attention_heads = 16,
    .vocab_size = 32128,
    .hidden_act = activation_function::gelu_new,
    .relative_attention_buckets = 32,
};

inline constexpr transformer t5_v1_1_xl{
    .name = "t5-v1.1-xl",
    .kind = model_kind::encoder_decoder,
    .num_hidden_layers = 24,
    .num_decoder_layers = 24,
    .hidden_size = 2048,
    .intermediate_size = 5120,
    .num_attention_heads = 32,
    .vocab_size = 32128,
    .hidden_act = activation_function::gelu_new,
    .relative_attention_buckets = 32,
};

inline constexpr transformer t5_v1_1_xxl{
    .name = "t5-v1.1-xxl",
    .kind = model_kind::encoder_decoder,
    .num_hidden_layers = 24,
    .num_decoder_layers = 24,
    .hidden_size = 4096,
    .intermediate_size = 10240,
    .num_attention_heads = 64,
    .vocab_size = 32128,
    .hidden_act = activation_function::gelu_new,
    .relative_attention_buckets = 32,
};

// FLAN-T5 (arXiv 2210.11416) has the shapes of T5 1.1.
[[nodiscard]] constexpr transformer renamed(const char* name, transformer model) {
  model.name = name;
  return model;
}

inline constexpr transformer flan_t5_small = renamed("flan-t5-small", t5_v1_1_small);
inline constexpr transformer flan_t5_base = renamed("flan-t5-base", t5_v1_1_base);
inline constexpr transformer flan_t5_large = renamed("flan-t5-large", t5_v1_1_large);
inline constexpr transformer flan_t5_xl = renamed("flan-t5-xl", t5_v1_1_xl);
inline constexpr transformer flan_t5_xxl = renamed("flan-t5-xxl", t5_v1_1_xxl);

}  // namespace gpuplan::catalog
