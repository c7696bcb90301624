#pragma once

#include "guides/front_end.hpp"

namespace time_program {

/// The command `gpuplan time`.
[[nodiscard]] guides::program command();

}  // namespace time_program
