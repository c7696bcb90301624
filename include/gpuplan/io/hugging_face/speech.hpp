#pragma once

// Models of waveforms in a config.json. Private.

#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/model.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpuplan::io::detail::hugging_face {

// A number for each convolution.
inline void read_convolutions(config_reader& from,
                              const char* key,
                              std::int64_t (&into)[audio_input::most]) {
  if (!from.requires_key(key)) return;
  const std::vector<json> all = from.list(key);
  if (all.empty() || all.size() > audio_input::most)
    return from.refuse(key, std::string(key) + " must have one to eight numbers for this reader");
  for (std::size_t at = 0; at < all.size(); ++at) {
    if (!all[at].is_number_unsigned() || all[at] < 1u || all[at] > 65'536u)
      return from.wrong(key, "of whole numbers from 1 to 65536 for this reader");
    into[at] = all[at].get<std::int64_t>();
  }
}

// wav2vec 2.0's keys.
inline void read_wav2vec2(config_reader& from, transformer& model) {
  make_classic(model);
  model.kind = model_kind::encoder;
  model.num_hidden_layers = from.integer("num_hidden_layers");
  model.hidden_size = from.integer("hidden_size");
  model.num_attention_heads = from.integer("num_attention_heads");
  model.intermediate_size = from.integer("intermediate_size");
  const bool is_stable = from.flag("do_stable_layer_norm", false);
  model.norm_at = is_stable ? norm_position::before : norm_position::after_residual;
  audio_input& audio = model.audio;
  read_convolutions(from, "conv_dim", audio.conv_dim);
  read_convolutions(from, "conv_kernel", audio.conv_kernel);
  read_convolutions(from, "conv_stride", audio.conv_stride);
  audio.conv_bias = from.flag("conv_bias", false);
  audio.normalizes_all = from.text("feat_extract_norm") == "layer";
  audio.num_conv_pos_embeddings = from.integer("num_conv_pos_embeddings", 128);
  audio.num_conv_pos_embedding_groups = from.integer("num_conv_pos_embedding_groups", 16);
  from.leaves_out_layers("layerdrop");
  for (const char* key : {"mask_time_prob", "mask_feature_prob", "feat_proj_dropout"})
    from.only_zero(key, from.text("model_type"));
  from.only("add_adapter", false);
  from.only("use_weighted_layer_sum", false);
  from.only("conv_pos_batch_norm", false);
  from.only("feat_proj_layer_norm", true);
  if (from.has("adapter_attn_dim")) from.wrong("adapter_attn_dim", "absent for this reader");
  const std::int64_t width = model.hidden_size;
  const std::int64_t groups = audio.num_conv_pos_embedding_groups;
  const std::int64_t kernel = audio.num_conv_pos_embeddings;
  if (groups == 0 || kernel == 0 || kernel > 65'536 || width > 65'536 || width % groups != 0)
    return from.refuse("num_conv_pos_embedding_groups",
                       "num_conv_pos_embedding_groups must divide hidden_size");
  std::int64_t channels = 1;
  for (int at = 0; at < audio.convolutions(); ++at) {
    const std::int64_t out = audio.conv_dim[at];
    model.other_parameters += out * channels * audio.conv_kernel[at] + (audio.conv_bias ? out : 0) +
                              (audio.normalizes_all || at == 0 ? 2 * out : 0);
    channels = out;
  }
  model.other_parameters +=
      2 * channels + (channels + 1) * width + width * (width / groups) * kernel + kernel + width;
  for (const char* key : {"apply_spec_augment",
                          "mask_time_length",
                          "mask_time_min_masks",
                          "mask_feature_length",
                          "mask_feature_min_masks",
                          "num_feat_extract_layers",
                          "feat_extract_activation",
                          "feat_extract_dropout",
                          "feat_quantizer_dropout",
                          "final_dropout",
                          "ctc_loss_reduction",
                          "ctc_zero_infinity",
                          "num_codevectors_per_group",
                          "num_codevector_groups",
                          "codevector_dim",
                          "proj_codevector_dim",
                          "contrastive_logits_temperature",
                          "num_negatives",
                          "diversity_loss_weight",
                          "num_adapter_layers",
                          "adapter_kernel_size",
                          "adapter_stride",
                          "output_hidden_size",
                          "tdnn_dim",
                          "tdnn_kernel",
                          "tdnn_dilation",
                          "xvector_output_dim",
                          "tie_word_embeddings",
                          "classifier_proj_size",
                          "vocab_size"})
    from.ignore(key);
  if (from.architecture().ends_with("ForCTC")) {
    if (from.text("ctc_loss_reduction") != "mean")
      from.refuse("ctc_loss_reduction", "ctc_loss_reduction must be mean for this reader");
    model.num_classes = from.integer("vocab_size");
    model.classified = classified_kind::aligned;
    return;
  }
  model.projection_dim = from.integer("classifier_proj_size", 256);
  model.projection_bias = true;
  // the head reads what is projected
  const std::int64_t known = from.entries("id2label");
  const std::int64_t labels = from.integer("num_labels", known != 0 ? known : 2);
  if (from.is_at_most("classifier_proj_size", model.projection_dim) &&
      from.is_at_most("num_labels", labels))
    model.other_parameters += (model.projection_dim - width) * labels;
}

inline constexpr type_reader speech_readers[] = {
    {"hubert",
     [](config_reader& from, transformer& model) {
       read_wav2vec2(from, model);
       model.audio.forgets_features = true;
     }},
    {"wav2vec2", read_wav2vec2},
};

}  // namespace gpuplan::io::detail::hugging_face
