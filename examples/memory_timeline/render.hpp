#pragma once

// A step's memory and its peak as text, as Markdown, or as one long table for programs.

#include <gpuplan/memory/explanation.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "guides/render.hpp"
#include "memory_timeline/moments.hpp"

namespace memory_timeline {

struct answer {
  std::string title;
  std::string what;  // is trained, and how
  std::vector<line> lines{};
  gpuplan::memory_explanation why{};
  std::size_t most_pieces = 12;  // of the peak, for people
  std::string gpu{};             // as in `picture`
  std::int64_t capacity = 0;
};

/// CSV and JSON have bytes in full, one row for each value: table, row, column, value, unit.
[[nodiscard]] std::string render(const answer& of, const guides::output& as);

}  // namespace memory_timeline
