#pragma once

// Why a step takes as long as it does, in tables.

#include <gpuplan/time/explanation.hpp>

#include <string>

#include "guides/render.hpp"

namespace time_program {

/// For people, what each part of the step is made of and what 10 % better would save; for programs
/// all of it in one table, in full.
[[nodiscard]] std::string explained(const gpuplan::time_explanation& of, const guides::output& as);

}  // namespace time_program
