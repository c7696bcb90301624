#pragma once

#include "guides/front_end.hpp"

namespace shell_program {

/// `gpuplan completion`: a script for bash, zsh or fish.
[[nodiscard]] guides::program completion_command();
/// `gpuplan manual`: the manual page, in roff.
[[nodiscard]] guides::program manual_command();

}  // namespace shell_program
