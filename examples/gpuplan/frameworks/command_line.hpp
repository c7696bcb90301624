#pragma once

#include "guides/front_end.hpp"

namespace list_frameworks {

/// `gpuplan frameworks`.
[[nodiscard]] guides::program command();

}  // namespace list_frameworks
