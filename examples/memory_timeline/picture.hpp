#pragma once

// A step's memory as a picture.

#include <gpuplan/memory/timeline.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace memory_timeline {

struct picture {
  std::string title;
  std::string subtitle;
  std::vector<gpuplan::memory_point> points;
  std::string gpu{};          // its name, where there is one,
  std::int64_t capacity = 0;  // and what it has for tensors
};

/// An SVG 1.1 document: memory in GiB, stacked by kind, over the allocations of the step.
[[nodiscard]] std::string to_svg(const picture& of);

}  // namespace memory_timeline
