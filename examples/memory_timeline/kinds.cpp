#include "memory_timeline/kinds.hpp"

#include <gpuplan/memory/step_peaks.hpp>

#include <array>

namespace memory_timeline {

// Colours that differ for all eyes and in print (Okabe and Ito 2008, jfly.uni-koeln.de/color).
const std::array<kind, gpuplan::memory_parts>& kinds() {
  using gpuplan::memory_part;
  static constexpr std::array<kind, gpuplan::memory_parts> all{
      {{memory_part::weights, 'W', "#0072b2", 25, "weights"},
       {memory_part::optimizer_states, 'O', "#56b4e9", 74, "optimizer states"},
       {memory_part::gradients, 'G', "#009e73", 36, "gradients"},
       {memory_part::buffers, 'B', "#999999", 246, "buffers"},
       {memory_part::activations, 'A', "#e69f00", 178, "activations"},
       {memory_part::working, 'T', "#d55e00", 166, "working memory"},
       {memory_part::workspace, 'S', "#cc79a7", 175, "workspace"}}};
  return all;
}

}  // namespace memory_timeline
