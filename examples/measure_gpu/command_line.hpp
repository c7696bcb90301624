#pragma once

// The command line of measure_gpu.

#include "measure_gpu/measurements.hpp"

namespace measure_gpu_program {

/// Runs the program. The exit status: 0; 1 with a message where something could not be measured or
/// written (what was measured is printed all the same); 2 where the command line is wrong; 3 with a
/// sentence where there is no device.
int run(int argc, char** argv, const surroundings& around = {});

}  // namespace measure_gpu_program
