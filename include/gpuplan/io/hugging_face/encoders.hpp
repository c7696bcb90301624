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
  model.gated_mlp = from.text("feed_forward_proj").rfind("gated", 0) == 0;
  model.tied_embeddings = from.flag("tie_word_embeddings", true);
}

inline constexpr type_reader encoder_readers[] = {
    {"bert", read_bert},
    {"camembert", read_bert},
    {"distilbert", read_distilbert},
    {"mpnet", read_mpnet},
    {"roberta", read_bert},
    {"t5", read_t5},
    {"xlm-roberta", read_bert},
};

}  // namespace gpuplan::io::detail::hugging_face
