#include "framework_setups.hpp"

#include <gpuplan/catalog/frameworks.hpp>

#include <charconv>
#include <string>
#include <string_view>

#include "deepspeed_setups.hpp"
#include "notes.hpp"
#include "runs.hpp"

namespace accuracy {
namespace {

using gpuplan::optimizer_loop;
using gpuplan::recompute_mode;
using gpuplan::training_setup;

std::int64_t number_in(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}
std::string not_known(std::string_view option, std::string_view value) {
  return "what " + std::string(option) + " '" + std::string(value) + "' takes is not known";
}

void read_division(const row& source, training_setup& setup) {
  setup.parallelism = layout_in(source);
  const std::string_view rank = source.text("memory_rank");
  if (rank == "last_stage") setup.place.stage = setup.parallelism.pipeline_parallel - 1;
  if (rank.starts_with("stage_")) setup.place.stage = number_in(rank.substr(6));
}

std::string read_megatron(const row& source, training_setup& setup) {
  const std::string_view options = source.text("framework_options");
  const auto is_on = [&](std::string_view name) { return value_in(options, name) == "on"; };
  setup.framework = gpuplan::catalog::megatron_core;
  setup.model.fused_qkv = true;
  setup.model.hidden_act = setup.model.gated_mlp ? gpuplan::activation_function::silu
                                                 : gpuplan::activation_function::gelu;
  setup.precision =
      source.text("precision") == "fp16" ? gpuplan::fp16_master : gpuplan::bf16_master;
  setup.precision.fp32_gradients = is_on("grad_reduce_in_fp32");
  setup.attention = value_in(options, "core_attention") == "local unfused"
                        ? gpuplan::attention_kernel::eager
                        : gpuplan::attention_kernel::flash;
  setup.framework.implementation.softmax_in_fp32 = is_on("softmax_in_fp32");
  setup.framework.implementation.fuses_bias_activation = is_on("bias_activation_fusion");
  setup.framework.implementation.fuses_loss = value_in(options, "cross_entropy_fusion") == "native";
  setup.framework.engine.overlaps_reduction = is_on("overlap_grad_reduce");
  setup.padding_mask = value_in(options, "attention_mask").starts_with("bool");
  setup.dropout = value_in(options, "hidden_dropout") == "0.0" ? 0 : 0.1;
  setup.optimizer.loop =
      value_in(options, "adam") == "fused" ? optimizer_loop::fused : optimizer_loop::foreach;
  setup.optimizer.clips_gradients = true;
  setup.parallelism.shares_kept_inputs = is_on("distribute_saved_activations");

  const std::string_view again = value_in(options, "recompute");
  if (again == "none") {
    setup.recompute = recompute_mode::none;
  } else if (again == "selective core_attn") {
    setup.recompute = recompute_mode::selective;
  } else if (again.starts_with("full uniform ")) {
    setup.recompute = recompute_mode::full;
    setup.recompute_span = number_in(again.substr(13));
  } else if (again.starts_with("full block ")) {
    setup.recompute = recompute_mode::full;
    setup.recompute_layers = number_in(again.substr(11));
  } else {
    return not_known("recompute", again);
  }
  return {};
}

std::string read_torchtitan(const row& source, training_setup& setup) {
  const std::string_view options = source.text("framework_options");
  setup.framework = gpuplan::catalog::torchtitan;
  setup.model.hidden_act = gpuplan::activation_function::silu;
  setup.precision.compute = gpuplan::number_format::bf16;
  setup.precision.reduced = value_in(options, "reduce_dtype") == "bf16"
                                ? gpuplan::number_format::bf16
                                : gpuplan::number_format::fp32;
  setup.attention = gpuplan::attention_kernel::flash;
  setup.optimizer.loop =
      value_in(options, "adam") == "fused" ? optimizer_loop::fused : optimizer_loop::foreach;
  setup.optimizer.clips_gradients = true;
  setup.framework.implementation.loss_parallel = value_in(options, "loss_parallel") == "on";
  if (const std::int64_t replicas = number_in(value_in(options, "dp_replicate")); replicas > 1)
    setup.parallelism.shard_group = source.integer_or("dp", 1) / replicas;

  const std::string_view again = value_in(options, "activation_checkpoint");
  if (again == "none") return {};
  setup.recompute = recompute_mode::full;
  if (again == "selective op")
    setup.saves_costly_results = true;
  else if (again.starts_with("selective layer "))
    setup.recompute_period = number_in(again.substr(16));
  else if (again != "full")
    return not_known("activation_checkpoint", again);
  return {};
}

}  // namespace

described_setup describe_framework_setup(const row& source) {
  described_setup described;
  const described_run run = describe_run(source);
  described.why_not = run.why_not;
  if (!described.why_not.empty()) return described;
  described.setup.model = run.shape;
  described.setup.sequence_length = source.integer_or("seq_len", 0);
  described.plan = batch_in(source);
  read_division(source, described.setup);
  const std::string_view framework = source.text("framework");
  if (framework == "megatron_core")
    described.why_not = read_megatron(source, described.setup);
  else if (framework == "deepspeed")
    described.why_not = read_deepspeed(source, described.setup);
  else if (framework == "torchtitan")
    described.why_not = read_torchtitan(source, described.setup);
  else
    described.why_not = not_known("framework", framework);
  if (described.why_not.empty())
    if (const auto valid = validate(described.setup, described.plan); !valid)
      described.why_not = gpuplan::failure_text(valid.why()).c_str();
  return described;
}

}  // namespace accuracy
