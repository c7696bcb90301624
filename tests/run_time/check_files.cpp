// gpuplan check: what trainers' files configure.

#include <doctest/doctest.h>

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/trainer/any_file.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/parameters.hpp>

#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gpuplan_runs.hpp"
#include "json_answer.hpp"
#include "temporary_file.hpp"

namespace {

using namespace gpuplan;
using nlohmann::json;

constexpr const char* adapters =
    "per_device_train_batch_size: 4\n"
    "gradient_accumulation_steps: 4\n"
    "bf16: true\n"
    "max_length: 2048\n"
    "use_peft: true\n"
    "lora_r: 16\n"
    "lora_target_modules: all-linear\n"
    "load_in_4bit: true\n"
    "gradient_checkpointing: true\n";
constexpr const char* states =
    "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 16,\n"
    " \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2, \"foo\": 1}}";

outcome checked(std::vector<std::string> arguments) {
  return output_of_command("check", std::move(arguments));
}
json value_of(const json& rows, const std::string& what, const std::string& key) {
  for (const json& row : rows)
    if (row["what"] == what && row["key"] == key) return row["value"];
  return nullptr;
}

io::configured_training configured(const std::vector<io::read_config>& files,
                                   known<std::int64_t> gpus = {}) {
  return io::configured(io::merged(files),
                        {.shape = catalog::llama_3_8b, .called = "llama-3-8b", .gpus = gpus});
}
std::string read_text(const std::string& name) {
  std::ifstream file(name);
  return {std::istreambuf_iterator<char>(file), {}};
}
io::read_config file_of(const io::training_config& config) {
  return {.tool = "test", .config = config};
}

TEST_CASE("whose code runs is no matter of the order of files") {
  for (const char* tools : {"megatron-lm", "torchrun and megatron-lm", "megatron-lm and torchrun"})
    CHECK(std::string_view(io::framework_of_tool(tools)) == "megatron-te");
  CHECK(std::string_view(io::framework_of_tool("torchrun and torchtitan")) == "torchtitan");
  CHECK(io::framework_of_tool("accelerate and trl") == nullptr);
}

TEST_CASE("a file of adapters is what the library says of the same setup") {
  const temporary_file file(adapters);
  const json rows =
      json_answer(checked, {file.name(), "--model", "llama-3-8b", "--gpu", "rtx_4090"});
  const io::read_config read = io::read_training_file("a.yaml", adapters);
  const io::configured_training made = configured({read});
  REQUIRE(made);
  CHECK(made.setup.trains.what == training::adapters);
  CHECK(made.setup.trains.adapters.rank == 16);
  CHECK(made.setup.recompute == recompute_mode::full);
  CHECK(made.plan == batch_plan{4, 1, 4});
  const transformer_memory memory{
      made.setup, usual_fragmentation, nccl_channels(catalog::rtx_4090)};
  CHECK(value_of(rows, "verdict", "memory_GiB").get<double>() ==
        doctest::Approx(in(memory.required(made.plan), 1_GiB)));
  CHECK(value_of(rows, "verdict", "fits") ==
        (memory.required(made.plan) <= usable_memory(catalog::rtx_4090) ? "yes" : "no"));
}

TEST_CASE("what does not fit, contradicts itself, or is not understood is said") {
  const temporary_file file(states, "gpuplan.json");
  const std::vector<std::string> asked = {
      file.name(), "--model", "llama-3-8b", "--gpu", "rtx_4090", "--gpus", "8"};
  const json rows = json_answer(checked, asked);
  CHECK(value_of(rows, "verdict", "fits") == "no");
  CHECK(value_of(rows, "training", "effective_batch") == 256);
  CHECK(value_of(rows, "not understood", "zero_optimization.foo") == "");
  std::vector<std::string> insisted = asked;
  insisted.emplace_back("--must-fit");
  const outcome o = checked(insisted);
  CHECK(o.status == 1);
  CHECK(has(o.err, "the plan needs more memory than the GPU has: micro-batch 2 needs "));
  CHECK(has(o.out, "zero_optimization.foo"));
}

TEST_CASE("each thing that the estimate has not is said, and what is not in the way stays") {
  io::training_config config{.model = "llama-3.2-1b",
                             .sequence_length = 1024,
                             .micro_batch = 1,
                             .accumulation = 1,
                             .gpus = 4,
                             .zero_stage = 3,
                             .engine = "deepspeed",
                             .precision = io::training_precision::bf16,
                             .cut_cross_entropy = true,
                             .liger_kernels = true};
  const auto left_out = [&] {
    const io::configured_training made =
        io::configured({.tool = "hugging face", .config = config},
                       {.shape = catalog::llama_3_2_1b, .called = "llama-3.2-1b"});
    CAPTURE(made.why);
    REQUIRE(made);
    std::vector<std::string> members;
    for (const io::assumption& one : made.assumed)
      if (one.member == "cut_cross_entropy" || one.member == "liger_kernels")
        members.push_back(one.member);
    const auto is_kept = [&](const known<bool>& asked, const char* member) {
      return asked && *asked && std::count(members.begin(), members.end(), member) == 0;
    };
    const implementation& as = made.setup.framework.implementation;
    CHECK(as.cut_cross_entropy == is_kept(config.cut_cross_entropy, "cut_cross_entropy"));
    CHECK(as.liger_kernels == is_kept(config.liger_kernels, "liger_kernels"));
    return members;
  };
  // ZeRO-3 of DeepSpeed has neither, FSDP 2 has both, but in fp32 no cut cross-entropy.
  CHECK(left_out() == std::vector<std::string>{"cut_cross_entropy", "liger_kernels"});
  config.engine = "fsdp2";
  CHECK(left_out().empty());
  config.precision = io::training_precision::fp32;
  CHECK(left_out() == std::vector<std::string>{"cut_cross_entropy"});
  config.cut_cross_entropy = false;
  CHECK(left_out().empty());
}

TEST_CASE("what fits on a GPU that has no kernels of it does not run there") {
  const temporary_file file(
      "attn_implementation: flash_attention_2\nfp16: true\nper_device_train_batch_size: 1\n",
      "trl.yaml");
  const std::vector<std::string> asked = {
      file.name(), "--model", "llama-3.2-1b", "--gpu", "v100_sxm2_32gb", "--must-fit"};
  const outcome o = checked(asked);
  CHECK(o.status == 1);
  CHECK(has(o.out, "does it run"));
  CHECK(has(o.err, "attention flash is not taken beside compute_capability 70; at least 80 is"));
  std::vector<std::string> later = asked;
  later[4] = "a100_sxm4_80gb";
  CHECK_FALSE(has(checked(later).out, "does it run"));
}

TEST_CASE("FSDP accumulates as Accelerate does, and of FSDP 1 what is not known is FSDP 2's") {
  const std::string launched = "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\n";
  const auto made_of = [&](const std::string& more) {
    return configured(
        {io::read_training_file("accelerate.yaml", launched),
         io::read_training_file(
             "a.yaml", "per_device_train_batch_size: 1\ngradient_accumulation_steps: 4\n" + more)});
  };
  const engine waits = made_of("").setup.framework.engine;
  CHECK(waits.is == &engine_classes::fsdp1);
  CHECK_FALSE(waits.reduces_every_micro_batch);
  const engine reduces =
      made_of("accelerator_config: {gradient_accumulation_kwargs: {sync_each_batch: true}}\n")
          .setup.framework.engine;
  CHECK(reduces.reduces_every_micro_batch);
  const io::configured_training adapted = made_of("use_peft: true\nlora_r: 16\n");
  CHECK(adapted.setup.framework.engine.is == &engine_classes::fsdp1);
  precision_recipe held = bf16_mixed;  // TRL reads weights in fp32 where nothing is said
  held.reduced = number_format::bf16;
  CHECK(adapted.setup.precision == held);
  CHECK(adapted.setup.framework.engine.original_parameters);
  for (const bool adapts : {true, false}) {
    const io::configured_training bare = made_of(
        std::string("fsdp: full_shard\nfsdp_config: {version: 1, use_orig_params: false}\n") +
        (adapts ? "use_peft: true\nlora_r: 16\n" : ""));
    CHECK(bare.setup.framework.engine.original_parameters == !adapts);
    CHECK(bare.setup.framework.engine.is == &engine_classes::fsdp1);
  }
  const io::configured_training whole_head =
      made_of("use_peft: true\nlora_r: 16\nlora_modules_to_save: [lm_head]\n");
  REQUIRE(whole_head);
  CHECK(whole_head.setup.framework.engine.is == &engine_classes::fsdp2);
  CHECK(whole_head.setup.precision.reduced == number_format::bf16);
}

TEST_CASE("beside a base in four bits either FSDP leaves frozen weights in bf16") {
  const auto made_of = [](const char* version, const char* strategy) {
    return configured(
        {io::read_training_file(
             "accelerate.yaml",
             std::string("distributed_type: FSDP\nnum_processes: 8\n"
                         "mixed_precision: bf16\nfsdp_config:\n  fsdp_version: ") +
                 version + "\n" + strategy),
         io::read_training_file("a.yaml", std::string("dtype: bfloat16\n") + adapters)});
  };
  precision_recipe held = bf16_under_autocast;
  held.reduced = number_format::bf16;
  for (const char* const version : {"1", "2"}) {
    const io::configured_training made = made_of(version, "");
    REQUIRE_MESSAGE(made, made.why);
    CHECK(made.setup.framework.engine.is->name->text == std::string("fsdp") + version);
    CHECK(made.setup.precision == held);
    CHECK(made.setup.trains.adapters.base == four_bit_base);
    CHECK(validate(transformer_memory{made.setup}, made.plan));
  }
  CHECK(has(made_of("1", "  fsdp_sharding_strategy: SHARD_GRAD_OP\n").why,
            "zero_stage 2 is not taken beside adapter_base_block 64, sharding fsdp1; 3 is"));
}

TEST_CASE("adapters beside DeepSpeed, which zero.Init leaves as PEFT makes them") {
  const auto made_of = [](const std::string& stage, const std::string& more) {
    return configured(
        {io::read_training_file("ds.json",
                                R"({"train_micro_batch_size_per_gpu": "auto",
                                    "bf16": {"enabled": "auto"},
                                    "zero_optimization": {"stage": )" +
                                    stage + "}}"),
         io::read_training_file("a.yaml",
                                "bf16: true\nper_device_train_batch_size: 1\nuse_peft: true\n"
                                "lora_r: 16\nlora_target_modules: all-linear\n" +
                                    more)},
        8);
  };
  for (const char* const stage : {"2", "3"}) {
    const io::configured_training made = made_of(stage, "gradient_checkpointing: true\n");
    REQUIRE_MESSAGE(made, made.why);
    CHECK(made.setup.framework.engine.is == &engine_classes::deepspeed);
    CHECK(made.setup.precision == bf16_master);
    CHECK(made.setup.trains.what == training::adapters);
    CHECK(made.setup.framework.engine.zero.divides_while_building == (stage[0] == '3'));
  }
  // Frozen weights are divided too.
  const auto weights_of = [&](const char* stage) {
    const io::configured_training made = made_of(stage, "");
    REQUIRE_MESSAGE(made, made.why);
    return transformer_memory{made.setup}.breakdown(made.plan).weights;
  };
  CHECK(weights_of("3") < weights_of("2"));
  for (const char* const stage : {"2", "3"}) {
    const io::configured_training made = made_of(stage, "load_in_4bit: true\n");
    REQUIRE_MESSAGE(made, made.why);
    CHECK(made.setup.trains.adapters.base ==
          quantised_base{.block = 64, .in_weights_format = true});
  }
}

TEST_CASE("weights have the format that a file states, and what none states is said") {
  const auto made_of = [](const std::string& more) {
    return configured(
        {io::read_training_file("a.yaml", "bf16: true\nper_device_train_batch_size: 2\n" + more)});
  };
  const auto assumes = [](const io::configured_training& made, const char* what) {
    for (const io::assumption& one : made.assumed)
      if (has(one.text, what)) return true;
    return false;
  };
  const io::configured_training unsaid = made_of("");
  CHECK(unsaid.setup.precision == bf16_mixed);
  CHECK(assumes(unsaid, "weights in fp32, of which bf16 is made: no file states their format"));
  const io::configured_training half = made_of("dtype: bfloat16\n");
  CHECK(half.setup.precision == bf16_under_autocast);
  CHECK_FALSE(assumes(half, "weights in"));
  CHECK(made_of("dtype: float32\n").setup.precision == bf16_mixed);
  precision_recipe by_fsdp = bf16_mixed;
  by_fsdp.reduced = number_format::bf16;
  CHECK(made_of("dtype: bfloat16\nfsdp: true\n").setup.precision == by_fsdp);
  CHECK(assumes(made_of("dtype: bfloat16\nfsdp: true\n"), "Accelerate casts what fsdp2 shares"));

  const auto adapters_of = [](const std::string& more) {
    return configured({io::read_training_file("a.yaml", adapters + more)});
  };
  // TRL's default
  CHECK(adapters_of("").setup.precision == bf16_mixed);
  CHECK_FALSE(assumes(adapters_of(""), "weights"));
  CHECK(adapters_of("dtype: bfloat16\n").setup.precision == bf16_under_autocast);
  CHECK(adapters_of("dtype: float32\n").setup.precision == bf16_mixed);
  CHECK(adapters_of("fsdp: true\n").setup.precision == by_fsdp);
  const auto bytes_of = [](const io::configured_training& made) {
    REQUIRE_MESSAGE(made, made.why);
    return transformer_memory{made.setup}.breakdown(made.plan).weights;
  };
  CHECK(bytes_of(half) < bytes_of(unsaid));
  CHECK(bytes_of(adapters_of("dtype: bfloat16\n")) < bytes_of(adapters_of("")));

  for (const auto& [weights, recipe] : {std::pair{number_format::bf16, bf16_under_autocast},
                                        std::pair{number_format::fp32, bf16_mixed}})
    CHECK(io::with_weights(bf16_mixed, weights) == recipe);
  CHECK(io::with_weights(fp32_precision, number_format::bf16) == bf16_pure);
  CHECK(io::with_weights(fp32_precision, number_format::fp32) == fp32_precision);
  CHECK(io::with_weights(bf16_megatron, number_format::fp32) == bf16_megatron);
}

TEST_CASE("a device without the file's format has a verdict, and no time") {
  const temporary_file file(states, "gpuplan.json");
  const std::vector<std::string> asked = {
      file.name(), "--model", "gpt2", "--gpu", "rtx_2080_ti", "--gpus", "2"};
  const json rows = json_answer(checked, asked);
  CHECK(value_of(rows, "verdict", "fits") == "yes");
  CHECK(value_of(rows, "verdict", "step_s") == nullptr);
  const outcome o = checked(asked);
  CHECK(o.status == 0);
  CHECK(has(o.out, "not known: "));
  CHECK(has(o.out, "bf16"));
}

TEST_CASE("where no micro-batch fits, methods that do are told, and they do") {
  const temporary_file file(states, "gpuplan.json");
  const json rows = json_answer(
      checked, {file.name(), "--model", "llama-3-8b", "--gpu", "rtx_4090", "--gpus", "8"});
  CHECK(value_of(rows, "verdict", "largest_micro_batch") == 0);
  const json needed = value_of(rows, "would fit", "QLoRA of rank 16");
  REQUIRE(needed.is_number());
  CHECK(needed.get<double>() < value_of(rows, "verdict", "usable_GiB").get<double>());
  CHECK(value_of(rows, "would fit", catalog::h100_sxm5_80gb.name).is_number());
  const json small =
      json_answer(checked, {file.name(), "--model", "gpt2", "--gpu", "rtx_4090", "--gpus", "8"});
  for (const json& row : small) CHECK(row["what"] != "would fit");
  const outcome text =
      checked({file.name(), "--model", "llama-3-8b", "--gpu", "rtx_4090", "--gpus", "8"});
  CHECK(has(text.out, "what would fit, at a micro-batch of 1\n"));
}

TEST_CASE("gradients that wait whole for the last micro-batch may be reduced at once instead") {
  const auto file = [](const char* more) {
    return temporary_file(std::string("model_name_or_path: Qwen/Qwen3-8B\n"
                                      "per_device_train_batch_size: 1\n"
                                      "gradient_accumulation_steps: 4\n"
                                      "max_length: 4096\n"
                                      "bf16: true\n"
                                      "dtype: bfloat16\n"
                                      "gradient_checkpointing: true\n"
                                      "optim: adamw_torch_fused\n"
                                      "fsdp: full_shard auto_wrap\n"
                                      "fsdp_config: {fsdp_version: 2, cpu_offload: true}\n") +
                          more);
  };
  const auto rows_of = [](const temporary_file& of) {
    return json_answer(checked, {of.name(), "--gpu", "rtx_4090", "--gpus", "4"});
  };
  const json waits = rows_of(file(""));
  REQUIRE(value_of(waits, "verdict", "largest_micro_batch") == 0);
  const json needed =
      value_of(waits, "would fit", "gradients reduced in each micro-batch (sync_each_batch: true)");
  REQUIRE(needed.is_number());
  const json reduces = rows_of(
      file("accelerator_config: {gradient_accumulation_kwargs: {sync_each_batch: true}}\n"));
  CHECK(value_of(reduces, "verdict", "largest_micro_batch") > 0);
  CHECK(value_of(reduces, "verdict", "memory_GiB").get<double>() ==
        doctest::Approx(needed.get<double>()).epsilon(0.01));
}

TEST_CASE("a model that is named counts, whatever the files' shape, and is one that is known") {
  const temporary_file script(
      "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 512 "
      "--max-position-embeddings 512 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 8 "
      "--bf16\n",
      "pretrain.sh");
  const auto needed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{script.name(), "--gpu", "h100_sxm5_80gb", "--gpus", "8"};
    all.insert(all.end(), more.begin(), more.end());
    return value_of(json_answer(checked, all), "verdict", "memory_GiB").get<double>();
  };
  CHECK(needed({"--model", "llama-3-8b"}) > 10 * needed({}));
  const outcome named = checked({script.name(), "--model", "llama-3-8b", "--gpus", "8"});
  CHECK(has(named.out, "--model llama-3-8b, not a model of the files' own shape"));
  CHECK(checked({script.name(), "--model", "nonsense"}).status == 2);
}

