// Prints what a sweep says: its table, the setting to take and why, and what holds it back.

#include "read_sweep/command_line.hpp"

int main(int argc, char** argv) { return read_sweep_program::run(argc, argv); }
