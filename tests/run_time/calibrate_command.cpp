// gpuplan calibrate, and the commands that go by timed steps.

#include <gpuplan/time/stack_numbers.hpp>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
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
// The words of a command line.
words split(const std::string& line) {
  std::istringstream in(line);
  words all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}
words operator+(words first, const words& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
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

words words_of(const layout& one, const words& more) {
  return split(std::string("llama-3-8b --gpu h100-sxm --sharding fsdp2 --gpus ") + one.gpus +
               " --zero " + one.zero + " --micro-batch " + one.micro_batch + " --accumulation " +
               one.accumulation) +
         more;
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

// The step that calibrate would have timed next.
json next_of(const json& rows) {
  for (const json& row : rows)
    if (row["what"] == "step" && row["is_next"] == "yes") return row;
  FAIL("no step is the next");
  return {};
}

}  // namespace

TEST_CASE("a few timed steps tell what the network is, and with it what other steps take") {
  const temporary_file file(table_of("60"));
  const json rows = rows_of("calibrate", {file.name()});
  int numbers = 0;
  int steps = 0;
  std::string next;
  for (const json& row : rows) {
    if (row["name"] == "scatter") continue;
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
  const words asked = words_of(one, {"--tokens", "1e9"}) + by;
  const json cost = rows_of("cost", asked)[0];
  CHECK(cost["step_s"].get<double>() == doctest::Approx(step).epsilon(1e-9));
  const double low = cost["hours_low"].get<double>() / cost["hours"].get<double>();
  const json next = next_of(rows_of("calibrate", {file.name()}));
  CHECK(low == doctest::Approx(next["low"].get<double>() / next["value"].get<double>()));
  const json run = rows_of("run", asked + words{"--failures", "none"})[0];
  CHECK(run["step_s"].get<double>() == doctest::Approx(step).epsilon(1e-9));
  CHECK(run["days_low"].get<double>() < run["days"].get<double>());
  const words planned = split(
      "llama-3-8b --gpu h100-sxm --gpus 64 --sharding fsdp2 --batch 64 --zero 3 --micro-batch 1 "
      "--tensor-parallel 1 --pipeline-parallel 1 --context-parallel 1 --recompute none");
  const double without = rows_of("plan", planned)[0]["step_s"].get<double>();
  const double with = rows_of("plan", planned + by)[0]["step_s"].get<double>();
  CHECK(without == doctest::Approx(step_of(one, {})).epsilon(1e-9));
  CHECK(with == doctest::Approx(step).epsilon(1e-9));
  const outcome people = output_of_command("time", words_of(one, by));
  CHECK(people.out.find("80 % within") != std::string::npos);
}

TEST_CASE("numbers are of one software, and a network in proportion to that of the steps") {
  const temporary_file file(table_of("200"));  // as stated
  const layout& one = others[1];
  const auto step = [&](const char* network) {
    return step_of(one, {"--network", network, "--timed-steps", file.name()});
  };
  CHECK(step("200") == doctest::Approx(step_of(one, {})).epsilon(0.03));
  CHECK(step("50") == doctest::Approx(step_of(one, {"--network", "50"})).epsilon(0.1));
  CHECK(step("50") > 1.5 * step("200"));
  const words by{"--timed-steps", file.name()};
  CHECK(refusal_of("time",
                   split("llama-3-8b --framework torchtitan --gpu h100-sxm --gpus 8 --zero 3") + by)
            .find("are of transformers, LlamaForCausalLM, and this is of torchtitan") !=
        std::string::npos);
  // Another class of transformers' is taken, and of a plan's codes those that were timed.
  const words other = split("qwen2.5-7b --gpu h100-sxm --gpus 8 --zero 3");
  CHECK(output_of_command("time", other + by).status == 0);
  const outcome plan = output_of_command(
      "plan", split("qwen2.5-32b --gpu h100-sxm --gpus 32 --batch 32 --format csv") + by);
  CHECK(plan.status == 0);
  CHECK(plan.err.find("no step was timed, and none is planned") != std::string::npos);
  CHECK(plan.out.find("torchtitan") == std::string::npos);
  const temporary_file page("", "page.html");
  const outcome report = output_of_command(
      "report", split("llama-3-8b --gpu h100-sxm --gpus 16 --batch 64 -o " + page.name()) + by);
  CAPTURE(report.err);
  CHECK(report.status == 0);
  CHECK(page.text().find("timed steps of " + file.name()) != std::string::npos);
}

TEST_CASE("a pair of cards with a bridge says nothing of cards beyond it") {
  std::string table = "model,gpu,gpus,micro_batch,step_s\n";
  const auto step = [](const std::string& gpus, const std::string& micro_batch, const words& more) {
    const words asked =
        split("gpt2 --gpu rtx_a6000 --gpus " + gpus + " --micro-batch " + micro_batch);
    return rows_of("time", asked + more)[0]["step_s"].get<double>();
  };
  for (const char* gpus : {"1", "2"})
    for (const char* micro_batch : {"1", "4"})
      table += std::string("gpt2,rtx_a6000,") + gpus + ',' + micro_batch + ',' +
               std::to_string(step(gpus, micro_batch, {})) + '\n';
  const temporary_file file(table);
  const words by{"--timed-steps", file.name()};
  CHECK(step("2", "1", by) == doctest::Approx(step("2", "1", {})).epsilon(0.02));
  CHECK(step("4", "1", by) == doctest::Approx(step("4", "1", {})).epsilon(0.02));
  CHECK(step("4", "1", by) > 1.2 * step("2", "1", by));
}

TEST_CASE("rows in any order tell the same, and of links what crosses them") {
  const std::string top = "model,gpu,gpus,micro_batch,no_clip,step_s\n";
  const std::vector<std::string> rows{"gpt2,4090,1,1,TRUE,0.06\n",
                                      "gpt2,4090,1,4,True,0.2\n",
                                      "gpt2,4090,8,1,yes,0.21\n",
                                      "gpt2,4090,8,2,1,0.26\n",
                                      "gpt2,4090,8,4,true,0.36\n"};
  const auto link_of = [&](const std::string& table) {
    const temporary_file file(table);
    for (const json& row : rows_of("calibrate", {file.name()})) {
      CHECK(row["name"] != "between_nodes");
      if (row["name"] == "inside_node") return row["value"].get<double>();
    }
    return 0.0;
  };
  const double forward = link_of(top + rows[0] + rows[1] + rows[2] + rows[3] + rows[4]);
  const double backward = link_of(top + rows[4] + rows[3] + rows[2] + rows[1] + rows[0]);
  CHECK(forward > 0);
  CHECK(forward == doctest::Approx(backward).epsilon(1e-6));
  // Of one GPU alone no link is told, and another cluster keeps its own.
  const std::string alone = top + rows[0] + rows[1] + "gpt2,4090,1,2,no,0.12\n";
  CHECK(link_of(alone) == 0);
}

TEST_CASE("the network of the steps counts where a command states none") {
  const temporary_file file(table_of("60"));
  const double next = next_of(rows_of("calibrate", {file.name()}))["value"].get<double>();
  const words by{"--timed-steps", file.name()};
  CHECK(step_of(others[1], by) == doctest::Approx(next).epsilon(1e-9));
  CHECK(step_of(others[1], words{"--network", "400"} + by) < 0.9 * next);
  // A latency of another kind of network is not that of the steps.
  const auto on_system = [&](const std::string& system) {
    const words asked = split("llama-3-8b --sharding fsdp2 --gpus 64 --zero 3 --system " + system);
    return rows_of("time", asked + by)[0]["step_s"].get<double>();
  };
  CHECK(on_system("p5.48xlarge") > on_system("dgx-h100"));  // by EFA
}

TEST_CASE("steps that cannot have run, or that nothing explains, have a note") {
  std::string table = table_of("200");
  table += "llama-3-8b,h100-sxm,fsdp2,8,3,64,1,20\n";
  table += line_of(timed[0], std::to_string(4 * step_of(timed[0], {})));
  const temporary_file file(table);
  std::vector<std::string> notes;
  for (const json& row : rows_of("calibrate", {file.name()}))
    if (row["what"] == "step" && !row["note"].get<std::string>().empty())
      notes.push_back(row["note"].get<std::string>());
  REQUIRE(notes.size() >= 2);
  CHECK(notes[notes.size() - 2].find("is recompute missing?") != std::string::npos);
  CHECK(notes.back().find("counts little") != std::string::npos);
  CHECK(output_of_command("calibrate", {file.name()}).out.find("far off") != std::string::npos);
}

TEST_CASE("a number that the steps moved is not said to be as before") {
  for (const double slower : {0.8, 1.2, 1.5}) {
    std::string table = head;
    for (const layout& one : timed)
      table += line_of(one, std::to_string(slower * step_of(one, {})));
    const temporary_file file(table);
    int moved = 0;
    for (const json& row : rows_of("calibrate", {file.name()})) {
      if (row["what"] != "number" || row["name"] == "scatter") continue;
      CAPTURE(row.dump());
      const double before = row["before"].get<double>();
      const double value = row["value"].get<double>();
      const bool is_outside =
          before < row["low"].get<double>() || before > row["high"].get<double>();
      if (is_outside) CHECK(row["note"].get<std::string>().empty());
      if (row["note"] == "as before") CHECK(std::abs(value / before - 1) < 0.2);
      moved += row["note"].get<std::string>().empty() ? 1 : 0;
    }
    CHECK(moved > 0);
  }
}

TEST_CASE("the help's example is taken, as spreadsheets write it too") {
  const std::string help = output_of_command("calibrate", {"--help"}).out;
  std::string example;
  for (std::size_t at = help.find("  model,gpu"); at < help.size() && help.substr(at, 2) == "  ";) {
    const std::size_t end = help.find('\n', at);
    if (help.find(',', at) > end) break;
    example += help.substr(at + 2, end - at - 1);
    at = end + 1;
  }
  REQUIRE(std::count(example.begin(), example.end(), '\n') == 5);
  std::string spreadsheet = "\xef\xbb\xbf";
  for (const char c : example) spreadsheet += c == '\n' ? std::string("\r\n") : std::string(1, c);
  spreadsheet += ",,,,,,,\r\n\r\n# the end\r\n";
  const temporary_file plain(example);
  const temporary_file written(spreadsheet);
  const json rows = rows_of("calibrate", {plain.name()});
  CHECK(rows == rows_of("calibrate", {written.name()}));
}

TEST_CASE("what a table of steps cannot be is said with its line") {
  const auto said = [](const std::string& text) {
    const temporary_file file(text);
    return refusal_of("calibrate", {file.name()});
  };
  CHECK(said("model,gpu,micro_bach,step_s\n").find("nearest that does is micro_batch") !=
        std::string::npos);
  CHECK(said("model,gpu\n").find("column step_s, or step_ms, is missing") != std::string::npos);
  CHECK(said("model,gpu,step_s,step_ms\n").find("says again") != std::string::npos);
  CHECK(said("model,timed-steps,step_s\n").find("says nothing of a step") != std::string::npos);
  CHECK(said("model,step_s\n").find("column gpu is missing") != std::string::npos);
  CHECK(said("").find("it is empty") != std::string::npos);
  CHECK(said("model;gpu;step_s\n").find("not separated by commas") != std::string::npos);
  CHECK(said("modl,gpu,step_s\n").find("nearest that does is model") != std::string::npos);
  CHECK(said("model,,step_s\n").find("a column without a name") != std::string::npos);
  CHECK(said(std::string("elf\0\1", 5)).find("no table in CSV") != std::string::npos);
  CHECK(said(head).find("no step has a time") != std::string::npos);
  const std::string faster = said(head + line_of(timed[0], "0.1"));
  CHECK(faster.find("line 2: step_s 0.100 s is ") != std::string::npos);
  CHECK(faster.find("% of the peak of h100_sxm5_80gb; at most 100 % is taken") !=
        std::string::npos);
  CHECK(said(head + "llama-3-8b\n").find("line 2 has 1 cells, and there are 8 columns") !=
        std::string::npos);
  CHECK(said(head + line_of(timed[0], "fast")).find("line 2: the time of a step is a number") !=
        std::string::npos);
  for (const char* time : {"1e300", "1e-300", "nan", "inf", "-", "OOM"})
    CHECK(said(head + line_of(timed[0], time)).find("leave it empty") != std::string::npos);
  CHECK(said(head + line_of(timed[0], "-1")).find("of 1e-6 to 1e6 s") != std::string::npos);
  CHECK(said(head + line_of({"8", "3", "none", "1"}, "1")).find("line 2: ") != std::string::npos);
  CHECK(said(head + line_of(timed[0], "1") + line_of(timed[1], "1")).find("three timed steps") !=
        std::string::npos);
  CHECK(said("model,gpu,step_ms\ngpt2,4090,90\ngpt2,h100-sxm,80\n")
            .find("one kind of GPU is taken") != std::string::npos);
  CHECK(
      said("model,framework,gpu,step_s\nllama-3-8b,torchtitan,h100-sxm,9\nllama-3-8b,,h100-sxm,8\n")
          .find("one software is taken") != std::string::npos);
  CHECK(said("model,gpu,gpus,network,step_s\ngpt2,h100-sxm,16,100,9\n"
             "gpt2,h100-sxm,1,,8\ngpt2,h100-sxm,16,200,8\n")
            .find("one network is taken") != std::string::npos);
  CHECK(said("model,gpu,no_clip,step_ms\ngpt2,4090,perhaps,90\n")
            .find("no-clip is yes or no, and not perhaps") != std::string::npos);
  std::string contradicts = head;
  double time = 0.5;
  for (const layout& one : timed) contradicts += line_of(one, std::to_string(time *= 6));
  CHECK(said(contradicts).find("more than twice or less than half") != std::string::npos);
  const temporary_file file(table_of("60"));
  CHECK(refusal_of("time", {"gpt2", "--gpu", "4090", "--timed-steps", file.name()})
            .find("are on h100_sxm5_80gb, and this is on rtx_4090") != std::string::npos);
  CHECK(refusal_of("plan", {"gpt2", "--gpu", "4090", "--batch", "8", "--timed-steps", file.name()})
            .find("are on h100_sxm5_80gb") != std::string::npos);
  CHECK(refusal_of("calibrate", {"/nowhere/steps.csv"}).find("cannot read") != std::string::npos);
}
