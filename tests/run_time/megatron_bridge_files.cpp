// Megatron-Bridge's overrides, read and written.

#include <doctest/doctest.h>

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/trainer/megatron_bridge.hpp>

#include <random_config.hpp>
#include <random_megatron_config.hpp>
#include <random_numbers.hpp>

#include <string>
#include <vector>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;

const char* const bridge_sample = R"(
model:
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: null
  sequence_parallel: true
  seq_length: 8192
  recompute_granularity: full
  recompute_method: uniform
  recompute_num_layers: 1
  moe_token_dispatcher_type: alltoall
train: {micro_batch_size: 1, global_batch_size: 256, train_iters: 1000, manual_gc: true}
optimizer: {optimizer: adam, lr: 3e-4, min_lr: 3e-5, weight_decay: 0.1, adam_beta2: 0.95}
scheduler: {lr_decay_style: cosine, lr_warmup_iters: 100}
ddp: {use_distributed_optimizer: true, overlap_grad_reduce: true, grad_reduce_in_fp32: true}
dataset: {seq_length: 8192, num_workers: 2}
checkpoint: {save: out, save_interval: 100}
mixed_precision: bf16_mixed
)";

TEST_CASE("Megatron-Bridge's tree says its layout and batch") {
  const value settings = parse_yaml(bridge_sample).is;
  CHECK(looks_like_megatron_bridge(settings));
  const read_config read = read_megatron_bridge(settings);
  REQUIRE(read);
  CHECK(read.remarks.empty());
  CHECK(read.not_understood.empty());
  CHECK(*read.config.tensor_parallel == 4);
  CHECK_FALSE(read.config.virtual_pipeline);
  CHECK(*read.config.global_batch == 256);
  CHECK(*read.config.zero_stage == 1);
  CHECK(*read.config.recompute == recompute_mode::full);
  CHECK(*read.config.precision == training_precision::bf16);
  CHECK(*read.config.learning_rate == 3e-4);
  CHECK_FALSE(read.config.shape);
  CHECK_FALSE(read.config.dropout);
}

TEST_CASE("Megatron-Bridge's words say the same, and a whole tree its model") {
  const read_config read =
      read_megatron_bridge_words({"model.tensor_model_parallel_size=2",
                                  "+model.recompute_granularity=null",
                                  "train.micro_batch_size=1",
                                  "model.num_layers=4",
                                  "model.hidden_size=512",
                                  "model.num_attention_heads=8",
                                  "model.num_query_groups=2",
                                  "model.add_bias_linear=false",
                                  "model.gated_linear_unit=True",
                                  "model.normalization=RMSNorm",
                                  "model.vocab_size=1000",
                                  "model.position_embedding_type=rope",
                                  "model.share_embeddings_and_output_weights=false",
                                  "odd",
                                  "train.odd=1",
                                  "model.odd=1"});
  REQUIRE(read);
  CHECK(read.not_understood == std::vector<std::string>{"odd", "model.odd", "train.odd"});
  CHECK(*read.config.recompute == recompute_mode::none);
  const transformer& model = *read.config.shape;
  CHECK(model.num_key_value_heads == 2);
  CHECK_FALSE(model.mlp_bias);
  CHECK_FALSE(model.tied_embeddings);
  CHECK(model.gated_mlp);
  CHECK(model.vocab_size == 1024);
  CHECK(read.remarks.empty());
}

TEST_CASE("what Megatron-Bridge's tree contradicts itself in is said") {
  const auto only_remark = [](std::vector<std::string> words) {
    const read_config read = read_megatron_bridge_words(words);
    REQUIRE(read.remarks.size() == 1);
    return read.remarks[0];
  };
  CHECK(only_remark({"model.seq_length=8", "dataset.seq_length=9"}).is ==
        remark::kind::contradicts);
  CHECK(only_remark({"model.fp4=e2m1"}).is == remark::kind::doubtful);
  CHECK(only_remark({"model.cpu_offloading_num_layers=2"}).is == remark::kind::missing);
  CHECK(only_remark({"model.moe_grouped_gemm=false"}).is == remark::kind::doubtful);
  CHECK(only_remark({"dist.use_megatron_fsdp=true"}).is == remark::kind::doubtful);
  CHECK(only_remark({"model.tensor_model_parallel_size=x"}).is == remark::kind::contradicts);
  CHECK(only_remark({"peft.dim=8", "peft.target_modules=[linear_qkv]"}).is ==
        remark::kind::doubtful);
  CHECK(*read_megatron_bridge_words({"mixed_precision=bf16-with-mxfp8-mixed"}).config.precision ==
        training_precision::fp8);
  CHECK(*read_megatron_bridge_words({"mixed_precision=bf16-with-mxfp8-mixed"}).config.scaling ==
        scaling_kind::micro);
}

