#pragma once

#include "guides/front_end.hpp"

namespace list_gpus {

/// `gpuplan gpus`.
[[nodiscard]] guides::program command();

}  // namespace list_gpus
