#pragma once

#include "guides/front_end.hpp"

namespace list_models {

/// `gpuplan models`.
[[nodiscard]] guides::program command();

}  // namespace list_models
