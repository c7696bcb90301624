#pragma once

#include "guides/front_end.hpp"

namespace plan_program {

/// `gpuplan plan`.
[[nodiscard]] guides::program command();

}  // namespace plan_program
