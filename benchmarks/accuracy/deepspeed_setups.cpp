#include "deepspeed_setups.hpp"

#include <gpuplan/catalog/frameworks.hpp>

#include <charconv>
#include <string_view>

#include "notes.hpp"

namespace accuracy {
namespace {

using gpuplan::training_setup;

std::string not_known(std::string_view option, std::string_view value) {
  return "what " + std::string(option) + " '" + std::string(value) + "' takes is not known";
}

// The options of one row.
class option_list {
 public:
  explicit option_list(const row& source) : text_(source.text("framework_options")) {}

  [[nodiscard]] std::string_view operator[](std::string_view name) const {
    return value_in(text_, name);
  }
  void read(std::string_view name, std::int64_t& into) const {
    const std::string_view value = value_in(text_, name);
    std::from_chars(value.data(), value.data() + value.size(), into);
  }
  void read(std::string_view name, bool& into) const {
    const std::string_view value = value_in(text_, name);
    if (value == "on") into = true;
    if (value == "off") into = false;
  }

 private:
  std::string_view text_;
};

std::string read_model(const option_list& options, training_setup& setup) {
  const std::string_view code = options["model"];
  if (code == "hf llama") {
    setup.framework = gpuplan::catalog::hugging_face_llama;
  } else if (code == "hf qwen2") {
    setup.framework = gpuplan::catalog::hugging_face_qwen;
  } else if (code == "hf gpt2") {
    setup.framework = gpuplan::catalog::hugging_face_gpt2;
    setup.model.hidden_act = gpuplan::activation_function::gelu_new;
  } else if (code == "hf bert") {
    setup.framework = gpuplan::catalog::hugging_face_bert;
    setup.model.hidden_act = gpuplan::activation_function::gelu;
  } else {
    return not_known("model", code);
  }
  return {};
}

void read_zero(const option_list& options, training_setup& setup) {
  gpuplan::zero_settings& zero = setup.framework.engine.zero;
  setup.framework.engine.overlaps_reduction = setup.parallelism.zero_stage == 3;
  options.read("overlap_comm", setup.framework.engine.overlaps_reduction);
  options.read("reduce_bucket_size", zero.reduce_bucket);
  options.read("contiguous_gradients", zero.contiguous_gradients);
  options.read("reduce_scatter", zero.reduce_scatter);
  options.read("round_robin_gradients", zero.round_robin_gradients);
  options.read("zero_init", zero.divides_while_building);
  options.read("checkpoint_reentrant", setup.framework.implementation.checkpoints_reenter);
  options.read("stage3_prefetch_bucket_size", zero.prefetch_bucket);
  options.read("stage3_param_persistence_threshold", zero.persistence_threshold);
  options.read("stage3_max_live_parameters", zero.max_live_parameters);
  options.read("stage3_max_reuse_distance", zero.max_reuse_distance);
  options.read("sub_group_size", zero.sub_group);
}

}  // namespace

std::string read_deepspeed(const row& source, training_setup& setup) {
  const option_list options(source);
  if (const std::string why = read_model(options, setup); !why.empty()) return why;
  setup.framework.engine.is = &gpuplan::engine_classes::deepspeed;
  setup.framework.implementation.builds_in_fp32 = false;
  setup.precision =
      source.text("precision") == "fp16" ? gpuplan::fp16_master : gpuplan::bf16_master;
  setup.precision.fp32_gradients = options["grad_accum_dtype"] == "fp32";
  setup.attention = options["attention"] == "hf eager" ? gpuplan::attention_kernel::eager
                                                       : gpuplan::attention_kernel::flash;
  setup.dropout = options["dropout"] == "0.0" ? 0 : 0.1;
  setup.optimizer.loop = options["torch_adam"] == "fused" ? gpuplan::optimizer_loop::fused
                                                          : gpuplan::optimizer_loop::foreach;
  setup.optimizer.clips_gradients = options["gradient_clipping"] != "0.0";
  setup.parallelism.optimizer_on_host = options["offload_optimizer"] == "cpu";
  const std::string_view again = source.text("recompute");
  if (again == "full")
    setup.recompute = gpuplan::recompute_mode::full;
  else if (again != "none")
    return not_known("recompute", again);
  read_zero(options, setup);
  return {};
}

}  // namespace accuracy
