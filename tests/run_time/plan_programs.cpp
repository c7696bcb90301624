// What gpuplan plan prints is what the planner answers.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/planner.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"
#include "plan/options.hpp"

using nlohmann::json;

namespace {

double sum_of_parts(const json& row) {
  double parts = 0;
  for (const char* part : {"data_s",
                           "forward_s",
                           "backward_s",
                           "recompute_s",
                           "tensor_communication_s",
                           "context_communication_s",
                           "expert_communication_s",
                           "pipeline_communication_s",
                           "gradient_communication_s",
                           "parameter_communication_s",
                           "bubble_s",
                           "optimizer_s",
                           "host_s"})
    parts += row[part].get<double>();
  return parts;
}

gpuplan::plan_request gpt2_on_2_gpus() {
  using namespace gpuplan;
  const range<std::int64_t> any{1, 2};
  plan_request request;
  request.setup = {.model = catalog::gpt2,
                   .sequence_length = 1024,
                   .precision = bf16_megatron,
                   .framework = catalog::megatron_core};
  request.on = {.gpu = catalog::rtx_4090, .gpus_per_node = 2, .between_nodes = 200_GBps};
  request.efficiency = catalog::efficiency_of(request.on.gpu);
  request.effective_batch = 8;
  request.space = {.tensor_parallel = any,
                   .pipeline_parallel = any,
                   .virtual_pipeline = range<std::int64_t>{1, 1 << 10},
                   .context_parallel = any,
                   .expert_parallel = any,
                   .zero_stage = range<std::int64_t>{0, 3},
                   .recompute = true,
                   .recompute_layers = true,
                   .sequence_parallel = true};
  return request;
}

}  // namespace

TEST_CASE("the first row is the best plan") {
  const json rows = json_answer(planned,
                                {"gpt2",
                                 "--framework",
                                 "megatron-core",
                                 "--gpu",
                                 "rtx_4090",
                                 "--gpus-per-node",
                                 "2",
                                 "--batch",
                                 "8"});
  using namespace gpuplan;
  const plan_request request = gpt2_on_2_gpus();
  const auto answer = plan_training(request, transformer_memory_of{});
  REQUIRE(answer);
  const training_plan& best = answer->best();
  CHECK(rows[0]["plan"] == "best");
  CHECK(rows[0]["data_parallel"] == best.batch.data_parallel);
  CHECK(rows[0]["micro_batch"] == best.batch.micro_batch);
  CHECK(rows[0]["accumulation"] == best.batch.accumulation);
  CHECK(rows[0]["step_s"].get<double>() == doctest::Approx(in(best.step, 1_s)).epsilon(0.01));
  CHECK(rows[1]["slower_pct"].get<double>() >= 0);
}

TEST_CASE("tensor ranks may divide the sequence too, and torchtitan's always do") {
  plan_program::arguments asked;
  asked.setup.model.text = "gpt3-175b";
  asked.setup.framework = "megatron-te";
  asked.clusters.total = {64};
  asked.batch = gpuplan::range<std::int64_t>(128);
  const gpuplan::transformer_memory_of memory_of{};
  gpuplan::plan_request request = plan_program::request_of(asked).request;
  const auto with = gpuplan::plan_training(request, memory_of, 1);
  request.space.sequence_parallel = false;
  const auto without = gpuplan::plan_training(request, memory_of, 1);
  REQUIRE(with);
  REQUIRE(without);
  CHECK(with->best().layout.sequence_parallel);
  CHECK(with->best().step < without->best().step);

  const auto divides = [](const std::string& model, const std::string& framework) {
    bool any = false;
    for (const json& row : json_answer(
             planned, {model, "--framework", framework, "--gpus", "64", "--batch", "128"})) {
      const bool is_divided = row["sequence_parallel"] == "yes";
      const bool is_several = row["tensor_parallel"] > 1;
      const std::string degree = "t" + std::to_string(row["tensor_parallel"].get<int>());
      CAPTURE(row.dump());
      CHECK(has(row["layout"], degree + "s") == is_divided);
      if (framework == "torchtitan") CHECK(is_divided == is_several);
      if (!is_several) CHECK(!is_divided);
      any = any || is_divided;
    }
    return any;
  };
  CHECK(divides("gpt3-175b", "megatron-te"));
  CHECK(divides("llama-3-70b", "torchtitan"));
}

