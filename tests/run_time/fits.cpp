
#include <cstdint>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"

using nlohmann::json;

namespace {

outcome ran(const std::vector<std::string>& arguments) {
  return output_of_command("fits", arguments);
}

json answer(const std::vector<std::string>& arguments) { return json_answer(ran, arguments); }

std::int64_t count(const json& row, const char* column) {
  REQUIRE(row[column].is_number_integer());
  return row[column].get<std::int64_t>();
}

const json& row_of(const json& rows, const std::string& method, const std::string& recompute) {
  for (const json& row : rows)
    if (row["method"] == method && row["recompute"] == recompute) return row;
  FAIL("no row of " << method);
  return rows[0];
}

}  // namespace

TEST_CASE("what fits is the largest micro-batch that needs no more than there is") {
  const json rows = answer({"gpt2", "--framework", "torch-gpt", "--gpu", "rtx_4090"});
  const json& row = row_of(rows, "bf16 mixed", "none");
  gpuplan::training_setup setup{.model = gpuplan::catalog::gpt2,
                                .sequence_length = 1024,
                                .precision = gpuplan::bf16_mixed,
                                .framework = gpuplan::catalog::torch_gpt};
  const gpuplan::transformer_memory memory{setup};
  const std::int64_t largest = count(row, "largest_micro_batch");
  const auto needed = [&](std::int64_t micro_batch) {
    return static_cast<std::int64_t>(memory.required({.micro_batch = micro_batch}).value());
  };
  const std::int64_t usable = bytes_of(row["usable_GiB"]);
  CHECK(largest > 8);
  CHECK(bytes_of(row["memory_at_1_GiB"]) == needed(1));
  CHECK(needed(largest) <= usable);
  CHECK(needed(largest + 1) > usable);
}

TEST_CASE("the optimizer and the adapters are those that are asked for") {
  const std::vector<std::string> small{"gpt2", "--framework", "torch-gpt", "--gpu", "rtx_4090"};
  const auto asked = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = small;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const gpuplan::training_setup gpt2{.model = gpuplan::catalog::gpt2,
                                     .sequence_length = 1024,
                                     .precision = gpuplan::bf16_mixed,
                                     .framework = gpuplan::catalog::torch_gpt};
  const auto needed = [](const gpuplan::training_setup& setup) {
    return static_cast<std::int64_t>(
        gpuplan::transformer_memory{setup}.required({.micro_batch = 1}).value());
  };
  const auto at_one = [](const json& rows, const char* method) {
    return bytes_of(row_of(rows, method, "none")["memory_at_1_GiB"]);
  };
  gpuplan::training_setup of_8_bits = gpt2;
  of_8_bits.optimizer = {.library = gpuplan::optimizer_library::bitsandbytes,
                         .states = gpuplan::number_format::int8,
                         .widens_embeddings = true};
  CHECK(at_one(answer(asked({"--optimizer", "adamw-8bit"})), "bf16 mixed") == needed(of_8_bits));
  CHECK(needed(of_8_bits) < needed(gpt2));

  gpuplan::training_setup adapted = gpt2;
  adapted.precision = gpuplan::bf16_under_autocast;
  gpuplan::lora& adapters = adapted.trains.adapters;
  adapted.trains.what = gpuplan::training::adapters;
  adapters = {.rank = 16, .targets = gpuplan::query_and_value};
  adapters.targets.key = true;  // is fused with both
  CHECK(at_one(answer(small), "LoRA 16") == needed(adapted));
  adapters = {.rank = 32, .targets = gpuplan::all_linear, .magnitudes = true};
  const json rows = answer(asked({"--dora", "32", "--lora-targets", "all-linear"}));
  CHECK(at_one(rows, "DoRA 32") == needed(adapted));
  adapters.dropout = 0.1;
  CHECK(at_one(answer(asked(
                   {"--dora", "32", "--lora-targets", "all-linear", "--lora-dropout", "0.1"})),
               "DoRA 32") == needed(adapted));
  adapters.dropout = 0;
  adapters.base = gpuplan::double_quantised_base;
  CHECK(at_one(rows, "QDoRA 32") == needed(adapted));
  CHECK(has(ran(asked({"--optimizer", "lion"})).out, "what fits, with Lion and 1024 tokens"));
  // As gpuplan memory says it, but for what the allocator cannot use.
  const json same = json_answer(
      [](const std::vector<std::string>& more) { return output_of_command("memory", more); },
      asked({"--lora", "8", "--lora-targets", "o,up"}));
  const json fits =
      answer(asked({"--lora", "8", "--lora-targets", "o,up", "--fragmentation", "0"}));
  CHECK(at_one(fits, "LoRA 8") == bytes_of(value(same, "peak", "all", "total")));
}

