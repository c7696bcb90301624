#pragma once

#include "guides/front_end.hpp"

namespace run_program {

/// The command `gpuplan run`.
[[nodiscard]] guides::program command();

}  // namespace run_program