TEST_CASE("each number of GPUs has a row, and what does not fit a reason") {
  const json rows = json_answer(counted,
                                {"gpt3-6.7b",
                                 "--framework",
                                 "megatron-core",
                                 "--gpus-per-node",
                                 "8",
                                 "--batch",
                                 "64",
                                 "--tokens",
                                 "1e9",
                                 "--price",
                                 "2"});
  REQUIRE(rows.size() == 4);
  CHECK(rows[0]["gpus"] == 1);
  CHECK(rows[0]["note"].get<std::string>().find("GiB of memory, has") != std::string::npos);
  CHECK(rows[3]["gpus"] == 8);
  const double hours = rows[3]["hours"].get<double>();
  CHECK(hours > 0);
  CHECK(rows[3]["gpu_hours"].get<double>() == doctest::Approx(8 * hours).epsilon(0.02));
  CHECK(rows[3]["usd"].get<double>() == doctest::Approx(16 * hours).epsilon(0.02));
}

TEST_CASE("of several kinds of GPU the cheapest and the fastest are named") {
  const json rows = json_answer(counted,
                                {"gpt2",
                                 "--framework",
                                 "torch-gpt",
                                 "--gpu",
                                 "a100_sxm4_80gb,h100_sxm5_80gb",
                                 "--gpus-per-node",
                                 "2",
                                 "--batch",
                                 "64",
                                 "--tokens",
                                 "1e9",
                                 "--price",
                                 "1,9",
                                 "--power",
                                 "500"});
  REQUIRE(rows.size() == 4);
  double least = 1e9;
  double shortest = 1e9;
  json cheapest;
  json fastest;
  for (const json& row : rows) {
    const double usd = row["usd"].get<double>();
    const double hours = row["hours"].get<double>();
    const double price = row["gpu"] == "h100_sxm5_80gb" ? 9 : 1;
    CHECK(usd == doctest::Approx(price * row["gpu_hours"].get<double>()).epsilon(0.1));
    CHECK(row["kWh"].get<double>() ==
          doctest::Approx(0.5 * row["gpu_hours"].get<double>()).epsilon(0.1));
    if (usd < least) cheapest = row;
    if (usd < least) least = usd;
    if (hours < shortest) fastest = row;
    if (hours < shortest) shortest = hours;
  }
  CHECK(cheapest["note"].get<std::string>().starts_with("cheapest"));
  CHECK(cheapest["gpu"] == "a100_sxm4_80gb");
  CHECK(fastest["note"] == "fastest");
  CHECK(fastest["gpu"] == "h100_sxm5_80gb");
}

TEST_CASE("what would be better without a limit is listed") {
  const std::vector<std::string> asked{"gpt3-6.7b",
                                       "--framework",
                                       "megatron-core",
                                       "--gpus-per-node",
                                       "4",
                                       "--batch",
                                       "64",
                                       "--tokens",
                                       "1e9",
                                       "--price",
                                       "2"};
  const json rows = json_answer(planned, asked);
  const json* more_memory = nullptr;
  for (const json& row : rows)
    if (row["plan"] == "more memory") more_memory = &row;
  REQUIRE(more_memory != nullptr);
  CHECK((*more_memory)["slower_pct"].get<double>() < 0);
  CHECK((*more_memory)["memory_GiB"].get<double>() > rows[0]["memory_GiB"].get<double>());

  // Where nothing ends in time: how long it takes, or how many GPUs it needs.
  std::vector<std::string> in_no_time = asked;
  in_no_time.insert(in_no_time.end(), {"--days", "0.1"});
  const outcome none = planned(in_no_time);
  CHECK(none.status == 2);
  CHECK(none.err.find("no plan ends the run in this time") != std::string::npos);
  CHECK(none.err.find("each of these would do: ") != std::string::npos);
  CHECK(none.err.find(" days") != std::string::npos);
  CHECK(none.err.find(" x a100_sxm4_80gb") != std::string::npos);
}

