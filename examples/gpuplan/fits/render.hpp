#pragma once

// Verdicts as text, as Markdown, or as one table for programs.

#include <string>
#include <vector>

#include "fits/verdicts.hpp"
#include "guides/render.hpp"

namespace fits_program {

struct answer {
  std::string title;
  std::string note;  // on what is counted
  std::vector<judged_gpu> gpus{};
};

/// Formats for programs have numbers in full, one row for each GPU and method.
[[nodiscard]] std::string render(const answer& of, const guides::output& as);

}  // namespace fits_program