TEST_CASE("a system says what joins its GPUs across nodes") {
  const temporary_file script(
      "--num-layers 8 --hidden-size 2048 --num-attention-heads 16 --seq-length 4096 "
      "--max-position-embeddings 4096 --vocab-size 32000 --num-experts 64 --moe-router-topk 8 "
      "--moe-grouped-gemm "
      "--moe-ffn-hidden-size 1024 --moe-token-dispatcher-type alltoall "
      "--expert-model-parallel-size 32 --micro-batch-size 1 --global-batch-size 256 --bf16\n",
      "pretrain.sh");
  const auto step = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{script.name(), "--gpus", "64"};
    all.insert(all.end(), more.begin(), more.end());
    return value_of(json_answer(checked, all), "verdict", "step_s").get<double>();
  };
  const double in_trays = step({"--gpu", "gb200", "--gpus-per-node", "4"});
  const double joined = step({"--system", "gb200-nvl72"});
  CHECK(joined < in_trays);
  CHECK(step({"--gpu", "gb200", "--gpus-per-node", "4", "--link-domain", "72"}) ==
        doctest::Approx(joined).epsilon(0.02));
  CHECK(checked({script.name(), "--gpus", "64", "--link-domain", "12"}).status == 2);
  CHECK(checked({script.name(), "--system", "gb200-nvl27"}).status == 2);
}

