// Megatron-LM's scripts, read and written.

#include <doctest/doctest.h>

#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/trainer/megatron_lm.hpp>
#include <gpuplan/io/trainer/planned_config.hpp>

#include <mutated_text.hpp>
#include <random_megatron_config.hpp>
#include <random_numbers.hpp>
#include <same_config.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;

const char* const megatron_sample = R"(#!/bin/bash
# Llama-like, two nodes
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-2}
TP=4; PP=2
DISTRIBUTED_ARGS=(
  --nproc-per-node $GPUS_PER_NODE
  --nnodes $NUM_NODES
  --rdzv-endpoint "$HEAD:29500"
)
MODEL_ARGS=(
  --num-layers 32
  --hidden-size 4096
  --ffn-hidden-size 14336   # gated
  --num-attention-heads 32
  --group-query-attention
  --num-query-groups 8
  --seq-length 8192 --max-position-embeddings 8192
  --position-embedding-type rope --rotary-base 500000
  --swiglu --normalization RMSNorm --disable-bias-linear
  --untie-embeddings-and-output-weights
  --attention-dropout 0.0 --hidden-dropout 0.0
  --vocab-size 128256 --make-vocab-size-divisible-by 128
)
TRAINING_ARGS=(
  --micro-batch-size 1 --global-batch-size 128 --train-iters 5000
  --weight-decay 0.1 --clip-grad 1.0 --adam-beta1 0.9 --adam-beta2 0.95
  --lr 3.0e-4 --min-lr 3e-5 --lr-decay-style cosine --lr-warmup-iters 200
  --bf16 --use-flash-attn --recompute-activations
)
PARALLEL_ARGS=(--tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP
  --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
  --num-layers-per-virtual-pipeline-stage 4)
DATA_ARGS=(--data-path 0.5 a 0.5 b --split 949,50,1 --tokenizer-type Llama3Tokenizer --mock-data)
torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
  "${MODEL_ARGS[@]}" "${TRAINING_ARGS[@]}" "${PARALLEL_ARGS[@]}" "${DATA_ARGS[@]}" \
  --log-interval 10 --save-interval 1000 --distributed-backend nccl
)";

TEST_CASE("a script of Megatron-LM's says its layout, its batch and its model") {
  CHECK(looks_like_megatron_lm(megatron_sample));
  const read_config read = read_megatron_lm(megatron_sample);
  REQUIRE(read);
  CHECK(read.tool == "megatron-lm");
  CHECK(read.not_understood.empty());
  CHECK(read.remarks.empty());
  const training_config& is = read.config;
  CHECK(*is.gpus == 16);
  CHECK(*is.tensor_parallel == 4);
  CHECK(*is.pipeline_parallel == 2);
  CHECK(*is.virtual_pipeline == 4);
  CHECK(*is.data_parallel == 2);
  CHECK(*is.micro_batch == 1);
  CHECK(*is.accumulation == 64);
  CHECK(*is.zero_stage == 1);
  CHECK(*is.sequence_parallel);
  CHECK(*is.precision == training_precision::bf16);
  CHECK(*is.recompute == recompute_mode::selective);
  CHECK(*is.attention == attention_kernel::flash);
  CHECK(*is.learning_rate == 3e-4);
  CHECK(*is.warm_up_steps == 200);
  CHECK(*is.schedule == rate_schedule::cosine);
  CHECK(*is.dropout == 0);
  const transformer& model = *is.shape;
  CHECK(model.num_hidden_layers == 32);
  CHECK(model.num_key_value_heads == 8);
  CHECK(model.vocab_size == 128512);  // the next multiple of 128 * 4
  CHECK(model.gated_mlp);
  CHECK_FALSE(model.mlp_bias);
  CHECK_FALSE(model.tied_embeddings);
  CHECK(model.position_rows == 0);
}

TEST_CASE("flags alone are read too, with Megatron-LM's own defaults") {
  const read_config read = read_megatron_lm(
      "--num-layers 12\n--hidden-size 768\n--num-attention-heads 12\n--max-position-embeddings "
      "1024\n--vocab-size 50257\n");
  REQUIRE(read);
  const transformer& model = *read.config.shape;
  CHECK(model.intermediate_size == 3072);
  CHECK(model.position_rows == 1024);
  CHECK(model.vocab_size == 50304);
  CHECK(model.norm == norm_kind::layer_norm);
  CHECK(model.norm_bias);
  CHECK(model.attention_bias);
  CHECK(model.tied_embeddings);
  CHECK(*read.config.dropout == 0.1);
  CHECK(*read.config.precision == training_precision::fp32);
  CHECK(*read.config.zero_stage == 0);
  CHECK_FALSE(read.config.tensor_parallel);
}

TEST_CASE("without a number of tokens it is asked for, or the tokenizer's own is taken") {
  const std::string sizes = "--num-layers 12 --hidden-size 768 --num-attention-heads 12 ";
  const read_config known = read_megatron_lm(sizes + "--tokenizer-type GPT2BPETokenizer");
  REQUIRE(known.config.shape);
  CHECK(known.config.shape->vocab_size == 50304);
  REQUIRE(known.remarks.size() == 1);
  CHECK(known.remarks[0].key == "--vocab-size");
  const read_config merged = read_megatron_lm(sizes + "--vocab-file $1 --merge-file $2");
  REQUIRE(merged.config.shape);
  CHECK(merged.config.shape->vocab_size == 50304);
  const read_config unknown = read_megatron_lm(sizes + "--tokenizer-type HuggingFaceTokenizer");
  CHECK_FALSE(unknown.config.shape);
  REQUIRE(unknown.remarks.size() == 1);
  CHECK(unknown.remarks[0].is == remark::kind::missing);
  CHECK(unknown.remarks[0].text ==
        "is not there, since the tokenizer says it; give its number of tokens, without which "
        "nobody knows the model's size");
  const auto tokens_of = [&](const std::string& name) {
    const read_config read = read_megatron_lm(
        sizes + "--make-vocab-size-divisible-by 1 --tokenizer-type HuggingFaceTokenizer " +
        "--tokenizer-model " + name);
    return read.config.shape ? read.config.shape->vocab_size : 0;
  };
  CHECK(tokens_of("openai-community/gpt2") == 50257);
  CHECK(tokens_of("meta-llama/Meta-Llama-3-8B") == 128256);
  CHECK(tokens_of("Qwen/Qwen2.5-7B") == 0);  // whose configuration has more rows than tokens
  CHECK(tokens_of("gp") == 0);
  const read_config partly = read_megatron_lm("--num-layers 12 --vocab-size 1024");
  REQUIRE(partly.remarks.size() == 1);
  CHECK(partly.remarks[0].key == "--hidden-size");
  CHECK(partly.remarks[0].text ==
        "is not there, nor --num-attention-heads, without which nobody knows the model's size");
  CHECK(read_megatron_lm("--vocab-size 1024 --bf16").remarks.empty());  // of no model
}

