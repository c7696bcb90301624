// Which batch, and how many loading threads, train a network fastest on this machine's processor.

#include "sweep_cpu/command_line.hpp"

int main(int argc, char** argv) { return sweep_cpu_program::run(argc, argv); }
