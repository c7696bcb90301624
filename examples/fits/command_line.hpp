#pragma once

// The command line of fits.

namespace fits_program {

/// Runs the program; the exit status is as of `guides::run_program`.
int run(int argc, char** argv);

}  // namespace fits_program
