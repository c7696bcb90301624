// Which batch, loading threads, precision and host memory train a network fastest on a GPU.

#include "sweep_cuda/command_line.hpp"

int main(int argc, char** argv) { return sweep_cuda::run(argc, argv); }
