#pragma once

// Runs the planning programs in the test's own process.

#include <string>
#include <vector>

#include "plan/command_line.hpp"
#include "program_output.hpp"

inline outcome planned(const std::vector<std::string>& arguments) {
  return output_of(plan_program::plan_training, arguments, "plan_training");
}
inline outcome counted(const std::vector<std::string>& arguments) {
  return output_of(plan_program::how_many_gpus, arguments, "how_many_gpus");
}
