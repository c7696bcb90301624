#pragma once

// Encoders of text: BERT, RoBERTa, DistilBERT, and sentence embeddings.

#include <gpuplan/catalog/models/classic.hpp>
#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// BERT (arXiv 1810.04805), without the head of its pre-training: cli99/llm-analysis
// llm_analysis/model_configs.

inline constexpr transformer bert_base_uncased = classic({
    .name = "bert-base-uncased",
    .kind = model_kind::encoder,
    .num_hidden_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .vocab_size = 30522,
    .norm_at = norm_position::after_residual,
    .final_norm = false,
    .embedding_norm = true,
    .position_rows = 512,
    .type_vocab_size = 2,
    .head = head_kind::none,
    .pooler = true,
});

inline constexpr transformer bert_large_uncased = classic({
    .name = "bert-large-uncased",
    .kind = model_kind::encoder,
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .vocab_size = 30522,
    .norm_at = norm_position::after_residual,
    .final_norm = false,
    .embedding_norm = true,
    .position_rows = 512,
    .type_vocab_size = 2,
    .head = head_kind::none,
    .pooler = true,
});

// RoBERTa (arXiv 1907.11692) and XLM-R (1911.02116): two of the rows of positions are not used.

// keras-team/keras-hub@71453d0; the rest recalled from config.json. The total confirms both.
inline constexpr transformer roberta_base = classic({
    .name = "roberta-base",
    .kind = model_kind::encoder,
    .num_hidden_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .vocab_size = 50265,
    .norm_at = norm_position::after_residual,
    .final_norm = false,
    .embedding_norm = true,
    .position_rows = 514,
    .type_vocab_size = 1,
    .head = head_kind::none,
});

inline constexpr transformer roberta_large = classic({
    .name = "roberta-large",
    .kind = model_kind::encoder,
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .vocab_size = 50265,
    .norm_at = norm_position::after_residual,
    .final_norm = false,
    .embedding_norm = true,
    .position_rows = 514,
    .type_vocab_size = 1,
    .head = head_kind::none,
});

// GenZ-LLM-Analyzer@091bdd0 e5_base and e5_large, which have these shapes.
inline constexpr transformer xlm_roberta_base = classic({
    .name = "xlm-roberta-base",
    .kind = model_kind::encoder,
    .num_hidden_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .vocab_size = 250002,
    .norm_at = norm_position::after_residual,
    .final_norm = false,
    .embedding_norm = true,
    .position_rows = 514,
    .type_vocab_size = 1,
    .head = head_kind::none,
    .pooler = true,
});

inline constexpr transformer xlm_roberta_large = classic({
    .name = "xlm-roberta-large",
    .kind = model_kind::encoder,
    .num_hidden_layers = 24,
    .hidden_size = 1024,
    .intermediate_size = 4096,
    .num_attention_heads = 16,
    .vocab_size = 250002,
    .norm_at = norm_position::after_residual,
    .final_norm = false,
    .embedding_norm = true,
    .position_rows = 514,
    .type_vocab_size = 1,
    .head = head_kind::none,
    .pooler = true,
});

// DistilBERT (arXiv 1910.01108): keras-team/keras-hub@71453d0 tools/checkpoint_conversion.

inline constexpr transformer distilbert_base_uncased = classic({
    .name = "distilbert-base-uncased",
    .kind = model_kind::encoder,
    .num_hidden_layers = 6,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .vocab_size = 30522,
    .norm_at = norm_position::after_residual,
    .final_norm = false,
    .embedding_norm = true,
    .position_rows = 512,
    .head = head_kind::none,
});

// Sentence-BERT (arXiv 1908.10084): cli99/llm-analysis llm_analysis/model_configs.

inline constexpr transformer all_minilm_l6_v2 = classic({
    .name = "all-minilm-l6-v2",
    .kind = model_kind::encoder,
    .num_hidden_layers = 6,
    .hidden_size = 384,
    .intermediate_size = 1536,
    .num_attention_heads = 12,
    .vocab_size = 30522,
    .norm_at = norm_position::after_residual,
    .final_norm = false,
    .embedding_norm = true,
    .position_rows = 512,
    .type_vocab_size = 2,
    .head = head_kind::none,
    .pooler = true,
});

// The same with 12 layers.
inline constexpr transformer all_minilm_l12_v2 = classic({
    .name = "all-minilm-l12-v2",
    .kind = model_kind::encoder,
    .num_hidden_layers = 12,
    .hidden_size = 384,
    .intermediate_size = 1536,
    .num_attention_heads = 12,
    .vocab_size = 30522,
    .norm_at = norm_position::after_residual,
    .final_norm = false,
    .embedding_norm = true,
    .position_rows = 512,
    .type_vocab_size = 2,
    .head = head_kind::none,
    .pooler = true,
});

// Recalled from its config.json, not read. Relative positions are shared by all layers.
inline constexpr transformer all_mpnet_base_v2 = classic({
    .name = "all-mpnet-base-v2",
    .kind = model_kind::encoder,
    .num_hidden_layers = 12,
    .hidden_size = 768,
    .intermediate_size = 3072,
    .num_attention_heads = 12,
    .vocab_size = 30527,
    .norm_at = norm_position::after_residual,
    .final_norm = false,
    .embedding_norm = true,
    .position_rows = 514,
    .relative_attention_buckets = 32,
    .head = head_kind::none,
    .pooler = true,
});

}  // namespace gpuplan::catalog
