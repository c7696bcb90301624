// What files of axolotl say, and that what is written is read back.

#include <doctest/doctest.h>

#include <gpuplan/io/trainer/axolotl.hpp>
#include <gpuplan/io/yaml.hpp>

#include "random_config.hpp"
#include "random_numbers.hpp"

#include <string>
#include <vector>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;

const char* const axolotl_sample = R"(
base_model: NousResearch/Llama-3.2-1B
datasets:
  - path: teknium/GPT4-LLM-Cleaned
    type: alpaca
val_set_size: 0.1
adapter: qlora
load_in_4bit: true
sequence_len: 2048
sample_packing: true
lora_r: 32
lora_dropout: 0.05
lora_alpha: 16
lora_target_linear: true
peft_use_dora: true
gradient_accumulation_steps: 4
micro_batch_size: 2
num_epochs: 1
optimizer: paged_adamw_8bit
lr_scheduler: cosine
cosine_min_lr_ratio: 0.1
learning_rate: 2e-4
warmup_ratio: 0.1
bf16: auto
tf32: false
gradient_checkpointing: true
gradient_checkpointing_kwargs:
  use_reentrant: false
flash_attention: true
weight_decay: 0.0
dp_shard_size: 4
dp_replicate_size: 2
tensor_parallel_size: 2
fsdp_version: 2
fsdp_config:
  offload_params: false
  reshard_after_forward: true
  auto_wrap_policy: TRANSFORMER_BASED_WRAP
  transformer_layer_cls_to_wrap: LlamaDecoderLayer
  state_dict_type: FULL_STATE_DICT
)";

read_config read_axolotl_text(const std::string& text) { return read_axolotl(parse_yaml(text).is); }

TEST_CASE("a file of axolotl is understood") {
  const read_config read = read_axolotl_text(axolotl_sample);
  REQUIRE(read);
  CHECK(read.not_understood.empty());
  CHECK(read.remarks.empty());
  const training_config& is = read.config;
  CHECK(is.model == "NousResearch/Llama-3.2-1B");
  CHECK(says(is.adapters,
             lora{.rank = 32,
                  .targets = all_linear,
                  .dropout = 0.05,
                  .magnitudes = true,
                  .base = double_quantised_base}));
  CHECK(says(is.sequence_length, std::int64_t{2048}));
  CHECK(says(is.packing, true));
  CHECK(says(is.micro_batch, std::int64_t{2}));
  CHECK(says(is.accumulation, std::int64_t{4}));
  CHECK(says(is.schedule, rate_schedule::cosine));
  CHECK(says(is.least_learning_rate, 0.1 * 2e-4));
  CHECK(says(is.warm_up_share, 0.1));
  CHECK(says(is.precision, training_precision::bf16));
  CHECK(says(is.recompute, recompute_mode::full));
  CHECK(says(is.attention, attention_kernel::flash));
  CHECK(is.engine == "fsdp2");
  CHECK(says(is.zero_stage, 3));
  CHECK(says(is.data_parallel, std::int64_t{8}));
  CHECK(says(is.shard_group, std::int64_t{4}));
  CHECK(says(is.tensor_parallel, std::int64_t{2}));
  CHECK(looks_like_axolotl(parse_yaml(axolotl_sample).is));
  CHECK_FALSE(looks_like_axolotl(parse_yaml("model_name_or_path: a").is));
}

