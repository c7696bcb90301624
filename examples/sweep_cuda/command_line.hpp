#pragma once

// The command line of sweep_cuda.

#include <functional>

namespace sweep_cuda {

/// Runs the program. The exit status is that of `sweep_examples::run_sweep_program`, and 3 with a
/// sentence where there is no device. `now_s` stands in for the steady clock where it is given.
int run(int argc, char** argv, const std::function<double()>& now_s = {});

}  // namespace sweep_cuda
