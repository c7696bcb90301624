// What DeepSpeed's files say, and that what is written is read back.

#include <doctest/doctest.h>

#include <gpuplan/io/json_value.hpp>
#include <gpuplan/io/trainer/deepspeed.hpp>

#include "random_config.hpp"
#include "random_numbers.hpp"

#include <string>
#include <vector>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;

const char* const deepspeed_sample = R"({
  // as in transformers' documentation
  "train_batch_size": 128, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4,
  "gradient_clipping": 1.0, "steps_per_print": 10, "wall_clock_breakdown": false,
  "fp16": {"enabled": "auto", "loss_scale": 0}, "bf16": {"enabled": true},
  "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": 5e8,
    "stage3_prefetch_bucket_size": "auto", "sub_group_size": 1e8,
    "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "offload_param": {"device": "none"}},
  "optimizer": {"type": "adamw", "params": {"lr": 2e-5, "betas": [0.9, 0.95], "weight_decay": 0.1}},
  "scheduler": {"type": "WarmupCosineLR",
    "params": {"total_num_steps": 1000, "warmup_num_steps": 50, "cos_min_ratio": 0.1}},
  "tensor_parallel": {"autotp_size": 2}
})";

read_config read_deepspeed_text(const std::string& text) {
  return read_deepspeed(parse_json(text).is);
}

bool has_remark(const read_config& read, remark::kind kind, const std::string& key) {
  for (const remark& one : read.remarks)
    if (one.is == kind && one.key == key) return true;
  return false;
}

TEST_CASE("a file of DeepSpeed is understood") {
  const read_config read = read_deepspeed_text(deepspeed_sample);
  REQUIRE(read);
  CHECK(read.not_understood.empty());
  const training_config& is = read.config;
  CHECK(is.engine == "deepspeed");
  CHECK(says(is.global_batch, std::int64_t{128}));
  CHECK(says(is.micro_batch, std::int64_t{4}));
  CHECK(says(is.accumulation, std::int64_t{4}));
  CHECK(says(is.clip_norm, 1.0));
  CHECK(says(is.precision, training_precision::bf16));
  CHECK(says(is.zero_stage, 3));
  CHECK(says(is.optimizer_on_host, true));
  CHECK(says(is.weights_on_host, false));
  CHECK(says(is.optimizer, optimizer{.loop = optimizer_loop::fused}));
  CHECK(says(is.learning_rate, 2e-5));
  CHECK(says(is.least_learning_rate, 2e-5 * 0.1));
  CHECK(says(is.weight_decay, 0.1));
  CHECK(says(is.schedule, rate_schedule::cosine));
  CHECK(says(is.warm_up_steps, 50.0));
  CHECK(says(is.steps, std::int64_t{1000}));
  CHECK(says(is.tensor_parallel, std::int64_t{2}));
  CHECK_FALSE(is.pipeline_parallel);
  REQUIRE(read.remarks.size() == 1);
  CHECK(read.remarks[0].key == "zero_optimization.sub_group_size");
  CHECK(read.remarks[0].text == "is 1e+08; the estimate has DeepSpeed's default, 1e+09");
}

TEST_CASE("what a file of DeepSpeed leaves to transformers is absent") {
  const read_config read = read_deepspeed_text(
      R"({"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
          "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"},
          "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}}})");
  CHECK(read.remarks.empty());
  CHECK(read.not_understood.empty());
  for (const bool said : {is_said(read.config.global_batch),
                          is_said(read.config.precision),
                          is_said(read.config.clip_norm),
                          is_said(read.config.learning_rate),
                          is_said(read.config.weight_decay)})
    CHECK_FALSE(said);
}