TEST_CASE("experts are in as many parts as Megatron-LM takes them where nothing is said") {
  const auto training = [](const std::string& more) {
    const temporary_file script(
        "--num-layers 8 --hidden-size 2048 --num-attention-heads 16 --seq-length 4096 "
        "--max-position-embeddings 4096 --vocab-size 32000 --num-experts 8 --moe-router-topk 2 "
        "--moe-grouped-gemm --disable-bias-linear --swiglu "
        "--moe-ffn-hidden-size 1024 --moe-token-dispatcher-type alltoall --sequence-parallel "
        "--tensor-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 256 --bf16 " +
            more + "\n",
        "pretrain.sh");
    return json_answer(checked, {script.name(), "--gpu", "h100_sxm5_80gb", "--gpus", "8"});
  };
  const auto required = [](const json& of) {
    return value_of(of, "verdict", "memory_GiB").get<double>();
  };
  const std::string shared = "--expert-model-parallel-size 2 ";
  const json in_four = training(shared);
  CHECK(value_of(in_four, "training", "expert_tensor_parallel") == 4);
  CHECK(required(in_four) == required(training(shared + "--expert-tensor-parallel-size 4")));
  CHECK(required(in_four) != required(training(shared + "--expert-tensor-parallel-size 1")));
  // Nobody shares these.
  CHECK(value_of(training(""), "training", "expert_tensor_parallel") == 4);
}

