#include "memory/kinds.hpp"

#include <gpuplan/memory/step_peaks.hpp>

#include <array>

namespace memory_timeline {

const std::array<kind, gpuplan::memory_parts>& kinds() {
  using gpuplan::memory_part;
  static constexpr std::array<kind, gpuplan::memory_parts> all{
      {{memory_part::weights, 'W', 0, 25, "weights"},
       {memory_part::optimizer_states, 'O', 1, 74, "optimizer states"},
       {memory_part::gradients, 'G', 2, 36, "gradients"},
       {memory_part::buffers, 'B', 3, 246, "buffers"},
       {memory_part::activations, 'A', 4, 178, "activations"},
       {memory_part::working, 'T', 5, 166, "working memory"},
       {memory_part::workspace, 'S', 6, 175, "workspace"}}};
  return all;
}

}  // namespace memory_timeline
