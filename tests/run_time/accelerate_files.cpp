// What Accelerate's files say, and that what is written is read back.

#include <doctest/doctest.h>

#include <gpuplan/io/trainer/accelerate.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/yaml.hpp>

#include "random_config.hpp"
#include "random_numbers.hpp"

#include <string>
#include <vector>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;

const char* const accelerate_sample = R"(
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
downcast_bf16: 'no'
mixed_precision: bf16
num_machines: 2
num_processes: 16
machine_rank: 0
rdzv_backend: static
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
  fsdp_reshard_after_forward: true
  fsdp_offload_params: false
  fsdp_activation_checkpointing: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
parallelism_config:
  parallelism_config_dp_replicate_size: 2
  parallelism_config_dp_shard_size: 4
  parallelism_config_tp_size: 2
)";

read_config read_accelerate_text(const std::string& text) {
  return read_accelerate(parse_yaml(text).is);
}

TEST_CASE("a file of Accelerate is understood") {
  const read_config read = read_accelerate_text(accelerate_sample);
  REQUIRE(read);
  CHECK(read.remarks.empty());
  CHECK(read.not_understood.empty());
  const training_config& is = read.config;
  CHECK(is.engine == "fsdp2");
  CHECK(says(is.gpus, std::int64_t{16}));
  CHECK(says(is.nodes, std::int64_t{2}));
  CHECK(says(is.precision, training_precision::bf16));
  CHECK(says(is.zero_stage, 3));
  CHECK(says(is.weights_on_host, false));
  CHECK(says(is.recompute, recompute_mode::full));
  CHECK(says(is.data_parallel, std::int64_t{8}));
  CHECK(says(is.shard_group, std::int64_t{4}));
  CHECK(says(is.tensor_parallel, std::int64_t{2}));
  CHECK(looks_like_accelerate(parse_yaml(accelerate_sample).is));
}

TEST_CASE("other engines in a file of Accelerate are understood") {
  const read_config deepspeed = read_accelerate_text(
      "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {zero_stage: 3, "
      "offload_optimizer_device: cpu, offload_param_device: none, gradient_accumulation_steps: 4, "
      "gradient_clipping: 1.0, zero3_init_flag: true, odd: 1}\n");
  CHECK(deepspeed.config.engine == "deepspeed");
  CHECK(says(deepspeed.config.zero_stage, 3));
  CHECK(says(deepspeed.config.optimizer_on_host, true));
  CHECK(says(deepspeed.config.weights_on_host, false));
  CHECK(says(deepspeed.config.accumulation, std::int64_t{4}));
  CHECK(says(deepspeed.config.clip_norm, 1.0));
  CHECK(deepspeed.not_understood == std::vector<std::string>{"deepspeed_config.odd"});
  const read_config megatron = read_accelerate_text(
      "distributed_type: MEGATRON_LM\nmegatron_lm_config: {megatron_lm_tp_degree: 4, "
      "megatron_lm_pp_degree: 2, megatron_lm_recompute_activations: true, "
      "megatron_lm_use_distributed_optimizer: true, megatron_lm_sequence_parallelism: true}\n");
  CHECK(megatron.config.engine == "megatron");
  CHECK(says(megatron.config.tensor_parallel, std::int64_t{4}));
  CHECK(says(megatron.config.pipeline_parallel, std::int64_t{2}));
  CHECK(says(megatron.config.recompute, recompute_mode::selective));
  CHECK(says(megatron.config.zero_stage, 1));
  CHECK(says(megatron.config.sequence_parallel, true));
  CHECK_FALSE(read_accelerate_text("num_processes: -1\ndistributed_type: NO\n").config.gpus);
}