TEST_CASE("the time and the money that would do by themselves do") {
  const std::vector<std::string> llama{"llama-3-8b",
                                       "--framework",
                                       "torchtitan",
                                       "--gpu",
                                       "h100_sxm5_80gb",
                                       "--batch",
                                       "64",
                                       "--tokens",
                                       "1e9",
                                       "--price",
                                       "3"};
  // The number before a unit in what would do.
  const auto number_of = [](const std::string& text, const std::string& unit) {
    const auto end = text.find(unit, text.find("each of these would do: "));
    const auto begin = text.rfind(' ', end - 1) + 1;
    return text.substr(begin, end - begin);
  };
  const auto limited = [&](const char* option, const std::string& limit) {
    std::vector<std::string> arguments = llama;
    arguments.insert(arguments.end(), {option, limit});
    return planned(arguments);
  };
  for (const auto& [option, unit, less] :
       {std::tuple{"--days", " days", "0.1"}, std::tuple{"--dollars", " dollars", "20"}}) {
    const outcome none = limited(option, less);
    CHECK(none.status == 2);
    const std::string enough = number_of(none.err, unit);
    CAPTURE(enough);
    CHECK(limited(option, enough).status == 0);
  }
}

TEST_CASE("beyond a node its number of GPUs doubles") {
  const auto counts_of = [](const std::string& in_node, const std::string& nodes) {
    std::vector<int> counts;
    for (const json& row : json_answer(counted,
                                       {"gpt2",
                                        "--framework",
                                        "torch-gpt",
                                        "--gpus-per-node",
                                        in_node,
                                        "--nodes",
                                        nodes,
                                        "--batch",
                                        "960",
                                        "--tokens",
                                        "1e9"}))
      counts.push_back(row["gpus"].get<int>());
    return counts;
  };
  CHECK(counts_of("6", "16") == std::vector<int>{1, 2, 4, 6, 12, 24, 48, 96});
  CHECK(counts_of("8", "3") == std::vector<int>{1, 2, 4, 8, 16, 24});
  CHECK(counts_of("1", "4") == std::vector<int>{1, 2, 4});
  CHECK(counts_of("5", "1") == std::vector<int>{1, 2, 4, 5});
}

TEST_CASE("degrees that do not divide heads or sequences are no plans") {
  const json heads =
      json_answer(planned, {"gpt2", "--framework", "megatron-te", "--nodes", "4", "--batch", "2"});
  CHECK(heads[0]["plan"] == "best");
  const json tokens = json_answer(planned,
                                  {"llama-3-8b",
                                   "--framework",
                                   "torchtitan",
                                   "--gpu",
                                   "h100_sxm5_80gb",
                                   "--batch",
                                   "64",
                                   "--sequence-length",
                                   "1"});
  CHECK(tokens[0]["tensor_parallel"] == 1);
}

TEST_CASE("a plan's time is told with its parts, its range and what it achieves") {
  const json rows = json_answer(
      planned,
      {"gpt2", "--framework", "megatron-core", "--gpus", "2", "--batch", "8", "--gpu", "rtx_4090"});
  for (const json& row : rows) {
    CAPTURE(row.dump());
    const auto number = [&](const char* name) { return row[name].get<double>(); };
    const double step = number("step_s");
    const double parts = sum_of_parts(row);
    CHECK(parts == doctest::Approx(step).epsilon(1e-9));
    CHECK(number("step_s_low") < step);
    CHECK(step < number("step_s_high"));
    for (const std::string input : {"products", "elements", "host", "contention"}) {
      CHECK(number("step_s_low") <= number(("step_s_low_by_" + input).c_str()));
      CHECK(number(("step_s_low_by_" + input).c_str()) <= step * (1 + 1e-12));
      CHECK(step <= number(("step_s_high_by_" + input).c_str()) * (1 + 1e-12));
      CHECK(number(("step_s_high_by_" + input).c_str()) <= number("step_s_high"));
    }
    // of 12 layers of width 768 with the whole of attention, and of 50,257 logits
    const double samples = number("data_parallel") * number("micro_batch") * number("accumulation");
    CHECK(number("tokens_per_s") == doctest::Approx(samples * 1024 / step));
    const double layer = 24.0 * 768 * 768 + 4.0 * 1024 * 768;
    const double token = 3 * (12 * layer + 2.0 * 768 * 50257);
    const double mfu = number("tokens_per_s") * token / (number("gpus") * 165.2e12);
    CHECK(number("mfu_pct") == doctest::Approx(100 * mfu).epsilon(0.002));
    // layers again, or their attention's two products
    const double chunks = number("pipeline_parallel") * number("virtual_pipeline");
    const double some = row["recompute_layers"].is_null()
                            ? 0
                            : std::min(1.0, number("recompute_layers") * chunks / 12);
    const double again = row["recompute"] == "full"        ? some * layer
                         : row["recompute"] == "selective" ? 4.0 * 1024 * 768
                                                           : 0;
    CHECK(number("hfu_pct") ==
          doctest::Approx(100 * mfu * (1 + 12 * again / token)).epsilon(0.002));
  }
}

