#pragma once

// Adapters as PEFT's users write them: by the names of modules.

#include <gpuplan/model.hpp>
#include <gpuplan/trainable.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace accuracy {

/// The linear layers of the model that have these names, joined by commas or +; a name may stand
/// for several of them ("dense" of an encoder). None where a name is not known, which `unknown`
/// then is.
std::optional<gpuplan::lora_targets> targets_of(std::string_view names,
                                                const gpuplan::transformer& model,
                                                std::string& unknown);

}  // namespace accuracy
