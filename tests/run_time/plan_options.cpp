// What can be asked of gpuplan plan, and what is refused.

#include <gpuplan/io/format.hpp>
#include <gpuplan/planner.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"
#include "plan/options.hpp"

using nlohmann::json;

TEST_CASE("numbers that are neither one nor one for each kind are refused") {
  const outcome two_prices = planned({"gpt2", "--batch", "8", "--price", "1,2"});
  CHECK(two_prices.status == 2);
  CHECK(two_prices.err.find("--price has 2 numbers, and there is 1 kind of GPU") !=
        std::string::npos);
  const outcome two_clusters = planned({"gpt2", "--batch", "8", "--gpus", "8,16"});
  CHECK(two_clusters.status == 2);
  CHECK(has(two_clusters.err, "--gpus has 2 numbers"));
}

TEST_CASE("what is no number is no limit") {
  for (const char* option :
       {"--tokens", "--days", "--dollars", "--price", "--power", "--network", "--fragmentation"})
    for (const char* number : {"nan", "-nan", "inf"}) {
      CAPTURE(option);
      CAPTURE(number);
      const outcome refused = planned({"gpt2", "--batch", "8", option, number});
      CHECK(refused.status == 2);
      CHECK(has(refused.err, option));
    }
}

TEST_CASE("a sequence has tokens") {
  const outcome none = planned({"gpt2", "--batch", "8", "--sequence-length", "0"});
  CHECK(none.status == 2);
  CHECK(has(none.err, "--sequence-length"));
  CHECK(none.err.size() < 200);
}

TEST_CASE("what contradicts itself is refused") {
  const outcome falling = planned({"gpt2", "--batch", "256-128"});
  CHECK(falling.status == 2);
  CHECK(has(falling.err, "256-128 is no number from 1 to 1073741824, and no two of them"));
  const outcome twice =
      planned({"gpt2", "--batch", "8", "--gpu", "a100_sxm4_80gb,rtx_4090,a100_sxm4_80gb"});
  CHECK(twice.status == 2);
  CHECK(twice.err.find("a100_sxm4_80gb twice") != std::string::npos);
}

TEST_CASE("a run has as many samples as its tokens need") {
  plan_program::arguments asked;
  asked.setup.model.text = "llama-3-8b";
  asked.setup.framework = "torchtitan";
  asked.setup.setup.sequence_length = 8192;
  asked.batch = gpuplan::range<std::int64_t>(512);
  for (const auto& [tokens, samples] :
       {std::pair{4194304.0, 512}, std::pair{4194305.0, 513}, std::pair{1.0, 1}}) {
    asked.run.tokens = tokens;
    const gpuplan::plan_request request = plan_program::request_of(asked).request;
    CHECK(request.samples == samples);
  }
}

TEST_CASE("a run is of samples, of tokens in sequences, or of tokens in images") {
  const auto hours = [](const char* unit, const char* many) {
    return json_answer(
               counted,
               {"vit-base-patch16-224", "--batch", "1024", unit, many, "--gpus", "1"})[0]["hours"]
        .get<double>();
  };
  // 14 x 14 patches of 16 x 16 in 224 x 224, and one token beside them
  CHECK(hours("--samples", "1024000") > 0);
  CHECK(hours("--tokens", "201728000") == hours("--samples", "1024000"));
  CHECK(hours("--samples", "1024001") == doctest::Approx(1.001 * hours("--samples", "1024000")));
  const auto title = [](const std::string& unit, const std::string& many) {
    std::string out = counted({"gpt2", "--batch", "8", "--gpus", "1", unit, many}).out;
    std::replace(out.begin(), out.end(), '\n', ' ');  // where the title goes on
    return out;
  };
  CHECK(has(title("--tokens", "1"), ", 1 token, "));
  CHECK(has(title("--tokens", "1500"), ", 1500 tokens, "));
  CHECK(has(title("--tokens", "2.5e6"), ", 2.5 million tokens, "));
  CHECK(has(title("--tokens", "3e12"), ", 3 trillion tokens, "));
  CHECK(has(title("--samples", "64"), ", 64 samples, "));
  CHECK(counted({"gpt2", "--batch", "8", "--samples", "8", "--tokens", "8"}).status == 2);
}

