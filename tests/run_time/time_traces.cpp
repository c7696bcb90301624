// gpuplan time --trace and --svg: Trace Event Format, and what it tells of the step.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/explanation.hpp>
#include <gpuplan/memory/step_trace.hpp>
#include <gpuplan/replay/step_time.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"
#include "temporary_file.hpp"

using namespace gpuplan;
using nlohmann::json;

namespace {

using trace_words = std::vector<std::string>;

struct loaded_trace {
  std::map<std::string, std::size_t> names;  // of complete events
  std::map<std::string, std::size_t> categories;
  std::vector<std::string> processes;
  double end = 0;  // s
  double most_memory = 0;
  json document;
};

// Follows the Trace Event Format's rules for the kinds of events that there are.
loaded_trace traced(trace_words asked) {
  const temporary_file file("", "step.json");
  asked.insert(asked.end(), {"--trace", file.name()});
  const outcome made = output_of_command("time", asked);
  CAPTURE(made.err);
  REQUIRE(made.status == 0);
  loaded_trace found;
  found.document = json::parse(file.text());
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  std::set<std::pair<int, int>> named_tracks;
  std::set<int> named_processes;
  double before = -1;
  std::map<int, double> counted_until;
  for (const json& event : found.document["traceEvents"]) {
    const std::string kind = event["ph"];
    const int process = event["pid"];
    if (kind == "M") {
      const bool is_process = event["name"] == "process_name";
      CHECK((is_process || event["name"] == "thread_name"));
      CHECK(event["args"]["name"].is_string());
      if (is_process) {
        CHECK(named_processes.insert(process).second);
        found.processes.push_back(event["args"]["name"]);
      } else {
        CHECK(named_tracks.insert({process, event["tid"].get<int>()}).second);
      }
      continue;
    }
    const double begin = event["ts"].get<double>() / 1e6;
    CHECK(begin >= 0);
    if (kind == "C") {
      double sum = 0;
      for (const auto& [part, bytes] : event["args"].items()) {
        CHECK(bytes.get<double>() >= 0);
        sum += bytes.get<double>();
      }
      found.most_memory = std::max(found.most_memory, sum);
      CHECK(begin >= counted_until[process]);
      counted_until[process] = begin;
      continue;
    }
    REQUIRE(kind == "X");
    before = event["dur"].get<double>();
    REQUIRE(before >= 0);
    tracks[{process, event["tid"].get<int>()}].emplace_back(begin, begin + before / 1e6);
    found.end = std::max(found.end, begin + before / 1e6);
    ++found.names[event["name"]];
    ++found.categories[event["cat"]];
  }
  for (auto& [track, work] : tracks) {
    CHECK(named_tracks.count(track) == 1);
    CHECK(named_processes.count(track.first) == 1);
    std::sort(work.begin(), work.end());
    for (std::size_t at = 1; at < work.size(); ++at)
      CHECK(work[at].first >= work[at - 1].second - 1e-9 * found.end);
  }
  return found;
}

double predicted_step(trace_words asked) {
  return json_answer([](const trace_words& words) { return output_of_command("time", words); },
                     asked)[0]["step_s"];
}

training_setup gpt2_setup() {
  return {.model = catalog::gpt2,
          .sequence_length = 128,
          .precision = bf16_mixed,
          .framework = catalog::implementation_of("gpt2")->framework};
}

}  // namespace

TEST_CASE("an eager step is traced operator by operator") {
  const trace_words asked{
      "gpt2", "--gpu", "h100-sxm", "--gpus", "1", "--sequence-length", "128", "--micro-batch", "1"};
  const loaded_trace found = traced(asked);
  const batch_plan plan{.micro_batch = 1};
  const replayed_time model{.setup = gpt2_setup(), .on = {.gpu = catalog::h100_sxm5_80gb}};
  CHECK(found.end == doctest::Approx(model.step(plan)->value()).epsilon(1e-9));
  CHECK(found.most_memory == static_cast<double>(explain(model.setup, plan)->peak.total));
  // each operator twice: on the host, and on the device
  CHECK(found.categories.at("host") * 2 == [&] {
    std::size_t all = 0;
    for (const auto& [name, count] : found.categories) all += count;
    return all;
  }());
  // 12 layers with four products each and the head
  CHECK(found.names.at("matmul 128 x 768 x 2304") == 2 * 12);
  CHECK(found.names.at("matmul 128 x 768 x 50257") == 2);
  CHECK(found.names.at("attention, flash") == 2 * 24);
  const step_counts counts = *counts_of(model.setup, plan);
  CHECK(static_cast<std::int64_t>(found.categories.at("host")) ==
        counts.work->forward.operators + counts.work->backward.operators +
            counts.work->optimizer.operators);
}

