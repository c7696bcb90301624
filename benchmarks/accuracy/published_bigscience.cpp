#include "published_bigscience.hpp"

#include <gpuplan/catalog/frameworks.hpp>

#include <string>
#include <string_view>

#include "runs.hpp"

namespace accuracy {
namespace {

bool says(std::string_view notes, std::string_view what) {
  return notes.find(what) != std::string_view::npos;
}

// Why no replay can be of this run; blank where one can.
std::string unknown_of(const row& source) {
  const std::string_view notes = source.text("notes");
  if (says(notes, "HF Trainer") || says(notes, "GPT-2 HF"))
    return "which versions of transformers and DeepSpeed ran is not known";
  if (source.text("zero_stage") == "0")
    return "DeepSpeed's optimizer for fp16 without ZeRO is not replayed";
  if (source.text("zero_stage") != "1")
    return "Megatron-DeepSpeed with ZeRO-2 and ZeRO-3 is not replayed";
  if (source.blank("heads")) return "how many heads its attention has is not stated";
  if (source.text("recompute") != "full") return "what it recomputes is not stated";
  if (source.blank("micro_batch") || source.blank("dp") || source.blank("tp"))
    return "its batch or its division is not stated";
  return {};
}

}  // namespace

described_setup describe_bigscience(const row& source) {
  described_setup described;
  const described_run run = describe_run(source);
  described.why_not = run.why_not;
  if (described.why_not.empty()) described.why_not = unknown_of(source);
  if (!described.why_not.empty()) return described;
  const std::string_view notes = source.text("notes");
  gpuplan::training_setup& setup = described.setup;
  setup.model = run.shape;
  setup.model.fused_qkv = true;
  setup.model.hidden_act = gpuplan::activation_function::gelu;
  setup.sequence_length = source.integer_or("seq_len", 0);
  setup.framework = gpuplan::catalog::megatron_deepspeed;
  setup.precision =
      source.text("precision") == "bf16" ? gpuplan::bf16_master : gpuplan::fp16_master;
  setup.precision.fp32_gradients = source.text("grad_bytes") == "4";
  setup.optimizer.loop = gpuplan::optimizer_loop::fused;  // apex.optimizers.FusedAdam
  setup.optimizer.clips_gradients = true;
  setup.parallelism.tensor_parallel = source.integer_or("tp", 1);
  setup.parallelism.pipeline_parallel = source.integer_or("pp", 1);
  setup.parallelism.ends_are_layers = says(notes, "counts the two embeddings as layers");
  setup.parallelism.zero_stage = 1;
  setup.recompute = gpuplan::recompute_mode::full;
  setup.attention = gpuplan::attention_kernel::written_out;
  setup.dropout = 0.1;  // the scripts leave Megatron's defaults
  described.plan = {.micro_batch = source.integer_or("micro_batch", 1),
                    .data_parallel = source.integer_or("dp", 1),
                    .accumulation = source.integer_or("grad_accum", 1)};
  if (const std::int64_t division = setup.parallelism.tensor_parallel;
      setup.model.vocab_size % (128 * division) != 0)
    setup.model.vocab_size += 128 * division - setup.model.vocab_size % (128 * division);
  if (const auto valid = validate(setup); !valid)
    described.why_not = gpuplan::failure_text(valid.why()).c_str();
  return described;
}

}  // namespace accuracy