TEST_CASE("a model in Megatron's code is compared by its ways") {
  const json rows = answer({"mixtral-8x7b", "--framework", "megatron-te", "--gpu", "h200-sxm"});
  CHECK(rows.size() == 10);
  const auto at_one = [&](const char* method) {
    return bytes_of(row_of(rows, method, "full")["memory_at_1_GiB"]);
  };
  CHECK(at_one("bf16, ZeRO-1") < at_one("bf16, replicas"));
  CHECK(at_one("bf16, replicas") >= at_one("bf16"));
  CHECK(at_one("bf16, ZeRO-1, expert-parallel 8") < at_one("bf16, ZeRO-1"));
  CHECK(row_of(rows, "bf16, ZeRO-1, expert-parallel 8", "full")["gpus"] == 8);
  const json dense = answer({"gpt3-6.7b", "--framework", "megatron-te", "--gpus", "4"});
  const json& shared = row_of(dense, "bf16, tensor-parallel 4", "none");
  CHECK(shared["gpus"] == 4);
  CHECK(bytes_of(shared["memory_at_1_GiB"]) <
        bytes_of(row_of(dense, "bf16", "none")["memory_at_1_GiB"]) / 3);
  CHECK(has(ran({"gpt-oss-20b", "--framework", "megatron-te"}).out,
            "the code of Megatron-Core, Transformer Engine"));
  CHECK(has(ran({"gpt-oss-20b"}).out, "the code of transformers, GptOssForCausalLM"));
}

TEST_CASE("verdicts of a model agree with each other") {
  const json rows = answer({"llama-3.2-1b", "--gpu", "4090,h100 80gb hbm3"});
  CHECK(rows.size() == 2 * 16);
  std::map<std::string, std::int64_t> largest_without;
  for (const json& row : rows) {
    CAPTURE(row.dump());
    const std::string method = row["gpu"].get<std::string>() + row["method"].get<std::string>();
    const std::int64_t largest = count(row, "largest_micro_batch");
    CHECK((row["fits"] == "yes") == (largest > 0));
    if (largest > 0) {
      CHECK(bytes_of(row["memory_at_1_GiB"]) <= bytes_of(row["memory_at_largest_GiB"]));
      CHECK(bytes_of(row["memory_at_largest_GiB"]) <= bytes_of(row["usable_GiB"]));
    } else {
      CHECK(bytes_of(row["memory_at_1_GiB"]) > bytes_of(row["usable_GiB"]));
    }
    if (row["recompute"] == "none")
      largest_without[method] = largest;
    else
      CHECK(largest >= largest_without[method]);
  }
  const auto at_one = [&](const char* method) {
    return bytes_of(row_of(rows, method, "full")["memory_at_1_GiB"]);
  };
  CHECK(at_one("pure bf16") < at_one("bf16 mixed"));
  CHECK(at_one("QLoRA 16") < at_one("LoRA 16"));
  CHECK(at_one("LoRA 16") < at_one("pure bf16"));
  CHECK(at_one("bf16 mixed, ZeRO-3") < at_one("bf16 mixed, ZeRO-2"));
  CHECK(at_one("bf16 mixed, ZeRO-2") < at_one("bf16 mixed, DDP"));
  CHECK(row_of(rows, "fp32", "full")["fits"] == "no");
  CHECK(row_of(rows, "QLoRA 16", "full")["fits"] == "yes");
}

