// Which ways to train a model fit which GPU, and why others do not.

#include "fits/command_line.hpp"

int main(int argc, char** argv) { return fits_program::run(argc, argv); }