TEST_CASE("another number of GPUs than a script's makes another batch and no contradiction") {
  const std::string script =
      "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 "
      "--num-attention-heads 8 --seq-length 64 --vocab-size 1024 --position-embedding-type rope "
      "--bf16 --micro-batch-size 1 --global-batch-size 256 ";
  const read_config of_more =
      read_megatron_lm(script + "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4");
  REQUIRE(of_more.remarks.size() == 1);
  CHECK(of_more.remarks[0].is == remark::kind::contradicts);
  const configured_training made = configured(of_more, {.gpus = 64});
  REQUIRE_MESSAGE(made, made.why);
  CHECK(made.remarks.empty());
  CHECK(made.plan == batch_plan{1, 2, 128});
  const configured_training twice = configured(read_megatron_lm(script), {.gpus = 16});
  REQUIRE_MESSAGE(twice, twice.why);
  CHECK(twice.remarks.empty());
  CHECK(twice.plan == batch_plan{1, 16, 16});
}

TEST_CASE("what a script prints before it starts is no training") {
  const read_config read = read_megatron_lm(
      "cmd=\"torchrun --nproc-per-node 8 pretrain_gpt.py --bf16 --micro-batch-size 2\"\n"
      "echo $cmd\neval $cmd\n");
  REQUIRE_MESSAGE(read, read.why);
  CHECK(*read.config.micro_batch == 2);
  CHECK(*read.config.gpus == 8);
  CHECK(read.remarks.empty());
}

TEST_CASE("which layers are on which stage is read, and what does not add up is said") {
  const auto read_with = [](const std::string& layers, const std::string& flags) {
    const read_config read = read_megatron_lm(
        "--num-layers " + layers +
        " --hidden-size 512 --num-attention-heads 8 --vocab-size 1000 --max-position-embeddings "
        "1024 --hidden-dropout 0 --attention-dropout 0 " +
        flags);
    REQUIRE(read);
    CHECK(read.not_understood.empty());
    return read;
  };
  const read_config ends = read_with("126",
                                     "--pipeline-model-parallel-size 16 "
                                     "--num-layers-per-virtual-pipeline-stage 1 "
                                     "--account-for-embedding-in-pipeline-split "
                                     "--account-for-loss-in-pipeline-split");
  CHECK(ends.remarks.empty());
  CHECK(*ends.config.split == pipeline_split{.embedding_layers = 1, .head_layers = 1});
  CHECK(*ends.config.virtual_pipeline == 8);
  CHECK(validate(io::layout_of(ends.config), 126));
  const read_config stated = read_with("94",
                                       "--pipeline-model-parallel-size 8 "
                                       "--decoder-first-pipeline-num-layers 10 "
                                       "--decoder-last-pipeline-num-layers 12");
  CHECK(stated.remarks.empty());
  CHECK(*stated.config.split == pipeline_split{.first_stage_layers = 10, .last_stage_layers = 12});
  const read_config listed = read_with("61",
                                       "--pipeline-model-parallel-size 8 "
                                       "--mtp-num-layers 1 --position-embedding-type rope "
                                       "--pipeline-model-parallel-layout 'Et*4|(tttt|)*14tmL'");
  CHECK(listed.remarks.empty());
  CHECK(listed.config.split->listed.count == 16);
  CHECK(*listed.config.virtual_pipeline == 2);
  CHECK(layers_of_chunk(io::layout_of(listed.config), 61, 7, 1) == layer_range{60, 61});
  const auto only_remark = [&](const std::string& layers, const std::string& flags) {
    const read_config read = read_with(layers, flags);
    REQUIRE(read.remarks.size() == 1);
    return read.remarks[0].key + " " + read.remarks[0].text;
  };
  CHECK(only_remark("126",
                    "--pipeline-model-parallel-size 16 --decoder-last-pipeline-num-layers 5") ==
        "--decoder-last-pipeline-num-layers last_stage_layers 5 is not taken beside "
        "num_hidden_layers 126, pipeline_parallel 16; 6 is");
  CHECK(only_remark("8",
                    "--pipeline-model-parallel-size 3 "
                    "--pipeline-model-parallel-layout 'Et|(tt|)*3tL'")
            .find("a divisor of the number of its chunks, 5, is taken") != std::string::npos);
  CHECK(only_remark("9",
                    "--pipeline-model-parallel-size 5 "
                    "--pipeline-model-parallel-layout 'Et|(tt|)*3tL'") ==
        "--pipeline-model-parallel-layout listed_layers 8 is not taken beside num_hidden_layers 9, "
        "pipeline_parallel 5; 9 is");
  CHECK(only_remark("8", "--pipeline-model-parallel-size 5 --pipeline-model-parallel-layout t8") ==
        "--pipeline-model-parallel-layout begins without E or ends without L, which are taken");
}