TEST_CASE("eager replicas have streams for what they exchange") {
  const loaded_trace found = traced({"gpt2",
                                     "--gpu",
                                     "h100-sxm",
                                     "--gpus",
                                     "4",
                                     "--sequence-length",
                                     "128",
                                     "--micro-batch",
                                     "1"});
  CHECK(found.categories.at("communication") > 1);
  CHECK(found.processes == std::vector<std::string>{"host", "device"});
}

TEST_CASE("a pipeline has a process for each stage, and ends when the step is predicted to") {
  const trace_words asked{"llama-3-8b",
                          "--framework",
                          "megatron-te",
                          "--gpu",
                          "h100-sxm",
                          "--gpus",
                          "8",
                          "--tensor-parallel",
                          "2",
                          "--pipeline-parallel",
                          "2",
                          "--zero",
                          "1",
                          "--accumulation",
                          "6"};
  const loaded_trace found = traced(asked);
  CHECK(found.processes == std::vector<std::string>{"stage 0", "stage 1"});
  CHECK(found.names.at("forward") == 12);
  CHECK(found.names.at("backward") == 12);
  CHECK(found.names.at("optimizer") == 2);
  CHECK(found.names.at("exchange of gradients") == 2);
  CHECK(found.end == doctest::Approx(predicted_step(asked)).epsilon(1e-9));
  CHECK(found.most_memory > 0);
}

namespace {

trace_words scheduled(const char* framework, const char* schedule, int stages, int chunks) {
  return {"llama-3-8b",
          "--framework",
          framework,
          "--gpu",
          "h100-sxm",
          "--gpus",
          "16",
          "--pipeline-parallel",
          std::to_string(stages),
          "--virtual-pipeline",
          std::to_string(chunks),
          "--pipeline-schedule",
          schedule,
          "--accumulation",
          "8"};
}

}  // namespace

TEST_CASE("passes of gradients of weights are traced, each micro-batch's once by each chunk") {
  struct schedule {
    const char* framework;
    const char* name;
    int stages;
    int chunks;
  };
  for (const schedule& one : {schedule{"megatron-zero-bubble", "zero-bubble", 4, 1},
                              schedule{"megatron-zero-bubble", "zero-bubble-v", 4, 2},
                              schedule{"megatron-dual-pipe", "dualpipe", 4, 1},
                              schedule{"megatron-dual-pipe", "dualpipev", 4, 2}}) {
    CAPTURE(one.name);
    const trace_words asked = scheduled(one.framework, one.name, one.stages, one.chunks);
    loaded_trace found = traced(asked);
    CHECK(found.processes.size() == static_cast<std::size_t>(one.stages));
    const auto passes = static_cast<std::size_t>(8 * one.stages * one.chunks);
    CHECK(found.names["forward"] == passes);
    CHECK(found.names["backward"] + found.names["backward of inputs"] == passes);
    CHECK(found.names["backward of weights"] == found.names["backward of inputs"]);
    CHECK(found.names["backward of weights"] > 0);
    CHECK(found.end == doctest::Approx(predicted_step(asked)).epsilon(1e-9));
  }
}

TEST_CASE("the picture of a pipeline has a line for each stage, and words") {
  trace_words asked = scheduled("megatron-zero-bubble", "zero-bubble-v", 4, 2);
  const temporary_file file("", "step.svg");
  asked.insert(asked.end(), {"--svg", file.name()});
  const outcome made = output_of_command("time", asked);
  INFO(made.err);
  REQUIRE(made.status == 0);
  const std::string svg = file.text();
  for (const char* part : {"role=\"img\"",
                           "<title>A step of a pipeline over its time</title>",
                           "<desc>meta-llama-3-8b",
                           "; stage 3, waits ",
                           ": 16 x forward, 16 x backward of inputs, 16 x backward of weights",
                           ">backward of weights</text>",
                           ">second chunk</text>",
                           ">waits</text>"})
    CHECK_MESSAGE(has(svg, part), part);
  CHECK(!has(svg, "passes</text>"));
}

