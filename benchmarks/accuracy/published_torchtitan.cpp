#include "published_torchtitan.hpp"

#include <gpuplan/catalog/frameworks.hpp>

#include <string_view>

#include "runs.hpp"

namespace accuracy {
namespace {

using gpuplan::recompute_mode;
using gpuplan::training_setup;

// torchtitan compiles layers where they are whole; those that tensor-parallel ranks divide are
// replayed as they run without that. Linear layers in fp8 are parts of compiled layers, which keep
// what those in bf16 keep.
std::string read_torchtitan(const row& source, training_setup& setup) {
  const std::string_view notes = source.text("notes");
  gpuplan::parallelism& division = setup.parallelism;
  if (division.pipeline_parallel > 1) return "what a stage of its pipeline keeps is not known";
  const bool is_of_2025 = notes.find("2025") != std::string_view::npos;
  setup.framework = is_of_2025 ? gpuplan::catalog::torchtitan_2025 : gpuplan::catalog::torchtitan;
  setup.framework.loss_parallel = division.tensor_parallel > 1;
  setup.framework.compiles_layers = source.flag("compile") && division.tensor_parallel == 1;
  setup.framework.compiles_loss = setup.framework.compiles_loss && source.flag("compile");
  setup.precision.compute = gpuplan::number_format::bf16;
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

}  // namespace

described_setup describe_torchtitan(const row& source) {
  described_setup described;
  const described_run run = describe_run(source);
  described.why_not = run.why_not;
  if (!described.why_not.empty()) return described;
  training_setup& setup = described.setup;
  setup.model = run.shape;
  setup.sequence_length = source.integer_or("seq_len", 0);
  setup.parallelism.tensor_parallel = source.integer_or("tp", 1);
  setup.parallelism.pipeline_parallel = source.integer_or("pp", 1);
  setup.parallelism.context_parallel = source.integer_or("cp", 1);
  setup.parallelism.sequence_parallel = source.flag("sequence_parallel");
  setup.parallelism.zero_stage = static_cast<int>(source.integer_or("zero_stage", 0));
  described.plan = {.micro_batch = source.integer_or("micro_batch", 1),
                    .data_parallel = source.integer_or("dp", 1),
                    .accumulation = source.integer_or("grad_accum", 1)};
  described.why_not = read_torchtitan(source, setup);
  if (described.why_not.empty())
    if (const auto valid = validate(setup); !valid)
      described.why_not = gpuplan::failure_text(valid.why()).c_str();
  return described;
}

}  // namespace accuracy