TEST_CASE("Megatron's part of a file of Accelerate is read, or has a remark") {
  const auto of = [](const std::string& more) {
    return read_accelerate_text(
        "distributed_type: MEGATRON_LM\nnum_processes: 8\n"
        "megatron_lm_config: {" +
        more + "}\n");
  };
  const std::string full = "megatron_lm_recompute_granularity: full, ";
  CHECK(says(of(full + "megatron_lm_recompute_method: block, megatron_lm_recompute_num_layers: 3")
                 .config.recompute_layers,
             std::int64_t{3}));
  CHECK(says(of(full + "megatron_lm_recompute_method: uniform, megatron_lm_recompute_num_layers: 2")
                 .config.recompute_span,
             std::int64_t{2}));
  CHECK(
      says(of("megatron_lm_hidden_dropout: 0.1, megatron_lm_attention_dropout: 0.2").config.dropout,
           0.2));
  for (const char* const key : {"expert_tensor_parallel_size",
                                "decoder_last_pipeline_num_layers",
                                "num_layers_per_virtual_pipeline_stage"}) {
    const std::string name = "megatron_lm_" + std::string(key);
    const read_config read = of(name + ": 2");
    CAPTURE(key);
    REQUIRE(read.remarks.size() == 1);
    CHECK(read.remarks[0].key == "megatron_lm_config." + name);
  }
  CHECK(of("megatron_lm_odd: 1").not_understood ==
        std::vector<std::string>{"megatron_lm_config.megatron_lm_odd"});
}

TEST_CASE("FSDP 1 has its strategy by the newer name too, and shares in nodes where it is told") {
  const auto read = [](const std::string& more) {
    return read_accelerate(
        parse_yaml("distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\nfsdp_config:\n"
                   "  fsdp_version: 1\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                   "  fsdp_backward_prefetch: BACKWARD_PRE\n" +
                   more)
            .is);
  };
  const read_config newer = read("  fsdp_reshard_after_forward: SHARD_GRAD_OP\n");
  CHECK(newer.remarks.empty());
  CHECK(newer.config.engine == "fsdp1");
  CHECK(says(newer.config.zero_stage, 2));
  CHECK_FALSE(newer.config.shard_group);
  for (const char* const key : {"sharding_strategy", "reshard_after_forward"}) {
    const read_config hybrid = read(std::string("  fsdp_") + key + ": HYBRID_SHARD\n");
    CHECK(hybrid.remarks.empty());
    CHECK(says(hybrid.config.zero_stage, 3));
    CHECK(says(hybrid.config.shard_group, std::int64_t{8}));
  }
  const read_config flag = read("  fsdp_reshard_after_forward: true\n");
  REQUIRE(flag.remarks.size() == 1);
  CHECK(flag.remarks[0].is == remark::kind::contradicts);
}

TEST_CASE("FSDP's own recomputation that is off says nothing of the trainer's") {
  const auto read = [](const std::string& is) {
    return read_accelerate_text(("distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, "
                                 "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, "
                                 "fsdp_activation_checkpointing: " +
                                 is + "}")
                                    .c_str());
  };
  CHECK(says(read("false").config.recompute, recompute_mode::none));
  read_config trainer{.tool = "trl"};
  trainer.config.recompute = recompute_mode::full;
  const auto of_both = [&](const std::string& is) { return merged({read(is), trainer}); };
  CHECK(says(of_both("false").config.recompute, recompute_mode::full));
  CHECK(of_both("false").remarks.empty());
  trainer.config.recompute = recompute_mode::none;
  CHECK(says(of_both("false").config.recompute, recompute_mode::none));
  const read_config both = of_both("true");
  REQUIRE(both.remarks.size() == 1);
  CHECK(both.remarks[0].is == remark::kind::contradicts);
  CHECK(both.remarks[0].key == "recompute");
}

