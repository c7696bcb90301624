#include "published_megatron_lm.hpp"

#include <gpuplan/catalog/frameworks.hpp>

#include <string_view>

#include "notes.hpp"
#include "runs.hpp"

namespace accuracy {
namespace {

using gpuplan::recompute_mode;
using gpuplan::training_setup;

// What the columns say, whichever of them ran.
described_setup read_columns(const row& source) {
  described_setup described;
  const described_run run = describe_run(source);
  described.why_not = run.why_not;
  if (!described.why_not.empty()) return described;
  training_setup& setup = described.setup;
  setup.model = run.shape;
  setup.model.fused_qkv = true;
  if (!setup.model.gated_mlp) setup.model.hidden_act = gpuplan::activation_function::gelu;
  setup.sequence_length = source.integer_or("seq_len", 0);
  setup.attention = source.flag("flash_attention") ? gpuplan::attention_kernel::flash
                                                   : gpuplan::attention_kernel::eager;
  setup.precision =
      source.text("precision") == "fp16" ? gpuplan::fp16_master : gpuplan::bf16_master;
  setup.precision.fp32_gradients = source.text("grad_bytes") == "4";
  setup.optimizer.loop = gpuplan::optimizer_loop::fused;
  setup.optimizer.clips_gradients = true;
  setup.parallelism = layout_in(source);
  if (source.text("recompute") == "full") setup.recompute = recompute_mode::full;
  described.plan = batch_in(source);
  if (source.blank("grad_accum") && !source.blank("global_batch"))
    described.plan.accumulation = source.integer_or("global_batch", 1) /
                                  (described.plan.micro_batch * described.plan.data_parallel);
  return described;
}

}  // namespace

described_setup read_megatron_lm(const row& source) {
  described_setup described = read_columns(source);
  training_setup& setup = described.setup;
  setup.framework = setup.parallelism.zero_stage == 3 ? gpuplan::catalog::megatron_zero_3
                                                      : gpuplan::catalog::megatron_lm;
  setup.dropout = 0.1;  // Megatron's default
  gpuplan::parallelism& layout = setup.parallelism;
  if (source.text("notes").find("composed by its source") != std::string_view::npos) {
    setup.framework = gpuplan::catalog::megatron_lm_profiled;
    // What the ranks cannot divide equally, its profile leaves out.
    setup.model.vocab_size -= setup.model.vocab_size % layout.tensor_parallel;
  }
  if (!source.blank("vpp") || layout.pipeline_parallel == 1) return described;
  const std::int64_t layers = setup.model.num_hidden_layers / layout.pipeline_parallel;
  for (std::int64_t chunks = 2; chunks <= layers && layout.virtual_pipeline == 1; ++chunks)
    if (layers % chunks == 0) layout.virtual_pipeline = chunks;
  return described;
}

described_setup read_megascale(const row& source) {
  described_setup described = read_columns(source);
  training_setup& setup = described.setup;
  setup.framework = gpuplan::catalog::megatron_lm;
  if (source.blank("recompute")) setup.recompute = recompute_mode::selective;
  if (source.blank("vpp"))
    setup.parallelism.virtual_pipeline = setup.model.hidden_size == 12'288 ? 6 : 3;
  if (source.blank("zero_stage")) setup.parallelism.zero_stage = 1;
  setup.model.parallel_attention =
      source.text("notes").find("parallel transformer block") != std::string_view::npos;
  return described;
}

described_setup read_megatron_bridge(const row& source) {
  described_setup described = read_columns(source);
  training_setup& setup = described.setup;
  const std::string_view notes = source.text("notes");
  const bool is_of_2606 =
      value_in(notes, "container") >= "26.06" && value_in(notes, "moe_paged_stash") == "1";
  setup.framework =
      is_of_2606 ? gpuplan::catalog::megatron_bridge_2606 : gpuplan::catalog::megatron_bridge;
  setup.framework.implementation.fuses_loss = source.flag("fused_cross_entropy");
  const std::string_view precision = source.text("precision");
  setup.precision.fp8_linears = precision == "fp8";
  setup.precision.fp4_linears = precision == "fp4";
  if (value_in(source.text("notes"), "recompute_modules").find("core_attn") !=
      std::string_view::npos)
    setup.recompute = recompute_mode::selective;
  if (source.text("optimizer") == "muon") setup.optimizer.kind = gpuplan::optimizer_kind::muon;
  add_unlisted_parts(source, setup.model);
  return described;
}

}  // namespace accuracy
