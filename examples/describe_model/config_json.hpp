#pragma once

// Reads the shape of a model from the config.json that Hugging Face keeps beside its weights.

#include <gpuplan/model.hpp>

#include <stdexcept>
#include <string>
#include <vector>

namespace describe_model {

/// What a config.json says. `shape.name` is empty.
struct model_config {
  gpuplan::transformer shape{};
  std::string model_type;
  std::vector<std::string> unknown_keys{};  // which the reader left out, whatever they mean
};

/// Says which key is wrong, and how.
class config_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The model types that `read_config` knows, in alphabetical order.
[[nodiscard]] std::vector<std::string> known_model_types();

/// The shape that a config.json describes, as transformers 5 builds it: what a file leaves out is
/// the default of its configuration class. Besides, it has what checkpoints hold and transformers
/// does not count: layers of multi-token prediction, and the buffer that is a router's bias. Throws
/// `config_error` for text that is no JSON object, for a model type, a class or a value that this
/// reader does not know, and for a key that is missing or of the wrong type.
[[nodiscard]] model_config read_config(const std::string& text);

}  // namespace describe_model
