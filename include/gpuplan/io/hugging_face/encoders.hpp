#pragma once

// Encoders of text and encoder-decoders in a config.json. Private.

#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/model.hpp>

#include <cstdint>
#include <string>

namespace gpuplan::io::detail::hugging_face {

inline void read_bert(config_reader& from, transformer& model) {
  read_heads(from, model);
  make_classic(model);
  model.kind = model_kind::encoder;
  model.intermediate_size = from.integer("intermediate_size");
  model.norm_at = norm_position::after_residual;
  model.final_norm = false;
  model.embedding_norm = true;
  model.position_rows = from.integer("max_position_embeddings");
  model.type_vocab_size = from.integer("type_vocab_size", 2);
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
  model.pooler = from.flag("add_pooling_layer", true);
  const std::string positions = from.text("position_embedding_type");
  if (!positions.empty() && positions != "absolute")
    from.wrong("position_embedding_type", "absolute for this reader");
  from.only("is_decoder", false);
  from.only("add_cross_attention", false);
}

inline void read_mpnet(config_reader& from, transformer& model) {
  read_bert(from, model);
  model.type_vocab_size = 0;
  model.relative_attention_buckets = from.integer("relative_attention_num_buckets", 32);
}

// Embeddings of another width than the layers'.
inline void read_electra(config_reader& from, transformer& model) {
  read_bert(from, model);
  model.pooler = false;
  const std::int64_t width = from.integer("embedding_size", 128);
  model.embedding_dim = width == model.hidden_size ? 0 : width;
  model.embedding_projection_bias = true;
}

inline void read_albert(config_reader& from, transformer& model) {
  read_bert(from, model);
  model.hidden_act = activation_function::gelu_new;
  model.embedding_dim = from.integer("embedding_size", 128);
  model.embedding_projection_bias = true;
  model.shared.num_hidden_groups = from.integer("num_hidden_groups", 1);
  model.shared.inner_group_num = from.integer("inner_group_num", 1);
  model.num_hidden_layers =
      from.multiple("num_hidden_layers", model.num_hidden_layers, model.shared.inner_group_num);
}

inline void read_modernbert(config_reader& from, transformer& model) {
  read_heads(from, model);
  model.kind = model_kind::encoder;
  model.norm = norm_kind::layer_norm;
  model.norm_bias = from.flag("norm_bias", false);
  model.intermediate_size = from.integer("intermediate_size");
  model.embedding_norm = model.embedding_norm_is_first = model.fused_qkv = model.fused_gate_up =
      true;
  model.hidden_act = activation_function::gelu;
  read_biases(from, model);
  model.mlp_bias = from.flag("mlp_bias", false);
  // to either side
  model.sliding_window = 1 + from.integer("local_attention", 128) / 2 * 2;
  model.global_layer_step = from.integer("global_attn_every_n_layers", 3);
  model.global_layer_first = true;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
  model.head_dense_bias = from.flag("classifier_bias", false);
  model.lm_head_bias = from.flag("decoder_bias", true);
  from.only("sparse_prediction", false);
  from.ignore("sparse_pred_ignore_index");
  static_cast<void>(from.list("layer_types"));
  for (const char* key : {"classifier_pooling",
                          "global_rope_theta",
                          "local_rope_theta",
                          "cls_token_id",
                          "sep_token_id",
                          "classifier_activation",
                          "deterministic_flash_attn",
                          "initializer_cutoff_factor"})
    from.ignore(key);
}

inline void read_deberta(config_reader& from, transformer& model) {
  read_bert(from, model);
  disentangled_attention& apart = model.disentangled;
  model.pooler = false;
  model.type_vocab_size = from.integer("type_vocab_size", 0);
  apart.position_numbers = model.position_rows;
  if (!from.flag("position_biased_input", true)) model.position_rows = 0;
  from.only("relative_attention", true);
  from.only("legacy", true);
  const bool has_most =
      from.has("max_relative_positions") && !from.is_negative("max_relative_positions");
  const std::int64_t most =
      has_most ? from.integer("max_relative_positions") : apart.position_numbers;
  const std::int64_t buckets = from.has("position_buckets") && !from.is_negative("position_buckets")
                                   ? from.integer("position_buckets")
                                   : 0;
  apart.buckets = buckets != 0;
  apart.distances = buckets != 0 ? buckets : most;
  if (from.has_text("pos_att_type")) {  // published files have them in a row: p2c|c2p
    const std::string kinds = from.text("pos_att_type");
    apart.c2p = kinds.find("c2p") != std::string::npos;
    apart.p2c = kinds.find("p2c") != std::string::npos;
  } else {
    for (const json& one : from.list("pos_att_type")) {
      apart.c2p = apart.c2p || one == "c2p";
      apart.p2c = apart.p2c || one == "p2c";
    }
  }
  apart.share_att_key = from.flag("share_att_key", false);
  apart.normalizes_table = from.text("norm_rel_ebd") == "layer_norm";
  if (from.integer("embedding_size", model.hidden_size) != model.hidden_size)
    from.wrong("embedding_size", "hidden_size for this reader");
  if (from.integer("conv_kernel_size", 0) != 0) from.wrong("conv_kernel_size", "0 for this reader");
  if (from.integer("pooler_hidden_size", model.hidden_size) != model.hidden_size)
    from.wrong("pooler_hidden_size", "hidden_size for this reader");
  if (from.largest({"pooler_dropout"}) != 0) from.wrong("pooler_dropout", "0 for this reader");
  for (const char* key : {"pooler_hidden_act", "conv_act", "conv_groups"}) from.ignore(key);
  const std::int64_t width = model.hidden_size;
  if (!from.is_at_most("hidden_size", width) ||
      !from.is_at_most("num_hidden_layers", model.num_hidden_layers))
    return;
  const std::int64_t projections =
      apart.share_att_key ? 0 : (apart.c2p ? 1 : 0) + (apart.p2c ? 1 : 0);
  model.other_parameters = apart.rows() * width + (apart.normalizes_table ? 2 * width : 0) +
                           model.num_hidden_layers * projections * width * (width + 1);
}

inline void read_distilbert(config_reader& from, transformer& model) {
  make_classic(model);
  model.kind = model_kind::encoder;
  model.num_hidden_layers = from.integer("n_layers");
  model.hidden_size = from.integer("dim");
  model.intermediate_size = from.integer("hidden_dim");
  model.num_attention_heads = from.integer("n_heads");
  model.vocab_size = from.integer("vocab_size");
  model.position_rows = from.integer("max_position_embeddings");
  model.norm_at = norm_position::after_residual;
  model.final_norm = false;
  model.embedding_norm = true;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
}

inline void read_t5(config_reader& from, transformer& model) {
  model.kind = model_kind::encoder_decoder;
  model.num_hidden_layers = from.integer("num_layers");
  model.num_decoder_layers = from.integer("num_decoder_layers", model.num_hidden_layers);
  model.hidden_size = from.integer("d_model");
  model.intermediate_size = from.integer("d_ff");
  model.num_attention_heads = from.integer("num_heads");
  model.head_dim = from.integer("d_kv");
  model.vocab_size = from.integer("vocab_size");
  model.relative_attention_buckets = from.integer("relative_attention_num_buckets", 32);
  const std::string mlp = from.text("feed_forward_proj");
  model.gated_mlp = mlp.rfind("gated", 0) == 0;
  if (mlp.empty() || mlp == "relu")
    model.hidden_act = activation_function::relu;
  else if (mlp == "gated-gelu")
    model.hidden_act = activation_function::gelu_new;
  else if (mlp == "gated-silu")
    model.hidden_act = activation_function::silu;
  else
    from.wrong("feed_forward_proj", "relu, gated-gelu or gated-silu for this reader");
  from.only("is_gated_act", model.gated_mlp);
  // A published file that ties nothing has a head of its own beside it, which transformers keeps.
  model.scale_decoder_outputs =
      from.flag("scale_decoder_outputs", from.flag("tie_word_embeddings", true));
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
}

// BART's keys. `first`: rows of its tables of positions that no position reads.
inline void read_bart(config_reader& from, transformer& model, std::int64_t first = 0) {
  make_classic(model);
  model.kind = model_kind::encoder_decoder;
  model.num_hidden_layers = from.integer("encoder_layers");
  model.num_decoder_layers = from.integer("decoder_layers");
  model.hidden_size = from.integer("d_model");
  model.intermediate_size = from.integer("encoder_ffn_dim");
  model.decoder.intermediate_size = from.integer("decoder_ffn_dim");
  model.num_attention_heads = from.integer("encoder_attention_heads");
  if (from.integer("decoder_attention_heads") != model.num_attention_heads)
    from.wrong("decoder_attention_heads", "as many as the encoder's for this reader");
  model.vocab_size = from.integer("vocab_size");
  model.position_rows = from.integer("max_position_embeddings", 0) + first;
  model.norm_at = norm_position::after_residual;
  model.final_norm = false;
  model.tied_embeddings = true;
  from.only("tie_word_embeddings", true);  // else each stack has its own
  for (const char* key : {"encoder_layerdrop", "decoder_layerdrop"}) from.leaves_out_layers(key);
  for (const char* key : {"scale_embedding",
                          "forced_eos_token_id",
                          "forced_bos_token_id",
                          "num_beams",
                          "normalize_embedding",
                          "normalize_before",
                          "add_final_layer_norm",
                          "extra_pos_embeddings",
                          "static_position_embeddings"})
    from.ignore(key);
}
// Norms before attention and MLP, and behind each stack.
inline void norm_first(transformer& model) {
  model.norm_at = norm_position::before;
  model.final_norm = true;
}

inline void read_whisper(config_reader& from, transformer& model) {
  read_bart(from, model);
  norm_first(model);
  model.audio.num_mel_bins = from.integer("num_mel_bins");
  model.position_rows = from.integer("max_source_positions");
  model.decoder.position_rows = from.integer("max_target_positions");
  from.only("apply_spec_augment", false);
  from.only("use_weighted_layer_sum", false);
  for (const char* key : {"begin_suppress_tokens",
                          "suppress_tokens",
                          "classifier_proj_size",
                          "median_filter_width",
                          "mask_feature_length",
                          "mask_feature_min_masks",
                          "mask_feature_prob",
                          "mask_time_length",
                          "mask_time_min_masks",
                          "mask_time_prob"})
    from.ignore(key);
  model.key_bias = false;
  // Two convolutions with biases.
  const std::int64_t width = model.hidden_size;
  if (!from.is_at_most("d_model", width)) return;
  model.other_parameters = 3 * width * (model.audio.num_mel_bins + width) + 2 * width;
}

inline constexpr type_reader encoder_readers[] = {
    {"albert", read_albert},
    {"bart",
     [](config_reader& from, transformer& model) {
       read_bart(from, model, 2);
       model.embedding_norm = true;
     }},
    {"bert", read_bert},
    {"blenderbot",
     [](config_reader& from, transformer& model) {
       read_bart(from, model);
       norm_first(model);
     }},
    {"blenderbot-small",
     [](config_reader& from, transformer& model) {
       read_bart(from, model);
       model.embedding_norm = true;
     }},
    {"camembert", read_bert},
    {"data2vec-text", read_bert},
    {"deberta-v2", read_deberta},
    {"distilbert", read_distilbert},
    {"electra", read_electra},
    {"ernie",
     [](config_reader& from, transformer& model) {
       read_bert(from, model);
       from.only("use_task_id", false);
       from.ignore("task_type_vocab_size");
     }},
    {"m2m_100",
     [](config_reader& from, transformer& model) {
       read_bart(from, model, 2);
       model.hidden_act = activation_function::relu;
       model.sinusoid_rows = model.position_rows;
       model.position_rows = 0;
       norm_first(model);
     }},
    {"marian",
     [](config_reader& from, transformer& model) {
       read_bart(from, model);
       from.only("share_encoder_decoder_embeddings", true);
       if (from.integer("decoder_vocab_size", model.vocab_size) != model.vocab_size)
         from.wrong("decoder_vocab_size", "that of the encoder for this reader");
     }},
    {"mbart",
     [](config_reader& from, transformer& model) {
       read_bart(from, model, 2);
       model.embedding_norm = true;
       norm_first(model);
     }},
    {"modernbert", read_modernbert},
    {"mpnet", read_mpnet},
    {"mt5", read_t5},
    {"pegasus",
     [](config_reader& from, transformer& model) {
       read_bart(from, model);
       norm_first(model);
     }},
    {"plbart",
     [](config_reader& from, transformer& model) {
       read_bart(from, model, 2);
       model.embedding_norm = true;
     }},
    {"roberta", read_bert},
    {"t5", read_t5},
    {"umt5",
     [](config_reader& from, transformer& model) {
       read_t5(from, model);
       model.relative_attention_in_layers = true;
       model.scale_decoder_outputs = true;
     }},
    {"whisper", read_whisper},
    {"xlm-roberta", read_bert},
};

}  // namespace gpuplan::io::detail::hugging_face
