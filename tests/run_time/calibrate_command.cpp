// gpuplan calibrate, and the commands that go by timed steps.

#include <gpuplan/time/stack_numbers.hpp>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"
#include "temporary_file.hpp"

using nlohmann::json;

namespace {

using words = std::vector<std::string>;

json rows_of(const std::string& command, const words& arguments) {
  return json_answer([&](const words& all) { return output_of_command(command, all); }, arguments);
}
std::string refusal_of(const std::string& command, const words& arguments) {
  const outcome refused = output_of_command(command, arguments);
  CHECK(refused.status == 2);
  CHECK(refused.out.empty());
  return refused.err;
}

// A layout of LLaMA 3 8B under fully_shard on H100s.
struct layout {
  const char* gpus;
  const char* zero;
  const char* micro_batch;
  const char* accumulation;
};
constexpr layout timed[] = {{"8", "3", "1", "4"},
                            {"8", "3", "2", "2"},
                            {"8", "2", "1", "8"},
                            {"16", "3", "1", "1"},
                            {"16", "3", "2", "2"},
                            {"32", "3", "1", "1"},
                            {"32", "2", "1", "2"}};
constexpr layout others[] = {{"8", "3", "4", "1"}, {"64", "3", "1", "1"}};

words words_of(const layout& one, words more) {
  words all{"llama-3-8b",
            "--gpu",
            "h100-sxm",
            "--sharding",
            "fsdp2",
            "--gpus",
            one.gpus,
            "--zero",
            one.zero,
            "--micro-batch",
            one.micro_batch,
            "--accumulation",
            one.accumulation};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
double step_of(const layout& one, const words& more) {
  return rows_of("time", words_of(one, more))[0]["step_s"].get<double>();
}

const std::string head = "model,gpu,sharding,gpus,zero,micro_batch,accumulation,step_s\n";
std::string line_of(const layout& one, const std::string& time) {
  return std::string("llama-3-8b,h100-sxm,fsdp2,") + one.gpus + ',' + one.zero + ',' +
         one.micro_batch + ',' + one.accumulation + ',' + time + '\n';
}
// As a cluster took them whose nodes reach each other by so many GB/s.
std::string table_of(const std::string& network) {
  std::string table = head;
  for (const layout& one : timed)
    table += line_of(one, std::to_string(step_of(one, {"--network", network})));
  for (const layout& one : others) table += line_of(one, "");
  return table;
}

}  // namespace

TEST_CASE("a few timed steps tell what the network is, and with it what other steps take") {
  const temporary_file file(table_of("60"));
  const json rows = rows_of("calibrate", {file.name()});
  int numbers = 0;
  int steps = 0;
  std::string next;
  for (const json& row : rows) {
    if (row["what"] == "number") {
      ++numbers;
      CAPTURE(row.dump());
      CHECK(row["low"] < row["value"]);
      CHECK(row["value"] < row["high"]);
      if (row["name"] == "between_nodes") {
        CHECK(row["before"].get<double>() == doctest::Approx(200e9));
        CHECK(row["value"].get<double>() < 90e9);
        CHECK(row["value"].get<double>() > 40e9);
      }
      continue;
    }
    if (!row["timed"].is_null()) {
      CHECK(row["value"].get<double>() ==
            doctest::Approx(row["timed"].get<double>()).epsilon(0.05));
      continue;
    }
    const layout& one = others[steps++];
    CAPTURE(row.dump());
    const double there = step_of(one, {"--network", "60"});
    CHECK(row["before"].get<double>() == doctest::Approx(step_of(one, {})).epsilon(1e-9));
    CHECK(row["value"].get<double>() == doctest::Approx(there).epsilon(0.05));
    CHECK(row["low"].get<double>() < there);
    CHECK(there < row["high"].get<double>());
    // Other commands say the same.
    const words by{"--timed-steps", file.name()};
    CHECK(step_of(one, by) == doctest::Approx(row["value"].get<double>()).epsilon(1e-9));
    if (row["is_next"] == "yes") next = row["name"].get<std::string>();
  }
  CHECK(numbers == static_cast<int>(gpuplan::stack_number_count));
  CHECK(steps == 2);
  CHECK(next.find("64 GPUs") != std::string::npos);  // the network is what is known least
}

TEST_CASE("plan, cost and run go by timed steps, with what they leave open") {
  const temporary_file file(table_of("60"));
  const words by{"--timed-steps", file.name()};
  const layout& one = others[1];
  const double step = step_of(one, by);
  words asked = words_of(one, {"--tokens", "1e9"});
  asked.insert(asked.end(), by.begin(), by.end());
  const json cost = rows_of("cost", asked)[0];
  CHECK(cost["step_s"].get<double>() == doctest::Approx(step).epsilon(1e-9));
  const double low = cost["hours_low"].get<double>() / cost["hours"].get<double>();
  const json rows = rows_of("calibrate", {file.name()});
  for (const json& row : rows)
    if (row["what"] == "step" && row["is_next"] == "yes")
      CHECK(low == doctest::Approx(row["low"].get<double>() / row["value"].get<double>()));
  const words same{"llama-3-8b", "--gpu",
                   "h100-sxm",   "--gpus",
                   "64",         "--sharding",
                   "fsdp2",      "--batch",
                   "64",         "--zero",
                   "3",          "--micro-batch",
                   "1",          "--tensor-parallel",
                   "1",          "--pipeline-parallel",
                   "1",          "--context-parallel",
                   "1",          "--recompute",
                   "none"};
  words planned_by = same;
  planned_by.insert(planned_by.end(), by.begin(), by.end());
  const double without = rows_of("plan", same)[0]["step_s"].get<double>();
  const double with = rows_of("plan", planned_by)[0]["step_s"].get<double>();
  CHECK(without == doctest::Approx(step_of(one, {})).epsilon(1e-9));
  CHECK(with == doctest::Approx(step).epsilon(1e-9));
  asked.insert(asked.end(), {"--failures", "none"});
  CHECK(output_of_command("run", asked).status == 0);
  const outcome people = output_of_command("time", words_of(one, by));
  CHECK(people.out.find("80 % within") != std::string::npos);
}

TEST_CASE("what a table of steps cannot be is said with its line") {
  const auto said = [](const std::string& text) {
    const temporary_file file(text);
    return refusal_of("calibrate", {file.name()});
  };
  CHECK(said("model,gpu,micro_bach,step_s\n").find("micro-batch is the nearest") !=
        std::string::npos);
  CHECK(said("model,gpu\n").find("column step_s, or step_ms, is missing") != std::string::npos);
  CHECK(said("model,step_s,step_ms\n").find("says again") != std::string::npos);
  CHECK(said("model,timed-steps,step_s\n").find("is no option") != std::string::npos);
  CHECK(said(head).find("no step has a time") != std::string::npos);
  CHECK(said(head + "llama-3-8b\n").find("line 2 has 1 cells, and there are 8 columns") !=
        std::string::npos);
  CHECK(said(head + line_of(timed[0], "fast")).find("line 2: the time of a step is a number") !=
        std::string::npos);
  CHECK(said(head + line_of(timed[0], "-1")).find("above 0") != std::string::npos);
  CHECK(said(head + line_of({"8", "3", "none", "1"}, "1")).find("line 2: ") != std::string::npos);
  CHECK(said(head + line_of(timed[0], "1") + line_of(timed[1], "1")).find("three timed steps") !=
        std::string::npos);
  CHECK(said("model,gpu,step_ms\ngpt2,4090,90\ngpt2,h100-sxm,80\n")
            .find("one kind of GPU is taken") != std::string::npos);
  CHECK(said("model,gpu,no-clipping,step_ms\ngpt2,4090,perhaps,90\n").size() > 20);
  std::string contradicts = head;
  double time = 0.001;
  for (const layout& one : timed) contradicts += line_of(one, std::to_string(time *= 20));
  CHECK(said(contradicts).find("more than twice or less than half") != std::string::npos);
  const temporary_file file(table_of("60"));
  CHECK(refusal_of("time", {"gpt2", "--gpu", "4090", "--timed-steps", file.name()})
            .find("timed on h100_sxm5_80gb, and this is rtx_4090") != std::string::npos);
  CHECK(refusal_of("plan", {"gpt2", "--gpu", "4090", "--batch", "8", "--timed-steps", file.name()})
            .find("timed on h100_sxm5_80gb") != std::string::npos);
  CHECK(refusal_of("calibrate", {"/nowhere/steps.csv"}).find("cannot read") != std::string::npos);
}
