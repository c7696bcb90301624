#pragma once

// The program as a whole: its commands, and which one a command line means.

#include <span>

#include "guides/front_end.hpp"

namespace gpuplan_program {

struct command {
  const char* name;     // "fits"
  const char* summary;  // one line
  guides::program (*make)();
};

/// All commands, in the order of the help.
[[nodiscard]] std::span<const command> commands();

/// The program that a command is, with options that are not parsed yet.
[[nodiscard]] guides::program program_of(const command& one);

/// Runs `gpuplan COMMAND ...`. The exit status: 0; 1 where something could not be done, such as
/// writing a file; 2 where the command line is wrong or asks for what cannot be. Ctrl-C ends the
/// program with 130.
int run(int argc, char** argv);

}  // namespace gpuplan_program