TEST_CASE("faults in a file of DeepSpeed are said") {
  using kind = remark::kind;
  const auto says_of = [](const char* text, kind is, const char* key) {
    return has_remark(read_deepspeed_text(text), is, key);
  };
  CHECK(says_of(R"({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 8})",
                kind::contradicts,
                "train_batch_size"));
  CHECK(says_of(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})",
                kind::contradicts,
                "fp16.enabled"));
  CHECK(says_of(R"({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}})",
                kind::contradicts,
                "zero_optimization.offload_param"));
  CHECK(says_of(
      R"({"zero_optimization": {"stage": 4}})", kind::contradicts, "zero_optimization.stage"));
  CHECK(says_of(R"({"zero_optimization": {"stage": "three"}})",
                kind::contradicts,
                "zero_optimization.stage"));
  CHECK(says_of(R"({"zero_optimization": {"stage": 2, "cpu_offload": true}})",
                kind::outdated,
                "zero_optimization.cpu_offload"));
  CHECK(says_of(R"({"zero_optimization": true})", kind::outdated, "zero_optimization"));
  CHECK(says_of(R"({"amp": {"enabled": true}})", kind::outdated, "amp"));
  CHECK(says_of(R"({"optimizer": {"type": "OneBitAdam"}})", kind::doubtful, "optimizer.type"));
  CHECK(says_of(
      R"({"expert_parallel": {"autoep_size": 4}})", kind::missing, "expert_parallel.enabled"));
  CHECK(says_of(R"({"optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
                    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 2e-5}}})",
                kind::contradicts,
                "scheduler.params.warmup_max_lr"));
  CHECK(read_deepspeed_text(R"({"zero_optimisation": {"stage": 3}, "bf16": {"enable": true}})")
            .not_understood == std::vector<std::string>{"zero_optimisation", "bf16.enable"});
  CHECK(read_deepspeed_text("[1]").why == "it is a list; DeepSpeed's file is an object");
  CHECK(looks_like_deepspeed(parse_json(deepspeed_sample).is));
  CHECK_FALSE(looks_like_deepspeed(parse_json(R"({"bf16": true, "train_batch_size": 1})").is));
}

TEST_CASE("what is written for DeepSpeed is read back") {
  const auto made = random_config::make_round_trips(
      10'000,
      {"gpus", "nodes", "gpus_per_node", "data_parallel", "shard_group", "pipeline_parallel"},
      {"engine"},
      [](const training_config& config) { return write_deepspeed(config); },
      [](const written_config& written) { return read_deepspeed_text(written.files[0].text); });
  CHECK(made.different == "");
  CHECK(made.written > 2000);
}

TEST_CASE(
    "what DeepSpeed would train otherwise is refused, and what its file cannot say is named") {
  training_config config;
  config.micro_batch = 2;
  config.nodes = 2;
  config.gpus_per_node = 8;
  config.data_parallel = 8;
  config.tensor_parallel = 2;
  config.recompute = recompute_mode::full;
  config.model = "Qwen/Qwen3-0.6B";
  const written_config written = write_deepspeed(config);
  REQUIRE(written);
  CHECK(written.command ==
        "deepspeed --num_nodes 2 --num_gpus 8 YOUR_TRAINING_SCRIPT.py --deepspeed "
        "--deepspeed_config deepspeed.json");
  CHECK(written.not_written == std::vector<std::string>{"model", "recompute"});
  config.pipeline_parallel = 2;
  CHECK(write_deepspeed(config).why.find("pipeline_parallel 2") == 0);
  config.pipeline_parallel = 1;
  config.engine = "fsdp2";
  CHECK(write_deepspeed(config).why.find("engine fsdp2") == 0);
  config.engine = "";
  config.precision = training_precision::fp8;
  CHECK(write_deepspeed(config).why.find("precision fp8") == 0);
  config.precision = {};
  config.global_batch = 31;
  CHECK(write_deepspeed(config).why ==
        "global_batch is 31, which is not a multiple of micro_batch "
        "2 x data_parallel 8");
}

TEST_CASE("no fault in a file of DeepSpeed stops its reader") {
  random_numbers random(7);
  const value sample = parse_json(deepspeed_sample).is;
  int understood = 0;
  for (int left = 5'000; left > 0; --left) {
    const read_config read = read_deepspeed(random_config::with_faults(sample, random));
    understood += read && read.remarks.size() < 2 ? 1 : 0;
  }
  CHECK(understood > 250);
  CHECK(understood < 4'500);
}

}  // namespace
