// Describes a transformer: its parameters, its layers, its FLOPs per token, its ranks.

#include "describe_model/command_line.hpp"

int main(int argc, char** argv) { return describe_model::run(argc, argv); }
