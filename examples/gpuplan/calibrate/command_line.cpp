#include "calibrate/command_line.hpp"

#include <gpuplan/gpu.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/time/stack_numbers.hpp>
#include <gpuplan/time/timed_steps.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "guides/render.hpp"
#include "plan/report.hpp"
#include "runs/clusters.hpp"
#include "runs/own_cluster.hpp"

namespace calibrate_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using io::cell;

constexpr const char* about =
    "What a few timed steps say of a cluster and its software: the numbers that no data sheet "
    "has,\n"
    "how well they meet each step, and which step to time next. Other commands go by them with\n"
    "--timed-steps FILE.\n"
    "\n"
    "FILE is a table in CSV, a line for each step. Its columns are the options of gpuplan time\n"
    "without the dashes, model, and step_s (or step_ms), the time. Three steps at least, better "
    "five\n"
    "to ten that differ in layout and micro-batch, on one kind of GPU and network and by one "
    "software. A\n"
    "step without a time may be timed next. A column called note or date is left out.";
constexpr const char* examples =
    "Example of a file:\n"
    "  model,gpu,gpus,network,zero,micro-batch,accumulation,step_s\n"
    "  llama-3-8b,h100-sxm,8,400,3,1,4,2.7\n"
    "  llama-3-8b,h100-sxm,8,400,3,2,2,2.5\n"
    "  llama-3-8b,h100-sxm,8,400,2,1,4,2.6\n"
    "  llama-3-8b,h100-sxm,16,400,3,1,4,\n"
    "Examples:\n"
    "  gpuplan calibrate steps.csv\n"
    "  gpuplan plan llama-3-70b --gpu h100-sxm --gpus 64 --batch 512 --timed-steps steps.csv";

struct request {
  std::string file{};
};

struct number_in_words {
  stack_number number;
  const char* words;
};
constexpr number_in_words all_numbers[] = {
    {stack_number::matmul_rate, "products' rate, of what the device's kernels reach"},
    {stack_number::element_rate, "element-wise kernels' rate, likewise"},
    {stack_number::host_per_operator, "host: an operator"},
    {stack_number::host_per_collective, "host: a collective"},
    {stack_number::host_per_rank, "hosts waiting for each other, per rank"},
    {stack_number::wait_per_node, "tensor ranks waiting, per node"},
    {stack_number::host_per_step, "host: a step"},
    {stack_number::launch_of_collective, "latency of a collective"},
    {stack_number::hop_between, "latency from node to node"},
    {stack_number::inside_node, "link inside the node, of a GPU"},
    {stack_number::between_nodes, "network, of a node"}};

const prior_of_number& prior_of(stack_number number) {
  return priors_of_numbers[static_cast<std::size_t>(number)];
}

// For people.
std::string with_unit(double value, std::string_view unit) {
  const auto figures = [](double number) {
    return io::decimal(number, plan_program::digits_of(number));
  };
  if (unit.empty()) return figures(value);
  if (unit == "byte/s") return figures(value / 1e9) + " GB/s";
  if (value >= 0.1) return figures(value) + " s";
  return value >= 1e-3 ? figures(1e3 * value) + " ms" : figures(1e6 * value) + " us";
}
std::string percent_off(duration predicted, duration timed) {
  const double off = 100 * (predicted / timed - 1);
  return (off > 0 ? "+" : "") + io::decimal(off, 1);
}

class answer {
 public:
  explicit answer(const request& asked) : own_(runs::own_cluster_of("FILE", asked.file)) {
    std::vector<possible_step> possible;
    std::vector<std::size_t> places;
    for (std::size_t at = 0; at < own_.steps.size(); ++at) {
      if (own_.steps[at].time) continue;
      possible.push_back({own_.steps[at].is.time, own_.steps[at].is.plan});
      places.push_back(at);
    }
    if (possible.size() > 1) next_ = &own_.steps[places[step_to_time_next(own_.found, possible)]];
  }

  std::string text(const guides::output& as) const {
    if (!traits_of(as.format).for_people) return guides::render(for_programs(), as);
    std::string all = guides::render(numbers(), as) + "\n" + guides::render(timed(), as);
    if (has_possible()) all += "\n" + guides::render(possible(), as);
    return all;
  }

 private:
  runs::own_cluster own_;
  const runs::own_step* next_ = nullptr;

  [[nodiscard]] bool has_possible() const {
    return std::any_of(
        own_.steps.begin(), own_.steps.end(), [](const runs::own_step& one) { return !one.time; });
  }
  // Why a step's time may mean something else, or little.
  [[nodiscard]] std::string note_of(const runs::own_step& one) const {
    const bytes needed = one.is.memory.required(one.is.plan);
    const bytes usable = usable_memory(one.on.on.gpu);
    const double surely = 1.2;  // what the allocator cannot use may be little
    if (needed > surely * usable)
      return "needs " + io::decimal(in(needed, 1_GiB), 1) + " GiB of " +
             io::decimal(in(usable, 1_GiB), 1) + ": is recompute missing?";
    const duration now = own_.found.applied_to(one.is.time).step(one.is.plan);
    const double off = std::log(now / *one.time) / own_.found.scatter;
    const double far = 2.5;
    return std::abs(off) > far ? "far off: counts little" : "";
  }

  static duration untimed(const runs::own_cluster& own, const runs::own_step& one) {
    return own.before.applied_to(one.is.time).step(one.is.plan);
  }