TEST_CASE("faults in a file of axolotl are said") {
  using kind = remark::kind;
  const auto says_of = [](const std::string& text, kind is, const char* key) {
    for (const remark& one : read_axolotl_text(text).remarks)
      if (one.is == is && one.key == key) return true;
    return false;
  };
  CHECK(says_of("adapter: qlora", kind::missing, "load_in_4bit"));
  for (const char* const more : {"", "\nload_in_8bit: true"}) {
    const auto adapters = read_axolotl_text(std::string("adapter: qlora") + more).config.adapters;
    REQUIRE(adapters);
    CHECK(adapters->base == double_quantised_base);
  }
  CHECK(says_of("load_in_4bit: true", kind::missing, "adapter"));
  CHECK(says_of("adapter: lora", kind::missing, "lora_r"));
  CHECK(says_of("fsdp: [full_shard]", kind::outdated, "fsdp"));
  CHECK(says_of("sequence_parallel_degree: 2", kind::outdated, "sequence_parallel_degree"));
  CHECK(says_of("deepspeed: zero3.json\nfsdp_config: {a: 1}", kind::contradicts, "deepspeed"));
  CHECK(says_of("bf16: auto\nfp16: true", kind::contradicts, "fp16"));
  CHECK_FALSE(says_of("bf16: auto\nfp16: false", kind::contradicts, "fp16"));
  CHECK(says_of("adapter: qlora\nload_in_8bit: true", kind::contradicts, "load_in_8bit"));
  CHECK(says_of("load_in_8bit: true", kind::missing, "adapter"));
  CHECK(read_axolotl_text("adapter: lora\nload_in_8bit: true").why.find("load_in_8bit is true") ==
        0);
  CHECK(says_of("rl: dpo", kind::doubtful, "rl"));
  CHECK(says_of("optimizer: came_pytorch", kind::doubtful, "optimizer"));
  CHECK(says_of("gradient_checkpointing: offload", kind::doubtful, "gradient_checkpointing"));
  CHECK(says_of("base_model: Qwen/Qwen3-8B-AWQ", kind::doubtful, "base_model"));
  CHECK(says_of("micro_batch_size: two", kind::contradicts, "micro_batch_size"));
  CHECK(read_axolotl_text("sequence_lenght: 10\nfsdp_config: {odd: 1}").not_understood ==
        std::vector<std::string>{"sequence_lenght", "fsdp_config.odd"});
}

TEST_CASE("axolotl's documented defaults are filled in") {
  const auto of = [](const char* text) { return read_axolotl_text(text).config; };
  const training_config is = of("base_model: a");
  CHECK(says(is.micro_batch, std::int64_t{1}));
  CHECK(says(is.accumulation, std::int64_t{1}));
  CHECK(says(is.sequence_length, std::int64_t{512}));
  CHECK(says(is.epochs, 1.0));
  CHECK(says(is.optimizer, optimizer{.loop = optimizer_loop::fused}));
  CHECK(says(is.clip_norm, 1.0));
  CHECK_FALSE(is.padding_free);
  CHECK_FALSE(of("max_steps: 9").epochs);
  // DeepSpeed's own file may say these.
  CHECK_FALSE(of("deepspeed: z.json").optimizer);
  CHECK_FALSE(of("deepspeed: z.json").clip_norm);
  CHECK_FALSE(of("optimizer: came_pytorch").optimizer);
}

TEST_CASE("axolotl hands Accelerate its part of the batch") {
  const auto of = [](const std::string& text) {
    return read_axolotl_text("accelerator_config: {" + text + "}");
  };
  const read_config sums = of("gradient_accumulation_kwargs: {sync_each_batch: true}");
  CHECK(sums.not_understood.empty());
  CHECK(says(sums.config.reduces_every_micro_batch, true));
  const written_config written = write_axolotl({.reduces_every_micro_batch = true});
  CHECK(says(read_axolotl_text(written.files[0].text).config.reduces_every_micro_batch, true));
  CHECK(says(of("gradient_accumulation_kwargs: {num_steps: 4}").config.accumulation,
             std::int64_t{4}));
  CHECK(of("split_batches: true").remarks.size() == 1);
  CHECK(of("odd: 1").not_understood == std::vector<std::string>{"accelerator_config.odd"});
}

TEST_CASE("axolotl packs a micro-batch into one row where attention tells its parts apart") {
  const auto of = [](const std::string& text) {
    return read_axolotl_text("sample_packing: true\n" + text).config.padding_free;
  };
  CHECK(says(of("flash_attention: true"), true));
  CHECK(says(of("xformers_attention: true"), true));
  CHECK_FALSE(of("sdp_attention: true"));
  CHECK_FALSE(of("flash_attention: true\nmultipack_real_batches: true"));
  CHECK(says(of("multipack_real_batches: false"), true));
  CHECK_FALSE(read_axolotl_text("flash_attention: true").config.padding_free);
}

