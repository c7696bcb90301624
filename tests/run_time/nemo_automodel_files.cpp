// What recipes of NeMo AutoModel say.

#include <doctest/doctest.h>

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/trainer/any_file.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/trainer/nemo_automodel.hpp>
#include <gpuplan/io/yaml.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/replay.hpp>

#include <string>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;

const char* const recipe = R"(
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler:
  global_batch_size: 64
  local_batch_size: 8
  ckpt_every_steps: 200
  max_steps: 300
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3.2-1B
distributed:
  strategy: fsdp2
  dp_size: none
  tp_size: 1
  cp_size: 1
  sequence_parallel: false
loss_fn:
  _target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy
packed_sequence:
  packed_sequence_size: 4096
optimizer:
  _target_: torch.optim.AdamW
  lr: 1.0e-5
  weight_decay: 0.01
lr_scheduler:
  lr_decay_style: cosine
  lr_warmup_steps: 20
  min_lr: 1.0e-6
)";

read_config read_text(const std::string& text) { return read_training_file("recipe.yaml", text); }
std::string with(const std::string& more) { return recipe + more; }
// The recipe with one line in place of another.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = recipe;
  return text.replace(text.find(from), from.size(), to);
}

TEST_CASE(
    "a recipe of NeMo AutoModel that begins without weights names its model's configuration") {
  const read_config read =
      read_text(changed("  pretrained_model_name_or_path: meta-llama/Llama-3.2-1B\n",
                        "  config:\n    _target_: transformers.AutoConfig.from_pretrained\n"
                        "    pretrained_model_name_or_path: Qwen/Qwen3-30B-A3B\n"));
  REQUIRE(read);
  CHECK(read.config.model == "Qwen/Qwen3-30B-A3B");
  CHECK(read.not_understood.empty());
}

TEST_CASE("a recipe of NeMo AutoModel says its batch, its layout and its formats") {
  const read_config read = read_text(recipe);
  REQUIRE(read);
  CHECK(read.tool == "nemo-automodel");
  CHECK(read.remarks.empty());
  CHECK(read.not_understood.empty());
  const training_config& is = read.config;
  CHECK(is.model == "meta-llama/Llama-3.2-1B");
  CHECK(says(is.micro_batch, std::int64_t{8}));
  CHECK(says(is.global_batch, std::int64_t{64}));
  CHECK(says(is.steps, std::int64_t{300}));
  CHECK(!is.data_parallel);  // as many as there are
  CHECK(is.engine == "fsdp2");
  CHECK(says(is.zero_stage, 3));
  CHECK(says(is.packing, true));
  CHECK(says(is.sequence_length, std::int64_t{4096}));
  CHECK(says(is.clip_norm, 1.0));
  CHECK(says(is.schedule, rate_schedule::cosine));
  CHECK(says(is.warm_up_steps, 20.0));
  CHECK(says(is.least_learning_rate, 1e-6));
  // Where nothing is said of them: all in bf16, but for what gradients are summed in.
  CHECK(says(is.precision, training_precision::pure_bf16));
  CHECK(says(is.reduced, number_format::fp32));
}

TEST_CASE("of a recipe of NeMo AutoModel a step can be estimated") {
  const read_config read = read_text(recipe);
  const configured_training made = configured(
      read, {.shape = catalog::llama_3_2_1b, .called = "llama-3.2-1b", .gpus = std::int64_t{4}});
  REQUIRE(made);
  CHECK(made.plan.micro_batch == 8);
  CHECK(made.plan.accumulation == 2);
  CHECK(made.setup.precision.weights == number_format::bf16);
  CHECK(made.setup.precision.reduced == number_format::fp32);
  const auto summed = replay(made.setup, made.plan);
  REQUIRE(summed);
  // A policy that sums in bf16 needs no copies in fp32.
  const configured_training half = configured(
      read_text(changed("  sequence_parallel: false\n",
                        "  mp_policy:\n    reduce_dtype: bfloat16\n    param_dtype: bfloat16\n")),
      {.shape = catalog::llama_3_2_1b, .called = "llama-3.2-1b", .gpus = std::int64_t{4}});
  REQUIRE(half);
  const auto less = replay(half.setup, half.plan);
  REQUIRE(less);
  CHECK(less->peak.requested < summed->peak.requested);
}

