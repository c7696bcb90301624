// What DeepSpeed's files say, and that what is written is read back.

#include <doctest/doctest.h>

#include <gpuplan/io/json_value.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
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
  CHECK(read.remarks.empty());
  REQUIRE(is.zero);
  CHECK(is.zero->is.sub_group == 100'000'000);
  CHECK(is.zero->is.reduce_bucket == 500'000'000);
  CHECK(is.zero->prefetch_bucket_of_width);
  CHECK_FALSE(is.zero->persistence_threshold_of_width);
  CHECK(says(is.overlaps_reduction, true));
}

TEST_CASE(
    "a file's buffers are those of the setup, and \"auto\" is what transformers makes of it") {
  const auto engine_of = [](const std::string& zero) {
    training_setup setup{.model = {.hidden_size = 4096}};
    setup.framework.engine.is = &engine_classes::deepspeed;
    set_zero(read_deepspeed_text(R"({"zero_optimization": {)" + zero + "}}").config, setup);
    return setup.framework.engine;
  };
  // HfTrainerDeepSpeedConfig.trainer_config_finalize
  const std::string automatic = R"("reduce_bucket_size": "auto",
      "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto")";
  const engine third = engine_of(R"("stage": 3, )" + automatic);
  CHECK(third.zero.reduce_bucket == 16'777'216);
  CHECK(third.zero.prefetch_bucket == 15'099'494);
  CHECK(third.zero.persistence_threshold == 40'960);
  const engine second = engine_of(R"("stage": 2, )" + automatic);
  CHECK(second.zero.reduce_bucket == 16'777'216);
  CHECK(second.zero.prefetch_bucket == zero_settings{}.prefetch_bucket);
  const engine stated = engine_of(R"("stage": 2, "overlap_comm": true, "reduce_bucket_size": 2e8,
      "contiguous_gradients": false, "round_robin_gradients": true, "reduce_scatter": false)");
  CHECK(stated.overlaps_reduction);
  CHECK(stated.zero.reduce_bucket == 200'000'000);
  CHECK_FALSE(stated.zero.contiguous_gradients);
  CHECK(stated.zero.round_robin_gradients);
  CHECK_FALSE(stated.zero.reduce_scatter);
  CHECK_FALSE(engine_of(R"("stage": 2)").overlaps_reduction);
  // Other engines have none of these.
  training_setup shared{.model = {.hidden_size = 4096}};
  shared.framework.engine.is = &engine_classes::fsdp2;
  set_zero(read_deepspeed_text(R"({"zero_optimization": {"overlap_comm": true}})").config, shared);
  CHECK_FALSE(shared.framework.engine.overlaps_reduction);
}

TEST_CASE("buffers that are written for DeepSpeed are read back") {
  said_zero_settings said;
  said.is.reduce_bucket = 7;
  said.is.sub_group = 8;
  said.is.round_robin_gradients = true;
  said.persistence_threshold_of_width = true;
  const training_config config{.zero_stage = 3, .zero = said, .overlaps_reduction = false};
  const written_config written = write_deepspeed(config);
  REQUIRE(written);
  CHECK(written.not_written.empty());
  const training_config back = read_deepspeed_text(written.files[0].text).config;
  CHECK(says(back.zero, said));
  CHECK(says(back.overlaps_reduction, false));
}

TEST_CASE("what changes a step of DeepSpeed and is not estimated is said") {
  // A key, a value that changes the step, and one that does not
  struct asked {
    const char* key;
    const char* changes;
    const char* usual;
  };
  for (const asked& one :
       {asked{"zero_optimization.memory_efficient_linear", "false", "true"},
        asked{"zero_optimization.leaf_module", "{}", "null"},
        asked{"zero_optimization.zenflow", "{}", "null"},
        asked{"zero_optimization.legacy_stage1", "true", "false"},
        asked{"zero_optimization.allgather_bucket_size", "2e8", "5e8"},
        asked{"zero_optimization.offload_optimizer.super_offload", "true", "false"},
        asked{"fp16.fp16_master_weights_and_grads", "true", "false"},
        asked{"bf16.immediate_grad_update", "true", "false"},
        asked{"tensor_parallel.vocab_parallel_lm_head", "true", "false"},
        asked{"hybrid_engine.enabled", "true", "false"},
        asked{"flops_profiler.enabled", "true", "false"},
        asked{"wall_clock_breakdown", "true", "false"},
        asked{"communication_data_type", "\"fp32\"", "null"},
        asked{"pipeline.partition", "\"uniform\"", "null"},
        asked{"optimizer.params.amsgrad", "true", "false"},
        asked{"optimizer.params.fp32_optimizer_states", "false", "true"}}) {
    const auto doubts = [&one](const char* is) {
      const std::string key = one.key;
      std::string text = "{";
      std::string end = "}";
      std::size_t from = 0;
      for (std::size_t at = key.find('.'); at != std::string::npos; at = key.find('.', from)) {
        text += '"' + key.substr(from, at - from) + "\": {";
        end += '}';
        from = at + 1;
      }
      text += '"' + key.substr(from) + "\": " + is + end;
      return has_remark(read_deepspeed_text(text), remark::kind::doubtful, key);
    };
    CAPTURE(one.key);
    CHECK(doubts(one.changes));
    CHECK_FALSE(doubts(one.usual));
  }
  for (const char* const group :
       {"activation_checkpointing", "tensor_parallel", "compile", "hybrid_engine"})
    CHECK(read_deepspeed_text('{' + ('"' + std::string(group)) + R"(": {"odd": 1}})")
              .not_understood == std::vector<std::string>{group + std::string(".odd")});
}

TEST_CASE("groups of no parameters are groups of one") {
  const read_config read =
      read_deepspeed_text(R"({"zero_optimization": {"stage": 3, "sub_group_size": 0}})");
  REQUIRE(read.config.zero);
  CHECK(read.config.zero->is.sub_group == 1);
  CHECK(read.remarks.empty());
}

TEST_CASE("what a file of DeepSpeed leaves to transformers is absent") {
  const read_config read = read_deepspeed_text(
      R"({"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
          "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"},
          "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}}})");
  CHECK(read.remarks.empty());
  CHECK(read.not_understood.empty());
  CHECK(read.config.zero->reduce_bucket_of_width);
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
  // A name with a point in it is no path.
  CHECK(read_deepspeed_text(R"({"zero_optimization.stage": 3, "bf16": {"enabled": true}})")
            .not_understood == std::vector<std::string>{"zero_optimization.stage"});
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
