#pragma once

#include "guides/front_end.hpp"

namespace calibrate_program {

/// The command `gpuplan calibrate`.
[[nodiscard]] guides::program command();

}  // namespace calibrate_program
