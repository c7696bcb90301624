#pragma once

#include "guides/front_end.hpp"

namespace describe_model {

/// `gpuplan model`.
[[nodiscard]] guides::program command();

}  // namespace describe_model