TEST_CASE("what is in the way is named") {
  const json rows = answer({"llama-3.1-8b", "--gpu", "rtx_4090", "--gpus", "1"});
  CHECK(rows.size() == 10);
  const json& full = row_of(rows, "bf16 mixed", "full");
  CHECK(full["fits"] == "no");
  CHECK(full["binding"] == "optimizer states");
  CHECK(bytes_of(full["binding_GiB"]) == 8 * std::int64_t{8'030'261'248});
  CHECK(full["peak"] == "optimizer");
  CHECK(full["memory_at_largest_GiB"].is_null());
}

TEST_CASE("preferences of adapters are compared with the model without them") {
  const json rows =
      answer({"llama-3.1-8b", "--objective", "dpo", "--gpu", "h100_sxm5_80gb", "--gpus", "1"});
  for (const char* method : {"LoRA 16", "QLoRA 16"}) {
    const json& row = row_of(rows, method, "full");
    CAPTURE(row.dump());
    CHECK(row["fits"] == "yes");
  }
}

TEST_CASE("the text is a table for each GPU, in lines of a terminal") {
  const outcome o = ran({"llama-3.1-8b"});
  CHECK(o.status == 0);
  for (const char* part : {"llama-3.1-8b: what fits, with AdamW and 4096 tokens a sample\n═══",
                           "GeForce RTX 4090: 23.3 GiB for PyTorch; sizes in GiB",
                           "H200",
                           "QLoRA 16",
                           "optimizer states 59.8"})
    CHECK_MESSAGE(has(o.out, part), part);
  std::istringstream lines(o.out);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(gpuplan::io::display_width(line) <= 100);
  }
  CHECK(!has(o.out, "\033"));
  CHECK(has(ran({"gpt2", "--color", "always"}).out, "\033["));
  CHECK(has(ran({"gpt2", "--format", "markdown"}).out, "| bf16 mixed, ZeRO-3 | 8 | full |"));
  CHECK(has(ran({"gpt2", "--format", "csv"}).out, "gpu,usable_GiB,method"));
  CHECK(has(ran({"vit-base-patch16-224"}).out, "what fits, with AdamW\n"));
}

TEST_CASE("methods are compared that are asked for, by a word of their names") {
  const auto methods = [](const std::string& words) {
    std::string names;
    for (const json& row : answer({"gpt2", "--gpu", "4090", "--method", words}))
      if (row["recompute"] == "none") names += row["method"].get<std::string>() + "; ";
    return names;
  };
  CHECK(methods("qlora") == "QLoRA 16; ");
  CHECK(methods("LoRA") == "LoRA 16; ");
  CHECK(methods("zero-3,fp32") == "fp32; bf16 mixed, ZeRO-3; ");
  CHECK(methods("bf16 mixed") ==
        "bf16 mixed; bf16 mixed, DDP; bf16 mixed, ZeRO-2; bf16 mixed, ZeRO-3; ");
  const json all = answer({"gpt2", "--gpu", "4090"});
  CHECK(answer({"gpt2", "--gpu", "4090", "--method", "qlora"})[1] ==
        row_of(all, "QLoRA 16", "full"));
}

TEST_CASE("what cannot be asked is said in a sentence") {
  const auto fails = [](const std::vector<std::string>& arguments, const std::string& words) {
    CAPTURE(words);
    const outcome o = ran(arguments);
    CHECK(o.status == 2);
    CHECK(o.out.empty());
    CAPTURE(o.err);
    CHECK(has(o.err, words));
  };
  fails({}, "which MODEL?");
  fails({"gpt2", "--gpu", "rtx_9999"}, "the nearest");
  for (const char* counted : {"8xh100", "h100:8"})
    fails({"gpt2", "--gpu", counted}, ": --gpu h100 says which device, --gpus 8 how many");
  fails({"gpt2", "--gpus", "0"}, "--gpus");
  fails({"gpt2", "--gpus", "0x10"}, "0x10 is no whole number from 1 to 1048576");
  fails({"gpt2", "--gpus", "99999999999999999999"}, "is no whole number");
  fails({"gpt2", "--fragmentation", "-1"}, "--fragmentation");
  fails({"gpt2", "--fragmentation", "nan"}, "nan is no number from 0 to 1000");
  fails({"gpt2", "--gpu", "h100"}, "h100_nvl        94 GB, 836 TFLOPS in bf16, 3900 GB/s");
  fails({"gpt2", "--gpu", "4090,RTX 4090"}, "--gpu names rtx_4090 twice");
  fails({"gpt2", "--framework", "megatron-core", "--dora", "8"}, "--dora: of Megatron-Core");
  fails({"gpt2", "--lora", "8", "--dora", "8"}, "both say what trains");
  fails({"gpt2", "--lora-targets", "wings"}, "no layers are called wings");
  fails({"gpt2", "--optimizer", "adam-w"}, "--optimizer: adam-w not in {");
  fails({"gpt2", "--optimizer", "adam-w"}, "; the nearest is adamw");
  fails({"gpt2", "--framework", "lama"}, " words, of which the nearest is llama");
  fails({"gpt2", "--method", "lor"}, "--method lor: the methods are fp32; bf16 mixed; pure bf16; ");
  fails({"dbrx"}, "no code of transformers is known for dbrx");
}

TEST_CASE("numbers are decimal, also with zeros before them") {
  const std::vector<std::string> asked{"gpt2", "--gpu", "rtx_4090", "--format", "csv", "--gpus"};
  const auto with = [&](const char* gpus) {
    std::vector<std::string> arguments = asked;
    arguments.emplace_back(gpus);
    return ran(arguments).out;
  };
  CHECK(with("010") == with("10"));
  CHECK(with("010") != with("8"));
}