TEST_CASE("Megatron-Bridge's fp4, its weights as products read them, and layers on the host") {
  training_config config;
  config.precision = training_precision::bf16;
  config.fp4_linears = config.quantised_weights = true;
  config.offloaded_layers = 2;
  const written_config written = write_megatron_bridge(config);
  REQUIRE_MESSAGE(written, written.why);
  CHECK(written.not_written.empty());
  CHECK(written.command.find("mixed_precision=bf16_with_nvfp4_mixed") != std::string::npos);
  const training_config again = read_megatron_bridge(parse_yaml(written.files[0].text).is).config;
  CHECK(*again.precision == training_precision::bf16);
  CHECK(*again.fp4_linears);
  CHECK(*again.quantised_weights);
  CHECK(*again.offloaded_layers == 2);
  CHECK(*read_megatron_bridge_words(
             {"model.cuda_graph_impl=local", "model.cuda_graph_scope=[full_iteration]"})
             .config.cuda_graphs);
  CHECK_FALSE(read_megatron_bridge_words({"model.seq_length=4096.5"}));
}

TEST_CASE("Megatron-Bridge's precision may be an object, and is its recipes' where none is said") {
  const auto read_of = [](const std::vector<std::string>& words) {
    const read_config read = read_megatron_bridge_words(words);
    CHECK(read.not_understood.empty());
    return read;
  };
  CHECK(*read_of({"mixed_precision.bf16=true"}).config.precision == training_precision::bf16);
  CHECK(*read_of({"mixed_precision.fp16=true"}).config.reduced == number_format::fp32);
  const read_config fp8 = read_of({"mixed_precision.bf16=true",
                                   "mixed_precision.fp8=hybrid",
                                   "mixed_precision.fp8_recipe=blockwise",
                                   "mixed_precision.fp8_param_gather=true",
                                   "mixed_precision.grad_reduce_in_fp32=false"});
  CHECK(fp8.remarks.empty());
  CHECK(*fp8.config.precision == training_precision::fp8);
  CHECK(*fp8.config.scaling == scaling_kind::blocks);
  CHECK(*fp8.config.quantised_weights);
  CHECK(*fp8.config.reduced == number_format::bf16);
  CHECK(*read_of({"mixed_precision.fp4=e2m1"}).config.fp4_linears);
  CHECK(read_megatron_bridge_words({"mixed_precision.dtype=bf16"}).not_understood ==
        std::vector<std::string>{"mixed_precision.dtype"});
  // Its precision has the last word of sums of gradients.
  const read_config overruled = read_of({"ddp.grad_reduce_in_fp32=false"});
  REQUIRE(overruled.remarks.size() == 1);
  CHECK(overruled.remarks[0].text ==
        "is false, which mixed_precision overrules; its own grad_reduce_in_fp32, true, is taken");
  CHECK_FALSE(overruled.config.reduced);
  const read_config aware = read_of({"optimizer.use_precision_aware_optimizer=true",
                                     "optimizer.exp_avg_dtype=torch.bfloat16",
                                     "optimizer.exp_avg_sq_dtype=bf16"});
  CHECK(aware.config.optimizer->reads_narrow_gradients);
  CHECK(aware.config.optimizer->states == number_format::bf16);
  const value whole = parse_yaml(
                          "optimizer:\n  exp_avg_dtype: {_target_: torch.float32, _call_: false}\n"
                          "ddp: {grad_reduce_in_fp32: true}\n")
                          .is;
  CHECK(read_megatron_bridge(whole).remarks.empty());

  const auto made_of = [](const std::vector<std::string>& words) {
    return configured(read_megatron_bridge_words(words),
                      {.shape = catalog::llama_3_8b, .called = "llama-3-8b", .gpus = 8});
  };
  const std::vector<std::string> batch = {"train.micro_batch_size=1", "model.seq_length=4096"};
  const configured_training usual = made_of(batch);
  REQUIRE_MESSAGE(usual, usual.why);
  CHECK(usual.setup.precision == bf16_megatron);
  CHECK(usual.setup.parallelism.zero_stage == 1);
  CHECK(usual.setup.optimizer.loop == optimizer_loop::fused);
  REQUIRE(usual.assumed.size() >= 2);
  CHECK(usual.assumed[0].text == "bf16_mixed, as recipes have it: no file states another");
  CHECK(usual.assumed[1].member == "zero_stage");
  std::vector<std::string> apart = batch;
  apart.emplace_back("ddp.use_distributed_optimizer=false");
  CHECK(made_of(apart).setup.parallelism.zero_stage == 0);
}

TEST_CASE("Megatron-Bridge's adapters drop as it says, and unknown words of theirs are named") {
  const auto dropout_of = [](const char* word) {
    return read_megatron_bridge_words({"peft.dim=8", word}).config.adapters->dropout;
  };
  CHECK(dropout_of("peft.dropout=0.1") == 0.1);
  CHECK(dropout_of("peft.alpha=16") == 0.0);
  CHECK(read_megatron_bridge_words({"peft.dim=8", "peft.dropot=0.1"}).not_understood ==
        std::vector<std::string>{"peft.dropot"});
}