TEST_CASE("several kinds of GPUs are judged, each by itself") {
  const temporary_file file(adapters);
  const std::vector<std::string> asked = {
      file.name(), "--model", "llama-3-8b", "--gpu", "4090,rtx_2080_ti"};
  const json rows = json_answer(checked, asked);
  for (const char* gpu : {"rtx_4090", "rtx_2080_ti"}) {
    json of_one = json::array();
    for (const json& row : rows)
      if (row["gpu"] == gpu) of_one.push_back(row);
    const json alone = json_answer(checked, {file.name(), "--model", "llama-3-8b", "--gpu", gpu});
    for (const json& row : of_one) CHECK(row["value"] == value_of(alone, row["what"], row["key"]));
    CHECK(of_one.size() > 6);
  }
  CHECK(value_of(rows, "training", "micro_batch") == 4);
  const outcome text = checked(asked);
  CHECK(has(text.out, "GeForce RTX 4090"));
  CHECK(has(text.out, "\non GeForce RTX 2080 Ti\n"));
  CHECK(has(checked({file.name(), "--model", "llama-3-8b", "--gpu", "4090,4090"}).err,
            "--gpu names rtx_4090 twice"));
}

TEST_CASE("who runs a model that no code of the files' runs is said") {
  const temporary_file file(adapters);
  const outcome o = checked({file.name(), "--model", "deepseek-moe-16b"});
  CHECK(o.status == 2);
  CHECK(has(o.err, "of the frameworks these run it: llama4, megatron-te"));
  CHECK(has(checked({file.name(), "--model", "grok-1"}).err,
            "no code of transformers is known for grok-1; none of the frameworks runs it: "
            "num_experts 8"));
}

TEST_CASE("of a model of several parts those train that its files mean") {
  const auto parts =
      std::make_shared<const composite_model>(*catalog::as_trained(catalog::llava_1_5_7b));
  const transformer& language = parts->parts[1].model;
  const auto trained_by = [&](const char* name, const std::string& text) {
    return io::configured(io::read_training_file(name, text),
                          {.shape = language, .parts = parts, .called = "llava-1.5-7b"});
  };
  const auto count = [](const io::configured_training& made) {
    CAPTURE(made.why);
    REQUIRE(made);
    return trainable_parameters(*made.setup.composite);
  };
  const std::string factory =
      "model_name_or_path: llava-hf/llava-1.5-7b-hf\nstage: sft\nbf16: true\n";
  const std::string full = factory + "finetuning_type: full\n";
  const std::int64_t all = parameters(*parts).total();
  const std::int64_t words = parameters(language).total();
  CHECK(count(trained_by("f.yaml", full)) == words);
  CHECK(count(trained_by("f.yaml", full + "freeze_vision_tower: false\n")) ==
        words + parameters(parts->parts[0].model).total());
  CHECK(count(trained_by("f.yaml",
                         full + "freeze_vision_tower: false\n"
                                "freeze_multi_modal_projector: false\n")) == all);
  CHECK(count(trained_by("f.yaml", full + "train_mm_proj_only: true\n")) ==
        all - words - parameters(parts->parts[0].model).total());
  const trainable by_16{.what = training::adapters,
                        .adapters = {.rank = 16, .targets = all_linear}};
  const std::string beside = "finetuning_type: lora\nlora_rank: 16\nlora_target: ";
  CHECK(count(trained_by("f.yaml", factory + beside + "all\n")) ==
        trainable_parameters(language, by_16));
  CHECK(has(trained_by("f.yaml", factory + beside + "q_proj,v_proj\n").why,
            "beside every linear layer of those that train"));
  const io::configured_training made =
      trained_by("arguments.yaml",
                 "bf16: true\nuse_peft: true\nlora_r: 16\nlora_target_modules: all-linear\n");
  CHECK(count(made) == trainable_parameters(with_adapters(*parts, by_16.adapters)));
  REQUIRE(!made.assumed.empty());
  CHECK(made.assumed.back().text.starts_with("1 image of 576 patches in a sample"));
}

