// --from: what commands take from trainers' files.

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpuplan_runs.hpp"
#include "random_config.hpp"
#include "random_numbers.hpp"
#include "setups/replicas.hpp"
#include "setups/trainer_files.hpp"
#include "temporary_file.hpp"

namespace {

using namespace gpuplan;
using nlohmann::json;
using words = std::vector<std::string>;

constexpr const char* adapters =
    "model_name_or_path: meta-llama/Llama-3.2-1B\n"
    "per_device_train_batch_size: 4\n"
    "gradient_accumulation_steps: 4\n"
    "bf16: true\n"
    "max_length: 2048\n"
    "use_peft: true\n"
    "lora_r: 8\n"
    "lora_target_modules: all-linear\n"
    "load_in_4bit: true\n"
    "dtype: bfloat16\n"
    "num_train_epochs: 3\n"
    "gradient_checkpointing: true\n";
constexpr const char* states =
    "{\"train_batch_size\": 256, \"train_micro_batch_size_per_gpu\": 2,\n"
    " \"gradient_accumulation_steps\": 16, \"bf16\": {\"enabled\": true},\n"
    " \"zero_optimization\": {\"stage\": 2, \"foo\": 1}}";
constexpr const char* launch =
    "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 8\n"
    "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"
    "  fsdp_activation_checkpointing: true\n";
constexpr const char* script =
    "#!/bin/bash\n"
    "#SBATCH --nodes=2\n"
    "#SBATCH --gres=gpu:4\n"
    "srun torchrun --nnodes 2 --nproc-per-node 4 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
    "--num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size "
    "4 --global-batch-size 64 --tensor-model-parallel-size 2 --sequence-parallel "
    "--use-distributed-optimizer --bf16 --vocab-size 50257 --lr 1e-4 --train-iters 1000 "
    "--attention-dropout 0 --hidden-dropout 0\n";
constexpr const char* experts =
    "#!/bin/bash\n"
    "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
    "--num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 "
    "--global-batch-size 64 --num-experts 16 --moe-router-topk 2 --expert-model-parallel-size 8 "
    "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep "
    "--use-distributed-optimizer --bf16 --vocab-size 50304 --lr 1e-4 --train-iters 1000 "
    "--swiglu --disable-bias-linear --normalization RMSNorm --position-embedding-type rope "
    "--attention-dropout 0 --hidden-dropout 0\n";
constexpr const char* registered =
    "#!/bin/bash\n"
    "torchrun --nproc-per-node=8 --nnodes=4 -m torchtitan.train --module llama3 --config llama3_8b "
    "--parallelism.tensor_parallel_degree 2\n";
constexpr const char* stages =
    "#!/bin/bash\n"
    "torchrun --nproc-per-node=8 --nnodes=4 -m torchtitan.train --module llama3 --config llama3_8b "
    "--parallelism.pipeline_parallel_degree 4 --training.local_batch_size 8 "
    "--training.disable_cuda_graphs\n";
constexpr const char* config =
    R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 2, "n_embd": 64,
        "n_head": 4, "vocab_size": 1000, "n_positions": 128, "colour": "blue"})";

struct told {
  json rows;
  std::string err;
};
told answer_of(const std::string& command, words arguments) {
  arguments.insert(arguments.end(), {"--format", "json"});
  const outcome o = output_of_command(command, arguments);
  CAPTURE(o.err);
  REQUIRE(o.status == 0);
  return {json::parse(o.out)["answer"], o.err};
}
json checked(const json& rows, const std::string& key) {
  for (const json& row : rows)
    if (row["key"] == key) return row["value"];
  return nullptr;
}
words with(words files, const words& more) {
  files.insert(files.end(), more.begin(), more.end());
  return files;
}
const auto near = [](const json& value) {
  return doctest::Approx(value.get<double>()).epsilon(1e-9);
};

