// Prints guide 002, VLA training speed-ups: what it documents beside what follows from its inputs.

#include "guides/held.hpp"

int main(int argc, char** argv) { return guides::run(argc, argv, {guides::guide_002}); }