TEST_CASE("a file that nobody reads, and a model that nobody names, are refused") {
  const temporary_file nobody("colour: blue\n");
  const outcome o = checked({nobody.name()});
  CHECK(o.status == 2);
  CHECK(has(o.err, "of no tool that is known; there are "));
  const temporary_file no_model(states, "gpuplan.json");
  CHECK(has(checked({no_model.name()}).err, "--model: no file says which model trains"));
  const temporary_file open(std::string("per_device_train_batch_size: 1\nmodel_name_or_path: ") +
                            io::model_placeholder);
  CHECK(has(checked({open.name()}).err, "--model: no file says which model trains"));
  // Of a model whose sizes flags say, what is not there comes first.
  const temporary_file sizes(
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --bf16\n"
      "--micro-batch-size 1 --moe-router-dtype fp32\n",
      "gpuplan.sh");
  CHECK(has(checked({sizes.name()}).err,
            "--vocab-size: is not there, since the tokenizer says it; give its number of tokens, "
            "without which nobody knows the model's size; or --model says which model it is; "));
  CHECK(has(checked({"/nonexistent/file.json"}).err, "cannot read /nonexistent/file.json"));
  // What a file names is not opened, were it there or not.
  for (const char* path : {"/etc/passwd", "./model", "../config.json", "~/llama"}) {
    const temporary_file away(std::string("base_model: ") + path + "\nmicro_batch_size: 1\n");
    CAPTURE(path);
    const outcome refused = checked({away.name()});
    CHECK(refused.status == 2);
    CHECK(has(refused.err, "a file names the model by the path " + std::string(path)));
    CHECK(checked({away.name(), "--model", "gpt2"}).status == 0);
  }
}

TEST_CASE("a plan that is written is what check reads in its files") {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("gpuplan_written_" + std::to_string(getpid())))
          .string();
  const outcome o = planned({"llama-3-8b",
                             "--gpu",
                             "h100_sxm5_80gb",
                             "--gpus",
                             "8",
                             "--sharding",
                             "fsdp2",
                             "--batch",
                             "64",
                             "--sequence-length",
                             "2048",
                             "--write",
                             "hf,accelerate",
                             "--into",
                             folder,
                             "--hub",
                             "meta-llama/Llama-3.1-8B"});
  CAPTURE(o.err);
  REQUIRE(o.status == 0);
  CHECK(has(o.out, "written to " + folder));
  CHECK(std::filesystem::exists(folder + "/README.md"));
  const json rows = json_answer(checked,
                                {folder + "/hf/arguments.yaml",
                                 folder + "/accelerate/accelerate.yaml",
                                 "--model",
                                 "llama-3-8b",
                                 "--gpu",
                                 "h100_sxm5_80gb"});
  CHECK(value_of(rows, "verdict", "fits") == "yes");
  CHECK(value_of(rows, "training", "gpus") == 8);
  CHECK(value_of(rows, "training", "effective_batch") == 64);
  for (const json& row : rows) CHECK(row["what"] != "contradicts");
  std::filesystem::remove_all(folder);
  const outcome refused = planned({"llama-3-8b",
                                   "--gpu",
                                   "h100_sxm5_80gb",
                                   "--gpus",
                                   "8",
                                   "--sharding",
                                   "fsdp2",
                                   "--batch",
                                   "64",
                                   "--write",
                                   "megatron",
                                   "--into",
                                   folder});
  CHECK(refused.status == 2);
  CHECK(has(refused.err, "--write megatron: "));
  CHECK(has(refused.err, "this plan is taken by "));
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("the first of several files counts, and what another says otherwise is a remark") {
  io::training_config one;
  one.micro_batch = 2;
  one.precision = io::training_precision::bf16;
  io::training_config other;
  other.micro_batch = 3;
  other.accumulation = 4;
  other.precision = io::training_precision::bf16;
  const io::configured_training made = configured({file_of(one), file_of(other)});
  REQUIRE(made);
  CHECK(made.plan == batch_plan{2, 1, 4});
  REQUIRE(made.remarks.size() == 1);
  CHECK(made.remarks[0].key == "micro_batch");
  CHECK(made.remarks[0].text == "is 2 in one file and 3 in that of test; the first is taken");
}

// A folder of this process, which is gone behind it.
struct written_folder {
  std::string name =
      (std::filesystem::temp_directory_path() / ("gpuplan_plan_" + std::to_string(getpid())))
          .string();
  written_folder() = default;
  written_folder(const written_folder&) = delete;
  written_folder& operator=(const written_folder&) = delete;
  ~written_folder() { std::filesystem::remove_all(name); }

  // A file of this name in it, with its path.
  [[nodiscard]] std::string with(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(name);
    std::ofstream(name + "/" + file) << text;
    return name + "/" + file;
  }
};

TEST_CASE("a plan of QLoRA is written for the trainers that have it, and is QLoRA again") {
  for (const auto& [tool, file] : {std::pair{"axolotl", "axolotl.yaml"},
                                   std::pair{"hf", "arguments.yaml"},
                                   std::pair{"llama-factory", "llama_factory.yaml"}}) {
    const written_folder folder;
    CAPTURE(tool);
    const outcome o = planned({"llama-3-8b",
                               "--qlora",
                               "16",
                               "--gpu",
                               "4090",
                               "--gpus",
                               "1",
                               "--batch",
                               "16",
                               "--write",
                               tool,
                               "--into",
                               folder.name});
    CAPTURE(o.err);
    REQUIRE(o.status == 0);
    const io::read_config read = io::read_training_file(file, read_text(folder.name + "/" + file));
    REQUIRE_MESSAGE(read, read.why);
    REQUIRE(read.config.adapters);
    CHECK(read.config.adapters->rank == 16);
    CHECK(read.config.adapters->base == double_quantised_base);
  }
}

