// Guide 001: the memory of its second stage.

#include "guides/memory.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models/llama.hpp>

#include <cstdint>
#include <string>
#include <utility>

#include "guides/a6000_to_h100/tables.hpp"

namespace guides::a6000_to_h100 {
namespace {

using gpuplan::training_setup;

constexpr std::int64_t patches = 1369;  // of the current image, before the text

range<double> in_GB(const inputs& in, std::int64_t micro_batch) {
  const auto taken = [&](std::int64_t text) {
    return gpuplan::in(peak_memory(lora_of(in, text), {.micro_batch = micro_batch}), 1_GB);
  };
  return {taken(in.text_tokens.low()), taken(in.text_tokens.high())};
}

range<std::int64_t> largest(const inputs& in, const gpu_spec& gpu) {
  return {largest_micro_batch(lora_of(in, in.text_tokens.high()), {}, gpu),
          largest_micro_batch(lora_of(in, in.text_tokens.low()), {}, gpu)};
}

}  // namespace

// All in BF16, every layer recomputed.
training_setup lora_of(const inputs& in, std::int64_t text) {
  gpuplan::lora_targets targets = gpuplan::all_linear;
  targets.other = false;
  return {.model = gpuplan::catalog::llama_2_7b,
          .trains = {.what = gpuplan::training::adapters,
                     .adapters = {.rank = in.lora_rank,
                                  .weights = gpuplan::number_format::bf16,
                                  .targets = targets}},
          .sequence_length = patches + text,
          .precision = gpuplan::bf16_under_autocast,
          .optimizer = {.clips_gradients = true},
          .recompute = gpuplan::recompute_mode::full,
          .attention = gpuplan::attention_kernel::flash,
          .framework = gpuplan::catalog::hugging_face_llama};
}

table the_memory(const inputs& in) {
  table t{.id = "T1.9",
          .title = "memory of stage 2",
          .inputs = "T1.8's Meditron 7B with adapters, without the frozen 0.3 GB before it"};
  for (const batch_plan& plan : {in.on_1, in.on_2, in.on_4})
    t.also("micro-batch " + std::to_string(plan.micro_batch),
           "peak memory",
           "GB",
           span_of(in_GB(in, plan.micro_batch), 1),
           "100 to 679 tokens of text; layers recomputed, FlashAttention");
  for (const auto& [name, gpu] : {std::pair<const char*, const gpu_spec&>{"A6000", in.a6000_device},
                                  {"H100 PCIe", in.h100_pcie}})
    t.also(name, "largest micro-batch", "samples", span_of(largest(in, gpu)));
  return t;
}

}  // namespace guides::a6000_to_h100