TEST_CASE("mixtures of experts and latent attention are read") {
  const char* const sizes =
      "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 "
      "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --v-head-dim 128 "
      "--qk-head-dim 128 --qk-pos-emb-head-dim 64 --num-experts 256 --moe-router-topk 8 "
      "--moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 --swiglu "
      "--normalization RMSNorm --disable-bias-linear --vocab-size 129280 --qk-layernorm "
      "--position-embedding-type rope --mtp-num-layers 1 --moe-router-score-function sigmoid "
      "--moe-grouped-gemm --moe-token-dispatcher-type alltoall ";
  const read_config read =
      read_megatron_lm(std::string(sizes) + "--moe-layer-freq '([0]*3+[1]*58)'");
  REQUIRE(read);
  CHECK(read.not_understood.empty());
  CHECK(read.remarks.empty());
  const transformer& model = *read.config.shape;
  CHECK(model.is_latent());
  CHECK(model.mla.q_lora_rank == 1536);
  CHECK(model.moe.num_experts == 256);
  CHECK(model.moe.first_k_dense_layers == 3);
  CHECK(model.moe.moe_layer_step == 1);
  CHECK(model.mtp_layers == 1);
  const read_config odd = read_megatron_lm(std::string(sizes) + "--moe-layer-freq '[0,1]'");
  REQUIRE(odd.remarks.size() == 1);
  CHECK(odd.remarks[0].key == "--moe-layer-freq");
  using layers = std::vector<char>;
  CHECK(io::detail::layer_pattern("([1]*2+[0])*2").read() == layers{1, 1, 0, 1, 1, 0});
  CHECK(io::detail::layer_pattern("[1,0] * 2").read() == layers{1, 0, 1, 0});
  for (const char* const wrong : {"", "[", "[2]", "[1]*", "([1]", "[1]*99999999", "[1]]", "x"})
    CHECK(io::detail::layer_pattern(wrong).read().empty());
}

TEST_CASE("modules that are computed again, and how fp8 is scaled, reach the setup") {
  const read_config read = read_megatron_lm(
      "torchrun --nproc-per-node 8 pretrain_gpt.py --bf16 --fp8-format hybrid --fp8-recipe "
      "blockwise --recompute-granularity selective --recompute-modules layernorm mlp");
  REQUIRE(read);
  CHECK(read.remarks.empty());
  CHECK(*read.config.scaling == scaling_kind::blocks);
  CHECK(*read.config.modules ==
        recomputed_modules{.core_attention = false, .norms = true, .mlp = true});
  training_setup setup;
  io::set_step(read.config, setup);
  CHECK(setup.recompute == recompute_mode::selective);
  CHECK(setup.modules.mlp);
  // Megatron-LM's own choices, where the flags say no more
  const read_config plain = read_megatron_lm(
      "torchrun --nproc-per-node 8 pretrain_gpt.py --bf16 --fp8-format hybrid "
      "--recompute-granularity selective");
  CHECK(*plain.config.scaling == scaling_kind::delayed);
  CHECK_FALSE(plain.config.modules);
}

TEST_CASE("what contradicts itself, or is old, or unknown, is said") {
  const auto only_remark = [](const std::string& flags) {
    const read_config read =
        read_megatron_lm("torchrun --nproc-per-node 8 pretrain_gpt.py " + flags);
    REQUIRE(read);
    REQUIRE(read.remarks.size() == 1);
    return read.remarks[0];
  };
  CHECK(only_remark("--bf16 --fp16").is == remark::kind::contradicts);
  CHECK(only_remark("--tensor-model-parallel-size 3").key.find("tensor") != std::string::npos);
  CHECK(only_remark("--micro-batch-size 3 --global-batch-size 16").is == remark::kind::contradicts);
  CHECK(only_remark("--tensor-model-parallel-size 2 --expert-model-parallel-size 2 "
                    "--expert-tensor-parallel-size 1")
            .key == "--expert-model-parallel-size");
  CHECK(only_remark("--checkpoint-activations").is == remark::kind::outdated);
  CHECK(only_remark("--checkpoint-activations --checkpoint-num-layers 2").text ==
        "is refused by newer versions; --recompute-granularity full --recompute-method uniform "
        "--recompute-num-layers 2 is taken");
  CHECK(*read_megatron_lm("--checkpoint-activations").config.recompute == recompute_mode::full);
  CHECK(only_remark("--recompute-granularity full").is == remark::kind::missing);
  CHECK(only_remark("--recompute-granularity some").is == remark::kind::contradicts);
  CHECK(only_remark("--num-query-groups 4").is == remark::kind::missing);
  CHECK(only_remark("--fp8-param-gather").is == remark::kind::doubtful);
  CHECK(only_remark("--bf16 --fp8-format hybrid --fp8-recipe custom").text ==
        "is \"custom\"; delayed, tensorwise, blockwise or mxfp8 is taken");
  CHECK(only_remark("--fp8-recipe delayed").text == "stands without --fp8-format");
  CHECK(only_remark("--bf16 --fp8-format e5m2").text == "is \"e5m2\"; e4m3 or hybrid is taken");
  CHECK(only_remark("--bf16 --fp4-format e2m1 --fp4-recipe custom").text ==
        "is \"custom\"; nvfp4 is taken");
  CHECK(only_remark("--bf16 --fp4-format e2m1 --fp8-format hybrid").is ==
        remark::kind::contradicts);
  CHECK(only_remark("--cpu-offloading-num-layers 2 --pipeline-model-parallel-size 2").text ==
        "is 2 beside pipeline-model-parallel-size 2; 1 is taken with it");
  CHECK(only_remark("--cuda-graph-impl local").text ==
        "is \"local\"; full_iteration or none is taken");
  CHECK(only_remark("--position-embedding-type foo").text ==
        "is \"foo\"; learned_absolute, rope, yarn, mrope, relative or none is taken");
  CHECK(only_remark("--pipeline-model-parallel-size 99999999999999999999").text ==
        "is 1e+20; a whole number from 1 to 1099511627776 is taken");
  CHECK(only_remark("--num-layers 32 --hidden-size 64 --num-attention-heads 4 --vocab-size 1024 "
                    "--position-embedding-type rope --pipeline-model-parallel-size 4 "
                    "--num-layers-per-virtual-pipeline-stage 3")
            .text == "is 3; a divisor of 8, each stage's part of 32 layers, is taken");
  CHECK(only_remark("--recompute-granularity selective --recompute-modules moe gate").text ==
        "has \"gate\"; core_attn, mla_up_proj, layernorm, mlp, moe, moe_act or shared_experts is "
        "taken");
  CHECK(only_remark("--optimizer soap").is == remark::kind::doubtful);
  CHECK(only_remark("--tensor-model-parallel-size $TP").text ==
        "is \"$TP\", which the file does not say; a whole number is taken");
  CHECK(only_remark("--train-iters 1 --train-samples 2").is == remark::kind::contradicts);
  CHECK(only_remark("--num-layers 2 --hidden-size 64 --num-attention-heads 3 --vocab-size 8").is ==
        remark::kind::contradicts);
  // A hybrid is not taken for a decoder of its sizes.
  const std::string decoder =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --vocab-size 128 ";
  CHECK(
      read_megatron_lm(decoder + "--hybrid-attention-ratio 0.0 --mamba-state-dim 64").config.shape);
  for (const char* hybrid : {"--hybrid-override-pattern M-M*",
                             "--hybrid-layer-pattern M-M*",
                             "--hybrid-attention-ratio 0.08 --hybrid-mlp-ratio 0.5",
                             "--hybrid-mlp-ratio 1",
                             "--is-hybrid-model"}) {
    CAPTURE(hybrid);
    const read_config of = read_megatron_lm(decoder + "--mamba-state-dim 64 " + hybrid);
    REQUIRE(of.remarks.size() == 1);
    CHECK(of.remarks[0].is == remark::kind::missing);
    CHECK(of.remarks[0].key == std::string(hybrid).substr(0, std::string(hybrid).find(' ')));
    CHECK(of.remarks[0].text.find("Mamba-2, attention and MLPs, as --mamba-state-dim, whose") !=
          std::string::npos);
    CHECK_FALSE(of.config.shape);
  }
  const read_config read = read_megatron_lm("--odd-flag 1 2 --bf16 --my.dotted 3");
  CHECK(read.not_understood == std::vector<std::string>{"--odd-flag", "--my.dotted"});
  CHECK_FALSE(read_megatron_lm("echo no training"));
  std::string many = "--a";
  for (int i = 0; i < 9000; ++i) many += " --log-" + std::to_string(i);
  CHECK_FALSE(read_megatron_lm(many));
}

