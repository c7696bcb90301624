// What files of LLaMA-Factory say, and that what is written is read back.

#include <doctest/doctest.h>

#include <gpuplan/io/trainer/any_file.hpp>
#include <gpuplan/io/trainer/llama_factory.hpp>
#include <gpuplan/io/yaml.hpp>

#include "random_config.hpp"
#include "random_numbers.hpp"

#include <string>
#include <vector>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;

const char* const llama_factory_sample = R"(
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
trust_remote_code: true
flash_attn: fa2
use_reentrant_gc: false
quantization_bit: 4
quantization_method: bnb
double_quantization: false

stage: sft
do_train: true
finetuning_type: lora
lora_rank: 16
lora_dropout: 0.1
lora_target: q_proj,v_proj
additional_target: embed_tokens, lm_head
use_dora: true

dataset: identity,alpaca_en_demo
template: llama3
cutoff_len: 4096
packing: true
neat_packing: true
max_samples: 1000
preprocessing_num_workers: 16
overwrite_cache: true

output_dir: saves/llama3-8b/lora/sft
logging_steps: 10
save_steps: 500
plot_loss: true
overwrite_output_dir: true
report_to: none

per_device_train_batch_size: 2
gradient_accumulation_steps: 4
learning_rate: 1.0e-4
num_train_epochs: 3.0
lr_scheduler_type: cosine
warmup_steps: 0.1
optim: paged_adamw_8bit
max_grad_norm: 0.5
bf16: true
ddp_timeout: 180000000
deepspeed:
  zero_optimization:
    stage: 2
)";

read_config read_llama_factory_text(const std::string& text) {
  return read_llama_factory(parse_yaml(text).is);
}

TEST_CASE("a file of LLaMA-Factory is understood") {
  const read_config read = read_llama_factory_text(llama_factory_sample);
  REQUIRE(read);
  CHECK(read.not_understood == std::vector<std::string>{});
  CHECK(read.remarks.empty());
  const training_config& is = read.config;
  CHECK(is.model == "meta-llama/Meta-Llama-3-8B-Instruct");
  CHECK(says(is.trains, training::adapters));
  CHECK(says(is.adapters,
             lora{.rank = 16,
                  .targets = query_and_value,
                  .dropout = 0.1,
                  .magnitudes = true,
                  .copy_embedding = true,
                  .copy_head = true,
                  .base = four_bit_base}));
  CHECK(says(is.sequence_length, std::int64_t{4096}));
  CHECK(says(is.packing, true));
  CHECK(says(is.micro_batch, std::int64_t{2}));
  CHECK(says(is.accumulation, std::int64_t{4}));
  CHECK(says(is.clip_norm, 0.5));
  CHECK(says(is.learning_rate, 1e-4));
  CHECK(says(is.epochs, 3.0));
  CHECK(says(is.schedule, rate_schedule::cosine));
  CHECK(says(is.warm_up_share, 0.1));
  CHECK(says(is.precision, training_precision::bf16));
  CHECK(says(is.recompute, recompute_mode::full));
  CHECK(says(is.attention, attention_kernel::flash));
  CHECK(is.engine == "deepspeed");
  CHECK(says(is.zero_stage, 2));
  CHECK(read_training_file("sft.yaml", llama_factory_sample).tool == "llama-factory");
  CHECK_FALSE(looks_like_llama_factory(parse_yaml("base_model: a\nmicro_batch_size: 1").is));
  CHECK_FALSE(looks_like_llama_factory(
      parse_yaml("model_name_or_path: a\nper_device_train_batch_size: 1").is));
}

TEST_CASE("what a file of LLaMA-Factory does not say has its documented defaults") {
  const training_config is = read_llama_factory_text("stage: pt").config;
  CHECK(says(is.adapters, lora{.rank = 8, .targets = all_linear}));
  CHECK(says(is.sequence_length, std::int64_t{2048}));
  CHECK(says(is.packing, true));
  CHECK(says(is.recompute, recompute_mode::full));
  CHECK_FALSE(is.precision);  // which Accelerate's file may say
  CHECK(says(is.micro_batch, std::int64_t{8}));
  const auto adapters_of = [](const char* text) {
    return *read_llama_factory_text(text).config.adapters;
  };
  CHECK(adapters_of("quantization_bit: 4").base == double_quantised_base);
  CHECK(adapters_of("lora_target: all").targets == all_linear);
  CHECK(adapters_of("lora_target: [q_proj, v_proj]").targets == query_and_value);
  const training_config none =
      read_llama_factory_text("disable_gradient_checkpointing: true").config;
  CHECK(says(none.recompute, recompute_mode::none));
  const training_config pure = read_llama_factory_text("pure_bf16: true\nuse_muon: true").config;
  CHECK(says(pure.precision, training_precision::pure_bf16));
  CHECK(says(pure.optimizer, optimizer{.kind = optimizer_kind::muon}));
}

