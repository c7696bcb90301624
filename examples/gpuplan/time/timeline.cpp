#include "time/timeline.hpp"

#include <gpuplan/communication.hpp>
#include <gpuplan/io/chart/gantt.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/step_trace.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/replay/device_kernels.hpp>
#include <gpuplan/replay/step_time.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/explanation.hpp>
#include <gpuplan/time/roofline.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "memory/kinds.hpp"
#include "memory/pace.hpp"
#include "report/schedule.hpp"
#include "setups/numbers.hpp"
#include "setups/options.hpp"

namespace time_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;

// More is no picture, and takes viewers minutes to load.
constexpr double most_work = 400'000;

void check_count(const std::string& option, double count) {
  if (count > most_work)
    throw guides::bad_request(option + ": the step has " + io::short_number(count) +
                              " pieces of work, and at most " + io::short_number(most_work) +
                              " are drawn; fewer micro-batches (--accumulation) have less");
}

struct kind_of_work {
  const char* name;
  const char* fill;
};
using report_program::pass_looks;
constexpr std::array<kind_of_work, 8> kinds{{{pass_looks[0].name, pass_looks[0].fill},
                                             {pass_looks[1].name, pass_looks[1].fill},
                                             {pass_looks[2].name, pass_looks[2].fill},
                                             {pass_looks[3].name, pass_looks[3].fill},
                                             {"recomputation", "#f0dcbc"},
                                             {"optimizer", "#5fb37c"},
                                             {"communication", "#d98f2b"},
                                             {"host", "#c9c9c9"}}};
const char* name_of(work_kind kind) { return kinds[static_cast<std::size_t>(kind)].name; }

// ---- eager code, operator by operator

work_kind kind_of(const traced_operator& one) {
  using enum eager::kernel_times::part;
  if (one.is_collective) return work_kind::communication;
  switch (one.pass) {
    case forward:
      return work_kind::forward;
    case backward:
      return work_kind::backward;
    case again:
      return work_kind::recompute;
    case optimizer:
      break;
  }
  return work_kind::optimizer;
}

const char* name_of(collective what) {
  switch (what) {
    case collective::all_reduce:
      return "all-reduce";
    case collective::all_gather:
      return "all-gather";
    case collective::reduce_scatter:
      return "reduce-scatter";
    case collective::all_to_all:
      return "all-to-all";
    case collective::broadcast:
      return "broadcast";
    case collective::send:
      break;
  }
  return "send";
}

std::string name_of(const traced_operator& one) {
  if (one.is_collective)
    return std::string(name_of(one.exchanged.what)) + ", " +
           setups::readable_bytes(one.exchanged.bytes);
  const eager::device_work& work = one.work;
  if (work.products > 0) {
    const eager::matrix_product& by = work.product;
    std::string name = "matmul " + std::to_string(by.rows) + " x " + std::to_string(by.inner) +
                       " x " + std::to_string(by.columns);
    if (by.batch > 1) name += ", batch " + std::to_string(by.batch);
    return name;
  }
  if (work.attention_flops > 0) return work.is_flash ? "attention, flash" : "attention, efficient";
  if (work.kernels == 0) return work.copies > 0 ? "copy" : "fill";
  switch (work.kind) {
    case eager::kernel_kind::functions:
      return "activation";
    case eager::kernel_kind::softmaxes:
      return "softmax or loss";
    case eager::kernel_kind::sums:
      return "sum";
    case eager::kernel_kind::norms:
    case eager::kernel_kind::rms_norms:
      return "norm";
    case eager::kernel_kind::elements:
      break;
  }
  return "element-wise";
}

