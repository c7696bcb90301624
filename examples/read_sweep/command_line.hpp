#pragma once

namespace read_sweep_program {

/// Runs the program; the exit status as `guides::run_program` says.
int run(int argc, char** argv);

}  // namespace read_sweep_program