TEST_CASE("parts are those of the model with other layers where these are a limit") {
  const json rows = json_answer(planned,
                                {"gpt3-13b",
                                 "--framework",
                                 "megatron-te",
                                 "--gpu",
                                 "rtx_3090",
                                 "--gpus",
                                 "40",
                                 "--batch",
                                 "120",
                                 "--plans",
                                 "1"});
  const json* more = nullptr;
  for (const json& row : rows)
    if (row["plan"].get<std::string>().ends_with(" layers")) more = &row;
  REQUIRE(more != nullptr);
  CHECK(sum_of_parts(*more) == doctest::Approx((*more)["step_s"].get<double>()).epsilon(1e-9));
  CHECK((*more)["slower_pct"].get<double>() < 0);
}

TEST_CASE("programs get small numbers in full") {
  const std::vector<std::string> asked{"gpt2",
                                       "--framework",
                                       "torch-gpt",
                                       "--gpus",
                                       "2",
                                       "--batch",
                                       "64",
                                       "--tokens",
                                       "65536",
                                       "--price",
                                       "2",
                                       "--power",
                                       "500"};
  for (const auto& program : {planned, counted}) {
    for (const json& row : json_answer(program, asked)) {
      const auto number = [&](const char* name) { return row[name].get<double>(); };
      const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-12); };
      CAPTURE(row.dump());
      if (number("data_parallel") * number("micro_batch") * number("accumulation") != 64) continue;
      CHECK(number("hours") == near(number("step_s") / 3600));
      CHECK(number("gpu_hours") == near(number("gpus") * number("hours")));
      CHECK(number("usd") == near(2 * number("gpu_hours")));
      CHECK(number("kWh") == near(0.5 * number("gpu_hours")));
      CHECK(number("usd_high") == near(number("usd") * number("step_s_high") / number("step_s")));
      CHECK(number("hours_low") == near(number("hours") * number("step_s_low") / number("step_s")));
    }
    std::vector<std::string> as_csv = asked;
    as_csv.insert(as_csv.end(), {"--format", "csv"});
    const std::string csv = program(as_csv).out;
    CHECK(csv.find(",0.00,") == std::string::npos);
    CHECK(csv.find("usd_low,usd_high") != std::string::npos);
  }
}

TEST_CASE("people see where the time goes, and by what it may be another") {
  const std::vector<std::string> asked{"gpt2", "--gpus", "2", "--batch", "64", "--tokens", "1e6"};
  for (const auto& program : {planned, counted}) {
    for (const char* format : {"text", "markdown"}) {
      std::vector<std::string> arguments = asked;
      arguments.insert(arguments.end(), {"--format", format});
      const outcome o = program(arguments);
      CHECK(o.status == 0);
      for (const char* part : {"where the time of a step goes, in %",
                               "backward",
                               "MFU",
                               "tokens/s; by stack",
                               "no step of transformers",
                               "host: launches, interpreter",
                               "all of it"})
        CHECK_MESSAGE(has(o.out, part), part);
      CHECK(!has(o.out, "exposed: tensor"));  // which no plan has
    }
  }
  const outcome timed = planned({"gpt3-6.7b",
                                 "--framework",
                                 "megatron-te",
                                 "--gpu",
                                 "h100_sxm5_80gb",
                                 "--batch",
                                 "64",
                                 "--plans",
                                 "1"});
  CHECK(has(timed.out, "by stack"));
  CHECK(!has(timed.out, "was timed"));
}

