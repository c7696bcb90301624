#pragma once

// Decoders behind encoders, of BART's kin, and those that hear: Whisper, and wav2vec 2.0's
// encoders.
// Recalled from their config.json, not read; totals are what transformers 5.23 counts in classes
// of these shapes.

#include <gpuplan/catalog/models/classic.hpp>
#include <gpuplan/model.hpp>

#include <cstdint>

namespace gpuplan::catalog {

/// An encoder and a decoder of as many layers, with MLPs of four times their width, and with tables
/// of positions.
[[nodiscard]] constexpr transformer like_bart(const char* name,
                                              std::int64_t layers,
                                              std::int64_t width,
                                              std::int64_t heads,
                                              std::int64_t vocabulary) {
  return classic({
      .name = name,
      .kind = model_kind::encoder_decoder,
      .num_hidden_layers = layers,
      .num_decoder_layers = layers,
      .hidden_size = width,
      .intermediate_size = 4 * width,
      .num_attention_heads = heads,
      .vocab_size = vocabulary,
      .decoder = {.intermediate_size = 4 * width},
      .norm_at = norm_position::after_residual,
      .final_norm = false,
      .embedding_norm = true,
      .position_rows = 1026,
      .tied_embeddings = true,
  });
}

// BART (arXiv 1910.13461): two of the rows of positions are not used.
inline constexpr transformer bart_base = like_bart("bart-base", 6, 768, 12, 50265);
inline constexpr transformer bart_large = like_bart("bart-large", 12, 1024, 16, 50265);

// mBART-50 (arXiv 2008.00401): norms before what they are for, and behind all.
inline constexpr transformer mbart_large_50 = [] {
  transformer model = like_bart("mbart-large-50", 12, 1024, 16, 250054);
  model.norm_at = norm_position::before;
  model.final_norm = true;
  return model;
}();

// NLLB (arXiv 2207.04672): positions by sines, which are no parameters.
inline constexpr transformer nllb_200_distilled_600m = [] {
  transformer model = like_bart("nllb-200-distilled-600m", 12, 1024, 16, 256206);
  model.hidden_act = activation_function::relu;
  model.norm_at = norm_position::before;
  model.final_norm = true;
  model.embedding_norm = false;
  model.position_rows = 0;
  model.sinusoid_rows = 1026;
  return model;
}();

// PEGASUS (arXiv 1912.08777): likewise, but transformers' class keeps them as parameters.
inline constexpr transformer pegasus_large = [] {
  transformer model = like_bart("pegasus-large", 16, 1024, 16, 96103);
  model.hidden_act = activation_function::relu;
  model.norm_at = norm_position::before;
  model.final_norm = true;
  model.embedding_norm = false;
  model.position_rows = 1024;
  return model;
}();

/// Whisper (arXiv 2212.04356): two convolutions, of which the second halves 3000 frames, and an
/// encoder and a decoder. What no field describes are the convolutions, less the biases of keys,
/// which it has none of.
[[nodiscard]] constexpr transformer whisper(const char* name,
                                            std::int64_t layers,
                                            std::int64_t decoder_layers,
                                            std::int64_t width,
                                            std::int64_t heads,
                                            std::int64_t mel_bins,
                                            std::int64_t vocabulary) {
  transformer model = classic({
      .name = name,
      .kind = model_kind::encoder_decoder,
      .num_hidden_layers = layers,
      .num_decoder_layers = decoder_layers,
      .hidden_size = width,
      .intermediate_size = 4 * width,
      .num_attention_heads = heads,
      .vocab_size = vocabulary,
      .decoder = {.intermediate_size = 4 * width, .position_rows = 448},
      .key_bias = false,
      .position_rows = 1500,
      .audio = {.num_mel_bins = mel_bins},
      .tied_embeddings = true,
  });
  model.other_parameters = (3 * mel_bins + 1 + 3 * width + 1) * width;
  return model;
}

inline constexpr transformer whisper_tiny = whisper("whisper-tiny", 4, 4, 384, 6, 80, 51865);
inline constexpr transformer whisper_base = whisper("whisper-base", 6, 6, 512, 8, 80, 51865);
inline constexpr transformer whisper_small = whisper("whisper-small", 12, 12, 768, 12, 80, 51865);
inline constexpr transformer whisper_medium =
    whisper("whisper-medium", 24, 24, 1024, 16, 80, 51865);
inline constexpr transformer whisper_large_v2 =
    whisper("whisper-large-v2", 32, 32, 1280, 20, 80, 51865);
inline constexpr transformer whisper_large_v3 =
    whisper("whisper-large-v3", 32, 32, 1280, 20, 128, 51866);
inline constexpr transformer whisper_large_v3_turbo =
    whisper("whisper-large-v3-turbo", 32, 4, 1280, 20, 128, 51866);

/// wav2vec 2.0 (arXiv 2006.11477) with a classifier of 32 letters: seven convolutions and one for
/// positions, which no field counts.
[[nodiscard]] constexpr transformer wav2vec2(const char* name,
                                             std::int64_t layers,
                                             std::int64_t width,
                                             bool is_stable) {
  transformer model = classic({
      .name = name,
      .kind = model_kind::encoder,
      .num_hidden_layers = layers,
      .hidden_size = width,
      .intermediate_size = 4 * width,
      .num_attention_heads = width / 64,
      .norm_at = is_stable ? norm_position::before : norm_position::after_residual,
      .audio = {.conv_dim = {512, 512, 512, 512, 512, 512, 512},
                .conv_kernel = {10, 3, 3, 3, 3, 2, 2},
                .conv_stride = {5, 2, 2, 2, 2, 2, 2},
                .conv_bias = is_stable,
                .normalizes_all = is_stable,
                .num_conv_pos_embeddings = 128,
                .num_conv_pos_embedding_groups = 16},
      .head = head_kind::classifier,
      .num_classes = 32,
      .classified = classified_kind::aligned,
  });
  const std::int64_t channels = 512;
  const std::int64_t convolutions = channels * (10 + channels * (4 * 3 + 2 * 2));
  const std::int64_t biases_and_norms = is_stable ? 7 * 3 * channels : 2 * channels;
  const std::int64_t positions = width * (width / 16) * 128 + 128 + width;
  model.other_parameters =
      convolutions + biases_and_norms + 2 * channels + (channels + 1) * width + positions;
  return model;
}

inline constexpr transformer wav2vec2_base_960h = wav2vec2("wav2vec2-base-960h", 12, 768, false);
inline constexpr transformer wav2vec2_large_960h_lv60_self =
    wav2vec2("wav2vec2-large-960h-lv60-self", 24, 1024, true);

}  // namespace gpuplan::catalog
