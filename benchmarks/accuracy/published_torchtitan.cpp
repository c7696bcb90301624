#include "published_torchtitan.hpp"

#include <gpuplan/catalog/frameworks.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "notes.hpp"
#include "runs.hpp"

namespace accuracy {
namespace {

using gpuplan::recompute_mode;
using gpuplan::training_setup;

// torchtitan compiles layers, and its loss since 2025, whether they are whole or not.
std::string read_framework(const row& source, training_setup& setup) {
  const std::string_view notes = source.text("notes");
  gpuplan::parallelism& layout = setup.parallelism;
  const bool is_of_2025 = notes.find("2025") != std::string_view::npos;
  setup.framework = is_of_2025 ? gpuplan::catalog::torchtitan_2025 : gpuplan::catalog::torchtitan;
  if (value_in(notes, "async_tp") == "1") {
    const bool compiles_loss = setup.framework.implementation.compiles_loss;
    setup.framework = gpuplan::catalog::torchtitan_async;
    setup.framework.implementation.compiles_loss = compiles_loss;
  }
  setup.framework.implementation.loss_parallel = layout.tensor_parallel > 1;
  setup.framework.implementation.compiles_layers = source.flag("compile");
  setup.framework.implementation.compiles_loss =
      setup.framework.implementation.compiles_loss && source.flag("compile");
  setup.precision.compute = gpuplan::number_format::bf16;
  setup.precision.fp8_linears = source.text("precision") == "fp8";
  if (value_in(notes, "float8") == "rowwise") setup.precision.scaling = gpuplan::scaling_kind::row;
  setup.attention = gpuplan::attention_kernel::flash;
  setup.optimizer.clips_gradients = true;

  const std::string_view again = source.text("recompute");
  if (again == "none") return {};
  setup.recompute = recompute_mode::full;
  if (again == "selective_op") {
    setup.saves_costly_results = true;
  } else if (again.empty() && notes.find("every second block") != std::string_view::npos) {
    setup.recompute_period = 2;
  } else if (again != "full") {
    return "what recomputation '" + std::string(again) + "' repeats is not known";
  }
  return {};
}

// What it does not print of pipelines is taken to be its default: as many micro-batches as stages,
// and two stages a rank under an interleaved schedule. Recalled, not looked up; its runs with 1F1B
// and interleaved take 1.28 to 1, and their bubbles by this 1.30.
void read_pipeline(const row& source, described_setup& described) {
  gpuplan::parallelism& layout = described.setup.parallelism;
  if (layout.pipeline_parallel == 1 || !source.blank("micro_batch")) return;
  const bool interleaves = source.text("notes").find("Interleaved1F1B") != std::string_view::npos;
  layout.virtual_pipeline = source.integer_or("vpp", interleaves ? 2 : 1);
  described.plan.accumulation = layout.pipeline_parallel;
  described.plan.micro_batch =
      std::max<std::int64_t>(1,
                             source.integer_or("global_batch", 1) /
                                 (described.plan.data_parallel * described.plan.accumulation));
}

}  // namespace

described_setup read_torchtitan(const row& source) {
  described_setup described;
  const described_run run = describe_run(source);
  described.why_not = run.why_not;
  if (!described.why_not.empty()) return described;
  training_setup& setup = described.setup;
  setup.model = run.shape;
  setup.sequence_length = source.integer_or("seq_len", 0);
  setup.parallelism = layout_in(source);
  described.plan = batch_in(source);
  read_pipeline(source, described);
  described.why_not = read_framework(source, setup);
  return described;
}

described_setup describe_torchtitan(const row& source) {
  described_setup described = read_torchtitan(source);
  if (described.setup.parallelism.pipeline_parallel > 1)
    described.why_not = "what a stage of its pipeline keeps is not known";
  // Layers that tensor-parallel ranks divide are replayed as they run without compilation. Linear
  // layers in fp8 are parts of compiled layers, which keep what those in bf16 keep.
  if (described.setup.parallelism.tensor_parallel > 1) {
    described.setup.framework.implementation.compiles_layers = false;
    described.setup.framework.implementation.compiles_loss = false;
  }
  described.setup.precision.fp8_linears = false;
  described.setup.precision.scaling = gpuplan::scaling_kind::tensor;
  refuse_invalid(described);
  return described;
}

}  // namespace accuracy
