#pragma once

// All model types of one transformer that a config.json may have, and what is read alike of all.
// Private.

#include <gpuplan/io/hugging_face/config_reader.hpp>
#include <gpuplan/io/hugging_face/decoders.hpp>
#include <gpuplan/io/hugging_face/encoders.hpp>
#include <gpuplan/io/hugging_face/experts.hpp>
#include <gpuplan/io/hugging_face/hybrids.hpp>
#include <gpuplan/io/hugging_face/images.hpp>
#include <gpuplan/io/hugging_face/speech.hpp>
#include <gpuplan/io/hugging_face/towers.hpp>
#include <gpuplan/model.hpp>

#include <span>
#include <string>
#include <string_view>

namespace gpuplan::io::detail::hugging_face {

inline constexpr std::span<const type_reader> type_readers[] = {decoder_readers,
                                                                expert_readers,
                                                                hybrid_readers,
                                                                encoder_readers,
                                                                speech_readers,
                                                                image_readers,
                                                                tower_readers};

[[nodiscard]] inline const type_reader* reader_of(std::string_view model_type) {
  for (const std::span<const type_reader> readers : type_readers)
    for (const type_reader& each : readers)
      if (each.model_type == model_type) return &each;
  return nullptr;
}

// The function that a key names, where it is one that has an enumerator.
[[nodiscard]] inline activation_function activation_of(config_reader& from,
                                                       const char* key,
                                                       activation_function absent) {
  struct named_activation {
    std::string_view name;
    activation_function is;
  };
  constexpr named_activation known[] = {{"gelu", activation_function::gelu},
                                        {"gelu_new", activation_function::gelu_new},
                                        {"gelu_pytorch_tanh", activation_function::gelu_tanh},
                                        {"quick_gelu", activation_function::quick_gelu},
                                        {"relu", activation_function::relu},
                                        {"relu2", activation_function::relu_squared},
                                        {"silu", activation_function::silu},
                                        {"swish", activation_function::silu}};
  const std::string name = from.text(key);
  for (const named_activation& one : known)
    if (one.name == name) return one.is;
  if (!name.empty()) from.leave_out(key);
  return absent;
}

// What a layer's MLP applies. A file that says nothing has its class's own. What no enumerator is
// changes no shape: such a file is read, and the key is among its unknown ones.
inline void read_activation(config_reader& from, transformer& model) {
  for (const char* key :
       {"hidden_act", "activation_function", "hidden_activation", "activation", "dense_act_fn"}) {
    if (!from.has_text(key)) continue;
    model.hidden_act = activation_of(from, key, model.hidden_act);
    return;
  }
}

}  // namespace gpuplan::io::detail::hugging_face
