// What a GPU reaches, as numbers that stand in for its data sheet.

#include "measure_gpu/command_line.hpp"

int main(int argc, char** argv) { return measure_gpu_program::run(argc, argv); }
