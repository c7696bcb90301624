// What arguments of transformers' Trainer and of TRL say, and that what is written is read back.

#include <doctest/doctest.h>

#include <gpuplan/io/json_value.hpp>
#include <gpuplan/io/trainer/any_file.hpp>
#include <gpuplan/io/trainer/hugging_face_arguments.hpp>
#include <gpuplan/io/yaml.hpp>

#include "random_config.hpp"
#include "random_numbers.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;

const char* const trl_sample = R"(
model_name_or_path: Qwen/Qwen3-0.6B
dataset_name: trl-lib/Capybara
learning_rate: 2.0e-4
num_train_epochs: 1
packing: true
max_length: 4096
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
gradient_checkpointing: true
eos_token: '<|im_end|>'
eval_strategy: steps
eval_steps: 100
use_peft: true
lora_r: 32
lora_dropout: 0.1
lora_alpha: 16
lora_target_modules: [q_proj, k_proj, gate_up_proj]
lora_modules_to_save: [lm_head]
load_in_4bit: true
use_bnb_nested_quant: true
use_dora: true
bf16: true
dtype: bfloat16
optim: paged_adamw_8bit
attn_implementation: flash_attention_2
lr_scheduler_type: cosine_with_min_lr
lr_scheduler_kwargs: {min_lr_rate: 0.1}
warmup_steps: 0.03
weight_decay: 0.01
max_grad_norm: 0.3
)";

read_config read_arguments_text(const std::string& text) {
  return read_hugging_face_arguments(parse_yaml(text).is);
}

bool has_said(const read_config& read, remark::kind is, const std::string& key) {
  for (const remark& one : read.remarks)
    if (one.is == is && one.key == key) return true;
  return false;
}

TEST_CASE("Liger's kernels are written as transformers calls them") {
  const io::written_config written =
      io::write_hugging_face_arguments({.micro_batch = 1, .liger_kernels = true});
  REQUIRE(written);
  CHECK(written.files.front().text.find("use_liger_kernel: true\n") != std::string::npos);
  CHECK(written.not_written.empty());
}

TEST_CASE("arguments of TRL are understood") {
  const read_config read = read_arguments_text(trl_sample);
  REQUIRE(read);
  CHECK(read.tool == "trl");
  CHECK(read.not_understood.empty());
  CHECK(read.remarks.empty());
  const training_config& is = read.config;
  CHECK(is.model == "Qwen/Qwen3-0.6B");
  CHECK(is.engine.empty());
  CHECK(says(is.learning_rate, 2e-4));
  CHECK(says(is.epochs, 1.0));
  CHECK(says(is.packing, true));
  CHECK(says(is.padding_free, true));
  CHECK(says(is.sequence_length, std::int64_t{4096}));
  CHECK(says(is.micro_batch, std::int64_t{2}));
  CHECK(says(is.accumulation, std::int64_t{8}));
  CHECK(says(is.recompute, recompute_mode::full));
  CHECK(says(is.trains, training::adapters));
  lora adapters{.rank = 32,
                .targets = {.query = true, .key = true, .gate = true, .up = true},
                .dropout = 0.1,
                .magnitudes = true,
                .copy_head = true,
                .base = double_quantised_base};
  CHECK(says(is.adapters, adapters));
  CHECK(says(is.precision, training_precision::bf16));
  CHECK(says(is.optimizer,
             optimizer{.library = optimizer_library::bitsandbytes,
                       .states = number_format::int8,
                       .pages_states = true,
                       .widens_embeddings = true}));
  CHECK(says(is.attention, attention_kernel::flash));
  CHECK(says(is.schedule, rate_schedule::cosine));
  CHECK(says(is.least_learning_rate, 2e-4 * 0.1));
  CHECK(says(is.warm_up_share, 0.03));
  CHECK(says(is.clip_norm, 0.3));
}

