#pragma once

// A step in as many lines as a person reads.

#include <gpuplan/memory/timeline.hpp>
#include <gpuplan/training_setup.hpp>

#include <string>
#include <vector>

namespace memory_timeline {

struct line {
  std::string name;            // "forward, layers 0 to 3"
  gpuplan::memory_sum most{};  // over all micro-batches
};

/// The most at each moment, in the order of the step; of the layers in at most eight groups, of
/// several models' layers in four each.
[[nodiscard]] std::vector<line> lines_of(const std::vector<gpuplan::memory_point>& points,
                                         const gpuplan::training_setup& setup);

}  // namespace memory_timeline
