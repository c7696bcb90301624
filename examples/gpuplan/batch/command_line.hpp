#pragma once

#include "guides/front_end.hpp"

namespace batch_program {

/// The command `gpuplan batch`.
[[nodiscard]] guides::program command();

}  // namespace batch_program
