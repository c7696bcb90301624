#pragma once

#include "guides/front_end.hpp"

namespace check_program {

/// `gpuplan check`.
[[nodiscard]] guides::program command();

}  // namespace check_program
