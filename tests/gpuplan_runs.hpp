#pragma once

// Runs a command of gpuplan in the test's own process.

#include <string>
#include <vector>

#include "program.hpp"
#include "program_output.hpp"

inline outcome output_of_command(const std::string& command, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), command);
  return output_of(gpuplan_program::run, arguments, "gpuplan");
}

inline outcome planned(const std::vector<std::string>& arguments) {
  return output_of_command("plan", arguments);
}
inline outcome counted(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  all.emplace_back("--how-many");
  return output_of_command("plan", all);
}