// The same setup, as far as both hold it.
bool is_same(const training_setup& a, const training_setup& b) {
  return a.sequence_length == b.sequence_length && a.trains == b.trains &&
         a.precision == b.precision && a.optimizer == b.optimizer &&
         a.parallelism == b.parallelism && a.recompute == b.recompute &&
         a.recompute_span == b.recompute_span && a.recompute_layers == b.recompute_layers &&
         a.saves_costly_results == b.saves_costly_results && a.attention == b.attention &&
         a.dropout == b.dropout && a.framework.engine.is == b.framework.engine.is &&
         std::string(a.framework.name) == b.framework.name;
}

}  // namespace

TEST_CASE("what files configure is the same setup to commands as to the library") {
  random_numbers random(7);
  int taken = 0;
  for (int at = 0; at < 3000; ++at) {
    CAPTURE(at);
    io::read_config files{.tool = random.below(4) == 0 ? "megatron-lm" : "hugging face",
                          .config = random_config::any(random)};
    const bool is_megatron = files.tool == "megatron-lm";
    files.config.model = "llama-3.2-1b";
    if (is_megatron != (files.config.engine == "megatron")) files.config.engine = {};
    setups::arguments given;
    given.from = {"a file"};
    setups::take_files(files, given);
    const io::configured_training made =
        io::configured(files, {.shape = catalog::llama_3_2_1b, .called = "llama-3.2-1b"});
    const auto stated = [&] {
      const setups::arguments there = setups::on_gpus(given, setups::gpus_of(given));
      return std::pair(setups::setup_of(there), there.plan);
    };
    if (!made) {
      CAPTURE(made.why);
      CHECK_THROWS_AS(stated(), std::runtime_error);
      continue;
    }
    ++taken;
    const auto [named, plan] = stated();
    CHECK(is_same(named.setup, made.setup));
    CHECK(plan == made.plan);
  }
  CHECK(taken > 100);
}

TEST_CASE("a step of files takes what check says of them") {
  const temporary_file arguments(adapters);
  const temporary_file full(
      "model_name_or_path: meta-llama/Llama-3.2-1B\nper_device_train_batch_size: 2\n"
      "num_train_epochs: 1\noptim: adamw_torch_fused\n");
  const temporary_file zero(states, "gpuplan.json");
  const temporary_file sharded(launch);
  const temporary_file megatron(script);
  const temporary_file sent(experts);
  const temporary_file titan(registered);
  const temporary_file staged(stages);
  for (const words& files : {words{arguments.name()},
                             words{sent.name()},
                             words{titan.name()},
                             words{staged.name()},
                             words{full.name(), sharded.name()},
                             words{zero.name(), "--model"},
                             words{megatron.name()}}) {
    CAPTURE(files[0]);
    const bool is_named = files.back() == "--model";
    words asked(files.begin(), files.end() - (is_named ? 1 : 0));
    const json of_check =
        answer_of("check", is_named ? with(asked, {"--model", "llama-3.2-1b"}) : asked).rows;
    asked.insert(asked.begin(), "--from");
    if (is_named) asked.insert(asked.begin(), "llama-3.2-1b");
    const json of_time = answer_of("time", asked).rows[0];
    CHECK(of_time["step_s"] == near(checked(of_check, "step_s")));
    CHECK(of_time["memory_GiB"] == near(checked(of_check, "memory_GiB")));
    CHECK(of_time["gpus"] == checked(of_check, "gpus"));
    for (const char* degree : {"data_parallel", "micro_batch", "accumulation", "zero_stage"})
      CHECK(of_time[degree] == checked(of_check, degree));
    const json of_batch = answer_of("batch", asked).rows;
    CHECK(of_batch[0]["batch"] == checked(of_check, "effective_batch"));
    CHECK(of_batch[0]["memory_GiB"] == near(checked(of_check, "memory_GiB")));
    CHECK(of_batch[1]["micro_batch"] == checked(of_check, "largest_micro_batch"));
    CHECK(output_of_command("memory", asked).status == 0);
  }
}

