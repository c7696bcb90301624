// Guide 004: the memory of its models.

#include "guides/memory.hpp"

#include <gpuplan/catalog/frameworks.hpp>

#include <cstdint>

#include "guides/batch_sweep/tables.hpp"

namespace guides::batch_sweep {
namespace {

bytes peak(const inputs& in, const model_size& size, std::int64_t micro_batch) {
  return peak_memory(as_gpt(in, size), {.micro_batch = micro_batch});
}

/// Of a sample more, where many are there already.
bytes of_a_sample(const inputs& in, const model_size& size) {
  constexpr std::int64_t many = 256;
  return (peak(in, size, 2 * many) - peak(in, size, many)) / static_cast<double>(many);
}

}  // namespace

// As blocks of a GPT: what conditions PMTDit's works on one vector a sample. Two signals a token
// lead in and out.
training_setup as_gpt(const inputs& in, const model_size& size) {
  return {.model = {.num_hidden_layers = size.depth,
                    .hidden_size = size.hidden,
                    .intermediate_size = 4 * size.hidden,
                    .num_attention_heads = in.heads,
                    .vocab_size = 2,
                    .attention_bias = true,
                    .attention_out_bias = true,
                    .fused_qkv = true,
                    .gated_mlp = false,
                    .hidden_act = activation_function::gelu,
                    .mlp_bias = true,
                    .norm = norm_kind::layer_norm,
                    .norm_bias = true},
          .sequence_length = in.photomultipliers,
          .precision = fp16_mixed,
          .attention = attention_kernel::flash,
          .framework = catalog::torch_gpt};
}

table the_memory(const inputs& in) {
  table t{.id = "T4.7",
          .title = "memory of the models",
          .inputs = "T4.6's blocks in PyTorch's eager mode: FlashAttention, AMP in FP16, AdamW"};
  const struct {
    const char* row;
    const model_size& size;
    setting on_80;
    shown documented;
  } models[] = {{"small", in.small_model, in.small_on_80, number(28)},
                {"medium", in.medium_model, in.medium_on_80, number(45)},
                {"large", in.large_model, in.large_on_80, number(65)}};
  for (const auto& one : models) {
    t.also(one.row,
           "memory of a sample",
           "MB",
           number(gpuplan::in(of_a_sample(in, one.size), 1_MB), 1),
           &one == models ? "T4.3 has the line through the sweep" : "");
    t.compare(one.row,
              "memory of the setting",
              "GB",
              one.documented,
              number(GB(peak(in, one.size, one.on_80.micro_batch)), 0),
              "micro-batch " + std::to_string(one.on_80.micro_batch));
  }
  return t;
}

std::string finding_of_the_memory(const inputs& in) {
  const double sample = gpuplan::in(of_a_sample(in, in.small_model), 1_MB);
  const double line = gpuplan::in(memory_line(in, plain).model.per_sample, 1_MB);
  const auto taken = [&](const model_size& size, const setting& of) {
    return decimal(GB(peak(in, size, of.micro_batch)), 0);
  };
  return "In PyTorch's eager mode a sample of the small model takes " + decimal(sample, 0) +
         " MB, " + decimal(sample / line, 1) + " times the " + decimal(line, 1) +
         " MB of the sweep's line, and the settings for 80 GB take " +
         taken(in.small_model, in.small_on_80) + ", " + taken(in.medium_model, in.medium_on_80) +
         " and " + taken(in.large_model, in.large_on_80) +
         " GB: the sweep ran with fewer tokens, or with code that keeps less. Sweep the medium and "
         "large model too.";
}

}  // namespace guides::batch_sweep
