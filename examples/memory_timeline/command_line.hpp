#pragma once

// The command line of memory_timeline.

namespace memory_timeline {

/// Runs the program; the exit status is as of `guides::run_program`.
int run(int argc, char** argv);

}  // namespace memory_timeline