TEST_CASE("what cannot be planned is said, with status 2") {
  const outcome none = planned(
      {"gpt2", "--framework", "torch-gpt", "--gpu", "rtx_4090", "--batch", "8", "--days", "1"});
  CHECK(none.status == 2);
}

TEST_CASE("GPUs are counted in nodes, or all together") {
  const std::vector<std::string> model{"gpt2", "--framework", "torch-gpt", "--batch", "96"};
  const auto gpus = [&](std::vector<std::string> how) {
    how.insert(how.begin(), model.begin(), model.end());
    return planned(how);
  };
  CHECK(gpus({"--gpus", "16"}).out == gpus({"--nodes", "2"}).out);
  CHECK(gpus({"--gpus", "4"}).out == gpus({"--gpus-per-node", "4"}).out);
  CHECK(has(gpus({"--gpus", "12", "--gpus-per-node", "4"}).out, "on 12 x a100_sxm4_80gb"));
  const outcome uneven = gpus({"--gpus", "12"});
  CHECK(uneven.status == 2);
  CHECK(has(uneven.err, "--gpus 12: nodes have 8 GPUs, so 8 or 16"));
  CHECK(gpus({"--gpus", "16", "--nodes", "2"}).status == 2);
}

TEST_CASE("precisions are choices where code and GPUs have them") {
  const json rows = json_answer(planned,
                                {"qwen2.5-0.5b",
                                 "--gpu",
                                 "h100_sxm5_80gb",
                                 "--gpus",
                                 "1",
                                 "--batch",
                                 "4",
                                 "--sequence-length",
                                 "1024",
                                 "--precision",
                                 "bf16,fp8,fp32"});
  CHECK(rows[0]["precision"] == "fp8");
  CHECK(rows[1]["precision"] == "bf16");
  const auto refused = [](std::vector<std::string> arguments, const char* why) {
    arguments.insert(arguments.end(), {"--batch", "8"});
    const outcome o = planned(arguments);
    CHECK(o.status == 2);
    CHECK_MESSAGE(has(o.err, why), o.err);
  };
  refused({"gpt2", "--gpu", "h100_sxm5_80gb", "--precision", "fp8"}, "--precision fp8: ");
  refused({"qwen2.5-0.5b", "--precision", "fp8"}, "a100_sxm4_80gb has no dense rate");
  refused({"gpt2", "--gpu", "v100_sxm2_32gb"}, "--precision bf16: v100_sxm2_32gb has no");
  refused({"llama-3-8b", "--framework", "torchtitan", "--precision", "fp16"}, "torchtitan");
  refused({"gpt2", "--precision", "bf16,bf16"}, "bf16 twice");
}

TEST_CASE("tokens are sent as asked, by plans that send any") {
  const auto asked = [](std::vector<std::string> more) {
    more.insert(more.end(),
                {"--framework", "megatron-te", "--gpu", "h200", "--gpus", "16", "--batch", "64"});
    return more;
  };
  const json rows = json_answer(planned, asked({"qwen3-30b-a3b", "--dispatcher", "deepep"}));
  CHECK(rows[0]["expert_parallel"].get<int>() > 1);
  const outcome dense = planned(asked({"llama-3-8b", "--dispatcher", "deepep"}));
  CHECK(dense.status == 2);
  CHECK(has(dense.err, "--dispatcher: meta-llama-3-8b has no experts"));
}

TEST_CASE("plans name their schedule as its option does") {
  const json rows = json_answer(planned,
                                {"llama-3-8b",
                                 "--framework",
                                 "megatron-zero-bubble",
                                 "--gpu",
                                 "h100-sxm",
                                 "--gpus",
                                 "16",
                                 "--batch",
                                 "64",
                                 "--pipeline-parallel",
                                 "2",
                                 "--pipeline-schedule",
                                 "zero-bubble"});
  CHECK(rows[0]["pipeline_schedule"] == "zero-bubble");
  const json alone = json_answer(planned, {"gpt2", "--batch", "8", "--gpus", "1"});
  CHECK(alone[0]["pipeline_schedule"] == "");
}

