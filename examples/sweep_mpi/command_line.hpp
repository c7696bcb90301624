#pragma once

// The command line of sweep_mpi.

namespace sweep_mpi {

/// Starts MPI, runs the program on this rank, and ends MPI. The first rank alone shows how far it
/// is, prints and writes. The exit status is that of `sweep_examples::run_sweep_program`.
int run(int argc, char** argv);

}  // namespace sweep_mpi
