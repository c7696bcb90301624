// Prints guide 001, From A6000 to H100: what it documents beside what follows from its inputs.

#include "guides/held.hpp"

int main(int argc, char** argv) { return guides::run(argc, argv, {guides::guide_001}); }