TEST_CASE("what changes a step of Megatron-LM's and is not estimated is said") {
  const auto remarks_of = [](const std::string& flags) {
    return read_megatron_lm("--num-layers 4 --hidden-size 64 --num-attention-heads 4 " + flags)
        .remarks;
  };
  const auto doubts = [&](const std::string& flags) {
    const std::string key = flags.substr(0, flags.find(' '));
    for (const remark& one : remarks_of(flags))
      if (one.is == remark::kind::doubtful && one.key == key) return true;
    return false;
  };
  for (const char* const flags : {"--moe-router-dtype fp32",
                                  "--moe-pad-expert-input-to-capacity",
                                  "--moe-token-dispatcher-type allgather",
                                  "--tp-comm-overlap",
                                  "--deterministic-mode",
                                  "--delay-wgrad-compute",
                                  "--fp16-lm-cross-entropy",
                                  "--cp-comm-type allgather",
                                  "--cp-comm-type a2a a2a p2p",
                                  "--ddp-bucket-size 1000",
                                  "--use-checkpoint-args",
                                  "--empty-unused-memory-level 2",
                                  "--transformer-impl local",
                                  "--activation-func-clamp-value 7.0 --swiglu",
                                  "--activation-func-clamp-value 10.0 --swiglu --num-experts 8",
                                  "--no-rope-fusion",
                                  "--no-bias-swiglu-fusion",
                                  "--no-gradient-accumulation-fusion"}) {
    CAPTURE(flags);
    CHECK(doubts(flags));
  }
  for (const char* const flags : {"--cp-comm-type a2a",
                                  "--cp-comm-type p2p",
                                  "--moe-token-dispatcher-type alltoall",
                                  "--empty-unused-memory-level 0",
                                  "--transformer-impl transformer_engine",
                                  "--activation-func-clamp-value 7.0 --swiglu --num-experts 8",
                                  "--moe-grouped-gemm",
                                  "--no-load-optim",
                                  "--no-save-rng"}) {
    CAPTURE(flags);
    CHECK_FALSE(doubts(flags));
  }
}

TEST_CASE("exchanges hide behind passes, and the loss is fused, where flags say so") {
  const std::string flags =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 1024 "
      "--bf16 --use-distributed-optimizer --micro-batch-size 1 --global-batch-size 16 ";
  const auto setup_of = [&](const std::string& more) {
    read_config read = read_megatron_lm(flags + more);
    read.config.gpus = 8;
    const configured_training made = configured(read, {});
    REQUIRE(made);
    return made.setup;
  };
  const training_setup neither = setup_of("");
  CHECK_FALSE(neither.framework.engine.overlaps_reduction);
  CHECK_FALSE(neither.framework.costs.hides_gradients);
  const training_setup one = setup_of("--overlap-grad-reduce");
  CHECK(one.framework.engine.overlaps_reduction);
  CHECK(one.framework.costs.hides_gradients);
  CHECK_FALSE(one.framework.costs.hides_parameters);
  CHECK(setup_of("--overlap-grad-reduce --overlap-param-gather").framework.costs.hides_parameters);
  CHECK_FALSE(neither.framework.implementation.fuses_loss);
  CHECK(setup_of("--cross-entropy-loss-fusion").framework.implementation.fuses_loss);
}