timeline of_operators(const step_trace& step) {
  timeline made{.clock = "operators as the replay runs them",
                .end = in(step.parts.total(), 1_s),
                .processes = {"host", "device"},
                .tracks = {{0, "PyTorch"}, {1, "operators"}}};
  std::vector<std::size_t> track_of{1};  // by stream
  for (const traced_operator& one : step.operators) {
    const auto stream = static_cast<std::size_t>(one.stream);
    if (stream >= track_of.size()) track_of.resize(stream + 1, 0);
    if (track_of[stream] == 0) {
      track_of[stream] = made.tracks.size();
      made.tracks.push_back({1, "communication, stream " + std::to_string(stream)});
    }
    const std::string name = name_of(one);
    const std::string where = one.layer < 0 ? "" : "layer " + std::to_string(one.layer);
    made.work.push_back({0, work_kind::host, name, where, one.issue_begin, one.issue_end});
    made.work.push_back({track_of[stream], kind_of(one), name, where, one.begin, one.end});
  }
  memory_curve curve{.process = 1, .times = {0}, .in_use = {step.memory.at_first}};
  for (std::size_t at = 0; at < step.memory.changes.size(); ++at) {
    curve.times.push_back(step.memory_times[at]);
    curve.in_use.push_back(step.memory.changes[at].in_use);
  }
  made.memory.push_back(std::move(curve));
  return made;
}

// ---- parts of the roofline, by the pipeline's schedule

double whole_of(const time_explanation& why, time_cause cause) {
  for (const time_piece& piece : why.pieces())
    if (piece.cause == cause) return piece.amount / piece.rate + piece.calls * piece.latency;
  return 0;
}

memory_curve memory_of_stage(const runs::stated_step& of, std::int64_t stage, double end) {
  roofline_time time = of.time;
  time.setup.place.stage = stage;
  batch_plan drawn = of.plan;
  drawn.accumulation = detail::repeated_micro_batches(time.setup, drawn).fewer;
  const memory_timeline::timed_trace step = memory_timeline::timed(time, of.plan, drawn);
  memory_curve curve{
      .process = static_cast<std::size_t>(stage), .times = {0}, .in_use = {step.trace.at_first}};
  for (std::size_t at = 0; at < step.trace.changes.size(); ++at) {
    curve.times.push_back(step.times[at] / step.times.back() * end);
    curve.in_use.push_back(step.trace.changes[at].in_use);
  }
  return curve;
}

timeline of_schedule(const std::string& option, const runs::stated_step& of) {
  const parallelism& layout = of.time.setup.parallelism;
  const std::int64_t stages = layout.pipeline_parallel;
  constexpr std::int64_t most_stages = 64;
  if (stages > most_stages)
    throw guides::bad_request(option + ": --pipeline-parallel " + std::to_string(stages) +
                              ": at most " + std::to_string(most_stages) + " stages are drawn");
  const double passes_of_chunk = traits_of(layout.schedule).defers_weights ? 3 : 2;
  check_count(option,
              passes_of_chunk * static_cast<double>(stages * layout.virtual_pipeline) *
                  static_cast<double>(of.plan.accumulation));
  const time_explanation why = explain_time(of.time, of.plan);
  const step_breakdown& parts = why.parts;
  const detail::step_line line = detail::step_composer(of.time, of.plan).line();
  detail::pipeline_seconds passes = line.work.stages;
  passes.micro_batches = of.plan.accumulation;
  const std::vector<report_program::pipeline_task> tasks =
      report_program::tasks_of(passes, layout.schedule);
  // What is not of the schedule comes before it, and behind.
  const double before = in(parts.data, 1_s);
  const double behind = line.gradients + line.parameters + line.optimizer + line.host;
  timeline made{.clock = "parts of the roofline, by the schedule", .end = in(why.step, 1_s)};
  double last = 0;
  for (const report_program::pipeline_task& task : tasks) last = std::max(last, task.end);
  const double scheduled = made.end - before - behind;
  const double scale = last > 0 ? scheduled / last : 1;
  if (std::abs(scale - 1) > 1e-9)
    made.clock += ", whose times are multiplied by " + io::decimal(scale, 4) +
                  " to end as the closed form does";
  if (stages > 1) made.stages = report_program::names_of_stages(tasks);
  made.mark = report_program::mark_of(layout);
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const auto process = static_cast<std::size_t>(stage);
    made.processes.push_back(stages == 1 ? "device" : "stage " + std::to_string(stage));
    made.tracks.push_back({process, "passes"});
    made.tracks.push_back({process, "communication"});
    made.tracks.push_back({process, "host"});
    made.memory.push_back(memory_of_stage(of, stage, made.end));
  }
  for (const report_program::pipeline_task& task : tasks) {
    const std::string number = std::to_string(task.micro_batch + 1);
    const auto kind = static_cast<work_kind>(task.what);  // named alike, in the same order
    std::string where = "micro-batch " + number;
    if (chunks_held(layout) > 1) where += ", chunk " + std::to_string(task.chunk);
    made.work.push_back({3 * static_cast<std::size_t>(task.stage),
                         kind,
                         name_of(kind),
                         where,
                         before + scale * task.begin,
                         before + scale * task.end,
                         stages > 1 ? number : "",
                         task.chunk % 2 != 0});
  }
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(stages); ++stage) {
    const auto add = [&](std::size_t track,
                         work_kind kind,
                         time_cause what,
                         double begin,
                         double end) {
      if (end > begin)
        made.work.push_back({3 * stage + track, kind, text(what), "", std::max(0.0, begin), end});
    };
    add(1, work_kind::communication, time_cause::samples, 0, before);
    double now = before + scheduled + line.gradients;
    add(1,
        work_kind::communication,
        time_cause::gradients,
        std::max(before, now - whole_of(why, time_cause::gradients)),
        now);
    add(0, work_kind::optimizer, time_cause::optimizer, now, now + line.optimizer);
    now += line.optimizer;
    add(1, work_kind::communication, time_cause::weights, now, now + line.parameters);
    now += line.parameters;
    add(2, work_kind::host, time_cause::host_of_step, now, made.end);
  }
  return made;
}