TEST_CASE("LLaMA-Factory trains weights in fp32 under autocast, and has frozen ones in bf16") {
  const auto of = [](const char* text) { return read_llama_factory_text(text).config; };
  CHECK(says(of("finetuning_type: full\nbf16: true").weights, number_format::fp32));
  CHECK(says(of("finetuning_type: lora\nbf16: true").weights, number_format::bf16));
  CHECK(
      says(of("finetuning_type: lora\nbf16: true\nfsdp: full_shard").weights, number_format::fp32));
  CHECK(says(of("finetuning_type: lora\nquantization_bit: 4\nbf16: true\nfsdp: full_shard").weights,
             number_format::bf16));
  CHECK_FALSE(of("finetuning_type: full").weights);
  const training_config both = of("finetuning_type: full\nbf16: true\npure_bf16: true");
  CHECK(says(both.precision, training_precision::bf16));
  CHECK(says(both.weights, number_format::bf16));
}

TEST_CASE("LLaMA-Factory's frozen layers are read and written") {
  const training_config two = read_llama_factory_text("finetuning_type: freeze").config;
  CHECK(says(two.trains, training::last_layers));
  CHECK(says(two.last_layers, std::int64_t{2}));
  const training_config first =
      read_llama_factory_text("finetuning_type: freeze\nfreeze_trainable_layers: -3").config;
  CHECK_FALSE(first.trains);
  training_config config;
  config.trains = training::last_layers;
  CHECK(write_llama_factory(config).why.find("last_layers is not known") == 0);
  config.last_layers = 5;
  const written_config written = write_llama_factory(config);
  REQUIRE(written);
  CHECK(written.not_written ==
        std::vector<std::string>{"last_layers.final_norm", "last_layers.head"});
  const training_config again = read_llama_factory_text(written.files[0].text).config;
  CHECK(says(again.trains, training::last_layers));
  CHECK(says(again.last_layers, std::int64_t{5}));
}

TEST_CASE("Megatron's keys in a file of LLaMA-Factory are read") {
  const read_config read = read_llama_factory_text(R"(
do_train: true
finetuning_type: full
tensor_model_parallel_size: 4
pipeline_model_parallel_size: 2
virtual_pipeline_model_parallel_size: 3
context_parallel_size: 2
expert_model_parallel_size: 2
sequence_parallel: true
use_distributed_optimizer: true
overlap_param_gather: true
mixed_precision: bf16_mixed
recompute_granularity: full
recompute_method: block
recompute_num_layers: 4
flash_attn: fa2
)");
  CHECK(read.not_understood == std::vector<std::string>{});
  CHECK(read.remarks.empty());
  const training_config& is = read.config;
  CHECK(is.engine == "megatron");
  CHECK(says(is.trains, training::full));
  CHECK(says(is.tensor_parallel, std::int64_t{4}));
  CHECK(says(is.pipeline_parallel, std::int64_t{2}));
  CHECK(says(is.virtual_pipeline, std::int64_t{3}));
  CHECK(says(is.context_parallel, std::int64_t{2}));
  CHECK(says(is.expert_parallel, std::int64_t{2}));
  CHECK(says(is.sequence_parallel, true));
  CHECK(says(is.zero_stage, 1));
  CHECK(says(is.precision, training_precision::bf16));
  CHECK(says(is.recompute, recompute_mode::full));
  CHECK(says(is.recompute_layers, std::int64_t{4}));
  CHECK_FALSE(is.attention);
  CHECK(says(read_llama_factory_text("tensor_model_parallel_size: 2").config.recompute,
             recompute_mode::none));
}

