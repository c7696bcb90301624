#pragma once

#include "guides/front_end.hpp"

namespace learning_rate_program {

/// The command `gpuplan lr`.
[[nodiscard]] guides::program command();

}  // namespace learning_rate_program
