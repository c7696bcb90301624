#pragma once

// A step's memory as a picture.

#include <gpuplan/io/chart/stacked_areas.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "memory/pace.hpp"
#include "memory/snapshot.hpp"

namespace memory_timeline {

struct picture {
  std::string title;
  std::string subtitle;
  timed_trace step;
  std::string gpu{};          // its name, where there is one,
  std::int64_t capacity = 0;  // and what it has for tensors
};

/// Memory in GiB, stacked by kind, over the time of the step, with its phases; what was measured
/// as a line over it.
[[nodiscard]] gpuplan::io::stacked_areas chart_of(const picture& of,
                                                  const std::vector<measured_step>& measured = {});

}  // namespace memory_timeline
