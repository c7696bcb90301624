#pragma once

// Whose code trains a model, by name.

#include <gpuplan/framework.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

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

/// Whether the framework has code that trains the setup's model, undivided and whole, in one of its
/// usual formats. Errors: those of the setup in the first of them.
[[nodiscard]] gpuplan::result<bool> runs(const gpuplan::framework& by,
                                         const gpuplan::training_setup& setup);
/// The names of those that do.
[[nodiscard]] std::vector<std::string> frameworks_for(const gpuplan::training_setup& setup);

}  // namespace setups
