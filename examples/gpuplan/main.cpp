// gpuplan: what people ask before they train a model.

#include "program.hpp"

int main(int argc, char** argv) { return gpuplan_program::run(argc, argv); }