TEST_CASE("documented defaults of transformers and of TRL are filled in") {
  const training_config is = read_arguments_text("output_dir: a\nnum_train_epochs: 3\n").config;
  CHECK(says(is.micro_batch, std::int64_t{8}));
  CHECK(says(is.accumulation, std::int64_t{1}));
  CHECK(says(is.clip_norm, 1.0));
  CHECK(says(is.optimizer, optimizer{.loop = optimizer_loop::fused}));
  CHECK(says(is.learning_rate, 5e-5));
  CHECK(says(read_arguments_text("output_dir: a\n").config.epochs, 3.0));
  CHECK_FALSE(read_arguments_text("max_steps: 10\n").config.epochs);
  CHECK_FALSE(is.precision);  // which Accelerate's file may say
  CHECK_FALSE(is.weights);
  CHECK_FALSE(is.recompute);
  const training_config trl = read_arguments_text("packing: false\n").config;
  CHECK(says(trl.precision, training_precision::bf16));
  CHECK(says(trl.recompute, recompute_mode::full));
  CHECK(says(trl.sequence_length, std::int64_t{1024}));
  CHECK(says(trl.learning_rate, 2e-5));
  CHECK(says(trl.weights, number_format::fp32));
  const training_config policy = read_arguments_text("num_generations: 4\n").config;
  CHECK(says(policy.precision, training_precision::bf16));
  CHECK(says(policy.recompute, recompute_mode::full));
  CHECK(says(policy.learning_rate, 1e-6));
  CHECK_FALSE(policy.sequence_length);
  const read_config lengths =
      read_arguments_text("max_prompt_length: 512\nmax_completion_length: 1024\nuse_vllm: true\n");
  CHECK(says(lengths.config.sequence_length, std::int64_t{1536}));
  CHECK(has_said(lengths, remark::kind::outdated, "max_prompt_length"));
  CHECK(lengths.remarks.size() == 2);  // what belongs to a policy is said once
  CHECK(has_said(read_arguments_text("use_peft: true\n"), remark::kind::missing, "dtype"));
  CHECK_FALSE(has_said(
      read_arguments_text("use_peft: true\ndtype: bfloat16"), remark::kind::missing, "dtype"));
  const auto adapters = read_arguments_text("use_peft: true\n").config.adapters;
  REQUIRE(adapters);
  CHECK(adapters->rank == 16);
  CHECK(adapters->dropout == 0.05);
  CHECK_FALSE(read_arguments_text("deepspeed: ds.json\n").config.precision);
}

TEST_CASE("the program that reads arguments says whose they are") {
  const auto read = [](const std::string& program, const std::string& words) {
    return read_training_file(
        "train.sh",
        program + " --model_name_or_path a/b --dataset_name x --per_device_train_batch_size 2 " +
            words + "\n");
  };
  const read_config example = read("torchrun run_clm.py", "--block_size 4096");
  CHECK(example.tool == "hugging face");
  CHECK(says(example.config.sequence_length, std::int64_t{4096}));
  CHECK_FALSE(example.config.recompute);
  CHECK(read("torchrun train.py", "").tool == "trl");
  CHECK(says(read("trl sft", "").config.sequence_length, std::int64_t{1024}));
  for (const char* const program : {"trl dpo", "python -m trl.scripts.dpo", "torchrun my_dpo.py"}) {
    CAPTURE(program);
    const read_config pairs = read(program, "");
    CHECK(pairs.tool == "trl");
    CHECK(says(pairs.config.dropout, 0.0));
    CHECK(says(pairs.config.pairs_of_answers, true));
    CHECK(std::any_of(pairs.remarks.begin(), pairs.remarks.end(), [](const remark& one) {
      return one.text.find("--objective dpo") != std::string::npos;
    }));
  }
  // Of other losses over answers the estimate has none.
  for (const char* const program : {"trl kto",
                                    "trl reward",
                                    "python orpo.py",
                                    "python -m trl.experimental.cpo",
                                    "torchrun online_dpo.py"}) {
    CAPTURE(program);
    const read_config other = read(program, "--beta 0.1 --disable_dropout true");
    CHECK_FALSE(other.config.pairs_of_answers);
    CHECK(std::any_of(other.remarks.begin(), other.remarks.end(), [](const remark& one) {
      return one.key == "beta" && one.is == remark::kind::doubtful;
    }));
  }
  CHECK_FALSE(read_arguments_text("beta: 0.1\ncpo_alpha: 1.0\n").config.pairs_of_answers);
  CHECK_FALSE(
      read_arguments_text("disable_dropout: true\nmax_length: 64\n").config.pairs_of_answers);
  const read_config policy = read("trl grpo", "");
  CHECK_FALSE(policy.config.sequence_length);
  CHECK(std::any_of(policy.remarks.begin(), policy.remarks.end(), [](const remark& one) {
    return one.text.find("--objective grpo") != std::string::npos;
  }));
}

