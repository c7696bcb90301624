// Whether a training that axolotl's file configures fits on a GPU, and what the file says wrongly.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/trainer/axolotl.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/yaml.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/units.hpp>

#include <cstdio>

using namespace gpuplan;

constexpr const char* settings = R"(
base_model: meta-llama/Meta-Llama-3-8B
adapter: qlora
load_in_4bit: true
lora_r: 16
lora_target_linear: true
sequence_len: 2048
micro_batch_size: 2
gradient_accumulation_steps: 8
bf16: true
gradient_checkpointing: true
gradient_checkpointing_kwargs:
  use_reentrant: false
colour: blue
)";

int main() {
  const io::read_config read = io::merged({io::read_axolotl(io::parse_yaml(settings).is)});
  const io::configured_training training =
      io::configured(read, {.shape = catalog::llama_3_8b, .called = "llama-3-8b"});
  if (!training) {
    std::fprintf(stderr, "%s\n", training.why.c_str());
    return 1;
  }
  const gpu_spec& gpu = catalog::rtx_4090;
  const transformer_memory memory{training.setup, usual_fragmentation, nccl_channels(gpu)};
  const bytes needed = memory.required(training.plan);
  std::printf("%.1f of %.1f GiB: %s\n",
              in(needed, 1_GiB),
              in(usable_memory(gpu), 1_GiB),
              needed <= usable_memory(gpu) ? "it fits" : "it does not fit");
  for (const std::string& key : read.not_understood)
    std::printf("not understood: %s\n", key.c_str());
  for (const io::remark& one : training.remarks)
    std::printf("%s %s\n", one.key.c_str(), one.text.c_str());
}
