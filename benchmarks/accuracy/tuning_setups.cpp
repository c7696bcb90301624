#include "tuning_setups.hpp"

#include <gpuplan/catalog/frameworks.hpp>

#include <algorithm>
#include <string>
#include <string_view>

#include "adapters.hpp"
#include "notes.hpp"

namespace accuracy {
namespace {

using gpuplan::training_setup;

// What of a head these models rotate, in percent (LitGPT, config.py).
struct rotary_share {
  std::string_view model;
  std::int64_t percent;
};
constexpr rotary_share rotary_shares[] = {
    {"phi-1.5", 50}, {"phi-2", 40}, {"stablelm-base-alpha-3b", 25}};

// Names that LitGPT's configurations have for models of other names, or of the same shape.
struct other_name {
  std::string_view here;
  std::string_view there;
};
constexpr other_name other_names[] = {{"llama-3-8b", "meta-llama-3-8b"},
                                      {"Phi-3-mini-4k-instruct", "phi-3-mini-4k"},
                                      {"mistral-7b-v0.2", "mistral-7b-v0.1"}};

std::string describe_lit_gpt(const row& source, const model_index& models, training_setup& setup) {
  const std::string_view name = source.text("model");
  if (source.text("method") == "qlora")
    return "in which formats four-bit layers under Lightning keep their inputs is not known";
  if (source.text("method") != "lora")
    return "what its optimizer holds, which is not stated, decides";
  if (source.integer_or("gpus", 1) != 1)
    return "FSDP of torch.distributed.fsdp with a flat parameter is not replayed";
  if (source.text("recompute") != "none") return "what it recomputes is not stated";
  std::string_view called = name;
  for (const other_name& other : other_names)
    if (other.here == name) called = other.there;
  const found_model found =
      models.find_by_name(called, source.number("params_printed").value_or(0));
  if (!found.why_not.empty()) return found.why_not;
  const std::string_view configuration = value_in(source.text("notes"), "config");
  if (configuration.starts_with("gemma2"))
    return "its configuration is Gemma 2's, whose scores LitGPT writes out";
  setup.model = found.model.shape;
  const described_adapters adapters = describe_adapters(
      "lora", source.integer_or("lora_rank", 0), source.text("lora_targets"), setup.model);
  if (!adapters.why_not.empty()) return adapters.why_not;
  setup.trains = adapters.trains;
  setup.trains.adapters.weights = gpuplan::number_format::bf16;
  setup.model.fused_qkv = true;
  setup.model.fused_gate_up = false;
  setup.model.tied_embeddings = false;
  setup.model.sliding_window = setup.model.global_layer_step = 0;
  const bool is_gemma = name.starts_with("gemma");
  setup.framework = is_gemma ? gpuplan::catalog::lit_gpt_gemma : gpuplan::catalog::lit_gpt;
  for (const rotary_share& share : rotary_shares)
    if (share.model == name) setup.framework.implementation.decoder.rotary_percent = share.percent;
  const bool is_gated = setup.model.gated_mlp && !is_gemma;
  setup.model.hidden_act =
      is_gated ? gpuplan::activation_function::silu : gpuplan::activation_function::gelu_tanh;
  setup.precision = gpuplan::bf16_pure;
  setup.attention = gpuplan::attention_kernel::flash;
  setup.trains.adapters.dropout = 0.05;  // as in all of its configurations
  return {};
}

}  // namespace

described_setup describe_tuning(const row& source, const model_index& models) {
  described_setup described;
  training_setup& setup = described.setup;
  setup.sequence_length = source.integer_or("seq_len", 0);
  // The micro-batches beyond the second repeat it.
  described.plan = {.micro_batch = source.integer_or("micro_batch", 1),
                    .accumulation = std::min<std::int64_t>(source.integer_or("grad_accum", 1), 2)};
  const std::string_view name = source.text("source");
  if (setup.sequence_length == 0 || source.blank("micro_batch"))
    described.why_not = "how long its sequences are, or how many, is not stated";
  else if (name == "litgpt")
    described.why_not = describe_lit_gpt(source, models, setup);
  else if (source.flag("compile"))
    described.why_not = "what a compiled model keeps is not replayed";
  else
    described.why_not = "what its framework's code keeps is not replayed";
  if (described.why_not.empty())
    if (const auto valid = validate(setup); !valid)
      described.why_not = gpuplan::failure_text(valid.why()).c_str();
  return described;
}

}  // namespace accuracy
