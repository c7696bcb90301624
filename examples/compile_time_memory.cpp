// The memory of a training step, known when this program was compiled: from the model's shape and
// the framework's code, without a GPU. compile_time_memory/ holds the setup.

#include <string>

#include "compile_time_memory/llama_on_8_h100.hpp"
#include "guides/front_end.hpp"

namespace {

using namespace gpuplan;
using llama_training::best;
using llama_training::gpu;
using llama_training::memory;
using llama_training::written;

static_assert(best.micro_batch == 3 && best.effective_batch() == 120);

std::string GB(bytes size) { return io::decimal(in(size, 1_GB), 2) + " GB"; }

io::table decided() {
  constexpr memory_breakdown parts = memory.breakdown(written);
  const std::string sequences = std::to_string(written.micro_batch) + " sequences at once";
  return {.title = "Llama 3 8B on 8 x " + std::string(gpu.name) + ", " + sequences + ", fits:",
          .columns = {{.name = "one GPU has"}, {.name = "size", .align = io::alignment::right}},
          .rows = {{"weights, of all of which it gathers some", GB(parts.weights)},
                   {"gradients", GB(parts.gradients)},
                   {"optimizer states", GB(parts.optimizer_states)},
                   {"buffers", GB(parts.buffers)},
                   {"activations", GB(parts.activations)},
                   {"working memory", GB(parts.working)},
                   {"workspace", GB(parts.workspace)},
                   {"fragmentation, as is usual", GB(parts.fragmentation)},
                   {"NCCL's buffers", GB(parts.communication)},
                   {"in all, at the " + std::string(text(parts.when)), GB(parts.total())},
                   {"usable of the GPU", GB(usable_memory(gpu))},
                   {"the largest micro-batch that fits", best.micro_batch},
                   {"accumulation for 64 to 128 sequences", best.accumulation}}};
}

}  // namespace

int main(int argc, char** argv) {
  return guides::run(argc,
                     argv,
                     "compile_time_memory",
                     "The memory of a training step, known when this program was compiled.",
                     decided);
}
