// The memory of a training step over its moments, and the tensors that make its peak.

#include "memory_timeline/command_line.hpp"

int main(int argc, char** argv) { return memory_timeline::run(argc, argv); }