TEST_CASE("packing makes a micro-batch one row, but by one strategy") {
  const auto of = [](const std::string& text) {
    return read_arguments_text("max_length: 64\n" + text).config.padding_free;
  };
  CHECK_FALSE(of("packing: false\n"));
  CHECK(says(of("packing: true\n"), true));
  CHECK(says(of("packing: true\npadding_free: false\n"), true));
  CHECK(says(of("packing: true\npacking_strategy: bfd_split\n"), true));
  CHECK(says(of("packing: true\npacking_strategy: wrapped\n"), false));
  CHECK(says(of("packing: true\npacking_strategy: wrapped\npadding_free: true\n"), true));
  CHECK(says(of("padding_free: true\n"), true));
  CHECK(has_said(
      read_arguments_text("padding_free: true\n"), remark::kind::doubtful, "padding_free"));
}

TEST_CASE("the format in which weights are held is read, and is the precision without autocast") {
  const auto of = [](const std::string& text) { return read_arguments_text(text).config; };
  for (const char* key : {"dtype: ", "torch_dtype: "})
    CHECK(says(of("bf16: true\n" + (key + std::string("bfloat16"))).weights, number_format::bf16));
  CHECK(says(of("bf16: true\nmodel_init_kwargs: {dtype: float32}").weights, number_format::fp32));
  CHECK(
      has_said(read_arguments_text("torch_dtype: float32"), remark::kind::outdated, "torch_dtype"));
  CHECK(has_said(read_arguments_text("bf16: true\ndtype: auto"), remark::kind::doubtful, "dtype"));
  CHECK(says(of("bf16: true\ndtype: auto").weights, number_format::bf16));
  const training_config pure = of("bf16: false\ndtype: bfloat16");
  CHECK(says(pure.precision, training_precision::pure_bf16));
  CHECK_FALSE(pure.weights);
  // TRL's bf16 is true unless it is said
  CHECK(says(of("use_peft: false\ndtype: bfloat16").precision, training_precision::bf16));
  CHECK(has_said(
      read_arguments_text("fp16: true\ndtype: float16"), remark::kind::contradicts, "dtype"));
  CHECK_FALSE(has_said(read_arguments_text("fp16: true\ndtype: float16\nuse_peft: true"),
                       remark::kind::contradicts,
                       "dtype"));
}

