#pragma once

#include "guides/front_end.hpp"

namespace guide_program {

/// `gpuplan guide`.
[[nodiscard]] guides::program command();

}  // namespace guide_program