TEST_CASE("compiled layers are drawn by their parts") {
  const trace_words asked{"llama-3-8b",
                          "--framework",
                          "torchtitan",
                          "--gpu",
                          "h100-sxm",
                          "--gpus",
                          "8",
                          "--zero",
                          "3",
                          "--accumulation",
                          "2",
                          "--recompute",
                          "full"};
  const loaded_trace found = traced(asked);
  CHECK(found.processes == std::vector<std::string>{"device"});
  CHECK(found.names.at("forward") == 2);
  CHECK(found.end == doctest::Approx(predicted_step(asked)).epsilon(1e-9));
}

TEST_CASE("the picture has a line for each track") {
  const temporary_file file("", "step.svg");
  const outcome made = output_of_command("time",
                                         {"gpt2",
                                          "--gpu",
                                          "h100-sxm",
                                          "--gpus",
                                          "1",
                                          "--sequence-length",
                                          "128",
                                          "--svg",
                                          file.name()});
  CHECK(made.status == 0);
  CHECK(has(made.out, "Drawn: operators as the replay runs them"));
  const std::string svg = file.text();
  for (const char* part : {"<svg", "host: PyTorch", "device: operators", "backward", "</svg>"})
    CHECK_MESSAGE(has(svg, part), part);
  CHECK(svg.size() < 4'000'000);
}

TEST_CASE("a trace and a picture are two files") {
  const temporary_file file("", "step.out");
  const outcome same =
      output_of_command("time", {"gpt2", "--trace", file.name(), "--svg", file.name()});
  CHECK(same.status == 2);
  CHECK(has(same.err, "--svg " + file.name() + ": --trace is written to this file"));
  CHECK(file.text().empty());
}

TEST_CASE("what cannot be drawn is refused") {
  const trace_words schedule{
      "llama-3-8b", "--framework", "torchtitan", "--gpus", "8", "--zero", "3"};
  for (trace_words asked : {schedule, trace_words{"gpt2", "--gpus", "1"}}) {
    asked.insert(asked.end(), {"--accumulation", "400000", "--trace", "/dev/null"});
    const outcome much = output_of_command("time", asked);
    CHECK(much.status == 2);
    CHECK(has(much.err, "--trace: the step has "));
    CHECK(has(much.err, "at most 400k are drawn"));
  }
  const outcome nowhere =
      output_of_command("time", {"gpt2", "--gpus", "1", "--svg", "/no/such/folder/step.svg"});
  CHECK(nowhere.status == 1);
  CHECK(has(nowhere.err, "--svg: cannot write /no/such/folder/step.svg"));
}