TEST_CASE("engines in arguments of transformers are understood") {
  const read_config old = read_arguments_text(
      "fsdp: shard_grad_op auto_wrap offload\nfsdp_config: {fsdp_version: 1, "
      "transformer_layer_cls_to_wrap: [LlamaDecoderLayer], activation_checkpointing: true}\n");
  CHECK(old.config.engine == "fsdp1");
  CHECK(says(old.config.zero_stage, 2));
  CHECK(says(old.config.weights_on_host, true));
  CHECK(says(old.config.recompute, recompute_mode::full));
  CHECK(has_said(old, remark::kind::outdated, "fsdp"));
  CHECK(old.not_understood.empty());
  CHECK_FALSE(old.config.original_parameters);
  const read_config bare =
      read_arguments_text("fsdp: full_shard\nfsdp_config: {version: 1, use_orig_params: false}\n");
  CHECK(says(bare.config.original_parameters, false));
  CHECK(read_arguments_text("fsdp: true\n").config.engine == "fsdp2");
  const read_config synced = read_arguments_text(
      "fsdp: true\naccelerator_config: {gradient_accumulation_kwargs: {sync_each_batch: true}}\n");
  CHECK(says(synced.config.reduces_every_micro_batch, true));
  CHECK(synced.not_understood.empty());
  const read_config deepspeed = read_arguments_text(
      "bf16: true\ndeepspeed: {zero_optimization: {stage: 3}, bf16: {enabled: auto}, odd: 1, "
      "fp16: {enabled: true}, amp: {}}\n");
  CHECK(deepspeed.config.engine == "deepspeed");
  CHECK(says(deepspeed.config.zero_stage, 3));
  CHECK(says(deepspeed.config.precision, training_precision::bf16));
  CHECK(has_said(deepspeed, remark::kind::outdated, "deepspeed.amp"));
  CHECK(deepspeed.not_understood == std::vector<std::string>{"deepspeed.odd"});
}

TEST_CASE("adapters of the tensors of all experts are said by their names") {
  const auto targets_of = [](const std::string& text) {
    const auto read = read_arguments_text("use_peft: true\n" + text);
    REQUIRE(read.config.adapters);
    return read.config.adapters->targets;
  };
  const std::string both =
      "lora_target_parameters: [mlp.experts.gate_up_proj, experts.down_proj]\n";
  CHECK(targets_of(both) == lora_targets{.expert_gate_up = true, .expert_down = true});
  CHECK(targets_of(both + "lora_target_modules: [q_proj]\n") ==
        lora_targets{.query = true, .expert_gate_up = true, .expert_down = true});
  CHECK(has_said(read_arguments_text("use_peft: true\nlora_target_parameters: [odd]"),
                 remark::kind::doubtful,
                 "lora_target_parameters"));
}

TEST_CASE("faults in arguments of transformers are said") {
  using kind = remark::kind;
  const auto says_of = [](const char* text, kind is, const char* key) {
    return has_said(read_arguments_text(text), is, key);
  };
  CHECK(says_of("warmup_ratio: 0.1", kind::outdated, "warmup_ratio"));
  CHECK(says_of("evaluation_strategy: epoch", kind::outdated, "evaluation_strategy"));
  CHECK(says_of("max_seq_length: 10", kind::outdated, "max_seq_length"));
  CHECK(says_of("bf16: true\nfp16: true", kind::contradicts, "fp16"));
  CHECK(says_of("warmup_steps: 10\nwarmup_ratio: 0.1", kind::contradicts, "warmup_ratio"));
  CHECK(says_of("optim: galore_adamw", kind::doubtful, "optim"));
  CHECK(says_of("load_in_4bit: true", kind::missing, "use_peft"));
  CHECK(says_of("use_peft: true\nlora_target_modules: odd", kind::doubtful, "lora_target_modules"));
  CHECK(
      says_of("use_peft: true\nlora_target_modules: 3", kind::contradicts, "lora_target_modules"));
  CHECK(says_of("fsdp: true\nfsdp_config: {auto_wrap_policy: NO_WRAP}",
                kind::missing,
                "fsdp_config.auto_wrap_policy"));
  CHECK(says_of("torch_compile: true", kind::doubtful, "torch_compile"));
  CHECK(says_of("beta: 0.1", kind::doubtful, "beta"));
  CHECK(says_of("beta: 0.1\nnum_generations: 8", kind::doubtful, "num_generations"));
  CHECK(says_of("beta: 0.1\nnum_generations: 8", kind::doubtful, "beta"));
  CHECK_FALSE(says_of("beta: 0\nnum_generations: 8", kind::doubtful, "beta"));
  CHECK(read_arguments_text("per_device_train_batchsize: 4\nfsdp_config: {odd: 1}\n")
            .not_understood == std::vector<std::string>{"per_device_train_batchsize"});
  CHECK(says_of("fsdp_config: {version: 2}", kind::missing, "fsdp"));
  CHECK(looks_like_hugging_face_arguments(parse_yaml(trl_sample).is));
  CHECK_FALSE(looks_like_hugging_face_arguments(parse_yaml("base_model: a\nsave_strategy: no").is));
}

