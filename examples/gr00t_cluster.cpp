// Prints guide 000, GR00T fine-tuning on a shared Slurm cluster: what it documents beside what
// follows from its inputs.

#include "guides/held.hpp"

int main(int argc, char** argv) { return guides::run(argc, argv, {guides::guide_000}); }