// A pipeline's picture in words.
std::string description_of(const timeline& of) {
  std::string words = of.title + ". From top to bottom:";
  for (std::size_t stage = 0; stage < of.stages.size(); ++stage) {
    std::array<std::size_t, 4> count{};  // of each kind of passes
    for (const timed_work& one : of.work)
      if (of.tracks[one.track].process == stage && one.kind <= work_kind::of_weights)
        ++count[static_cast<std::size_t>(one.kind)];
    words += (stage == 0 ? " " : "; ") + of.stages[stage] + ":";
    bool any = false;
    for (std::size_t kind = 0; kind < count.size(); ++kind)
      if (count[kind] > 0) {
        words += (any ? ", " : " ") + std::to_string(count[kind]) + " x " + kinds[kind].name;
        any = true;
      }
  }
  return words + ". The step ends after " + io::decimal(of.end, 4) + " s.";
}

}  // namespace

result<step_trace> eager_step(const std::string& option, const runs::stated_step& of) {
  const replayed_time model{
      .setup = of.time.setup, .on = of.time.on, .kernels = kernel_shares_of(of.time.on.gpu)};
  if (model.setup.parallelism.pipeline_parallel > 1) return failure(errc::no_such_code);
  batch_plan once = of.plan;
  once.accumulation = 1;
  const auto counts = counts_of(model.setup, once);
  if (!counts) return counts.why();
  if (!counts->work) return failure(errc::no_such_code);
  const step_work& work = *counts->work;
  check_count(option,
              2.0 * static_cast<double>(work.optimizer.operators) +
                  2.0 * static_cast<double>(of.plan.accumulation) *
                      static_cast<double>(work.forward.operators + work.backward.operators));
  return trace_of(model, of.plan);
}

timeline timeline_of(const std::string& option, const runs::stated_step& of) {
  const auto step = eager_step(option, of);
  timeline made = step ? of_operators(*step) : of_schedule(option, of);
  made.title = of.named.name + ": " + setups::in_words(of.named.setup, of.plan);
  return made;
}

