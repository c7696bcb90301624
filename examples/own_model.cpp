// A model of one's own: the memory of its training steps, known when this program was compiled. The
// model is one file, own_model/action_head.hpp; own_model/action_head.py is the same in PyTorch.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/solver.hpp>

#include <string>

#include "guides/front_end.hpp"
#include "own_model/action_head.hpp"

namespace {

using namespace gpuplan;

constexpr gpu_spec gpu = catalog::rtx_4090;
constexpr transformer_memory memory{{.model = ::action_head::shape(8, 1536),
                                     .sequence_length = ::action_head::tokens,
                                     .precision = bf16_mixed,
                                     .dropout = 0.1,
                                     .framework = ::action_head::torch}};

// Whoever changes the model so that this does not fit any more gets a compile error.
constexpr batch_plan plan = require([] { return check({.micro_batch = 256}, gpu, memory); });
constexpr step_counts counts = require([] { return counts_of(memory.setup, plan); });
static_assert(counts.parameters == 355'363'072);

io::table parts() {
  constexpr memory_breakdown of = memory.breakdown(plan);
  const auto GB = [](bytes size) { return io::decimal(in(size, 1_GB), 2) + " GB"; };
  return {.title = std::to_string(plan.micro_batch) + " samples at once fit one " + gpu.name + ":",
          .columns = {{.name = "it has"}, {.name = "size", .align = io::alignment::right}},
          .rows = {{"parameters", io::decimal(counts.parameters / 1e6, 1) + " million"},
                   {"FLOP of a step", io::decimal(counts.model().value() / 1e12, 2) + " * 10^12"},
                   {"weights", GB(of.weights)},
                   {"gradients", GB(of.gradients)},
                   {"optimizer states", GB(of.optimizer_states)},
                   {"the batch", GB(of.buffers)},
                   {"activations", GB(of.activations)},
                   {"working memory", GB(of.working + of.workspace)},
                   {"fragmentation, as is usual", GB(of.fragmentation)},
                   {"in all, at the " + std::string(text(of.when)), GB(of.total())},
                   {"usable of the GPU", GB(usable_memory(gpu))}}};
}

}  // namespace

int main(int argc, char** argv) {
  return guides::run(
      argc, argv, "own_model", "The memory of training steps of a model of one's own.", parts);
}