TEST_CASE("parts of experts are read, also where no flag says how many") {
  const std::string dense =
      "--num-layers 4 --hidden-size 64 --ffn-hidden-size 96 --num-attention-heads 4 "
      "--seq-length 64 --vocab-size 1024 --sequence-parallel ";
  const auto parts = [&](const std::string& flags) {
    const read_config read = read_megatron_lm(dense + flags);
    REQUIRE(read);
    const auto is = read.config.expert_tensor_parallel;
    return is ? *is : std::int64_t{1};
  };
  const std::string key = "--expert-tensor-parallel-size";
  const std::string experts = "--num-experts 8 ";
  const std::string two = "--tensor-model-parallel-size 2 --expert-model-parallel-size 2 ";
  CHECK(parts(experts + two) == 2);
  CHECK(parts(experts + "--tensor-model-parallel-size 4") == 4);
  CHECK(parts(experts + two + key + " 4") == 4);
  CHECK(parts(experts + two + key + " 1") == 1);
  CHECK(parts(experts + "--expert-model-parallel-size 2") == 1);
  CHECK(parts("--tensor-model-parallel-size 2") == 1);
  CHECK(parts("--tensor-model-parallel-size 2 " + key + " 2") == 1);
  // 96 columns of an expert are in no five parts.
  const auto divides = [&](const std::string& flags) {
    const read_config read = read_megatron_lm(dense + experts + two + flags);
    for (const remark& one : read.remarks)
      if (one.is == remark::kind::contradicts && one.key == key) return false;
    return true;
  };
  CHECK(divides(key + " 4"));
  CHECK_FALSE(divides(key + " 5"));
  // Four ranks of experts times four parts of each are more than eight GPUs.
  const auto contradicts = [](const std::string& parts) {
    const read_config read = read_megatron_lm(
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 "
        "--num-attention-heads 4 --seq-length 64 --vocab-size 1024 --num-experts 8 "
        "--sequence-parallel --tensor-model-parallel-size 4 --expert-model-parallel-size 4 "
        "--expert-tensor-parallel-size " +
        parts);
    for (const remark& one : read.remarks)
      if (one.is == remark::kind::contradicts && one.key.find("expert-tensor") != std::string::npos)
        return true;
    return false;
  };
  CHECK(contradicts("4"));
  CHECK_FALSE(contradicts("2"));
  // Parts are written, whatever they are.
  training_config config = read_megatron_lm(
                               "--num-layers 4 --hidden-size 64 --num-attention-heads 4 "
                               "--seq-length 64 --vocab-size 1024 --num-experts 8 --bf16 "
                               "--sequence-parallel --disable-bias-linear --micro-batch-size 1 " +
                               two)
                               .config;
  config.gpus = 4;
  const auto wrote = [&](const std::string& number) {
    const written_config written = write_megatron_lm(config);
    CAPTURE(written.why);
    REQUIRE(written);
    return written.files[0].text.find(key + " " + number) != std::string::npos;
  };
  CHECK(wrote("2"));
  config.expert_tensor_parallel = {};
  CHECK(wrote("1"));
  config.tensor_parallel = {};
  config.sequence_parallel = {};
  CHECK(wrote("1"));
}

TEST_CASE("a ring of context ranks is said to take neither windows nor sinks") {
  const auto contradicts = [](const std::string& flags) {
    const read_config read = read_megatron_lm(
        "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 1024 "
        "--position-embedding-type rope " +
        flags);
    for (const remark& each : read.remarks)
      if (each.key == "--cp-comm-type") return each.is == remark::kind::contradicts;
    return false;
  };
  const std::string window = "--window-size 16,0 --context-parallel-size 2 ";
  CHECK(contradicts(window));
  CHECK(contradicts(window + "--cp-comm-type p2p"));
  CHECK_FALSE(contradicts(window + "--cp-comm-type a2a"));
  CHECK_FALSE(contradicts("--window-size 16,0"));
  CHECK_FALSE(contradicts("--context-parallel-size 2"));
}

TEST_CASE("a flag that Megatron-LM's parser does not have is named") {
  const std::string model = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 ";
  for (const char* const odd : {"--moe-router-topkk",
                                "--no-such-fusion",
                                "--fp8-formt",
                                "--lr-warmup-itres",
                                "--megatron-fsdp-odd"}) {
    CAPTURE(odd);
    CHECK(read_megatron_lm(model + odd).not_understood == std::vector<std::string>{odd});
  }
}

TEST_CASE("Megatron-LM's scripts say what was written into them") {
  random_numbers random(11);
  for (int round = 0; round < 5000; ++round) {
    const training_config config = random_config::random_megatron_config(random);
    const written_config written = write_megatron_lm(config);
    REQUIRE_MESSAGE(written, written.why);
    CHECK(written.not_written.empty());
    const read_config again = read_megatron_lm(written.files[0].text);
    REQUIRE(again);
    CHECK(again.not_understood.empty());
    for (const remark& each : again.remarks)
      CHECK_MESSAGE(each.is == remark::kind::doubtful, each.key, " ", each.text);
    const std::string differ = differences(config, again.config);
    CHECK_MESSAGE(differ.empty(), differ, "\n", written.files[0].text);
    if (!differ.empty()) break;
  }
}