TEST_CASE("what a model or a loss has not is no option of it") {
  const outcome image = planned(
      {"vit-large-patch16-224", "--gpu", "a30", "--batch", "64", "--sequence-length", "32768"});
  CHECK(image.status == 2);
  CHECK(has(image.err, "--sequence-length: an image's tokens are its patches"));
  const outcome alone = planned({"gpt2", "--batch", "8", "--reference", "model"});
  CHECK(alone.status == 2);
  CHECK(has(alone.err, "--reference: of --objective dpo and grpo"));
}

TEST_CASE("what shares among replicas can be chosen") {
  const std::vector<std::string> llama{"tinyllama-1.1b", "--batch", "16", "--gpu", "rtx_4070"};
  const auto sharing = [&](std::vector<std::string> how) {
    how.insert(how.begin(), llama.begin(), llama.end());
    return planned(how);
  };
  const outcome usual = sharing({});
  CHECK(has(usual.out, " fsdp2 "));
  CHECK(has(sharing({"--sharding", "ddp"}).err, "--qlora 16"));
  const outcome too_large = planned({"llama-3-70b", "--batch", "64"});
  CHECK(has(too_large.err, "each of these would do"));
  CHECK(has(sharing({"--sharding", "fsdp2"}).out, "ZeRO-3"));
  const outcome megatron = sharing({"--framework", "megatron-te", "--sharding", "fsdp2"});
  CHECK(megatron.status == 2);
  CHECK(has(megatron.err, "has its own"));
}

TEST_CASE("of plans those can be asked for that have given degrees") {
  const std::vector<std::string> model{
      "gpt3-6.7b", "--framework", "megatron-te", "--gpus", "16", "--batch", "64"};
  const auto of = [&](const std::vector<std::string>& degrees) {
    std::vector<std::string> arguments = model;
    arguments.insert(arguments.end(), degrees.begin(), degrees.end());
    return arguments;
  };
  const json best = json_answer(planned, model)[0];
  const json rows = json_answer(planned,
                                of({"--tensor-parallel",
                                    "4",
                                    "--pipeline-parallel",
                                    "2-4",
                                    "--virtual-pipeline",
                                    "1",
                                    "--zero",
                                    "0-1",
                                    "--recompute",
                                    "full",
                                    "--micro-batch",
                                    "2"}));
  CHECK(rows[0]["step_s"].get<double>() > best["step_s"].get<double>());
  int plans = 0;
  for (const json& row : rows) {
    if (row["plan"] == "best" || row["plan"] == "2nd" || row["plan"] == "3rd") {
      ++plans;
      CAPTURE(row.dump());
      CHECK(row["tensor_parallel"] == 4);
      CHECK((row["pipeline_parallel"] == 2 || row["pipeline_parallel"] == 4));
      CHECK(row["virtual_pipeline"] == 1);
      CHECK(row["zero_stage"] <= 1);
      CHECK(row["recompute"] == "full");
      CHECK(row["micro_batch"] == 2);
    }
    if (row["plan"] == "degrees") CHECK(row["slower_pct"].get<double>() < 0);
  }
  CHECK(plans == 3);
  // The best plan by its own numbers is the best.
  const auto text = [&](const char* column) {
    return best[column].is_string() ? best[column].get<std::string>()
                                    : std::to_string(best[column].get<int>());
  };
  const json again =
      json_answer(planned,
                  of({"--tensor-parallel",
                      text("tensor_parallel"),
                      "--pipeline-parallel",
                      text("pipeline_parallel"),
                      "--virtual-pipeline",
                      text("virtual_pipeline"),
                      "--context-parallel",
                      text("context_parallel"),
                      "--zero",
                      text("zero_stage"),
                      best["recompute_layers"].is_null() ? "--recompute" : "--recompute-layers",
                      text(best["recompute_layers"].is_null() ? "recompute" : "recompute_layers"),
                      "--micro-batch",
                      text("micro_batch")}));
  CHECK(again[0]["step_s"] == best["step_s"]);
  for (const json& row :
       json_answer(planned, of({"--data-parallel", "2-4", "--accumulation", "8-16"}))) {
    if (row["plan"] != "best" && row["plan"] != "2nd") continue;
    CAPTURE(row.dump());
    const int replicas = row["data_parallel"].get<int>();
    CHECK((replicas == 2 || replicas == 4));
    CHECK(row["accumulation"].get<int>() >= 8);
    CHECK(row["accumulation"].get<int>() <= 16);
    CHECK(row["step_s"].get<double>() > best["step_s"].get<double>());
  }
  CHECK(json_answer(planned,
                    of({"--data-parallel",
                        text("data_parallel"),
                        "--accumulation",
                        text("accumulation")}))[0]["step_s"] == best["step_s"]);
  CHECK(has(planned(of({"--data-parallel", "3"})).err, "each of these would do"));
  for (const char* wrong : {"0", "8-2", "a", "2-", "-2", "2-3-4", "1.5", "999999999999"})
    CHECK(planned(of({"--tensor-parallel", wrong})).status == 2);
  CHECK(has(planned(of({"--zero", "4"})).err, "4 is no number from 0 to 3"));
}

