#pragma once

#include "guides/front_end.hpp"

namespace report_program {

/// `gpuplan report`.
[[nodiscard]] guides::program command();

}  // namespace report_program