TEST_CASE("Megatron-LM's writer refuses what it would train otherwise") {
  random_numbers random(3);
  const training_config right = random_config::random_megatron_config(random);
  const auto refuses = [&right](auto change) {
    training_config config = right;
    change(config);
    return !write_megatron_lm(config);
  };
  using c = training_config;
  CHECK(refuses([](c& is) { is.shape = known<transformer>(); }));
  CHECK(refuses([](c& is) { is.precision = known<training_precision>(); }));
  CHECK(refuses([](c& is) { is.precision = training_precision::pure_bf16; }));
  CHECK(refuses([](c& is) { is.engine = "deepspeed"; }));
  CHECK(refuses([](c& is) { is.trains = training::adapters; }));
  CHECK(refuses([](c& is) { is.zero_stage = 3; }));
  CHECK(refuses([](c& is) { is.weights_on_host = true; }));
  CHECK(refuses([](c& is) { is.gpus = *is.gpus * 2, is.nodes = *is.nodes * 2; }));
  CHECK(refuses([](c& is) { is.global_batch = *is.global_batch + 1; }));
  CHECK(refuses([](c& is) { is.tensor_parallel = std::int64_t{1} << 40; }));
  CHECK(refuses([](c& is) { is.learning_rate = -1.0; }));
  const auto refuses_shape = [&refuses](auto change) {
    return refuses([&change](c& is) {
      transformer model = *is.shape;
      change(model);
      is.shape = model;
    });
  };
  CHECK(refuses_shape([](transformer& is) { is.parallel_attention = true; }));
  // What Megatron-LM's own validation stops at
  CHECK(refuses_shape([](transformer& is) { is.position_rows = 1; }));
  CHECK(refuses_shape([](transformer& is) { is.position_rows = 1 << 20, is.mtp_layers = 1; }));
  training_config plain;
  transformer model;
  model.num_hidden_layers = 32;
  model.hidden_size = 4096;
  model.num_attention_heads = 32;
  model.intermediate_size = 11'008;
  model.vocab_size = 32'000;
  plain.shape = model;
  plain.sequence_length = 4096;
  plain.micro_batch = 1;
  plain.precision = training_precision::bf16;
  plain.tensor_parallel = 4;
  plain.pipeline_parallel = 2;
  plain.nodes = 1;
  plain.gpus_per_node = 8;
  REQUIRE_MESSAGE(write_megatron_lm(plain), write_megatron_lm(plain).why);
  const auto why = [&plain](auto change) {
    training_config config = plain;
    change(config);
    return write_megatron_lm(config).why;
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(why([](c& is) {
              is.split = pipeline_split{.embedding_layers = 1, .head_layers = 1};
              is.pipeline_parallel = 4, is.tensor_parallel = 2;
            }),
            "num_hidden_layers, where a multiple"));
  CHECK(has(why([](c& is) { is.split = pipeline_split{.first_have_more = true}; }),
            "split deals layers by another rule"));
  CHECK(has(why([](c& is) {
              is.split = pipeline_split{.listed = {{1, 2, 3}, 3}};
            }),
            "split does not fit: listed_chunks 3 is not taken"));
  CHECK(has(why([](c& is) { is.pipeline_parallel = 1, is.virtual_pipeline = 2; }),
            "a pipeline_parallel of at least 2"));
  CHECK(has(why([](c& is) { is.shares_kept_inputs = true; }), "recompute full"));
  CHECK(has(why([](c& is) {
              is.shares_kept_inputs = is.sequence_parallel = true;
              is.recompute = recompute_mode::full;
            }),
            "shares_kept_inputs and sequence_parallel"));
  CHECK(has(why([](c& is) { is.shares_kept_inputs = true, is.tensor_parallel = 1; }),
            "a tensor_parallel of at least 2"));
  CHECK(has(why([](c& is) { is.learning_rate = 1e-4, is.least_learning_rate = 1e-3; }),
            "least_learning_rate"));
  CHECK(has(why([](c& is) { is.samples = 1000, is.warm_up_steps = 10.0; }), "warm_up_steps"));
  CHECK(has(why([](c& is) {
              transformer mixture = *is.shape;
              mixture.moe = {
                  .num_experts = 8, .num_experts_per_tok = 2, .moe_intermediate_size = 64};
              mixture.mlp_bias = mixture.attention_bias = mixture.attention_out_bias = true;
              is.shape = mixture;
            }),
            "mlp_bias with experts"));
  training_config more = right;
  more.model = "meta-llama/Llama-3.1-8B";
  more.epochs = 1.0;
  more.packing = false;
  CHECK(write_megatron_lm(more).not_written ==
        std::vector<std::string>{"model", "packing", "epochs"});
}

// Four layers of 64 in bf16 on one GPU.
training_config small_config() {
  training_config is;
  transformer model;
  model.fused_qkv = true;
  model.num_hidden_layers = 4;
  model.hidden_size = 64;
  model.num_attention_heads = 4;
  model.intermediate_size = 256;
  model.vocab_size = 1024;
  is.shape = model;
  is.sequence_length = 64;
  is.micro_batch = 1;
  is.gpus = is.nodes = is.gpus_per_node = 1;
  is.zero_stage = 1;
  is.precision = training_precision::bf16;
  is.learning_rate = 1e-4;
  is.steps = 10;
  return is;
}

TEST_CASE("a model of which Megatron-LM's flags would say another is refused, with its value") {
  const auto why = [](auto change) {
    training_config config = small_config();
    transformer model = *config.shape;
    change(model);
    config.shape = model;
    return write_megatron_lm(config).why;
  };
  CHECK(why([](transformer& is) {
          is.num_attention_heads = 4;
          is.intermediate_size = 256;
          is.hybrid_pattern = {"M-M*"};
          is.mamba = {.num_heads = 4, .head_dim = 32, .state_size = 16};
        }) ==
        "shape has hybrid_pattern \"M-M*\", where none, attention and an MLP or experts in each "
        "layer, is taken");
  CHECK(why([](transformer& is) {
          is.full_attention_interval = 4;
          is.linear = {
              .num_key_heads = 2, .key_head_dim = 16, .num_value_heads = 4, .value_head_dim = 16};
        }) == "shape has full_attention_interval 4, where 0, attention in all layers, is taken");
  const auto why_of_router = [&](auto change) {
    return why([&change](transformer& is) {
      is.moe = {.num_experts = 8,
                .num_experts_per_tok = 2,
                .moe_intermediate_size = 64,
                .router_bias = true};
      change(is);
    });
  };
  CHECK(why_of_router([](transformer&) {}).empty());
  CHECK(why_of_router([](transformer& is) {
          is.mlp_bias = is.attention_bias = is.attention_out_bias = true;
        }) ==
        "shape has router_bias true beside mlp_bias true, a bias of the router's products, where "
        "false is taken");
  CHECK(why_of_router([](transformer& is) { is.moe.n_group = 4; }) ==
        "shape has n_group 4 and topk_group 0, where both or none are taken");
}