TEST_CASE("weights of NeMo AutoModel in fp32 are cast for products") {
  const read_config read =
      read_text(changed("Llama-3.2-1B\n", "Llama-3.2-1B\n  torch_dtype: float32\n"));
  CHECK(read.remarks.empty());
  CHECK(says(read.config.precision, training_precision::bf16));
  CHECK(says(read.config.weights, number_format::fp32));
  const read_config unknown =
      read_text(changed("Llama-3.2-1B\n", "Llama-3.2-1B\n  torch_dtype: int8\n"));
  REQUIRE(unknown.remarks.size() == 1);
  CHECK(unknown.remarks[0].key == "model.torch_dtype");
}

TEST_CASE("NeMo AutoModel's shards, its recomputation and when it sums gradients") {
  const auto layout = [](const std::string& more) {
    return read_text(changed("  dp_size: none\n", more)).config;
  };
  const training_config hybrid = layout("  dp_size: 16\n  dp_replicate_size: 2\n");
  CHECK(says(hybrid.data_parallel, std::int64_t{16}));
  CHECK(says(hybrid.shard_group, std::int64_t{8}));
  CHECK(says(layout("  reshard_after_forward: false\n").zero_stage, 2));
  CHECK(says(layout("  defer_fsdp_grad_sync: false\n").reduces_every_micro_batch, true));
  CHECK(says(layout("").reduces_every_micro_batch, false));
  CHECK(says(layout("  activation_checkpointing: true\n").recompute, recompute_mode::full));
  const training_config selective = layout("  activation_checkpointing: selective\n");
  CHECK(says(selective.recompute, recompute_mode::full));
  CHECK(says(selective.saves_costly_results, true));
  const read_config wrong =
      read_text(changed("  dp_size: none\n", "  dp_size: 16\n  dp_replicate_size: 3\n"));
  REQUIRE(wrong.remarks.size() == 1);
  CHECK(wrong.remarks[0].key == "distributed.dp_replicate_size");
  const read_config open = read_text(changed("  dp_size: none\n", "  dp_replicate_size: 2\n"));
  REQUIRE(open.remarks.size() == 1);
  CHECK(open.remarks[0].key == "distributed.dp_size");
}

TEST_CASE("NeMo AutoModel's adapters are of its default rank and in bf16") {
  const read_config read =
      read_text(with("peft:\n  _target_: nemo_automodel.components._peft.lora.PeftConfig\n"
                     "  match_all_linear: True\n  alpha: 32\n"));
  CHECK(read.remarks.empty());
  REQUIRE(read.config.adapters);
  CHECK(read.config.adapters->rank == 8);
  CHECK(read.config.adapters->weights == number_format::bf16);
  CHECK(read.config.adapters->targets == all_linear);
  const read_config some =
      read_text(with("peft:\n  dim: 16\n  target_modules: [q_proj, v_proj]\n"
                     "quantization:\n  load_in_4bit: true\n"));
  CHECK(some.remarks.empty());
  REQUIRE(some.config.adapters);
  CHECK(some.config.adapters->rank == 16);
  CHECK(some.config.adapters->targets == query_and_value);
  CHECK(some.config.adapters->base == four_bit_base);
  CHECK(read_text(with("peft:\n  target_modules: \"*_proj\"\n")).config.adapters->targets ==
        all_linear);
}

TEST_CASE("what the estimate leaves out of a recipe of NeMo AutoModel it names") {
  const read_config read = read_text(
      changed("  strategy: fsdp2\n", "  strategy: megatron_fsdp\n  enable_compile: true\n") +
      "speculative: 1\n");
  REQUIRE(read.remarks.size() == 2);
  CHECK(read.remarks[0].key == "distributed.strategy");
  CHECK(read.remarks[1].key == "distributed.enable_compile");
  CHECK(read.config.engine == "fsdp2");
  REQUIRE(read.not_understood.size() == 1);
  CHECK(read.not_understood[0] == "speculative");
}

}  // namespace
