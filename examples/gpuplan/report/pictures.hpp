#pragma once

// The pictures of a report.

#include <string>
#include <vector>

#include "report/findings.hpp"

namespace report_program {

/// A picture with what a reader is told of it.
struct picture {
  std::string name;     // of its file and its place in a page: "memory_over_the_step"
  std::string heading;  // "Memory over the step"
  std::string words;    // a sentence or two
  std::string wide;     // SVG documents, for a page
  std::string narrow;   // and for a phone
};

/// Those that the findings have something for.
[[nodiscard]] std::vector<picture> pictures_of(const findings& of);

}  // namespace report_program
