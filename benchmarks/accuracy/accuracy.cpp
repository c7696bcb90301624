// How far predictions are from measurements, over files of these.

#include "command_line.hpp"

int main(int argc, char** argv) { return accuracy::run(argc, argv); }
