// Which batch, and how many loading threads, train a network fastest on several ranks together.

#include "sweep_mpi/command_line.hpp"

int main(int argc, char** argv) { return sweep_mpi::run(argc, argv); }
