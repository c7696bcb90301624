#pragma once

// Adapters as PEFT's users write them: by the names of modules.

#include <gpuplan/model.hpp>
#include <gpuplan/trainable.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "csv.hpp"

namespace accuracy {

/// What trains, or why that is not known.
struct described_adapters {
  gpuplan::trainable trains{};
  std::string why_not;
};

/// Adapters of this method and rank beside the linear layers of these names, joined by commas or +.
/// A name may stand for several layers ("dense" of an encoder); where one is for a part of a fused
/// layer, the model's is taken apart, as LitGPT does.
described_adapters describe_adapters(std::string_view method,
                                     std::int64_t rank,
                                     std::string_view names,
                                     gpuplan::transformer& model);

/// Adds the modules of `modules_to_save`, trained copies, to `adapters`.
void add_copies(std::string_view names, described_adapters& adapters);

/// What adapters of this method have on layers of these shapes: "16x(2048->2048) + 1x(768->2)".
/// None where they are too many for 64 bits. Throws `bad_file` for a cell that is written
/// otherwise.
std::optional<std::int64_t> trainable_parameters_of_shapes(const row& source,
                                                           std::string_view column,
                                                           std::int64_t rank);

}  // namespace accuracy
