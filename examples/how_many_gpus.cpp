// How many GPUs to train a model on, and where more stop paying.

#include "plan/command_line.hpp"

int main(int argc, char** argv) { return plan_program::how_many_gpus(argc, argv); }