TEST_CASE("help reads like a manual") {
  std::string formats = "--format ";
  for (const gpuplan::io::format_traits& traits : gpuplan::io::formats)
    formats += (&traits == gpuplan::io::formats ? "" : "|") + std::string(traits.name);
  for (const outcome& help : {planned({"--help"}), counted({"--help"})}) {
    CHECK(help.status == 0);
    for (const char* inside : {"TEXT", "INT", "FLOAT", "->", " in [", "{", "POSITIVE", "VALUE,"})
      CHECK_MESSAGE(!has(help.out, inside), inside);
    CHECK_MESSAGE(has(help.out, formats), formats);
    for (const char* part : {"--batch N|N-N ",
                             "or what --from says",
                             "--framework NAME",
                             "megatron-deepspeed",
                             "--padding-mask  ",
                             "not with --gpus"})
      CHECK_MESSAGE(has(help.out, part), part);
  }
  CHECK(has(planned({"--help"}).out, "--goal time|money|memory"));
  CHECK(has(planned({"gpt2", "--batch", "8", "--goal", "speed"}).err, "speed not in {time,money"));
  // Of an option that the help page leaves out too.
  CHECK(has(planned({"gpt2", "--batch", "8", "--norm", "batch"}).err, "--norm: batch not in {rms"));
  CHECK(has(planned({"gpt2", "--batch", "8", "--hidden-size", "-1"}).err, "--hidden-size: -1"));
  // What is in the way is the engine, not the framework.
  const std::string refused = planned({"gpt2",
                                       "--batch",
                                       "8",
                                       "--lora",
                                       "8",
                                       "--sharding",
                                       "fsdp2",
                                       "--precision",
                                       "bf16-autocast"})
                                  .err;
  CHECK(has(refused, "beside sharding fsdp2; false is"));
  CHECK(has(refused, "; of --sharding these do: ddp"));
  CHECK_FALSE(has(refused, "of --framework"));
}

TEST_CASE("a framework that has no code for a model is refused with those that have") {
  const outcome other = planned({"t5-large", "--framework", "llama", "--batch", "8"});
  CHECK(other.status == 2);
  CHECK(has(other.err, "transformers, LlamaForCausalLM: "));
  CHECK(has(other.err, "of --framework these run it: t5, t5-1.1\n"));
  CHECK(planned({"t5-large", "--framework", "t5", "--batch", "8"}).status == 0);
}

TEST_CASE("what makes a stack fast or slow, and changes nothing of a step, is no error") {
  CHECK(planned({"vit-base-patch16-224", "--batch", "64"}).status == 0);
  CHECK(planned({"bert-base-uncased", "--batch", "64"}).status == 0);
}

TEST_CASE("GPUs and degrees beyond 2^20 are refused by name") {
  const outcome gpus = planned({"gpt2", "--batch", "8", "--gpus", "67108864"});
  CHECK(gpus.status == 2);
  CHECK((has(gpus.err, "--gpus") && has(gpus.err, "1048576")));
  const outcome nodes =
      planned({"gpt2", "--batch", "8", "--nodes", "65536", "--gpus-per-node", "1024"});
  CHECK(nodes.status == 2);
  CHECK((has(nodes.err, "67108864") && has(nodes.err, "1048576")));
  const outcome micro_batch = planned({"gpt2", "--batch", "8", "--micro-batch", "1-1048577"});
  CHECK(micro_batch.status == 2);
  CHECK(has(micro_batch.err, "--micro-batch"));
}

