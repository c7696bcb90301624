// The fastest ways to train a model on a cluster.

#include "plan/command_line.hpp"

int main(int argc, char** argv) { return plan_program::plan_training(argc, argv); }
