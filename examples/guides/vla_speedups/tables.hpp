#pragma once

// The table of guide 002 that has a file of its own.

#include <string>

#include "guides/vla_speedups.hpp"

namespace guides::vla_speedups {

// model.cpp: what is trained, and what it takes
[[nodiscard]] table the_model(const inputs& in);
[[nodiscard]] std::string finding_of_the_model(const inputs& in);
/// What a step takes at least, and an epoch, beside what is documented.
void add_likely_steps(table& t, const inputs& in);
[[nodiscard]] std::string finding_of_the_hours(const inputs& in);

}  // namespace guides::vla_speedups