TEST_CASE("a model that its name calls quantised is said") {
  const auto text_of = [](const std::string& model, const std::string& more) {
    const read_config read =
        read_arguments_text("model_name_or_path: " + model + "\nmax_length: 9\n" + more);
    for (const remark& one : read.remarks)
      if (one.key == "model_name_or_path") return one.text;
    return std::string();
  };
  const std::string awq =
      "is \"Qwen/Qwen3-8B-AWQ\", by whose name weights are quantised; the "
      "estimate has them in ";
  const std::string four_bits = "bitsandbytes' four bits";
  CHECK(text_of("Qwen/Qwen3-8B-AWQ", "dtype: bfloat16") ==
        awq + "bf16, or in " + four_bits + " with adapters and load_in_4bit: true");
  const std::string adapts = "use_peft: true\nload_in_4bit: true\n";
  CHECK(text_of("Qwen/Qwen3-8B-AWQ", adapts) == awq + four_bits);
  for (const char* const name : {"TheBloke/Llama-2-7B-GPTQ",
                                 "a/Qwen2.5-7B-Instruct-GPTQ-Int4",
                                 "Qwen/Qwen3-8B-FP8",
                                 "unsloth/Meta-Llama-3.1-8B-bnb-4bit"}) {
    CAPTURE(name);
    CHECK_FALSE(text_of(name, "").empty());
  }
  CHECK(text_of("unsloth/Meta-Llama-3.1-8B-bnb-4bit", adapts).empty());
  CHECK(text_of("gptq/Qwen3-8B", "").empty());
  CHECK(has_said(read_training_file("a.yaml", "model_name_or_path: a/Qwen3-8B-AWQ\nstage: sft\n"),
                 remark::kind::doubtful,
                 "model_name_or_path"));  // LLaMA-Factory's
}

TEST_CASE("what changes a step of transformers and is not estimated is said") {
  const auto doubts = [](const std::string& text, const std::string& key) {
    return has_said(read_arguments_text(text), remark::kind::doubtful, key);
  };
  // A key, a value that changes the step, and one that does not
  struct asked {
    const char* key;
    const char* changes;
    const char* usual;
  };
  for (const asked& one : {asked{"use_cache", "true", "false"},
                           asked{"use_cpu", "true", "false"},
                           asked{"full_determinism", "true", "false"},
                           asked{"ddp_backend", "gloo", "nccl"},
                           asked{"debug", "underflow_overflow", "''"},
                           asked{"torch_compile_mode", "max-autotune", "null"},
                           asked{"torch_compile_backend", "inductor", "null"},
                           asked{"optim_args", "momentum_dtype=float32", "null"},
                           asked{"neftune_noise_alpha", "5", "null"},
                           asked{"torch_empty_cache_steps", "4", "null"},
                           asked{"router_aux_loss_coef", "0.001", "0"},
                           asked{"loss_type", "dft", "nll"},
                           asked{"cast_lm_head_to_fp32", "true", "false"},
                           asked{"num_iterations", "2", "1"},
                           asked{"top_entropy_quantile", "0.2", "1"},
                           asked{"vllm_gpu_memory_utilization", "0.3", "null"}}) {
    const std::string start = "packing: false\n" + std::string(one.key) + ": ";
    CAPTURE(one.key);
    CHECK(doubts(start + one.changes, one.key));
    CHECK_FALSE(doubts(start + one.usual, one.key));
  }
  CHECK(doubts("accelerator_config: {split_batches: true}", "accelerator_config.split_batches"));
  for (const char* const more : {"transformer_layer_cls_to_wrap: LlamaMLP",
                                 "ignored_modules: [lm_head]",
                                 "activation_checkpointing_offload: true",
                                 "xla_fsdp_v2: true"}) {
    const std::string key = std::string(more).substr(0, std::string_view(more).find(':'));
    CAPTURE(key);
    CHECK(doubts("fsdp: true\nfsdp_config: {" + std::string(more) + "}", "fsdp_config." + key));
  }
  CHECK_FALSE(doubts("fsdp: true\nfsdp_config: {transformer_layer_cls_to_wrap: 'T5Block, ALayer'}",
                     "fsdp_config.transformer_layer_cls_to_wrap"));
  // Of FSDP 1 alone
  for (const char* const more : {"forward_prefetch: true", "limit_all_gathers: false"}) {
    const std::string key =
        "fsdp_config." + std::string(more).substr(0, std::string_view(more).find(':'));
    const std::string start = "fsdp: true\nfsdp_config: {" + std::string(more) + ", version: ";
    CAPTURE(key);
    CHECK(doubts(start + "1}", key));
    CHECK_FALSE(doubts(start + "2}", key));
  }
}