TEST_CASE("options count before files") {
  const temporary_file file(adapters);
  const json as_said = answer_of("time", {"--from", file.name()}).rows[0];
  const json changed = answer_of("time",
                                 {"--from",
                                  file.name(),
                                  "--micro-batch",
                                  "2",
                                  "--sequence-length",
                                  "512",
                                  "--accumulation",
                                  "1",
                                  "--recompute",
                                  "none",
                                  "--gpus",
                                  "4",
                                  "--zero",
                                  "3",
                                  "--train",
                                  "full",
                                  "--precision",
                                  "bf16-pure"})
                           .rows[0];
  CHECK(as_said["recompute"] == "full");
  CHECK(as_said["precision"] == "bf16-autocast");
  for (const auto& one : std::vector<std::pair<const char*, json>>{{"micro_batch", 2},
                                                                   {"sequence_length", 512},
                                                                   {"accumulation", 1},
                                                                   {"recompute", "none"},
                                                                   {"gpus", 4},
                                                                   {"data_parallel", 4},
                                                                   {"zero_stage", 3},
                                                                   {"sharding", "fsdp2"},
                                                                   {"precision", "bf16-pure"}})
    CHECK_MESSAGE(changed[one.first] == one.second, one.first);
  // Four bits are the file's, LoRA the command line's; the layers that have them the file's.
  const std::string lora = output_of_command("memory", {"--from", file.name(), "--lora", "16"}).out;
  CHECK(has(lora, "LoRA of rank 16"));
  CHECK(!has(lora, "QLoRA"));
  const json same = answer_of("time", {"--from", file.name(), "--lora", "8"}).rows;
  const json targets =
      answer_of("time", {"--from", file.name(), "--lora", "8", "--lora-targets", "all-linear"})
          .rows;
  CHECK(same == targets);
}

TEST_CASE("files accumulate as Accelerate does, as gpuplan check has them") {
  const temporary_file how(launch);
  struct two {
    double by_memory = 0;
    double by_check = 0;
  };
  const auto peaks = [&](const std::string& more) {
    const temporary_file what("per_device_train_batch_size: 1\ngradient_accumulation_steps: 4\n" +
                              more);
    const words files{how.name(), what.name()};
    two found;
    const words memory{"llama-3.2-1b", "--from", files[0], files[1], "--gpu", "h100-sxm"};
    for (const json& row : answer_of("memory", memory).rows)
      if (row["table"] == "step" && row["column"] == "total")
        found.by_memory = std::max(found.by_memory, row["value"].get<double>());
    const words check{files[0], files[1], "--model", "llama-3.2-1b", "--gpu", "h100-sxm"};
    for (const json& row : answer_of("check", check).rows)
      if (row["key"] == "memory_GiB") found.by_check = row["value"].get<double>();
    return found;
  };
  const two waits = peaks("");
  const two reduces =
      peaks("accelerator_config: {gradient_accumulation_kwargs: {sync_each_batch: true}}\n");
  CHECK(reduces.by_memory > 0);
  CHECK(waits.by_memory > 1.05 * reduces.by_memory);
  CHECK(waits.by_check > 1.05 * reduces.by_check);
}

TEST_CASE("the batch that files say is kept on other GPUs") {
  const temporary_file file(script);
  const auto accumulation = [&](const words& more) {
    return answer_of("time", with({"--from", file.name()}, more)).rows[0]["accumulation"];
  };
  CHECK(accumulation({}) == 4);
  CHECK(accumulation({"--gpus", "16"}) == 2);
  CHECK(accumulation({"--data-parallel", "2"}) == 8);
  CHECK(accumulation({"--tensor-parallel", "1"}) == 2);
  CHECK(accumulation({"--micro-batch", "1"}) == 16);
  CHECK(accumulation({"--batch", "128"}) == 8);
  CHECK(accumulation({"--accumulation", "3"}) == 3);
  const outcome refused =
      output_of_command("time", {"--from", file.name(), "--gpus", "24", "--network", "100"});
  CHECK(refused.status == 2);
  CHECK(has(refused.err, "--batch 64: 12 replicas with a micro-batch of 4 make 48 or 96"));
  CHECK(answer_of("batch", {"--from", file.name(), "--batch", "96"}).rows[0]["batch"] == 96);
}