TEST_CASE("plans to write are searched among those that their formats take") {
  const temporary_file file(
      "base_model: meta-llama/Llama-3.2-1B\nmicro_batch_size: 4\n"
      "gradient_accumulation_steps: 4\nsequence_len: 1024\nbf16: true\nadapter: lora\n"
      "lora_r: 16\nlora_target_modules: [q_proj, v_proj]\n");
  const written_folder folder;
  const std::vector<std::string> asked = {
      "--from", file.name(), "--gpu", "4090", "--gpus", "2", "--batch", "32"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), asked.begin(), asked.end());
    return planned(more);
  };
  const std::vector<std::string> write = {"--write", "axolotl", "--into", folder.name};
  CHECK(has(with({"--zero", "1", "--write", "axolotl", "--into", folder.name}).err,
            "--write axolotl: zero_stage 1: engine fsdp2 is taken for it"));
  CHECK_FALSE(std::filesystem::exists(folder.name));
  const outcome o = with(write);
  CAPTURE(o.err);
  REQUIRE(o.status == 0);
  const io::read_config read =
      io::read_training_file("axolotl.yaml", read_text(folder.name + "/axolotl.yaml"));
  REQUIRE_MESSAGE(read, read.why);
  CHECK(*read.config.micro_batch * *read.config.accumulation * 2 == 32);
}

TEST_CASE("a file's rates go on in what is written of its batch, and of no other") {
  const temporary_file file(
      "base_model: meta-llama/Llama-3.2-1B\nmicro_batch_size: 4\n"
      "gradient_accumulation_steps: 4\nsequence_len: 1024\nbf16: true\nlearning_rate: 0.0002\n"
      "warmup_steps: 77\nlr_scheduler: constant_with_warmup\nmax_steps: 1000\n");
  const auto written = [&](const std::vector<std::string>& more) {
    const written_folder folder;
    std::vector<std::string> words{
        "--from", file.name(), "--gpu", "h100-sxm", "--gpus", "2", "--write", "axolotl", "--into"};
    words.push_back(folder.name);
    words.insert(words.end(), more.begin(), more.end());
    const outcome o = planned(words);
    CAPTURE(o.err);
    REQUIRE(o.status == 0);
    return io::read_training_file("axolotl.yaml", read_text(folder.name + "/axolotl.yaml")).config;
  };
  const auto is = [](const known<double>& said, double number) { return said && *said == number; };
  const io::training_config same = written({});
  CHECK(is(same.learning_rate, 2e-4));
  CHECK(is(same.warm_up_steps, 77));
  CHECK_FALSE(is(written({"--batch", "64"}).learning_rate, 2e-4));
  CHECK(is(written({"--learning-rate", "0.001"}).learning_rate, 1e-3));
}

TEST_CASE("pure bf16 is written for torchtitan as such") {
  const written_folder folder;
  const outcome o = planned({"llama-3.1-8b",
                             "--framework",
                             "torchtitan",
                             "--precision",
                             "bf16-pure",
                             "--gpu",
                             "h100-sxm",
                             "--gpus",
                             "8",
                             "--batch",
                             "64",
                             "--write",
                             "torchtitan",
                             "--into",
                             folder.name});
  CAPTURE(o.err);
  REQUIRE(o.status == 0);
  const std::string text = read_text(folder.name + "/gpuplan_torchtitan.py");
  CHECK(has(text, "c.training.dtype = \"bfloat16\""));
  CHECK(has(text, "c.optimizer.implementation = \"foreach\""));
}

TEST_CASE("torchtitan's files of experts are estimated by the code that has these") {
  const auto of = [](const transformer& model, const io::training_config& config) {
    return io::configured(io::merged({{.tool = "torchtitan", .config = config}}),
                          {.shape = model, .called = model.name, .gpus = 8});
  };
  io::training_config config;
  config.sequence_length = 4096;
  config.micro_batch = 1;
  config.zero_stage = 3;
  config.precision = io::training_precision::bf16;
  for (const transformer& model :
       {catalog::qwen3_30b_a3b, catalog::deepseek_v3, catalog::qwen3_0_6b, catalog::qwen3_32b}) {
    const io::configured_training made = of(model, config);
    CAPTURE(made.why);
    REQUIRE(made);
    CHECK(made.setup.framework.implementation.layers == &layer_classes::torchtitan_2026);
    CHECK(made.setup.framework.implementation.loss_chunks == 8);
    const auto says_so = [](const auto& assumed) {
      return std::string(assumed.text).find("torchtitan 0.3") != std::string::npos;
    };
    CHECK(std::any_of(made.assumed.begin(), made.assumed.end(), says_so));
  }
  CHECK(of(catalog::llama_3_8b, config).setup.framework.implementation.layers ==
        &layer_classes::torchtitan);
  config.loss_chunks = 4;
  CHECK(of(catalog::qwen3_30b_a3b, config).setup.framework.implementation.loss_chunks == 4);
  config.expert_parallel = 2;
  CHECK(of(catalog::qwen3_30b_a3b, config).setup.parallelism.expert_parallel == 2);
  config.expert_parallel = 3;
  CHECK(of(catalog::qwen3_30b_a3b, config).why.find("expert_parallel 3") != std::string::npos);
}

TEST_CASE("torchtitan's files need no name of a model that its registry has by the catalogue's") {
  const auto written = [](const std::string& model, const std::string& folder) {
    return planned({model,
                    "--framework",
                    "torchtitan",
                    "--gpu",
                    "h100_sxm5_80gb",
                    "--gpus",
                    "8",
                    "--batch",
                    "64",
                    "--sequence-length",
                    "2048",
                    "--write",
                    "torchtitan",
                    "--into",
                    folder});
  };
  const written_folder folder;
  const outcome o = written("meta-llama/Llama-3.1-8B", folder.name);
  CAPTURE(o.err);
  REQUIRE(o.status == 0);
  const std::string module = folder.name + "/gpuplan_torchtitan.py";
  CHECK(has(read_text(module), "import llama3_8b\n"));
  CHECK_FALSE(has(read_text(module), "max_norm"));  // nobody said that gradients are not clipped
  CHECK(has(checked({module}).err,
            "it is a module of Python; files in JSON, YAML and TOML and scripts of a shell are "
            "read"));
  CHECK(has(written("llama-2-7b", folder.name).err,
            "which model of the Hub it is nobody says; one of torchtitan's registry is taken: "
            "meta-llama/Llama-3.1-8B, "));
  CHECK(has(written("llama-2-7b", folder.name).err, "(--hub NAME)"));
}

