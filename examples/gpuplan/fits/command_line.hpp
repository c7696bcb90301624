#pragma once

#include "guides/front_end.hpp"

namespace fits_program {

/// `gpuplan fits`.
[[nodiscard]] guides::program command();

}  // namespace fits_program
