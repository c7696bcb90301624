#pragma once

// Why a step takes as long as it does, in tables.

#include <gpuplan/io/table.hpp>
#include <gpuplan/time/explanation.hpp>

#include <string>

#include "guides/render.hpp"

namespace time_program {

/// For people: what each part of the step is made of and what 10 % better would save.
[[nodiscard]] std::string explained(const gpuplan::time_explanation& of, const guides::output& as);
/// For programs: all of it, in full, below a table with one row of the step and in further columns.
void add_explanation(gpuplan::io::table& to, const gpuplan::time_explanation& of);

}  // namespace time_program