TEST_CASE("gradients are clipped as the plan or the trainer says") {
  const written_folder folder;
  const auto written = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"gpt2-xl", "--framework", "megatron-te", "--gpus", "8"};
    words.insert(words.end(), {"--batch", "64", "--write", "megatron", "--into", folder.name});
    words.insert(words.end(), more.begin(), more.end());
    const outcome o = planned(words);
    CHECK_MESSAGE(o.status == 0, o.err);
    return read_text(folder.name + "/megatron_lm.sh");
  };
  const std::string usual = written({});
  CHECK_FALSE(has(usual, "--clip-grad"));
  CHECK(has(usual, "--lr YOUR_LEARNING_RATE"));
  CHECK(has(usual, "--train-iters YOUR_STEPS"));
  CHECK(has(written({"--no-clip"}), "--clip-grad 0"));
  const std::string stated = written({"--clip", "--learning-rate", "1e-4", "--tokens", "1e9"});
  CHECK(has(stated, "--clip-grad 1"));
  CHECK_FALSE(has(stated, "YOUR_LEARNING_RATE"));
  CHECK_FALSE(has(stated, "YOUR_STEPS"));
}

TEST_CASE("a micro-batch that no device holds is answered as any other") {
  for (const char* samples : {"100000000", "4000000000"}) {
    const temporary_file file(std::string("base_model: meta-llama/Llama-3.1-8B\nbf16: true\n"
                                          "sequence_len: 2048\nadapter: lora\nlora_r: 8\n"
                                          "micro_batch_size: ") +
                              samples);
    CHECK(value_of(json_answer(checked, {file.name(), "--gpu", "4090"}), "verdict", "fits") ==
          "no");
    CHECK(checked({file.name(), "--gpu", "4090"}).out.find("no: more than ") != std::string::npos);
  }
}

TEST_CASE("FlashAttention's package sees a window without a mask") {
  const std::string mistral =
      "base_model: mistralai/Mistral-7B-v0.1\nsequence_len: 8192\nflash_attention: true\n"
      "micro_batch_size: 1\nbf16: true\nadapter: lora\nlora_r: 8\n";
  const auto required = [&](const std::string& text) {
    const temporary_file file(text);
    return value_of(
               json_answer(checked, {file.name(), "--gpu", "h100-sxm"}), "verdict", "memory_GiB")
        .get<double>();
  };
  io::read_config read = io::read_training_file("a.yaml", mistral);
  const auto with_window = [&](std::int64_t window) {
    transformer shape = catalog::mistral_7b_v0_1;
    shape.sliding_window = window;
    const io::configured_training made =
        io::configured(read, {.shape = shape, .called = "mistral"});
    REQUIRE_MESSAGE(made, made.why);
    return transformer_memory{
        made.setup, usual_fragmentation, nccl_channels(catalog::h100_sxm5_80gb)}
        .required(made.plan);
  };
  CHECK(with_window(4096) == with_window(0));
  CHECK(required(mistral) == doctest::Approx(in(with_window(0), 1_GiB)));
}

TEST_CASE("an optimizer on the host takes time, and what no file says of the host is told") {
  const auto asked = [](const std::string& offload) {
    const temporary_file file(
        "{\"train_micro_batch_size_per_gpu\": 1, \"bf16\": {\"enabled\": true},\n"
        " \"zero_optimization\": {\"stage\": 2" +
            offload + "}}",
        "gpuplan.json");
    const std::vector<std::string> words = {
        file.name(), "--model", "llama-3-8b", "--gpu", "h100-sxm", "--gpus", "8"};
    return std::pair{json_answer(checked, words), checked(words).out};
  };
  const auto [on_device, plain] = asked("");
  const auto [on_host, told] = asked(", \"offload_optimizer\": {\"device\": \"cpu\"}");
  // an eighth of 8.03e9 parameters of 28 bytes each at 40 GB/s, and more
  CHECK(value_of(on_host, "verdict", "step_s").get<double>() >
        value_of(on_device, "verdict", "step_s").get<double>() + 0.65);
  CHECK(has(told, "reads and writes 40 GB/s of its states for each GPU"));
  CHECK_FALSE(has(plain, "reads and writes"));
}

TEST_CASE("what joins cards of a node is told where no file says it") {
  const temporary_file file(
      "{\"train_micro_batch_size_per_gpu\": 1, \"bf16\": {\"enabled\": true},\n"
      " \"zero_optimization\": {\"stage\": 2}}",
      "gpuplan.json");
  const auto told = [&](const char* gpu, const char* gpus) {
    const outcome made =
        checked({file.name(), "--model", "qwen2-0.5b", "--gpu", gpu, "--gpus", gpus});
    REQUIRE(made.status == 0);
    return has(made.out, "what joins GPUs of a node, 3 to 22 GB/s of each GeForce RTX 4090");
  };
  CHECK(told("rtx 4090", "4"));
  CHECK_FALSE(told("rtx 4090", "1"));
  CHECK_FALSE(told("h100-sxm", "8"));
}

TEST_CASE("recomputation by operator is called so") {
  const written_folder folder;
  const std::string file =
      folder.with("train.toml",
                  "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n"
                  "seq_len = 2048\n[parallelism]\ndata_parallel_shard_degree = 8\n"
                  "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n");
  const outcome o = checked({file, "--gpu", "h100-sxm"});
  CAPTURE(o.err);
  CHECK(has(o.out, "selective recomputation of operators"));
  CHECK_FALSE(has(o.out, "full recomputation"));
}

TEST_CASE("experts of torchtitan are divided as files say, and all may be computed again") {
  const written_folder folder;
  const std::string file =
      folder.with("train.toml",
                  "[model]\nname = \"deepseek_v3\"\nflavor = \"671B\"\n"
                  "[training]\nlocal_batch_size = 1\nseq_len = 4096\n"
                  "[parallelism]\nexpert_parallel_degree = 32\n"
                  "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n");
  const std::vector<std::string> asked = {file, "--gpu", "h100-sxm", "--gpus", "256"};
  const json rows = json_answer(checked, asked);
  CHECK(value_of(rows, "verdict", "fits") == "no");
  CHECK(value_of(rows, "would fit", "full recomputation").get<double>() < 80);
  CHECK(has(value_of(rows, "assumed", "loss_chunks").get<std::string>(), "a loss in 8 chunks"));
  const outcome text = checked(asked);
  CHECK(has(text.out, "expert-parallel"));
  CHECK_FALSE(has(text.out, ", full recomputation"));  // which does by itself
  CHECK(has(text.out, "H200 "));  // a GB10 has as much memory, at a twelfth of the rate
  CHECK_FALSE(has(text.out, "GB10"));
}