// 126 layers, with both ends 128, are two in each of four chunks of 16 stages: with all of them
// kept a step does not fit, with one of two it does.
TEST_CASE("as few layers are recomputed as fit, and a plan's words ask for it again") {
  const std::vector<std::string> training{"llama-3.1-405b",
                                          "--framework",
                                          "megatron-te",
                                          "--gpu",
                                          "h100-sxm",
                                          "--gpus",
                                          "16384",
                                          "--batch",
                                          "2048",
                                          "--sequence-length",
                                          "8192"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = training;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::vector<std::string> ranks{
      "--tensor-parallel", "8", "--pipeline-parallel", "16", "--context-parallel", "1"};
  const json best = json_answer(planned, with(ranks))[0];
  CAPTURE(best.dump());
  CHECK(best["recompute"] == "full");
  CHECK(best["recompute_layers"] == 1);
  CHECK(best["pipeline_split"] == "EL");
  CHECK(best["sequence_parallel"] == "yes");
  CHECK(has(planned(with(ranks)).out, "1 of 2 layers"));
  std::vector<std::string> same = ranks;
  const auto number = [&](const char* column) { return std::to_string(best[column].get<int>()); };
  same.insert(same.end(),
              {"--virtual-pipeline",
               number("virtual_pipeline"),
               "--zero",
               number("zero_stage"),
               "--recompute-layers",
               number("recompute_layers")});
  CHECK(json_answer(planned, with(same))[0]["step_s"] == best["step_s"]);
  CHECK(json_answer(planned,
                    with({"--tensor-parallel",
                          "8",
                          "--pipeline-parallel",
                          "16",
                          "--recompute",
                          "full"}))[0]["step_s"] > best["step_s"]);
  same.insert(same.end(), {"--sequence-parallel", "--pipeline-split", best["pipeline_split"]});
  const auto timed = [](const std::vector<std::string>& words) {
    return output_of_command("time", words);
  };
  const json again = json_answer(timed, with(same))[0];
  for (const char* column : {"step_s", "memory_GiB", "recompute", "recompute_layers"})
    CHECK(again[column] == best[column]);
  CHECK(has(timed(with(same)).out, "embedding and head as layers"));
  const outcome apart = timed({"gpt2", "--recompute", "none", "--recompute-layers", "3"});
  CHECK(apart.status == 2);
  CHECK(has(apart.err, "--recompute-layers"));
  const outcome alone = timed({"gpt2", "--framework", "megatron-te", "--pipeline-split", "EL"});
  CHECK(alone.status == 2);
  CHECK(has(alone.err, "--pipeline-parallel gives more"));
  const outcome one_rank = timed({"gpt2", "--framework", "megatron-te", "--sequence-parallel"});
  CHECK(one_rank.status == 2);
  CHECK(has(one_rank.err, "--tensor-parallel gives more"));
}

TEST_CASE("splits of stages are taken as plans say them") {
  using gpuplan::pipeline_split;
  const auto said = [](const std::string& words) { return setups::split_named(words); };
  for (const pipeline_split& split :
       {pipeline_split{.embedding_layers = 1},
        pipeline_split{.head_layers = 1},
        pipeline_split{.embedding_layers = 1, .head_layers = 1},
        pipeline_split{.first_stage_layers = 3, .last_stage_layers = 2},
        pipeline_split{.first_stage_layers = 3},
        pipeline_split{.last_stage_layers = 21}}) {
    const std::string words = setups::split_in_letters(split);
    CAPTURE(words);
    REQUIRE(said(words));
    CHECK(*said(words) == split);
  }
  CHECK(*said("3..2") == *said("[3..2]"));
  for (const char* words : {"",
                            "e",
                            "LE",
                            "[]",
                            "..",
                            "[..]",
                            "[0..0]",
                            "3",
                            "[3.2]",
                            "[a..2]",
                            "[1..2",
                            "-1..2",
                            "[9999999999999999999..1]"}) {
    CAPTURE(words);
    CHECK_FALSE(said(words));
  }
}

TEST_CASE("a refusal names what was asked for and cannot be, in the words of options") {
  const auto why = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--gpu", "h100_sxm5_80gb", "--batch", "64"});
    const outcome o = planned(arguments);
    CHECK(o.status == 2);
    return o.err;
  };
  const auto on_eight = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--gpus", "8"});
    return why(arguments);
  };
  CHECK(has(on_eight({"mixtral-8x7b", "--sharding", "deepspeed", "--zero", "3"}),
            "zero_stage 3 is not taken beside sharding deepspeed"));
  CHECK(has(on_eight({"llama-3-8b", "--data-parallel", "4"}),
            "data_parallel 4 is not taken beside devices 8, layers decoder; 8 is"));
  CHECK(has(
      why({"llama-3-8b", "--framework", "megatron-te", "--gpus", "16", "--tensor-parallel", "16"}),
      "tensor_parallel 16 is not taken beside gpus_per_node 8; 8 is, since in plans tensor "
      "parallelism stays where GPUs are linked; each of these would do: GPUs that are linked "
      "across nodes, as --link-domain 16 has them"));
  CHECK(has(on_eight({"llama-3-8b", "--virtual-pipeline", "2"}),
            "virtual_pipeline 2 is not taken beside layers decoder; 1 is"));
  const std::string dora = on_eight({"llama-3-70b", "--dora", "16", "--sharding", "fsdp2"});
  CHECK(has(dora, "adapter_magnitudes true is not taken beside sharding fsdp2"));
  CHECK_FALSE(has(dora, "--precision"));
  const std::string schedule = on_eight({"llama-3-8b", "--pipeline-schedule", "zero-bubble"});
  CHECK(has(schedule, "schedule zero-bubble is not taken"));
  CHECK(has(schedule, "1f1b is"));
}

