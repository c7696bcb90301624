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

bool runs_transformers(std::string_view notes) {
  return says(notes, "HF Trainer") || says(notes, "GPT-2 HF");
}

// Why no setup can be of this run; blank where one can.
std::string unstated_in(const row& source) {
  if (source.blank("heads")) return "how many heads its attention has is not stated";
  if (source.text("recompute") != "full") return "what it recomputes is not stated";
  if (source.blank("micro_batch") || source.blank("dp") || source.blank("tp") || source.blank("pp"))
    return "its batch or its layout is not stated";
  return {};
}

// What of a described run is not replayed; blank where nothing is.
std::string unreplayed_in(const row& source) {
  if (runs_transformers(source.text("notes")))
    return "which versions of transformers and DeepSpeed ran is not known";
  if (source.text("zero_stage") == "0")
    return "DeepSpeed's optimizer for fp16 without ZeRO is not replayed";
  if (source.text("zero_stage") != "1")
    return "Megatron-DeepSpeed with ZeRO-2 and ZeRO-3 is not replayed";
  return {};
}

// GPT-2 of transformers under its Trainer, with DeepSpeed's ZeRO-3.
void read_transformers(const row& source, gpuplan::training_setup& setup) {
  const std::string_view notes = source.text("notes");
  setup.framework = gpuplan::catalog::hugging_face_gpt2_zero_3;
  setup.parallelism.optimizer_on_host =
      says(notes, "optimizer offload=Y") || says(notes, "full CPU offload");
  setup.parallelism.weights_on_host =
      says(notes, "parameter offload=Y") || says(notes, "full CPU offload");
}

}  // namespace

described_setup read_bigscience(const row& source) {
  described_setup described;
  const described_run run = describe_run(source);
  described.why_not = run.why_not;
  if (described.why_not.empty()) described.why_not = unstated_in(source);
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
  setup.parallelism = layout_in(source);
  if (says(notes, "counts the two embeddings as layers"))
    setup.parallelism.split = {.embedding_layers = 1, .head_layers = 1};
  if (setup.parallelism.zero_stage == 3)
    setup.framework = gpuplan::catalog::megatron_deepspeed_zero_3;
  else if (!says(notes, "DeepSpeed") && says(notes, "Megatron-LM"))
    setup.framework = gpuplan::catalog::megatron_lm;
  if (runs_transformers(notes)) read_transformers(source, setup);
  setup.recompute = gpuplan::recompute_mode::full;
  setup.attention = gpuplan::attention_kernel::eager;
  setup.dropout = 0.1;  // the scripts leave Megatron's defaults
  described.plan = batch_in(source);
  if (const std::int64_t layout = setup.parallelism.tensor_parallel;
      setup.model.vocab_size % (128 * layout) != 0)
    setup.model.vocab_size += 128 * layout - setup.model.vocab_size % (128 * layout);
  return described;
}

described_setup describe_bigscience(const row& source) {
  described_setup described = read_bigscience(source);
  if (described.why_not.empty()) described.why_not = unreplayed_in(source);
  refuse_invalid(described);
  return described;
}

}  // namespace accuracy