TEST_CASE("what changes a step of axolotl and is not estimated is said") {
  const auto doubts = [](const std::string& text, const std::string& key) {
    for (const remark& one : read_axolotl_text(text).remarks)
      if (one.is == remark::kind::doubtful && one.key == key) return true;
    return false;
  };
  // A key, a value that changes the step, and one that does not
  struct asked {
    const char* key;
    const char* changes;
    const char* usual;
  };
  for (const asked& one : {asked{"use_kernels", "true", "false"},
                           asked{"s2_attention", "true", "false"},
                           asked{"flash_attn_rms_norm", "true", "false"},
                           asked{"liger_cross_entropy", "true", "false"},
                           asked{"float16", "true", "false"},
                           asked{"activation_offloading", "disk", "false"},
                           asked{"activation_offloading", "true", "null"},
                           asked{"nf4_backend", "torchao", "bitsandbytes"},
                           asked{"peft_autocast_adapter_dtype", "false", "true"},
                           asked{"ddp_bucket_cap_mb", "100", "25"},
                           asked{"gc_steps", "10", "-1"},
                           asked{"neftune_noise_alpha", "5", "null"},
                           asked{"cosine_constant_lr_ratio", "0.8", "null"},
                           asked{"device_map", "auto", "null"},
                           asked{"model_quantization_config", "Mxfp4Config", "null"},
                           asked{"tokens", "['<a>']", "null"},
                           asked{"plugins",
                                 "[axolotl.integrations.mora.MoraPlugin]",
                                 "[axolotl.integrations.liger.LigerPlugin]"}}) {
    CAPTURE(one.key);
    CHECK(doubts(one.key + (": " + std::string(one.changes)), one.key));
    CHECK_FALSE(doubts(one.key + (": " + std::string(one.usual)), one.key));
  }
  CHECK(doubts("bnb_config_kwargs: {bnb_4bit_compute_dtype: float32}",
               "bnb_config_kwargs.bnb_4bit_compute_dtype"));
  for (const char* const group : {"bnb_config_kwargs", "gradient_checkpointing_kwargs"})
    CHECK(read_axolotl_text(std::string(group) + ": {odd: 1}").not_understood ==
          std::vector<std::string>{group + std::string(".odd")});
  CHECK(read_axolotl_text("lr_scheduler_kwargs: {odd: 1}").not_understood ==
        std::vector<std::string>{"lr_scheduler_kwargs"});
  CHECK(read_axolotl_text("tf32: auto").remarks.empty());
  CHECK(says(read_axolotl_text("bf16: false\nfp16: true\ntf32: auto").config.precision,
             training_precision::fp16));
}

TEST_CASE("axolotl's plug-in of cut cross-entropy is on unless it is told otherwise") {
  const std::string plugin =
      "plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\n";
  CHECK(says(read_axolotl_text(plugin).config.cut_cross_entropy, true));
  CHECK(
      says(read_axolotl_text(plugin + "cut_cross_entropy: false").config.cut_cross_entropy, false));
  CHECK(read_axolotl_text(plugin).remarks.empty());
}

TEST_CASE("axolotl's cut cross-entropy takes the place of Liger's loss") {
  const auto of = [](const char* text) { return read_axolotl_text(text).config; };
  CHECK(says(of("cut_cross_entropy: true").cut_cross_entropy, true));
  CHECK(read_axolotl_text("cut_cross_entropy: true").remarks.empty());
  CHECK_FALSE(of("base_model: a").cut_cross_entropy);
  const training_config both =
      of("liger_rope: true\nliger_rms_norm: true\nliger_glu_activation: true\n"
         "cut_cross_entropy: true");
  CHECK(says(both.liger_kernels, true));
  CHECK(says(both.cut_cross_entropy, true));
  CHECK_FALSE(
      of("liger_rope: true\nliger_rms_norm: true\nliger_glu_activation: true").liger_kernels);
  // With both losses that of Liger is no matter; neither stands for another of its functions.
  const char* const with_both =
      "liger_rope: true\nliger_rms_norm: true\nliger_glu_activation: true\n"
      "liger_fused_linear_cross_entropy: true\ncut_cross_entropy: true";
  CHECK(says(of(with_both).liger_kernels, true));
  CHECK(read_axolotl_text(with_both).remarks.empty());
  const char* const without_norms =
      "liger_rope: true\nliger_glu_activation: true\nliger_fused_linear_cross_entropy: true\n"
      "cut_cross_entropy: true";
  CHECK_FALSE(of(without_norms).liger_kernels);
  CHECK(read_axolotl_text(without_norms).remarks.size() == 1);
}

