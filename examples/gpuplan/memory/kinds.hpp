#pragma once

// How the kinds of memory look, in text and in pictures.

#include <gpuplan/memory/step_peaks.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace memory_timeline {

struct kind {
  gpuplan::memory_part part;
  char letter;             // of a bar without colour
  std::size_t series;      // whose colour a picture has it in (io/chart/frame.hpp),
  int terminal;            // and the nearest of a terminal's 256
  const char* of_picture;  // its words in a legend
};

/// From the bottom of a stack to its top: what stays, then what comes and goes.
[[nodiscard]] const std::array<kind, gpuplan::memory_parts>& kinds();

[[nodiscard]] inline std::int64_t of(const gpuplan::memory_sum& sum, const kind& one) {
  return sum.of[static_cast<int>(one.part)];
}

}  // namespace memory_timeline