TEST_CASE("fusions that Megatron-Bridge's fields leave out are said") {
  const auto count = [](const char* word) {
    return read_megatron_bridge_words({word}).remarks.size();
  };
  CHECK(count("model.apply_rope_fusion=false") == 1);
  CHECK(count("model.apply_rope_fusion=true") == 0);
  CHECK(count("model.moe_pad_expert_input_to_capacity=true") == 1);
  CHECK(count("model.moe_pad_expert_input_to_capacity=false") == 0);
}

TEST_CASE("Megatron-Bridge's words have lists as Hydra writes them") {
  const auto modules_of = [](const std::string& list) {
    return read_megatron_bridge_words(
        {"model.recompute_granularity=selective", "model.recompute_modules=" + list});
  };
  constexpr recomputed_modules both{.core_attention = false, .norms = true, .experts = true};
  for (const char* list : {"[moe,layernorm]", "['moe', \"layernorm\"]", "[ moe , layernorm ]"}) {
    CAPTURE(list);
    const read_config read = modules_of(list);
    CHECK(read.remarks.empty());
    CHECK(*read.config.modules == both);
  }
  CHECK(*modules_of("[]").config.recompute == recompute_mode::none);
  for (const char* odd :
       {"[moe,layernorm", "[moe,,layernorm]", "[moe]layernorm", "[[moe]]", "[moe,"}) {
    CAPTURE(odd);
    const read_config read = modules_of(odd);
    REQUIRE(read.remarks.size() == 1);
    CHECK(read.remarks[0].is == remark::kind::doubtful);
  }
  const read_config read =
      read_megatron_bridge_words({"model.pipeline_model_parallel_size=3",
                                  "model.pipeline_model_parallel_layout="
                                  "[[embedding,decoder],[decoder,decoder],['mtp', 'loss']]"});
  CHECK(read.remarks.empty());
  REQUIRE(read.config.split);
  CHECK(read.config.split->listed == listed_chunks{.layers = {1, 2, 0}, .count = 3});
  CHECK_FALSE(read_megatron_bridge_words({"model.x=" + std::string(100'000, '[')}).config.split);
}

TEST_CASE("a layout of stages may be a list of lists") {
  const read_config read = read_megatron_bridge(
      parse_yaml("model:\n  tensor_model_parallel_size: 1\n  pipeline_model_parallel_size: 3\n"
                 "  pipeline_model_parallel_layout:\n  - [embedding, decoder]\n"
                 "  - [decoder, decoder]\n  - [mtp, loss]\n")
          .is);
  REQUIRE(read.config.split);
  CHECK(read.config.split->listed == listed_chunks{.layers = {1, 2, 0}, .count = 3});
}

TEST_CASE("Megatron-Bridge's files and words say what was written into them") {
  random_numbers random(13);
  int written_ones = 0;
  for (int round = 0; round < 4000; ++round) {
    training_config config = random_config::random_megatron_config(random);
    const written_config written = write_megatron_bridge(config);
    CHECK(!!written == (*config.precision != training_precision::fp32 &&
                        config.optimizer->states == number_format::fp32));
    if (!written) continue;
    ++written_ones;
    const value settings = parse_yaml(written.files[0].text).is;
    const shell_script script = read_shell_script(written.command);
    const read_launch started = read_torchrun_words(script);
    std::vector<std::string> left = {"shape"};
    if (config.reduced) left.emplace_back("reduced");
    if (config.attention) left.emplace_back("attention");
    CHECK(written.not_written == left);
    // its recipe says these
    random_config::forget(config, {"shape", "packing", "trains", "attention", "reduced"});
    training_config again = read_megatron_bridge(settings, started.read).config;
    const auto differ = random_config::differences(config, again);
    CHECK_MESSAGE(differ.empty(), (differ.empty() ? "" : differ[0]), written.files[0].text);
    const read_config words = read_megatron_bridge_words(started.words, started.read);
    CHECK(words.not_understood.empty());
    const auto said_otherwise = random_config::differences(again, words.config);
    CHECK_MESSAGE(said_otherwise.empty(), written.command);
    if (!differ.empty()) break;
  }
  CHECK(written_ones > 2000);
}

TEST_CASE("faulty trees of Megatron-Bridge's are read without a fault") {
  random_numbers random(17);
  const value sample = parse_yaml(bridge_sample).is;
  int remarks = 0;
  for (int round = 0; round < 10'000; ++round) {
    const read_config read = read_megatron_bridge(random_config::with_faults(sample, random));
    remarks += read.remarks.empty() ? 0 : 1;
  }
  CHECK(remarks > 1000);
}

}  // namespace
