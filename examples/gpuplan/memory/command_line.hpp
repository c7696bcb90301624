#pragma once

#include "guides/front_end.hpp"

namespace memory_timeline {

/// `gpuplan memory`.
[[nodiscard]] guides::program command();

}  // namespace memory_timeline
