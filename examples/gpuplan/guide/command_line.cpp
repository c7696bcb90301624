#include "guide/command_line.hpp"

#include "guides/held.hpp"

namespace guide_program {

guides::program command() {
  return guides::program_of("gpuplan guide",
                            {guides::guide_000,
                             guides::guide_001,
                             guides::guide_002,
                             guides::guide_003,
                             guides::guide_004});
}

}  // namespace guide_program