TEST_CASE("keys within objects of transformers are read, or named") {
  CHECK(says(
      read_arguments_text("accelerator_config: {gradient_accumulation_kwargs: {num_steps: 4}}\n")
          .config.accumulation,
      std::int64_t{4}));
  CHECK(has_said(read_arguments_text("gradient_accumulation_steps: 2\naccelerator_config: "
                                     "{gradient_accumulation_kwargs: {num_steps: 4}}\n"),
                 remark::kind::contradicts,
                 "accelerator_config.gradient_accumulation_kwargs.num_steps"));
  CHECK(says(read_arguments_text("max_length: 9\nmodel_init_kwargs: {attn_implementation: "
                                 "flash_attention_2}\n")
                 .config.attention,
             attention_kernel::flash));
  CHECK(says(read_arguments_text("lr_scheduler_kwargs: {min_lr_rate: 0.1}\noutput_dir: a\n")
                 .config.least_learning_rate,
             5e-5 * 0.1));
  for (const char* const group : {"lr_scheduler_kwargs",
                                  "accelerator_config",
                                  "gradient_checkpointing_kwargs",
                                  "model_init_kwargs"}) {
    const auto named = read_arguments_text(std::string(group) + ": {odd: 1}\n").not_understood;
    CHECK(named == std::vector<std::string>{group + std::string(".odd")});
  }
  CHECK(read_arguments_text("fsdp: true\nfsdp_config: {odd: 1}\n").not_understood ==
        std::vector<std::string>{"fsdp_config.odd"});
}

TEST_CASE("DPOTrainer takes dropout out of a model and its adapters") {
  const auto of = [](const std::string& text) { return read_arguments_text(text).config; };
  CHECK(says(of("beta: 0.1\n").dropout, 0.0));
  CHECK(of("beta: 0.1\nuse_peft: true\n").adapters->dropout == 0.0);
  CHECK_FALSE(of("beta: 0.1\ndisable_dropout: false\n").dropout);
  CHECK(of("beta: 0.1\nuse_peft: true\ndisable_dropout: false\n").adapters->dropout == 0.05);
  CHECK_FALSE(of("num_generations: 8\n").dropout);  // GRPOTrainer's default is false
  CHECK(says(of("num_generations: 8\ndisable_dropout: true\n").dropout, 0.0));
  CHECK_FALSE(of("packing: false\n").dropout);
}

TEST_CASE("names of modules are the layers that they are") {
  lora_targets all;
  for (const char* const name : {"q_proj", "k_proj", "v_proj", "o_proj"})
    CHECK(add_lora_target(name, all));
  CHECK(all == lora_targets{.query = true, .key = true, .value = true, .attention_out = true});
  lora_targets of_gpt2;
  CHECK(add_lora_target("c_attn", of_gpt2));
  CHECK(of_gpt2 == lora_targets{.query = true, .key = true, .value = true});
  for (const char* const name : {"", " ", "q", "q k"})
    CHECK(add_lora_target(name, all) == (std::string(name) == "q"));
  lora_targets linear;
  CHECK(add_lora_target("all-linear", linear));
  CHECK(linear == all_linear);
}