  io::table numbers() const {
    const runs::own_step& first = own_.steps.front();
    io::table table{.title = std::to_string(own_.found.steps) + " steps of " +
                             first.is.named.setup.framework.name + " on " + first.on.on.gpu.id};
    table.columns = {{.name = "number"},
                     {.name = "before", .align = io::alignment::right},
                     {.name = "now", .align = io::alignment::right},
                     {.name = "80 % within", .align = io::alignment::right}};
    for (const number_in_words& one : all_numbers) {
      if (!own_.found.is_set[static_cast<std::size_t>(one.number)]) continue;
      const prior_of_number& prior = prior_of(one.number);
      const double now = own_.found.value(one.number);
      const double width = runs::factor_either_way(own_.found, one.number);
      table.rows.push_back(
          {one.words,
           with_unit(own_.before.value(one.number), prior.unit),
           own_.tells(one.number) ? with_unit(now, prior.unit) : "as before",
           with_unit(now / width, prior.unit) + " - " + with_unit(now * width, prior.unit)});
    }
    table.rows.push_back({"how far a step lies beside what these give",
                          io::decimal(100 * own_.before.scatter, 1) + " %",
                          io::decimal(100 * own_.found.scatter, 1) + " %",
                          ""});
    return table;
  }

  io::table timed() const {
    io::table table{.title = "the steps: samples of a micro-batch x accumulation"};
    table.columns = {{.name = "line", .align = io::alignment::right},
                     {.name = "step"},
                     {.name = "timed_s", .align = io::alignment::point},
                     {.name = "off before %", .align = io::alignment::point},
                     {.name = "now_s", .align = io::alignment::point},
                     {.name = "off now %", .align = io::alignment::point}};
    const bool has_notes =
        std::any_of(own_.steps.begin(), own_.steps.end(), [&](const runs::own_step& one) {
          return one.time && !note_of(one).empty();
        });
    if (has_notes) table.columns.push_back({.name = "note"});
    for (const runs::own_step& one : own_.steps) {
      if (!one.time) continue;
      const duration before = untimed(own_, one);
      const duration now = own_.found.applied_to(one.is.time).step(one.is.plan);
      table.rows.push_back({one.line,
                            one.words,
                            seconds(*one.time),
                            percent_off(before, *one.time),
                            seconds(now),
                            percent_off(now, *one.time)});
      if (has_notes) table.rows.back().emplace_back(note_of(one));
    }
    return table;
  }

  io::table possible() const {
    io::table table{.title = "not timed"};
    if (next_ != nullptr)
      table.title += "; line " + std::to_string(next_->line) + " would tell most: time it next";
    table.columns = {{.name = "line", .align = io::alignment::right},
                     {.name = "step"},
                     {.name = "step_s", .align = io::alignment::point},
                     {.name = "80 % within", .align = io::alignment::right}};
    for (const runs::own_step& one : own_.steps) {
      if (one.time) continue;
      const time_interval step = step_interval(one.is.time, one.is.plan, own_.found);
      table.rows.push_back({one.line,
                            one.words,
                            seconds(step.median),
                            cell{range<double>{in(step.low, 1_s), in(step.high, 1_s)},
                                 plan_program::digits_of(in(step.low, 1_s))}});
    }
    return table;
  }

  static cell seconds(duration time) {
    return {in(time, 1_s), plan_program::digits_of(in(time, 1_s))};
  }

  io::table for_programs() const {
    io::table table;
    for (const char* name : {"what",
                             "name",
                             "unit",
                             "line",
                             "timed",
                             "before",
                             "value",
                             "low",
                             "high",
                             "is_next",
                             "note"})
      table.columns.push_back({.name = name});
    for (const number_in_words& one : all_numbers) {
      if (!own_.found.is_set[static_cast<std::size_t>(one.number)]) continue;
      const double value = own_.found.value(one.number);
      const double width = runs::factor_either_way(own_.found, one.number);
      table.rows.push_back({"number",
                            prior_of(one.number).name,
                            prior_of(one.number).unit,
                            cell(),
                            cell(),
                            own_.before.value(one.number),
                            value,
                            value / width,
                            value * width,
                            cell(),
                            own_.tells(one.number) ? "" : "as before"});
    }
    table.rows.push_back({"number",
                          "scatter",
                          "",
                          cell(),
                          cell(),
                          own_.before.scatter,
                          own_.found.scatter,
                          cell(),
                          cell(),
                          cell(),
                          ""});
    for (const runs::own_step& one : own_.steps) {
      const time_interval step = step_interval(one.is.time, one.is.plan, own_.found);
      table.rows.push_back({"step",
                            one.words,
                            "s",
                            one.line,
                            one.time ? cell(in(*one.time, 1_s)) : cell(),
                            in(untimed(own_, one), 1_s),
                            in(step.median, 1_s),
                            in(step.low, 1_s),
                            in(step.high, 1_s),
                            one.time ? cell() : cell(&one == next_ ? "yes" : "no"),
                            one.time ? note_of(one) : ""});
    }
    return table;
  }
};

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {
      .name = "gpuplan calibrate",
      .about = about,
      .examples = examples,
      .add =
          [=](CLI::App& app) {
            app.add_option("FILE", asked->file, "The steps, in CSV")->required()->type_name("FILE");
          },
      .make = [=](const guides::output& as) { return answer(*asked).text(as); }};
}

}  // namespace calibrate_program
