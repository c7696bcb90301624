#include "memory/moments.hpp"

#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/timeline.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace memory_timeline {
namespace {

using gpuplan::step_moment;

constexpr std::int64_t most_groups = 8;

std::string range_of(std::int64_t group, std::int64_t size, std::int64_t layers) {
  const std::int64_t first = group * size;
  const std::int64_t last = std::min(first + size, layers) - 1;
  if (first == last) return "layer " + std::to_string(first);
  return "layers " + std::to_string(first) + " to " + std::to_string(last);
}

}  // namespace

std::vector<line> lines_of(const std::vector<gpuplan::memory_point>& points, std::int64_t layers) {
  const std::int64_t size = std::max<std::int64_t>(1, (layers + most_groups - 1) / most_groups);
  std::vector<line> lines;
  int layer = -1;  // the one that the forward met last
  for (const gpuplan::memory_point& point : points) {
    std::string name = text(point.when);
    if (point.when == step_moment::forward) {
      if (point.layer >= 0) layer = point.layer;
      name = layer < 0 ? "before the layers" : range_of(layer / size, size, layers);
      name = "forward, " + name;
    } else {
      layer = -1;
      const bool is_of_layer = point.when == step_moment::last_layer ||
                               point.when == step_moment::middle_layer ||
                               point.when == step_moment::first_layer;
      if (is_of_layer) name = "backward, " + range_of(point.layer / size, size, layers);
    }
    auto at =
        std::find_if(lines.begin(), lines.end(), [&](const line& one) { return one.name == name; });
    if (at == lines.end()) at = lines.insert(lines.end(), line{.name = name});
    if (point.in_use.total > at->most.total) at->most = point.in_use;
  }
  return lines;
}

}  // namespace memory_timeline
