#pragma once

// The table of guide 002 that has a file of its own.

#include <string>

#include "guides/vla_speedups.hpp"

namespace guides::vla_speedups {

// model.cpp: what is trained, and what it takes
[[nodiscard]] table the_model(const inputs& in);
[[nodiscard]] std::string finding_of_the_model(const inputs& in);

}  // namespace guides::vla_speedups