TEST_CASE("faults in a file of Accelerate are said") {
  using kind = remark::kind;
  CHECK(read_accelerate_text("distributed_type: MULTI_GPU\nuse_cpu: true\n").remarks.size() == 1);
  CHECK(read_accelerate_text("distributed_type: MULTI_GPU\nuse_cpu: false\n").remarks.empty());
  const auto says_of = [](const char* text, kind is, const char* key) {
    for (const remark& one : read_accelerate_text(text).remarks)
      if (one.is == is && one.key == key) return true;
    return false;
  };
  CHECK(says_of("distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}",
                kind::missing,
                "fsdp_config.auto_wrap_policy"));
  CHECK(says_of("distributed_type: FSDP", kind::missing, "fsdp_config"));
  CHECK(says_of("distributed_type: FSDP\nfsdp_config: {fsdp_version: 3}",
                kind::contradicts,
                "fsdp_config.fsdp_version"));
  CHECK(says_of("distributed_type: MULTI_GPU\nnum_processes: 9\nnum_machines: 2",
                kind::contradicts,
                "num_processes"));
  CHECK(
      says_of("distributed_type: MULTI_GPU\n"
              "parallelism_config: {parallelism_config_dp_shard_size: 2}",
              kind::contradicts,
              "parallelism_config"));
  CHECK(
      says_of("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2, "
              "offload_param_device: cpu}",
              kind::contradicts,
              "deepspeed_config.offload_param_device"));
  CHECK(says_of("fp16: true", kind::outdated, "fp16"));
  CHECK(says_of("mixed_precision: int8", kind::doubtful, "mixed_precision"));
  CHECK(says_of(
      "dynamo_config: {dynamo_backend: INDUCTOR}", kind::doubtful, "dynamo_config.dynamo_backend"));
}

TEST_CASE("what is written for Accelerate is read back") {
  const auto made = random_config::make_round_trips(
      10'000,
      {"gpus_per_node",
       "data_parallel",
       "pipeline_parallel",
       "virtual_pipeline",
       "expert_parallel",
       "tensor_parallel",
       "context_parallel"},
      {"engine",
       "zero_stage",
       "optimizer_on_host",
       "weights_on_host",
       "shard_group",
       "gpus",
       "nodes"},
      [](const training_config& config) { return write_accelerate(config); },
      [](const written_config& written) { return read_accelerate_text(written.files[0].text); });
  CHECK(made.different == "");
  CHECK(made.written > 500);
}

TEST_CASE("degrees that are written for Accelerate are read back") {
  training_config config;
  config.engine = "fsdp2";
  config.zero_stage = 2;
  config.data_parallel = 8;
  config.shard_group = 4;
  config.tensor_parallel = 2;
  config.context_parallel = 2;
  config.gpus = 32;
  config.gpus_per_node = 8;
  const written_config written = write_accelerate(config);
  REQUIRE(written);
  CHECK(written.not_written.empty());
  const read_config back = read_accelerate_text(written.files[0].text);
  CHECK(back.remarks.empty());
  config.nodes = 4;
  config.gpus_per_node = {};
  CHECK(random_config::differences(config, back.config).empty());
  config = {};
  config.engine = "megatron";
  config.tensor_parallel = 4;
  config.pipeline_parallel = 2;
  config.context_parallel = 2;
  config.expert_parallel = 2;
  config.sequence_parallel = true;
  config.zero_stage = 1;
  config.recompute = recompute_mode::full;
  CHECK(random_config::differences(
            config, read_accelerate_text(write_accelerate(config).files[0].text).config)
            .empty());
}

TEST_CASE("what Accelerate would train otherwise is refused") {
  training_config config;
  const auto refuses = [&config](const char* why) {
    return write_accelerate(config).why.find(why) == 0;
  };
  config.pipeline_parallel = 2;
  CHECK(refuses("pipeline_parallel 2"));
  config = {};
  config.tensor_parallel = 2;
  CHECK(refuses("tensor_parallel 2"));
  config.engine = "fsdp2";
  CHECK(refuses("data_parallel is not known"));
  config.data_parallel = 2;
  config.nodes = 1;
  config.gpus_per_node = 8;
  CHECK(refuses("gpus is 8"));
  config.zero_stage = 1;
  CHECK(refuses("zero_stage 1"));
  config = {};
  config.engine = "deepspeed";
  config.zero_stage = 2;
  config.weights_on_host = true;
  CHECK(refuses("weights_on_host true"));
}

TEST_CASE("no fault in a file of Accelerate stops its reader") {
  random_numbers random(7);
  value sample = parse_yaml(accelerate_sample).is;
  int said = 0;
  for (int left = 20'000; left > 0; --left) {
    sample["distributed_type"] =
        random_config::one_of<const char*>(random, {"FSDP", "DEEPSPEED", "MEGATRON_LM", "NO"});
    said += read_accelerate(random_config::with_faults(sample, random)).remarks.size() > 1 ? 1 : 0;
  }
  CHECK(said > 500);
}

}  // namespace
