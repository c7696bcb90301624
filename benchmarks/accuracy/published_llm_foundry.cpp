#include "published_llm_foundry.hpp"

#include <gpuplan/catalog/frameworks.hpp>

#include <string_view>

#include "notes.hpp"
#include "runs.hpp"

namespace accuracy {

described_setup read_llm_foundry(const row& source) {
  described_setup described;
  const described_run run = describe_run(source);
  described.why_not = run.why_not;
  if (!described.why_not.empty()) return described;
  const std::string_view notes = source.text("notes");
  gpuplan::training_setup& setup = described.setup;
  setup.model = run.shape;
  setup.model.fused_qkv = true;
  setup.model.hidden_act = gpuplan::activation_function::gelu;
  setup.sequence_length = source.integer_or("seq_len", 0);
  setup.framework = gpuplan::catalog::llm_foundry;
  // Composer's mixed precision: PURE reduces gradients in bf16, DEFAULT in fp32. Runs with PURE
  // that name their PyTorch name 1.13 or 2.0, whose checkpoints do not stop early.
  setup.precision = gpuplan::bf16_mixed;
  if (notes.find("fsdp_mp=PURE") != std::string_view::npos) {
    setup.precision.reduced = gpuplan::number_format::bf16;
    setup.framework.implementation.checkpoints_reenter = true;
  }
  setup.precision.fp8_linears = source.text("precision") == "fp8";
  setup.attention = source.flag("flash_attention") ? gpuplan::attention_kernel::flash
                                                   : gpuplan::attention_kernel::eager;
  setup.optimizer.clips_gradients = true;
  setup.parallelism.zero_stage = static_cast<int>(source.integer_or("zero_stage", 0));
  if (source.text("recompute") == "full") setup.recompute = gpuplan::recompute_mode::full;
  described.plan = batch_in(source);
  if (value_in(notes, "activation_cpu_offload") == "1")
    described.why_not = "how activations move to the host is not described";
  return described;
}

}  // namespace accuracy
