#pragma once

// Whose code trains a model, by name.

#include <gpuplan/framework.hpp>

#include <string>
#include <vector>

namespace setups {

/// The frameworks that `--framework` knows, in the order of the catalogue.
[[nodiscard]] std::vector<std::string> framework_names();

/// The framework of this name. Precondition: it is one of `framework_names`.
[[nodiscard]] gpuplan::framework framework_named(const std::string& name);

/// The name of the one that is transformers' code for a model: a name of the catalogue, or the
/// `model_type` of a config.json. Empty where none is known.
[[nodiscard]] std::string framework_of(const std::string& model);

}  // namespace setups
