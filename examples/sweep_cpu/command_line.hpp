#pragma once

// The command line of sweep_cpu.

namespace sweep_cpu_program {

/// Runs the program. The exit status is that of `sweep_examples::run_sweep_program`.
int run(int argc, char** argv);

}  // namespace sweep_cpu_program
