#pragma once

// Encoders of text: BERT, RoBERTa, DistilBERT and their kin, and sentence embeddings.

#include <gpuplan/catalog/models/classic.hpp>
#include <gpuplan/model.hpp>

#include <cstdint>

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

/// An encoder like BERT's, with MLPs of four times its width.
[[nodiscard]] constexpr transformer like_bert(const char* name,
                                              std::int64_t layers,
                                              std::int64_t width,
                                              std::int64_t heads) {
  return classic({
      .name = name,
      .kind = model_kind::encoder,
      .num_hidden_layers = layers,
      .hidden_size = width,
      .intermediate_size = 4 * width,
      .num_attention_heads = heads,
      .vocab_size = 30522,
      .norm_at = norm_position::after_residual,
      .final_norm = false,
      .embedding_norm = true,
      .position_rows = 512,
      .type_vocab_size = 2,
      .head = head_kind::none,
      .pooler = true,
  });
}

// BGE (arXiv 2309.07597): BERTs, and an XLM-R with more positions.

inline constexpr transformer bge_small_en_v1_5 = like_bert("bge-small-en-v1.5", 12, 384, 12);
inline constexpr transformer bge_base_en_v1_5 = like_bert("bge-base-en-v1.5", 12, 768, 12);
inline constexpr transformer bge_large_en_v1_5 = like_bert("bge-large-en-v1.5", 24, 1024, 16);
inline constexpr transformer bge_m3 = [] {
  transformer model = xlm_roberta_large;
  model.name = "bge-m3";
  model.position_rows = 8194;
  return model;
}();

/// ELECTRA's discriminator (arXiv 2003.10555): for each token one logit, of whether it was
/// replaced.
[[nodiscard]] constexpr transformer electra(const char* name,
                                            std::int64_t layers,
                                            std::int64_t width,
                                            std::int64_t heads,
                                            std::int64_t embedding) {
  transformer model = like_bert(name, layers, width, heads);
  model.embedding_dim = embedding;
  model.embedding_projection_bias = true;
  model.head = head_kind::classifier;
  model.pooler = false;
  model.head_dense = true;
  model.num_classes = 1;
  model.classified = classified_kind::replaced;
  return model;
}

inline constexpr transformer electra_small_discriminator =
    electra("electra-small-discriminator", 12, 256, 4, 128);
inline constexpr transformer electra_base_discriminator =
    electra("electra-base-discriminator", 12, 768, 12, 0);
inline constexpr transformer electra_large_discriminator =
    electra("electra-large-discriminator", 24, 1024, 16, 0);

// ALBERT (arXiv 1909.11942) with the head of its masked language model.
inline constexpr transformer albert_base_v2 = [] {
  transformer model = like_bert("albert-base-v2", 12, 768, 12);
  model.vocab_size = 30000;
  model.shared = {.num_hidden_groups = 1};
  model.hidden_act = activation_function::gelu_new;
  model.embedding_dim = 128;
  model.embedding_projection_bias = true;
  model.head = head_kind::language_model;
  model.tied_embeddings = true;
  model.lm_head_bias = true;
  model.pooler = false;
  model.head_dense = model.head_norm = true;
  return model;
}();

/// DeBERTa-v3 (arXiv 2111.09543), without a head: 256 distances on either side, far ones in
/// buckets, in a table with a norm.
[[nodiscard]] constexpr transformer deberta_v3(const char* name,
                                               std::int64_t layers,
                                               std::int64_t width,
                                               std::int64_t heads) {
  transformer model = like_bert(name, layers, width, heads);
  model.vocab_size = 128100;
  model.disentangled = {.distances = 256,
                        .buckets = true,
                        .c2p = true,
                        .p2c = true,
                        .share_att_key = true,
                        .normalizes_table = true,
                        .position_numbers = 512};
  model.position_rows = model.type_vocab_size = 0;
  model.pooler = false;
  model.other_parameters = (model.disentangled.rows() + 2) * width;
  return model;
}

inline constexpr transformer deberta_v3_small = deberta_v3("deberta-v3-small", 6, 768, 12);
inline constexpr transformer deberta_v3_base = deberta_v3("deberta-v3-base", 12, 768, 12);
inline constexpr transformer deberta_v3_large = deberta_v3("deberta-v3-large", 24, 1024, 16);

/// ModernBERT (arXiv 2412.13663) with the head of its masked language model.
[[nodiscard]] constexpr transformer modernbert(const char* name,
                                               std::int64_t layers,
                                               std::int64_t width,
                                               std::int64_t inner,
                                               std::int64_t heads) {
  return {
      .name = name,
      .kind = model_kind::encoder,
      .num_hidden_layers = layers,
      .hidden_size = width,
      .intermediate_size = inner,
      .num_attention_heads = heads,
      .vocab_size = 50368,
      .fused_qkv = true,
      .sliding_window = 129,
      .global_layer_step = 3,
      .global_layer_first = true,
      .hidden_act = activation_function::gelu,
      .fused_gate_up = true,
      .norm = norm_kind::layer_norm,
      .embedding_norm = true,
      .embedding_norm_is_first = true,
      .tied_embeddings = true,
      .lm_head_bias = true,
      .head_dense = true,
      .head_dense_bias = false,
      .head_norm = true,
  };
}

inline constexpr transformer modernbert_base = modernbert("modernbert-base", 22, 768, 1152, 12);
inline constexpr transformer modernbert_large = modernbert("modernbert-large", 28, 1024, 2624, 16);

}  // namespace gpuplan::catalog