std::string chrome_trace_of(const timeline& of) {
  using json = nlohmann::ordered_json;
  json events = json::array();
  const auto name =
      [&](const char* what, std::size_t process, const json& track, const std::string& as) {
        json event{{"name", what}, {"ph", "M"}, {"pid", process}, {"args", {{"name", as}}}};
        if (!track.is_null()) event["tid"] = track;
        events.push_back(event);
      };
  for (std::size_t at = 0; at < of.processes.size(); ++at)
    name("process_name", at, nullptr, of.processes[at]);
  for (std::size_t at = 0; at < of.tracks.size(); ++at)
    name("thread_name", of.tracks[at].process, at, of.tracks[at].name);
  for (const timed_work& one : of.work) {
    json event{{"name", one.name},
               {"cat", name_of(one.kind)},
               {"ph", "X"},
               {"pid", of.tracks[one.track].process},
               {"tid", one.track},
               {"ts", 1e6 * one.begin},
               {"dur", 1e6 * (one.end - one.begin)}};
    if (!one.where.empty()) event["args"] = {{"where", one.where}};
    events.push_back(event);
  }
  for (const memory_curve& curve : of.memory)
    for (std::size_t at = 0; at < curve.times.size(); ++at) {
      json parts = json::object();
      for (const memory_timeline::kind& one : memory_timeline::kinds())
        parts[one.of_picture] = memory_timeline::of(curve.in_use[at], one);
      events.push_back({{"name", "memory in bytes"},
                        {"ph", "C"},
                        {"pid", curve.process},
                        {"ts", 1e6 * curve.times[at]},
                        {"args", parts}});
    }
  const json document{{"displayTimeUnit", "ms"},
                      {"otherData", {{"step", of.title}, {"time", of.clock}}},
                      {"traceEvents", events}};
  return document.dump() + "\n";
}

std::string svg_of(const timeline& of) {
  const bool has_seconds = of.end >= 2;
  const double unit = has_seconds ? 1 : 1e3;
  io::gantt_chart chart{.title = "A step over its time",
                        .subtitle = of.title + "; " + of.clock,
                        .counts = has_seconds ? "seconds" : "milliseconds"};
  for (const kind_of_work& kind : kinds) chart.kinds.push_back({kind.name, kind.fill, "#1a1a1a"});
  std::vector<std::size_t> row_of(of.tracks.size());
  if (of.stages.empty()) {
    std::vector<bool> is_used(of.tracks.size());
    for (const timed_work& one : of.work) is_used[one.track] = true;
    for (std::size_t at = 0; at < of.tracks.size(); ++at) {
      row_of[at] = chart.rows.size();
      const std::string& process = of.processes[of.tracks[at].process];
      if (is_used[at]) chart.rows.push_back(process + ": " + of.tracks[at].name);
    }
  } else {
    chart.title = "A step of a pipeline over its time";
    chart.rows = of.stages;
    chart.idle = "waits";
    chart.mark = of.mark;
    chart.description = description_of(of);
    for (std::size_t at = 0; at < of.tracks.size(); ++at) row_of[at] = of.tracks[at].process;
  }
  const double narrow = unit * of.end / 2000;
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> last(chart.rows.size(), none);  // task of each line
  // Along a stage's one line as it ends, so that passes come before what goes on behind them.
  std::vector<std::size_t> order(of.work.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!of.stages.empty())
    std::sort(order.begin(), order.end(), [&](std::size_t one, std::size_t next) {
      const double before = of.work[one].end;
      const double after = of.work[next].end;
      return before != after ? before < after : one < next;
    });
  for (const std::size_t at : order) {
    const timed_work& one = of.work[at];
    double begin = unit * one.begin;
    const double end = unit * one.end;
    const auto kind = static_cast<std::size_t>(one.kind);
    std::size_t& before = last[row_of[one.track]];
    if (before != none) {
      io::gantt_chart::task& task = chart.tasks[before];
      // Of a stage's one line, what goes on behind passes is not seen.
      begin = std::max(begin, task.end);
      if (end <= begin) continue;
      if (task.marked == one.marked && task.kind == kind && begin - task.end < narrow &&
          (task.end - task.begin < 6 * narrow || end - begin < 6 * narrow)) {
        task.end = end;
        task.label.clear();
        task.says = kinds[kind].name;
        continue;
      }
    }
    before = chart.tasks.size();
    chart.tasks.push_back({.row = row_of[one.track],
                           .kind = kind,
                           .begin = begin,
                           .end = end,
                           .label = one.label.empty() ? one.name : one.label,
                           .says = one.name + (one.where.empty() ? "" : ", " + one.where),
                           .marked = one.marked});
  }
  return to_svg(chart);
}

}  // namespace time_program
