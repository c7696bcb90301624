// Prints the strategy tables of the five guides: what they document beside what follows from their
// inputs.

#include "guides/held.hpp"

int main(int argc, char** argv) {
  return guides::run(argc,
                     argv,
                     {guides::guide_000,
                      guides::guide_001,
                      guides::guide_002,
                      guides::guide_003,
                      guides::guide_004});
}