TEST_CASE("no plan is searched for pairs of answers, whose steps' time nobody knows") {
  const temporary_file file(
      "model_name_or_path: meta-llama/Llama-3.2-1B\nbeta: 0.1\nmax_length: 512\n", "dpo.yaml");
  const outcome o = output_of_command("plan", {"--from", file.name(), "--gpu", "h100-sxm"});
  CHECK(o.status == 2);
  CHECK(o.out.empty());
  CHECK(has(o.err, "the files are of DPOTrainer"));
  CHECK(output_of_command("memory", {"--from", file.name(), "--objective", "dpo"}).status == 0);
}

TEST_CASE("standard error is told what files leave out, contradict, or nobody understands") {
  const temporary_file one(adapters);
  const temporary_file other(states, "gpuplan.json");
  const outcome o =
      output_of_command("time", {"gpt2", "--from", one.name(), other.name(), "--gpus", "8"});
  CAPTURE(o.err);
  CHECK(o.status == 2);  // GPT-2 has no 2,048 positions
  for (const char* line :
       {"gpuplan: --from: MODEL gpt2 is taken, not meta-llama/Llama-3.2-1B\n",
        "gpuplan: --from: micro_batch: is 4 in one file and 2 in that of deepspeed; the first is ",
        "gpuplan: --from: zero_optimization.foo is not understood, and left out\n"})
    CHECK_MESSAGE(has(o.err, line), line);
  const std::string alone = answer_of("memory", {"llama-3.2-1b", "--from", other.name()}).err;
  CHECK(has(alone, "taken as sequences of 2048 tokens: no file says how long they are\n"));
  CHECK(has(alone, "taken as 8 GPUs, which the batch needs: no file says how many\n"));
  const std::string less = answer_of("memory",
                                     {"llama-3.2-1b",
                                      "--from",
                                      other.name(),
                                      "--sequence-length",
                                      "128",
                                      "--data-parallel",
                                      "2"})
                               .err;
  CHECK(!has(less, "taken as"));
  // A command line that is wrong is told that alone.
  const std::string wrong = output_of_command("memory", {"--from", other.name(), "--nonsense"}).err;
  CHECK(!has(wrong, "zero_optimization"));
}

TEST_CASE("a config.json of Hugging Face is a model among the files") {
  const temporary_file file(config, "config.json");
  const temporary_file arguments(adapters);
  const told alone = answer_of("time", {"--from", file.name()});
  CHECK(alone.rows == answer_of("time", {file.name(), "--precision", "fp32"}).rows);
  CHECK(alone.err ==
        "gpuplan: --from: taken as sequences of 128 tokens: no file says how long they are\n"
        "gpuplan: --from: taken as one GPU: no file says how many\n"
        "gpuplan: --from: taken as one sample of a forward and backward: no file states the "
        "micro-batch\n"
        "gpuplan: --from: taken as fp32: no file states a mixed precision\n"
        "gpuplan: --from: colour is not understood, and left out\n");
  const told both =
      answer_of("time", {"--from", file.name(), arguments.name(), "--sequence-length", "128"});
  CHECK(both.rows[0]["micro_batch"] == 4);
  CHECK(!has(both.err, "Llama"));
}

