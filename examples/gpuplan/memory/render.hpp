#pragma once

// A step's memory and its peak as text, as Markdown, or as one long table for programs.

#include <gpuplan/memory/explanation.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/parallelism.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "guides/render.hpp"
#include "memory/moments.hpp"

namespace memory_timeline {

/// The peak of one pipeline stage.
struct stage_line {
  std::int64_t stage = 0;
  gpuplan::layer_range layers{};  // where they are one behind the other
  std::int64_t chunks = 1;        // else as many, in so many chunks
  std::string when{};
  gpuplan::memory_sum peak{};
};

struct answer {
  std::string title;
  std::string what;  // is trained, and how
  std::vector<line> lines{};
  gpuplan::memory_explanation why{};
  std::size_t most_pieces = 12;      // of the peak, for people
  std::string gpu{};                 // as in `picture`
  std::int64_t capacity = 0;         // 0 or less: beside the others nothing is left for tensors
  std::string beside{};              // who they are, with what they hold
  std::string compared{};            // with what was measured; empty: with nothing
  std::vector<stage_line> stages{};  // of a pipeline; the rest says of which of them
};

/// Formats for programs have bytes in full, one row for each value: table, row, column, value,
/// unit.
[[nodiscard]] std::string render(const answer& of, const guides::output& as);

}  // namespace memory_timeline