TEST_CASE("faults in a file of LLaMA-Factory are said") {
  using kind = remark::kind;
  const auto says_of = [](const char* text, kind is, const char* key) {
    for (const remark& one : read_llama_factory_text(text).remarks)
      if (one.is == is && one.key == key) return true;
    return false;
  };
  CHECK(says_of("stage: dpo", kind::doubtful, "stage"));
  CHECK(says_of("stage: stf", kind::contradicts, "stage"));
  CHECK(says_of("finetuning_type: oft", kind::doubtful, "finetuning_type"));
  CHECK(says_of("finetuning_type: qlora", kind::contradicts, "finetuning_type"));
  for (const char* const other :
       {"quantization_bit: 8", "quantization_bit: 4\nquantization_method: hqq"})
    CHECK(read_llama_factory_text(other).why.find("quantization_bit is ") == 0);
  CHECK(says_of("stage: sft", kind::missing, "do_train"));
  CHECK_FALSE(says_of("stage: sft\ndo_train: true", kind::missing, "do_train"));
  CHECK(
      says_of("quantization_bit: 4\nfinetuning_type: full", kind::contradicts, "quantization_bit"));
  CHECK(says_of("neat_packing: true\nstage: pt", kind::contradicts, "neat_packing"));
  CHECK(says_of("gradient_checkpointing: false", kind::doubtful, "gradient_checkpointing"));
  CHECK(says_of("fsdp: full_shard auto_wrap\nfsdp_config: {activation_checkpointing: true}",
                kind::doubtful,
                "disable_gradient_checkpointing"));
  CHECK(says_of("finetuning_type: freeze", kind::doubtful, "freeze_extra_modules"));
  CHECK(says_of("finetuning_type: freeze\nfreeze_trainable_layers: -1",
                kind::doubtful,
                "freeze_trainable_layers"));
  CHECK(says_of("pure_bf16: true\ndeepspeed: {zero_optimization: {stage: 3}}",
                kind::contradicts,
                "pure_bf16"));
  CHECK(says_of("fp8: true\nquantization_bit: 4", kind::contradicts, "fp8"));
  CHECK(
      says_of("deepspeed: a.json\ntensor_model_parallel_size: 2", kind::contradicts, "deepspeed"));
  CHECK(says_of("deepspeed: ds_z3_config.json", kind::missing, "deepspeed"));
  // Of the transformers that it is made for
  CHECK_FALSE(says_of("warmup_ratio: 0.1", kind::outdated, "warmup_ratio"));
  CHECK(says_of("use_galore: true", kind::doubtful, "use_galore"));
  CHECK(says_of("lora_rank: many", kind::contradicts, "lora_rank"));
  CHECK(says_of("additional_target: 3", kind::contradicts, "additional_target"));
  CHECK(says_of("additional_target: score", kind::doubtful, "additional_target"));
  CHECK(says_of("adapter_name_or_path: a", kind::doubtful, "adapter_name_or_path"));
  CHECK(says_of("mixture_of_depths: convert", kind::doubtful, "mixture_of_depths"));
  CHECK(says_of("flash_attn: fa9", kind::doubtful, "flash_attn"));
  CHECK(read_llama_factory_text("stage: sft\ncutof_len: 10").not_understood ==
        std::vector<std::string>{"cutof_len"});
}

TEST_CASE("what changes a step of LLaMA-Factory and is not estimated is said") {
  const auto doubts = [](const std::string& text, const std::string& key) {
    for (const remark& one : read_llama_factory_text("stage: sft\n" + text).remarks)
      if (one.is == remark::kind::doubtful && one.key == key) return true;
    return false;
  };
  // A key, a value that changes the step, and one that does not
  struct asked {
    const char* key;
    const char* changes;
    const char* usual;
  };
  for (const asked& one : {asked{"moe_aux_loss_coef", "0.001", "0"},
                           asked{"upcast_layernorm", "true", "false"},
                           asked{"add_tokens", "'<a>,<b>'", "null"},
                           asked{"quantization_device_map", "auto", "null"},
                           asked{"image_max_pixels", "262144", "null"},
                           asked{"fp8_enable_fsdp_float8_all_gather", "true", "false"}}) {
    CAPTURE(one.key);
    CHECK(doubts(one.key + (": " + std::string(one.changes)), one.key));
    CHECK_FALSE(doubts(one.key + (": " + std::string(one.usual)), one.key));
  }
  // Checkpoints re-enter by default, but FSDP 2's and those that are not there.
  const auto reenters = [](const std::string& text) {
    return says(read_llama_factory_text("stage: sft\n" + text).config.checkpoints_reenter, true);
  };
  CHECK(reenters(""));
  CHECK(reenters("deepspeed: ds_z3_config.json"));
  CHECK_FALSE(reenters("use_reentrant_gc: false"));
  CHECK_FALSE(reenters("fsdp: full_shard auto_wrap\nfsdp_config: {version: 2}"));
  CHECK_FALSE(reenters("disable_gradient_checkpointing: true"));
  CHECK(
      says(read_llama_factory_text("stage: sft\nray_num_workers: 4").config.gpus, std::int64_t{4}));
}