TEST_CASE("a plan has the batch, the GPUs and the run of files, and looks for the layout") {
  const temporary_file file(script);
  const json planned = answer_of("plan", {"--from", file.name(), "--plans", "1"}).rows[0];
  const json stated =
      answer_of("time", {"--from", file.name(), "--data-parallel", "4", "--price", "2"}).rows[0];
  CHECK(planned["gpus"] == 8);
  CHECK(planned["framework"] == stated["framework"]);
  CHECK(planned["data_parallel"].get<int>() * planned["micro_batch"].get<int>() *
            planned["accumulation"].get<int>() ==
        64);
  CHECK(planned["step_s"].get<double>() <= stated["step_s"].get<double>());
  CHECK(planned["hours"] == near(1000 * planned["step_s"].get<double>() / 3600));
  CHECK(stated["hours"] == near(1000 * stated["step_s"].get<double>() / 3600));
  const json costs =
      answer_of("cost", {"--from", file.name(), "--gpus", "8,16", "--price", "2"}).rows;
  CHECK(costs[0]["steps"] == 1000);
  CHECK(costs[1]["steps"] == 1000);
  CHECK(costs[0]["usd"] == near(2 * 8 * costs[0]["hours"].get<double>()));
  const temporary_file epochs(adapters);
  CHECK(answer_of("cost", {"--from", epochs.name(), "--samples", "1600"}).rows[0]["steps"] == 300);
  CHECK(answer_of("cost", {"--from", epochs.name(), "--samples", "1600", "--epochs", "1"})
            .rows[0]["steps"] == 100);
  const json eight = answer_of("plan", {"--from", epochs.name(), "--plans", "1"}).rows[0];
  CHECK(eight["data_parallel"].get<int>() * eight["micro_batch"].get<int>() *
            eight["accumulation"].get<int>() ==
        8 * 4 * 4);
  const auto err_of = [&](const char* offloading) {
    const temporary_file states_of(
        std::string("{\"train_batch_size\": 64, \"bf16\": {\"enabled\": true},\n"
                    " \"zero_optimization\": {\"stage\": 2") +
            offloading + "}}",
        "gpuplan.json");
    return answer_of("plan",
                     {"llama-3.2-1b", "--from", states_of.name(), "--gpus", "8", "--plans", "1"})
        .err;
  };
  CHECK(
      has(err_of(", \"offload_optimizer\": {\"device\": \"cpu\"}"), "plans keep all on the GPUs"));
  CHECK(!has(err_of(""), "plans keep all on the GPUs"));
  const temporary_file model(config, "config.json");
  CHECK(has(output_of_command("plan", {"--from", model.name()}).err,
            "--batch says how many samples a step has, which the files of --from do not"));
}

TEST_CASE("what fits is of the files' model, optimizer and adapters") {
  const temporary_file file(adapters);
  const temporary_file more(std::string(adapters) + "optim: adamw_bnb_8bit\nlearning_rate: 1e-4\n");
  const auto fits = [](const words& asked) {
    return answer_of("fits", with(asked, {"--gpu", "4090", "--gpus", "1"})).rows;
  };
  const json of_file = fits({"--from", file.name()});
  const json of_options = fits({"llama-3.2-1b", "--sequence-length", "2048", "--lora", "8"});
  REQUIRE(of_file.size() == of_options.size());
  bool has_adapters = false;
  for (std::size_t at = 0; at < of_file.size(); ++at) {
    CHECK(of_file[at]["method"] == of_options[at]["method"]);
    has_adapters = has_adapters || of_file[at]["method"] == "QLoRA 8";
  }
  CHECK(has_adapters);
  const outcome eight = output_of_command("fits", {"--from", more.name(), "--gpus", "1"});
  CHECK(has(eight.out, "what fits, with 8-bit AdamW and 2048 tokens a sample"));
}

TEST_CASE("files that cannot be taken are refused by name") {
  const temporary_file nobody("colour: blue\n");
  const auto fails = [](const words& arguments, const std::string& why) {
    const outcome o = output_of_command("time", arguments);
    CAPTURE(o.err);
    CHECK(o.status == 2);
    CHECK(o.out.empty());
    CHECK(has(o.err, why));
  };
  fails({"--from", nobody.name()}, "--from " + nobody.name() + ": its keys are of no tool");
  fails({"--from", "/nonexistent/file.json"}, "--from: cannot read /nonexistent/file.json");
  fails({"--from"}, "--from");
  const temporary_file layout(
      "--tensor-model-parallel-size 1099511627776\n"
      "--pipeline-model-parallel-size 4 --micro-batch-size 1");
  fails({"llama-3.2-1b", "--from", layout.name()}, "more than 1048576 GPUs");
}