TEST_CASE("adapters are beside the layers that plans are asked for") {
  const outcome planned_so = planned({"llama-3-8b",
                                      "--framework",
                                      "megatron-te",
                                      "--lora",
                                      "16",
                                      "--lora-targets",
                                      "q,k,v",
                                      "--gpu",
                                      "h100_sxm5_80gb",
                                      "--gpus",
                                      "8",
                                      "--batch",
                                      "64",
                                      "--plans",
                                      "1"});
  CHECK_MESSAGE(planned_so.status == 0, planned_so.err);
}

TEST_CASE("where one GPU is too few, more of them would do, and what needs less") {
  const outcome o = planned({"llama-3.2-1b",
                             "--gpu",
                             "4090",
                             "--gpus",
                             "1",
                             "--batch",
                             "32",
                             "--sequence-length",
                             "2048"});
  CHECK(o.status == 2);
  for (const char* would_do :
       {"or --gpus 2", "or --precision bf16-pure", "or --optimizer adamw-8bit"})
    CHECK_MESSAGE(has(o.err, would_do), o.err);
}

TEST_CASE(
    "where an optimizer does not step the parts of fully_shard, an engine that would do is told") {
  const outcome o = planned({"llama-3-8b",
                             "--optimizer",
                             "adamw-8bit",
                             "--gpu",
                             "h100-sxm",
                             "--gpus",
                             "8",
                             "--batch",
                             "64",
                             "--sequence-length",
                             "2048"});
  CHECK(o.status == 2);
  for (const char* would_do : {"or --sharding fsdp1", "or --sharding deepspeed"})
    CHECK_MESSAGE(has(o.err, would_do), o.err);
}

TEST_CASE("the least memory is told where it is known from below by a little alone") {
  const outcome o = planned({"llama-3-70b",
                             "--framework",
                             "torchtitan",
                             "--gpu",
                             "3060",
                             "--gpus",
                             "64",
                             "--batch",
                             "256-4096"});
  CHECK(o.status == 2);
  CHECK_MESSAGE(has(o.err, "needed 23.78 GiB"), o.err);
  CHECK_MESSAGE(has(o.err, "or 168 x rtx_3060"), o.err);
}

TEST_CASE("a model of many experts that does not fit is refused in seconds") {
  const outcome o = planned({"gpt-oss-120b",
                             "--framework",
                             "megatron-te",
                             "--gpu",
                             "h100_sxm5_80gb",
                             "--gpus",
                             "16",
                             "--batch",
                             "128",
                             "--precision",
                             "bf16-pure"});
  CHECK(o.status == 2);
  CHECK(has(o.err, "no plan fits into the memory of these GPUs"));
  CHECK(has(o.err, "each of these would do: GPUs with"));
}
