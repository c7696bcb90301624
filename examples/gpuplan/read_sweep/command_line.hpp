#pragma once

#include "guides/front_end.hpp"

namespace read_sweep_program {

/// `gpuplan sweep`.
[[nodiscard]] guides::program command();

}  // namespace read_sweep_program