TEST_CASE("what Megatron-LM's own flags add to a step is written, and read again") {
  const auto reads_as_written = [](auto change, const std::vector<std::string>& flags) {
    training_config config = small_config();
    change(config);
    const written_config written = write_megatron_lm(config);
    REQUIRE_MESSAGE(written, written.why);
    CHECK(written.not_written.empty());
    for (const std::string& flag : flags)
      CHECK_MESSAGE(written.files[0].text.find(flag) != std::string::npos, flag);
    const read_config again = read_megatron_lm(written.files[0].text);
    CHECK(again.not_understood.empty());
    for (const remark& one : again.remarks) CHECK_MESSAGE(false, one.key, " ", one.text);
    io::detail::for_each_member([&](const char* name, auto member) {
      if (io::detail::is_said(config.*member))
        CHECK_MESSAGE(same_member(config.*member, again.config.*member), name);
    });
  };
  using c = training_config;
  const auto with_experts = [](c& is, const expert_mixture& experts) {
    transformer model = *is.shape;
    model.moe = experts;
    is.shape = model;
  };
  const expert_mixture deepseek{.num_experts = 8,
                                .num_experts_per_tok = 4,
                                .moe_intermediate_size = 64,
                                .router_bias = true,
                                .n_group = 4,
                                .topk_group = 2};
  reads_as_written([&](c& is) { with_experts(is, deepseek); },
                   {"--moe-router-score-function sigmoid",
                    "--moe-router-enable-expert-bias",
                    "--moe-router-num-groups 4",
                    "--moe-router-group-topk 2",
                    "--moe-token-dispatcher-type alltoall",
                    "--moe-grouped-gemm"});
  reads_as_written([](c& is) { is.fp4_linears = is.quantised_weights = true; },
                   {"--bf16", "--fp4-format e2m1", "--fp4-recipe nvfp4", "--fp4-param-gather"});
  reads_as_written(
      [](c& is) {
        is.precision = training_precision::fp8;
        is.scaling = scaling_kind::micro;
        is.quantised_weights = true;
      },
      {"--fp8-recipe mxfp8", "--fp8-param-gather"});
  reads_as_written([](c& is) { is.offloaded_layers = 2; }, {"--cpu-offloading-num-layers 2"});
  reads_as_written([](c& is) { is.cuda_graphs = true; },
                   {"--cuda-graph-impl full_iteration", "--no-check-for-nan-in-loss-and-grad"});
  const auto why = [](auto change) {
    training_config config = small_config();
    change(config);
    return write_megatron_lm(config).why;
  };
  CHECK(why([](c& is) { is.fp4_linears = true, is.precision = training_precision::fp16; }) ==
        "fp4_linears is true; precision bf16 is taken with it");
  CHECK(why([](c& is) { is.quantised_weights = true; }) ==
        "quantised_weights is true; linear layers in fp8 or fp4 are taken with it");
  CHECK(why([](c& is) { is.offloaded_layers = 4; }) ==
        "offloaded_layers is 4; fewer than all layers, 4, are taken");
  CHECK(why([](c& is) { is.offloaded_layers = 1, is.recompute = recompute_mode::full; }) ==
        "offloaded_layers is 1; recompute none is taken with it");
}

TEST_CASE("what Megatron-LM's flags of quantising and offloading mean reaches the setup") {
  const auto setup_of = [](const std::string& more) {
    read_config read = read_megatron_lm(
        "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 1024 "
        "--position-embedding-type rope --bf16 --use-distributed-optimizer --micro-batch-size 1 " +
        more);
    CHECK(read.remarks.empty());
    CHECK(read.not_understood.empty());
    read.config.gpus = 1;
    const configured_training made = configured(read, {});
    REQUIRE_MESSAGE(made, made.why);
    return made.setup;
  };
  const training_setup fp4 =
      setup_of("--fp4-format e2m1 --fp4-recipe nvfp4 --cuda-graph-impl full_iteration");
  CHECK(fp4.precision.fp4_linears);
  CHECK(fp4.precision.scaling == scaling_kind::micro);
  CHECK_FALSE(fp4.precision.quantised_weights);
  CHECK(fp4.graphs.iteration);
  CHECK(setup_of("--fp8-format hybrid --fp8-param-gather").precision.quantised_weights);
  CHECK(setup_of("--cpu-offloading-num-layers 2").offloads.layers == 2);
}

TEST_CASE("what gradients and moments are in reaches the setup, and is written again") {
  const std::string sizes =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 1024 "
      "--position-embedding-type rope --micro-batch-size 1 --use-distributed-optimizer ";
  const auto setup_of = [&](const std::string& more) {
    read_config read = read_megatron_lm(sizes + more);
    CHECK(read.not_understood.empty());
    read.config.gpus = 2;
    const configured_training made = configured(read, {});
    REQUIRE_MESSAGE(made, made.why);
    return made.setup;
  };
  CHECK(setup_of("--bf16").precision == bf16_megatron);
  const training_setup narrow = setup_of("--bf16 --grad-reduce-in-bf16");
  CHECK_FALSE(narrow.precision.fp32_gradients);
  CHECK_FALSE(narrow.optimizer.reads_narrow_gradients);
  CHECK(setup_of("--fp16 --accumulate-allreduce-grads-in-fp32").precision.fp32_gradients);
  CHECK_FALSE(setup_of("--fp16 --grad-reduce-in-bf16").precision.fp32_gradients);
  const training_setup aware = setup_of(
      "--bf16 --use-precision-aware-optimizer --main-grads-dtype bf16 "
      "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16");
  CHECK_FALSE(aware.precision.fp32_gradients);
  CHECK(aware.optimizer.reads_narrow_gradients);
  CHECK(aware.optimizer.states == number_format::bf16);
  // Masters are Megatron's own beside fp8 but for delayed scaling.
  const std::string fp8 = "--bf16 --use-precision-aware-optimizer --fp8-format hybrid ";
  CHECK(setup_of(fp8).optimizer.reads_narrow_gradients);
  CHECK_FALSE(setup_of(fp8 + "--fp8-recipe blockwise").optimizer.reads_narrow_gradients);

  const auto remark_of = [&](const std::string& flags) {
    const std::vector<remark> all = read_megatron_lm(sizes + "--bf16 " + flags).remarks;
    REQUIRE(!all.empty());
    return all[0].key + " " + all[0].text;
  };
  CHECK(remark_of("--exp-avg-dtype bf16") ==
        "--exp-avg-dtype is bf16; fp32 is taken without --use-precision-aware-optimizer");
  CHECK(remark_of("--use-precision-aware-optimizer --exp-avg-dtype bf16") ==
        "--exp-avg-dtype is bf16; the estimate has fp32 for both moments");
  CHECK(remark_of("--use-precision-aware-optimizer --exp-avg-dtype fp8") ==
        "--exp-avg-dtype is \"fp8\"; the estimate knows fp32, bf16 and fp16");
  CHECK(remark_of("--use-precision-aware-optimizer --main-params-dtype fp16") ==
        "--main-params-dtype is fp16; the estimate has fp32");
  CHECK(remark_of("--use-precision-aware-optimizer --optimizer muon") ==
        "--use-precision-aware-optimizer is taken with adam and --use-distributed-optimizer alone");
  CHECK(remark_of("--use-precision-aware-optimizer").find("(store_param_remainders)") !=
        std::string::npos);

  const auto again = [](training_config config) {
    const written_config written = write_megatron_lm(config);
    REQUIRE_MESSAGE(written, written.why);
    CHECK(written.not_written.empty());
    return read_megatron_lm(written.files[0].text).config;
  };
  training_config config = small_config();
  config.reduced = number_format::bf16;
  config.optimizer = gpuplan::optimizer{
      .loop = optimizer_loop::fused, .states = number_format::bf16, .reads_narrow_gradients = true};
  CHECK(*again(config).reduced == number_format::bf16);
  CHECK(*again(config).optimizer == *config.optimizer);
  config.zero_stage = 0;
  CHECK(write_megatron_lm(config).why ==
        "optimizer.reads_narrow_gradients is true; AdamW, bf16, fp16 or fp8, and zero_stage 1 are "
        "taken with it");
  config.optimizer = {};
  config.precision = training_precision::fp16;
  CHECK(write_megatron_lm(config).why == "reduced is bf16; fp32 or fp16 is taken");
  config.reduced = number_format::fp32;
  CHECK(*again(config).reduced == number_format::fp32);

  training_setup planned = aware;
  planned.model.name = "";
  CHECK(*planned_config(planned, {1, 2, 1}).reduced == number_format::bf16);
  CHECK(*planned_config(planned, {1, 2, 1}).precision == training_precision::bf16);
  planned.precision.fp32_gradients = true;
  CHECK_FALSE(planned_config(planned, {1, 2, 1}).reduced);
}