TEST_CASE("a file that is no JSON is refused with line and column") {
  const written_folder folder;
  for (const auto& [text, why] :
       {std::pair{"{\n \"bf16\": tru }", "parse error at line 2, column "},
        std::pair{"{\n \"gradient_clipping\": 1e400\n}",
                  "number overflow parsing '1e400' at line 2, column 27"},
        std::pair{" ", "it is empty"}}) {
    CHECK(has(checked({folder.with("ds.json", text)}).err, why));
  }
  CHECK(has(checked({folder.with("train.conf", "a: [1\nb: 2\n")}).err,
            ", as YAML; files in JSON, YAML and TOML and scripts of a shell are read"));
}

TEST_CASE("launchers' files name the GPU as clouds and clusters do") {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("gpuplan_launched_" + std::to_string(getpid())))
          .string();
  const auto written = [&folder](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"llama-3-8b", "--gpus", "8", "--sharding", "fsdp2"};
    words.insert(words.end(), {"--batch", "64", "--sequence-length", "2048", "--into", folder});
    words.insert(words.end(), more.begin(), more.end());
    return planned(words);
  };
  REQUIRE(written({"--gpu", "h100_sxm5_80gb", "--write", "slurm,skypilot"}).status == 0);
  CHECK(has(read_text(folder + "/skypilot/sky.yaml"), "accelerators: H100:8\n"));
  CHECK(has(read_text(folder + "/slurm/train.sbatch"), "--gres=gpu:8\n"));
  REQUIRE(written({"--gpu", "h100_nvl", "--write", "slurm,skypilot,ray", "--gpu-type", "H100-NVL"})
              .status == 0);
  CHECK(has(read_text(folder + "/skypilot/sky.yaml"), "accelerators: H100-NVL:8\n"));
  CHECK(has(read_text(folder + "/slurm/train.sbatch"), "--gres=gpu:H100-NVL:8\n"));
  CHECK(has(read_text(folder + "/ray/ray_train.py"), "accelerator_type=\"H100-NVL\""));
  CHECK(has(written({"--gpu", "h100_nvl", "--write", "skypilot"}).err,
            "device is \"h100_nvl\", whose name in clouds is not known"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a schedule is written in each tool's words, and refused where it has no end") {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("gpuplan_scheduled_" + std::to_string(getpid())))
          .string();
  const auto written = [&folder](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"llama-3-8b",
                                      "--gpus",
                                      "8",
                                      "--sharding",
                                      "fsdp2",
                                      "--batch",
                                      "64",
                                      "--gpu",
                                      "h100-sxm",
                                      "--into",
                                      folder,
                                      "--hub",
                                      "someone/s",
                                      "--plans",
                                      "1"};
    words.insert(words.end(), {"--sequence-length", "2048", "--learning-rate", "3e-4"});
    words.insert(words.end(), more.begin(), more.end());
    return planned(words);
  };
  const std::vector<std::string> wsd = {"--schedule", "wsd", "--write", "hf"};
  std::vector<std::string> run = wsd;
  // 1,000 steps of 64 x 2,048 tokens.
  run.insert(run.end(), {"--tokens", "131072000", "--warm-up-steps", "50"});
  REQUIRE(written(run).status == 0);
  const std::string made = read_text(folder + "/arguments.yaml");
  for (const char* part : {"lr_scheduler_type: warmup_stable_decay\n",
                           "num_decay_steps: 100\n",
                           "decay_type: linear\n",
                           "warmup_steps: 50\n",
                           "max_steps: 1000\n"})
    CHECK_MESSAGE(has(made, part), made);
  REQUIRE(
      written({"--schedule", "cosine", "--least-learning-rate", "3e-5", "--write", "hf"}).status ==
      0);
  const std::string falling = read_text(folder + "/arguments.yaml");
  CHECK(has(falling, "lr_scheduler_type: cosine_with_min_lr\n"));
  CHECK(has(falling, "min_lr: 3.0e-05\n"));
  const auto refused = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return written(words).err;
  };
  CHECK(has(refused(wsd, {}), "--decay-steps N"));
  CHECK(has(refused(run, {"--decay-steps", "951"}), "behind the warm-up there are 950 steps"));
  CHECK(has(refused({"--write", "hf", "--schedule", "linear"}, {"--decay-steps", "5"}), "wsd"));
  CHECK(has(refused(wsd, {"--least-learning-rate", "1"}), "--learning-rate, 3e-04"));
  CHECK(has(refused({"--write", "hf", "--schedule", "constant"}, {"--least-learning-rate", "3e-5"}),
            "--least-learning-rate 3e-05: a constant rate does not fall to it"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("the number of GPUs follows from what is known") {
  io::training_config config;
  config.tensor_parallel = 2;
  config.micro_batch = 1;
  config.accumulation = 4;
  config.global_batch = 32;
  CHECK(io::configured(io::merged({file_of(config)}), {.shape = catalog::llama_3_8b}).gpus == 16);
  config.nodes = 2;
  config.gpus_per_node = 3;
  CHECK(configured({file_of(config)}, known<std::int64_t>(5)).why ==
        "5 GPUs are no multiple of 2, the product of tensor, pipeline and context parallelism; 6 "
        "GPUs would be");
  config.tensor_parallel = {};
  config.accumulation = {};
  CHECK(configured({file_of(config)}).why ==
        "global_batch 32 is no multiple of 1 sample on each of 6 replicas");
  config.global_batch = 36;
  const io::configured_training made = configured({file_of(config)});
  REQUIRE(made);
  CHECK(made.plan == batch_plan{1, 6, 6});
  config.tensor_parallel = std::int64_t{1} << 40;
  config.pipeline_parallel = std::int64_t{1} << 40;
  CHECK(has(configured({file_of(config)}).why, "are more than 1048576 GPUs"));
}

}  // namespace
