#pragma once

#include "guides/front_end.hpp"

namespace cost_program {

/// The command `gpuplan cost`.
[[nodiscard]] guides::program command();

}  // namespace cost_program