TEST_CASE("what Megatron-LM takes where no flag says how experts are run is said") {
  const auto remarks_of = [](const std::string& flags) {
    std::vector<std::string> texts;
    for (const remark& one : read_megatron_lm("--num-experts 8 " + flags).remarks)
      if (one.key.find("--moe-") == 0) texts.push_back(one.key + " " + one.text);
    return texts;
  };
  CHECK(remarks_of("") ==
        std::vector<std::string>{
            "--moe-token-dispatcher-type is not there, which means allgather; the estimate takes "
            "alltoall",
            "--moe-grouped-gemm is not there, which means a product for each expert; the estimate "
            "takes one for all"});
  CHECK(remarks_of("--moe-token-dispatcher-type alltoall --moe-grouped-gemm").empty());
  CHECK(read_megatron_lm("--bf16").remarks.empty());
}

TEST_CASE("a length that is none is refused, where the file states it") {
  CHECK(read_megatron_lm("--num-layers 2 --seq-length 4096.5").why ==
        "--seq-length is 4096.5; a whole number from 1 to 1099511627776 is taken");
  CHECK_FALSE(read_megatron_lm("--num-layers 2 --encoder-seq-length none"));
  CHECK(read_megatron_lm("--num-layers 2 --seq-length $LENGTH"));
}

TEST_CASE("mutated scripts of Megatron-LM's are read without a fault") {
  random_numbers random(5);
  const std::string sample = megatron_sample;
  const std::string pieces = "'\"$`(){}[]@*#;&|<>=+- \n.,019eExX\xff";
  std::size_t read = 0;
  for (int round = 0; round < 5'000; ++round) {
    const std::string text = mutated_text(sample, pieces, 8, random);
    const read_config is = read_megatron_lm(text);
    if (is) ++read;
    if (is && is.config.gpus) REQUIRE(*is.config.gpus > 0);
  }
  CHECK(read > 1250);
}

TEST_CASE("flex dispatches by DeepEP, or by what it is told") {
  const auto of = [](const std::string& flags) {
    return read_megatron_lm(
        "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --num-experts 8 " + flags);
  };
  const std::string flex = "--moe-token-dispatcher-type flex ";
  const auto remarks_of = [](const read_config& read) {
    std::vector<remark> of_dispatchers;
    for (const remark& one : read.remarks)
      for (const char* const key :
           {"--moe-token-dispatcher-type", "--moe-flex-dispatcher-backend", "--moe-enable-deepep"})
        if (one.key == key) of_dispatchers.push_back(one);
    return of_dispatchers;
  };
  const auto dispatcher = [&](const std::string& flags) {
    const read_config read = of(flags);
    CHECK(remarks_of(read).empty());
    CHECK(read.not_understood.empty());
    REQUIRE(read.config.dispatcher);
    return *read.config.dispatcher;
  };
  CHECK(dispatcher(flex) == token_dispatcher::deepep);
  CHECK(dispatcher(flex + "--moe-enable-deepep") == token_dispatcher::deepep);
  CHECK(dispatcher(flex + "--moe-flex-dispatcher-backend deepep") == token_dispatcher::deepep);
  CHECK(dispatcher(flex + "--moe-flex-dispatcher-backend hybridep") == token_dispatcher::hybridep);
  CHECK_FALSE(of("--moe-token-dispatcher-type alltoall").config.dispatcher);
  const auto remarked = [&](const std::string& flags, const std::string& key) {
    const read_config read = of(flags);
    CHECK_FALSE(read.config.dispatcher);
    const std::vector<remark> remarks = remarks_of(read);
    REQUIRE(remarks.size() == 1);
    CHECK(remarks[0].key == key);
    return remarks[0].is;
  };
  CHECK(remarked(flex + "--moe-flex-dispatcher-backend ncclep", "--moe-flex-dispatcher-backend") ==
        remark::kind::doubtful);
  CHECK(remarked("--moe-enable-deepep", "--moe-enable-deepep") == remark::kind::contradicts);
}

TEST_CASE("rows of experts are a capacity factor's where inputs are padded to it") {
  const auto of = [](const std::string& flags) {
    return read_megatron_lm(
        "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --num-experts 8 " + flags);
  };
  const read_config padded =
      of("--moe-expert-capacity-factor 1.25 --moe-pad-expert-input-to-capacity");
  REQUIRE(padded.config.expert_capacity);
  CHECK(*padded.config.expert_capacity == 1.25);
  const read_config alone = of("--moe-expert-capacity-factor 1.25");
  CHECK_FALSE(alone.config.expert_capacity);
  bool is_doubted = false;
  for (const remark& one : alone.remarks)
    is_doubted = is_doubted || one.key == "--moe-expert-capacity-factor";
  CHECK(is_doubted);
}

}  // namespace