TEST_CASE("axolotl holds weights in the format of its autocast") {
  const auto of = [](const char* text) { return read_axolotl_text(text).config; };
  CHECK(says(of("base_model: a").weights, number_format::bf16));
  CHECK(says(of("bf16: true\nadapter: lora\nlora_r: 8").weights, number_format::bf16));
  CHECK(says(of("bf16: true\nfsdp_config: {}").weights, number_format::fp32));
  CHECK(says(of("bf16: true\nadapter: lora\nfsdp_config: {}").weights, number_format::fp32));
  CHECK(says(of("bf16: true\nadapter: qlora\nload_in_4bit: true\nfsdp_config: {}").weights,
             number_format::bf16));
  CHECK(says(of("bf16: true\nadapter: lora\nfsdp_version: 1\nfsdp_config: {}").weights,
             number_format::bf16));
  CHECK_FALSE(of("bf16: false").weights);
  for (const char* pure : {"bf16: full", "bf16: false\nbfloat16: true"}) {
    CHECK(says(of(pure).precision, training_precision::pure_bf16));
    CHECK_FALSE(of(pure).weights);
  }
}

TEST_CASE("what is written for axolotl is read back") {
  const auto made = random_config::make_round_trips(
      10000,
      {"gpus", "nodes", "gpus_per_node", "global_batch", "pipeline_parallel", "expert_parallel"},
      {"accumulation",
       "clip_norm",
       "epochs",
       "micro_batch",
       "optimizer",
       "optimizer_on_host",
       "padding_free",
       "precision",
       "recompute",
       "checkpoints_reenter",
       "sequence_length",
       "shard_group",
       "trains",
       "weights",
       "weights_on_host",
       "zero_stage"},
      [](const training_config& config) { return write_axolotl(config); },
      [](const written_config& written) { return read_axolotl_text(written.files[0].text); });
  CHECK(made.different == "");
  CHECK(made.written > 1000);
}

TEST_CASE("what axolotl would train otherwise is refused") {
  training_config config;
  const auto refuses = [&config](const char* why) {
    return write_axolotl(config).why.find(why) == 0;
  };
  config.pipeline_parallel = 2;
  CHECK(refuses("pipeline_parallel 2"));
  config = {};
  config.precision = training_precision::bf16;
  config.weights = number_format::fp32;
  CHECK(refuses("weights fp32: axolotl holds them in bf16"));
  config = {};
  config.tensor_parallel = 2;
  CHECK(refuses("tensor_parallel 2"));
  config.engine = "deepspeed";
  CHECK(refuses("engine deepspeed"));
  config.engine = "fsdp2";
  config.optimizer =
      optimizer{.library = optimizer_library::bitsandbytes, .states = number_format::int8};
  CHECK(refuses("optimizer: axolotl has no tensor parallelism with"));
  config.tensor_parallel = 1;
  CHECK(refuses("optimizer: axolotl has no FSDP 2 with bitsandbytes' AdamW in 8 bits"));
  config.context_parallel = 2;
  config.attention = attention_kernel::eager;
  CHECK(refuses("attention eager: axolotl has no context parallelism"));
}

TEST_CASE("no fault in a file of axolotl stops its reader") {
  random_numbers random(7);
  const value sample = parse_yaml(axolotl_sample).is;
  int said = 0;
  for (int left = 5000; left > 0; --left)
    said += read_axolotl(random_config::with_faults(sample, random)).remarks.empty() ? 0 : 1;
  CHECK(said > 500);
}

}  // namespace