TEST_CASE("a step that was profiled as predicted has ratios of 1") {
  const batch_plan plan{.micro_batch = 1};
  const replayed_time model{.setup = gpt2_setup(), .on = {.gpu = catalog::h100_sxm5_80gb}};
  const step_trace step = *trace_of(model, plan);
  // as the profiler writes it: operators on the host, kernels with their ids
  json events = json::array();
  double update = -1;
  double end = 0;
  int id = 0;
  for (const traced_operator& one : step.operators) {
    const eager::device_work& work = one.work;
    const auto& by = work.product;
    std::string name = "aten::mul";
    json dims = json::array({json::array({3, 4})});
    if (work.products > 0) {
      const bool is_batched = by.batch > 1;
      name = is_batched ? "aten::bmm" : "aten::mm";
      dims = is_batched ? json{{by.batch, by.rows, by.inner}, {by.batch, by.inner, by.columns}}
                        : json{{by.rows, by.inner}, {by.inner, by.columns}};
    } else if (work.attention_flops > 0) {
      name = "aten::_flash_attention_forward";
    } else if (work.kind == eager::kernel_kind::functions) {
      name = "aten::gelu";
    } else if (work.kind == eager::kernel_kind::softmaxes) {
      name = "aten::_log_softmax";
    } else if (work.kind == eager::kernel_kind::sums) {
      name = "aten::sum";
    }
    if (one.pass == eager::kernel_times::part::optimizer && update < 0) update = one.issue_begin;
    end = one.issue_end;
    events.push_back({{"ph", "X"},
                      {"cat", "cpu_op"},
                      {"name", name},
                      {"tid", 1},
                      {"ts", 1e6 * one.issue_begin},
                      {"dur", 1e6 * (one.issue_end - one.issue_begin)},
                      {"args", {{"External id", ++id}, {"Input Dims", dims}}}});
    events.push_back({{"ph", "X"},
                      {"cat", "kernel"},
                      {"name", "kernel"},
                      {"tid", 7},
                      {"ts", 1e6 * one.begin},
                      {"dur", 1e6 * (one.end - one.begin)},
                      {"args", {{"External id", id}, {"correlation", id}}}});
  }
  events.push_back({{"ph", "X"},
                    {"cat", "user_annotation"},
                    {"name", "Optimizer.step#AdamW.step"},
                    {"tid", 1},
                    {"ts", 1e6 * update},
                    {"dur", 1e6 * (end - update)}});
  const temporary_file file(json{{"traceEvents", events}}.dump(), "trace.json");
  const trace_words asked{"gpt2",
                          "--gpu",
                          "h100-sxm",
                          "--gpus",
                          "1",
                          "--sequence-length",
                          "128",
                          "--micro-batch",
                          "1",
                          "--measured",
                          file.name()};
  const json rows =
      json_answer([](const trace_words& words) { return output_of_command("time", words); }, asked);
  std::set<std::string> seen;
  for (const json& row : rows) {
    CAPTURE(row.dump());
    seen.insert(row["what"]);
    if (row["table"] == "step") {
      // kernels are one for each operator here
      if (row["what"] == "host_s" || row["what"] == "device_s")
        CHECK(row["ratio"].get<double>() == doctest::Approx(1).epsilon(0.01));
      continue;
    }
    CHECK(row["table"] == "kernels_s");
    CHECK(row["ratio"].get<double>() == doctest::Approx(1).epsilon(1e-6));
  }
  for (const char* what : {"matmul",
                           "attention",
                           "activation",
                           "softmax, loss",
                           "sum",
                           "element-wise, norm, copy",
                           "optimizer",
                           "launches"})
    CHECK_MESSAGE(seen.count(what) == 1, what);
  const std::string text = output_of_command("time", asked).out;
  CHECK(has(text, "kernels as measured and as predicted"));
}

TEST_CASE("a trace of another device or model is remarked on") {
  const auto remarks = [](const char* device) {
    const temporary_file file(
        R"({"deviceProperties":[{"name":")" + std::string(device) +
            R"("}],"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","tid":1,"ts":0,)"
            R"("dur":9,"args":{"Input Dims":[[5,6],[6,7]]}}]})",
        "trace.json");
    const outcome made =
        output_of_command("time", {"gpt2", "--gpu", "h100-sxm", "--measured", file.name()});
    CHECK(made.status == 0);
    return made.err;
  };
  CHECK(has(remarks("NVIDIA A100-SXM4-80GB"),
            "the trace was made on NVIDIA A100-SXM4-80GB, and the step is predicted of "
            "h100_sxm5_80gb"));
  const std::string model = remarks("NVIDIA H100 80GB HBM3");
  CHECK(!has(model, "the trace was made on"));
  CHECK(has(model, "of 147 products predicted the trace has 0: it is of another model"));
}

TEST_CASE("a profiled step is compared with eager code alone, and with a trace alone") {
  const temporary_file file("{}", "trace.json");
  const trace_words eager{"gpt2", "--gpus", "1", "--measured", file.name()};
  const outcome nothing = output_of_command("time", eager);
  CHECK(nothing.status == 2);
  CHECK(has(nothing.err, ": it has no traceEvents"));
  const temporary_file some(
      R"([{"ph":"X","cat":"cpu_op","name":"aten::mul","tid":1,"ts":0,"dur":9}])", "trace.json");
  const outcome compiled = output_of_command("time",
                                             {"llama-3-8b",
                                              "--framework",
                                              "torchtitan",
                                              "--gpus",
                                              "8",
                                              "--zero",
                                              "3",
                                              "--measured",
                                              some.name()});
  CHECK(compiled.status == 2);
  CHECK(has(compiled.err, "--measured: operators are predicted of eager code alone"));
}