TEST_CASE("what is written for LLaMA-Factory is read back") {
  int megatron = 0;
  const auto made = random_config::make_round_trips(
      10'000,
      {"gpus", "nodes", "gpus_per_node", "data_parallel", "global_batch", "pipeline_parallel"},
      {"trains",
       "adapters",
       "epochs",
       "learning_rate",
       "micro_batch",
       "accumulation",
       "clip_norm",
       "optimizer",
       "precision",
       "recompute",
       "checkpoints_reenter",
       "recompute_span",
       "sequence_length",
       "tensor_parallel",
       "weights",
       "zero_stage",
       "optimizer_on_host",
       "weights_on_host"},
      [&megatron](const training_config& config) {
        const written_config written = write_llama_factory(config);
        megatron += written && config.engine == "megatron" ? 1 : 0;
        return written;
      },
      [](const written_config& written) {
        return read_training_file(written.files[0].name, written.files[0].text);
      });
  CHECK(made.different == "");
  CHECK(made.written > 2000);
  CHECK(megatron > 200);
}

TEST_CASE("what LLaMA-Factory would train otherwise is refused") {
  training_config config;
  const auto refuses = [&config](const char* why) {
    return write_llama_factory(config).why.find(why) == 0;
  };
  config.pipeline_parallel = 2;
  CHECK(refuses("pipeline_parallel 2"));
  config.engine = "megatron";
  const written_config written = write_llama_factory(config);
  REQUIRE(written);
  CHECK(says(read_llama_factory_text(written.files[0].text).config.pipeline_parallel,
             std::int64_t{2}));
  config.zero_stage = 3;
  CHECK(refuses("zero_stage 3"));
  config = {};
  config.engine = "megatron";
  config.precision = training_precision::fp8;
  CHECK(refuses("precision: with Megatron"));
  config.precision = {};
  config.trains = training::adapters;
  config.adapters = lora{.rank = 8};
  CHECK(refuses("trains: with Megatron"));
  config.engine = "";
  config.precision = training_precision::fp8;
  CHECK(write_llama_factory(config));
  config.adapters = lora{.rank = 8, .base = four_bit_base};
  CHECK(refuses("precision fp8"));
  config.precision = training_precision::pure_bf16;
  config.engine = "deepspeed";
  CHECK(refuses("precision pure_bf16"));
  config = {};
  config.trains = training::head;
  CHECK(refuses("trains"));
  config = {};
  config.precision = training_precision::bf16;
  config.weights = number_format::fp32;
  CHECK(write_llama_factory(config));
  config.trains = training::adapters;
  config.adapters = lora{.rank = 8};
  CHECK(refuses("weights fp32: LLaMA-Factory holds them in bf16"));
  config = {};
  config.engine = "jax";
  CHECK(refuses("engine jax"));
}

TEST_CASE("LLaMA-Factory's command names the machines that are known") {
  training_config config;
  CHECK(write_llama_factory(config).command == "llamafactory-cli train llama_factory.yaml");
  config.nodes = 2;
  config.gpus_per_node = 8;
  CHECK(write_llama_factory(config).command ==
        "torchrun --nnodes 2 --nproc-per-node 8 -m llamafactory.launcher llama_factory.yaml");
  config.engine = "megatron";
  CHECK(write_llama_factory(config).command.starts_with("USE_MCA=1 torchrun "));
}

TEST_CASE("LLaMA-Factory's arguments in a script are read") {
  const read_config read = read_training_file(
      "train.sh",
      "torchrun --nnodes 2 --nproc-per-node 4 src/train.py --stage sft --finetuning_type lora "
      "--lora_rank 4 --lora_target q_proj,v_proj --cutoff_len 512 --bf16 True");
  CHECK(read.tool == "llama-factory");
  CHECK(says(read.config.adapters, lora{.rank = 4}));
  CHECK(says(read.config.gpus_per_node, std::int64_t{4}));
}

TEST_CASE("no fault in a file of LLaMA-Factory stops its reader") {
  random_numbers random(7);
  value sample = parse_yaml(llama_factory_sample).is;
  sample["freeze_trainable_layers"] = 2;
  sample["freeze_extra_modules"] = "norm";
  sample["fsdp"] = "full_shard auto_wrap";
  sample["fsdp_config"] = value::object{{"fsdp_version", 2}};
  value megatron = sample;
  megatron["tensor_model_parallel_size"] = 2;
  megatron["recompute_method"] = "uniform";
  megatron["recompute_num_layers"] = 2;
  megatron["mixed_precision"] = "bf16_mixed";
  int said = 0;
  for (int left = 4'000; left > 0; --left) {
    const value& of = left % 2 == 0 ? sample : megatron;
    said += read_llama_factory(random_config::with_faults(of, random)).remarks.size() > 4;
  }
  CHECK(said > 100);
}

}  // namespace
