#pragma once

// What is trained, and how, as command lines say it.

#include <gpuplan/batch.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace setups {

/// What the command line gives, before it is checked.
struct arguments {
  std::string model;
  std::string config_file;
  std::string framework;  // empty: transformers' code for the model
  std::string sharding;   // empty: as the ZeRO stage has it
  gpuplan::training_setup setup{};
  gpuplan::batch_plan plan{};
  std::vector<std::string> lora_targets{};
  bool four_bits = false;  // of the base under adapters
};

/// A model with its code, length and attention: what any way to train it shares.
struct named_setup {
  std::string name;
  gpuplan::training_setup setup{};
};

/// The model, its code, the length of its sequences, and what its layers drop.
void add_model_options(CLI::App& app, arguments& to);
/// The batch, number formats, the optimizer, adapters, recomputation and parallelism.
void add_setup_options(CLI::App& app, arguments& to);

/// What the options say, checked. Throws `guides::bad_request`.
[[nodiscard]] named_setup model_of(const arguments& given);
[[nodiscard]] named_setup setup_of(const arguments& given);

/// Throws `guides::bad_request` with the nearest name where the catalogue has none of this.
[[nodiscard]] gpuplan::gpu_spec gpu_named(const std::string& name);

/// Low-rank adapters of the rank, of the layers named, on such a base.
void train_adapters(gpuplan::training_setup& setup, std::int64_t rank, bool four_bits);

/// In words: "8 samples of 1,024 tokens on each of 4 GPUs, bf16 mixed, AdamW, ZeRO-3".
[[nodiscard]] std::string in_words(const gpuplan::training_setup& setup,
                                   const gpuplan::batch_plan& plan);

}  // namespace setups