TEST_CASE("arguments that are written for transformers and TRL are read back") {
  const auto made = random_config::make_round_trips(
      10'000,
      {"gpus", "nodes", "gpus_per_node", "data_parallel", "global_batch", "pipeline_parallel"},
      {"micro_batch",
       "accumulation",
       "clip_norm",
       "optimizer",
       "precision",
       "weights",
       "learning_rate",
       "epochs",
       "recompute",
       "sequence_length",
       "padding_free",
       "zero_stage",
       "optimizer_on_host",
       "weights_on_host"},
      [](const training_config& config) { return write_hugging_face_arguments(config); },
      [](const written_config& written) { return read_arguments_text(written.files[0].text); });
  CHECK(made.different == "");
  CHECK(made.written > 2000);
}

TEST_CASE(
    "an optimizer without a word of its own is written as the nearest of its kind, or refused") {
  const auto written = [](const optimizer& is) {
    training_config config{.model = "a/b", .micro_batch = 1};
    config.optimizer = is;
    return write_hugging_face_arguments(config);
  };
  const auto has = [&](const optimizer& is, const char* line) {
    const written_config made = written(is);
    return made && made.files[0].text.find(line) != std::string::npos;
  };
  CHECK(has({.kind = optimizer_kind::adafactor}, "optim: adafactor\n"));
  CHECK(has({.kind = optimizer_kind::lion}, "optim: lion_32bit\n"));
  CHECK(has({.loop = optimizer_loop::parameter}, "optim: adamw_torch\n"));
  CHECK(written({.kind = optimizer_kind::adafactor}).not_written ==
        std::vector<std::string>{"optimizer"});
  for (const optimizer_kind none : {optimizer_kind::sgd_momentum, optimizer_kind::muon})
    CHECK(written({.kind = none}).why.find("optimizer: ") == 0);
}

TEST_CASE("what transformers would train otherwise is refused") {
  training_config config;
  const auto refuses = [&config](const char* why) {
    return write_hugging_face_arguments(config).why.find(why) == 0;
  };
  config.pipeline_parallel = 2;
  CHECK(refuses("pipeline_parallel 2"));
  config = {};
  config.trains = training::last_layers;
  CHECK(refuses("trains"));
  config.trains = training::adapters;
  CHECK(refuses("trains is adapters, and there are none"));
  config.adapters = lora{.rank = 8, .targets = {.experts = true}};
  CHECK(refuses("adapters.targets"));
  config = {};
  config.zero_stage = 3;
  CHECK(refuses("zero_stage 3"));
  config.engine = "megatron";
  CHECK(refuses("engine megatron"));
  config = {};
  config.precision = training_precision::fp8;
  CHECK(refuses("precision fp8"));
  config = {};
  config.tensor_parallel = 2;
  config.sequence_length = 512;
  CHECK(write_hugging_face_arguments(config).not_written ==
        std::vector<std::string>{"tensor_parallel"});
}

TEST_CASE("no fault in arguments of transformers stops their reader") {
  random_numbers random(7);
  value sample = parse_yaml(trl_sample).is;
  sample["fsdp"] = "full_shard";
  sample["fsdp_config"] = value::object{{"fsdp_version", 2}, {"reshard_after_forward", true}};
  sample["deepspeed"] = parse_json(R"({"zero_optimization": {"stage": 2}})").is;
  int said = 0;
  for (int left = 5'000; left > 0; --left)
    said +=
        read_hugging_face_arguments(random_config::with_faults(sample, random)).remarks.size() > 3;
  CHECK(said > 500);
}

}  // namespace