TEST_CASE("what is trained is said: by which code, and how long its sequences are") {
  for (const auto& program : {planned, counted}) {
    const std::vector<std::string> asked{
        "gpt2", "--framework", "torch-gpt", "--gpus", "2", "--batch", "8", "--tokens", "1e6"};
    CHECK(has(program(asked).out, "gpt2 (torch.nn, GPT; sequences of 1,024"));
    for (const json& row : json_answer(program, asked)) {
      CHECK(row["framework"] == "torch.nn, GPT");
      CHECK(row["sequence_length"] == 1024);
    }
    std::vector<std::string> shorter = asked;
    shorter.insert(shorter.end(), {"--sequence-length", "256"});
    CHECK(json_answer(program, shorter)[0]["sequence_length"] == 256);
  }
}

TEST_CASE("a schedule of a pipeline that is asked for is planned") {
  for (const auto& [schedule, framework, chunks, layout] :
       {std::tuple{"dualpipe", "megatron-dual-pipe", "1", "p4 DualPipe"},
        std::tuple{"zero-bubble-v", "megatron-zero-bubble", "2", "p4 v2 zero-bubble V"}}) {
    const json rows = json_answer(planned,
                                  {"llama-3-8b",
                                   "--framework",
                                   framework,
                                   "--pipeline-schedule",
                                   schedule,
                                   "--pipeline-parallel",
                                   "4",
                                   "--virtual-pipeline",
                                   chunks,
                                   "--gpu",
                                   "h100_sxm5_80gb",
                                   "--gpus",
                                   "16",
                                   "--batch",
                                   "64",
                                   "--plans",
                                   "1"});
    CHECK(rows[0]["layout"].get<std::string>().find(layout) != std::string::npos);
  }
}

TEST_CASE("weights beside adapters are divided where replicas alone do not hold them") {
  const json rows = json_answer(planned,
                                {"llama-3.1-70b",
                                 "--lora",
                                 "16",
                                 "--gpu",
                                 "h100_sxm5_80gb",
                                 "--gpus",
                                 "8",
                                 "--batch",
                                 "64",
                                 "--plans",
                                 "1"});
  CHECK(rows[0]["layout"].get<std::string>().find("ZeRO-3") != std::string::npos);
}

TEST_CASE("the GPU that a batch is told to take instead holds it") {
  const auto batch = [](const std::string& gpu) {
    return output_of_command("batch", {"llama-3.2-3b", "--gpu", gpu, "--batch", "32"});
  };
  const std::string refused = batch("rtx_4090").err;
  const std::string option = "--gpu ";
  const std::size_t at = refused.rfind(option);
  REQUIRE(at != std::string::npos);
  const std::size_t begin = at + option.size();
  CHECK(batch(refused.substr(begin, refused.find(' ', begin) - begin)).status == 0);
}

TEST_CASE("formats without a name are said by their parts, and fields in plain words") {
  CHECK(has(output_of_command("time",
                              {"llama-3.2-1b",
                               "--precision",
                               "mxfp8",
                               "--framework",
                               "megatron-te",
                               "--gpu",
                               "b200_sxm"})
                .out,
            "linear layers, else bf16 with fp32 masters and gradients"));
  CHECK(has(output_of_command("time",
                              {"llama-3.2-1b",
                               "--qlora",
                               "16",
                               "--sharding",
                               "fsdp1",
                               "--zero",
                               "2",
                               "--gpus",
                               "8",
                               "--gpu",
                               "h100_sxm5_80gb"})
                .err,
            "a base in four bits: --qlora, load_in_4bit"));
}
