#include "report/page.hpp"

#include <gpuplan/cluster.hpp>
#include <gpuplan/io/html.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/replay/step_time.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/stack_numbers.hpp>
#include <gpuplan/units.hpp>
#include <gpuplan/version.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/options.hpp"
#include "plan/report.hpp"
#include "runs/own_cluster.hpp"
#include "runs/runs.hpp"
#include "runs/stated_step.hpp"
#include "setups/numbers.hpp"

namespace report_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using io::cell;
using plan_program::digits_of;
using plan_program::named_plan;

std::string rounded(double value) {
  if (value >= 1e4) return setups::grouped(std::llround(value));
  return io::decimal(value, digits_of(value));
}

std::string degrees(const known<range<std::int64_t>>& of) {
  if (!of) return "as the framework has it";
  if (of->low() == of->high()) return std::to_string(of->low());
  return std::to_string(of->low()) + " to " + std::to_string(of->high());
}

io::table request_table(const findings& of) {
  const plan_request& request = of.asked.request;
  const training_setup& setup = request.setup;
  io::table table{.title = "What was asked", .columns = {{.name = "what"}, {.name = "value"}}};
  const auto add = [&](const char* what, std::string value) {
    table.rows.push_back({what, std::move(value)});
  };
  add("model", of.asked.name);
  std::string codes = setup.framework.name + (" by " + plan_program::code_of(setup.framework));
  for (const training_setup& other : request.setups) {
    const std::string code =
        other.framework.name + (" by " + plan_program::code_of(other.framework));
    if (codes.find(code) == std::string::npos) codes += ", " + code;
  }
  add("code, to choose from", codes);
  add("tokens of a sample", setups::grouped(runs::tokens_of_sample(setup)));
  std::string precisions;
  const std::vector<std::string>& names = of.asked.precisions;
  for (auto at = names.begin(); at != names.end(); ++at)
    if (std::find(names.begin(), at, *at) == at)
      precisions += (precisions.empty() ? "" : ", ") + *at;
  add("precision, to choose from", precisions);
  add("GPUs", plan_program::gpus_of(request));
  const range<std::int64_t> batch = request.effective_batch;
  add("samples of a step",
      setups::grouped(batch.low()) +
          (batch.low() == batch.high() ? "" : " to " + setups::grouped(batch.high())));
  if (request.samples != 0) add("samples of the run", setups::grouped(request.samples));
  if (request.finish_in)
    add("the run ends within", rounded(in(*request.finish_in, 1_h)) + " hours");
  if (request.at_most)
    add("the run costs at most", rounded(in(*request.at_most, 1_usd)) + " dollars");
  add("least of",
      request.goal == plan_goal::least_time    ? "time"
      : request.goal == plan_goal::least_money ? "money"
                                               : "memory");
  const plan_space& space = request.space;
  add("tensor parallel", degrees(space.tensor_parallel));
  add("pipeline parallel", degrees(space.pipeline_parallel));
  add("virtual pipeline", degrees(space.virtual_pipeline));
  add("context parallel", degrees(space.context_parallel));
  add("expert parallel", degrees(space.expert_parallel));
  add("ZeRO stage", degrees(space.zero_stage));
  add("micro-batch", degrees(known<range<std::int64_t>>(space.micro_batch)));
  if (space.data_parallel) add("replicas", degrees(space.data_parallel));
  if (space.accumulation) add("accumulation", degrees(space.accumulation));
  return table;
}

io::table plans_table(const findings& of) {
  io::table table{.title = "The best plan and its runners-up"};
  table.columns = {{.name = "plan"},
                   {.name = "GPU"},
                   {.name = "GPUs", .align = io::alignment::right},
                   {.name = "layout"},
                   {.name = "recomputes"},
                   {.name = "batch"},
                   {.name = "step", .unit = "s", .align = io::alignment::point},
                   {.name = "tokens/s", .align = io::alignment::point},
                   {.name = "MFU", .unit = "%", .align = io::alignment::point},
                   {.name = "memory", .unit = "GiB", .align = io::alignment::point}};
  const bool has_run = static_cast<bool>(of.best().run);
  const bool has_money = has_run && of.best().run->cost;
  if (has_run) table.columns.push_back({.name = "hours", .align = io::alignment::point});
  if (has_money) table.columns.push_back({.name = "dollars", .align = io::alignment::point});
  const bool has_energy = has_run && of.best().run->energy_used;
  if (has_energy) table.columns.push_back({.name = "kWh", .align = io::alignment::point});
  const auto& carbon_of_best = of.best().carbon_kg;
  if (carbon_of_best) table.columns.push_back({.name = "kg CO2", .align = io::alignment::point});
  table.columns.push_back({.name = "slower by", .unit = "%", .align = io::alignment::point});
  const training_plan& best = *of.best().plan;
  for (const named_plan& one : of.plans) {
    const training_plan& plan = *one.is.plan;
    std::vector<cell> row{one.name,
                          one.is.gpu,
                          plan.gpus,
                          plan_program::in_words(plan),
                          plan_program::recomputed(one.is.model.setup),
                          plan_program::in_words(plan.batch),
                          {in(plan.step, 1_s), digits_of(in(best.step, 1_s), 4)},
                          {in(one.is.rates.tokens, 1_tokens_per_s), 0},
                          {100 * one.is.rates.mfu, 1},
                          {plan.required.value() / setups::gibibyte, 1}};
    if (has_run)
      row.emplace_back(in(one.is.run->time, 1_h), digits_of(in(of.best().run->time, 1_h)));
    if (has_money)
      row.push_back(plan_program::cell_of(
          one.is.run->cost, 1_usd, digits_of(in(*of.best().run->cost, 1_usd))));
    if (has_energy)
      row.push_back(plan_program::cell_of(
          one.is.run->energy_used, 1_kWh, digits_of(in(*of.best().run->energy_used, 1_kWh))));
    if (carbon_of_best)
      row.push_back(one.is.carbon_kg ? cell(*one.is.carbon_kg, digits_of(*carbon_of_best))
                                     : cell());
    row.emplace_back(100 * loss_of(plan, best), 1);
    table.rows.push_back(row);
  }
  return table;
}

io::table limits_table(const findings& of) {
  io::table table{.title = "What each limit costs",
                  .columns = {{.name = "without the limit of"},
                              {.name = "layout"},
                              {.name = "batch"},
                              {.name = "saves", .unit = "%", .align = io::alignment::point}}};
  for (const lifted_limit& lifted : of.limits)
    table.rows.push_back({text(lifted.limit),
                          plan_program::in_words(lifted.plan),
                          plan_program::in_words(lifted.plan.batch),
                          {100 * lifted.gain, 1}});
  return table;
}

struct assumption {
  std::string what;
  std::string value;
  std::string origin;
};

std::string percent(double share) { return rounded(100 * share) + " %"; }
std::string microseconds(duration time) { return rounded(in(time, 1_us)) + " us"; }
std::string gigabytes_per_second(bandwidth rate) { return rounded(in(rate, 1_GBps)) + " GB/s"; }

// What the time of several models in one step rests on: single kernels, and a host.
std::vector<assumption> replayed_assumptions(const findings& of) {
  const replayed_time by = runs::time_by_replay(of.best().model.setup, of.on());
  const std::string shares = "single kernels, timed or published";
  const std::string host = "the middle one of three hosts that were timed";
  return {
      {"of the peak, products reach", percent(by.kernels.products), shares},
      {"of the bandwidth, element-wise kernels reach", percent(by.kernels.elements), shares},
      {"the host issues an operator of the forward in", microseconds(by.host.forward), host},
      {"the host issues an operator of the backward in", microseconds(by.host.backward), host},
      {"the host issues an operator of the optimizer in", microseconds(by.host.optimizer), host}};
}

io::table assumptions_table(const findings& of) {
  const training_plan& best = *of.best().plan;
  const roofline_time time = time_of(of.asked.request, best);
  const device_efficiency& reached = time.efficiency;
  const software_costs& costs = time.setup.framework.costs;
  const ceiling_origins from = time.origins();
  io::table table{.title = "What the best plan's numbers rest on",
                  .columns = {{.name = "assumption"}, {.name = "value"}, {.name = "from"}}};
  const auto add = [&](const std::string& what, std::string value, std::string origin) {
    table.rows.push_back({what, std::move(value), std::move(origin)});
  };
  const std::string of_device = reached.source;
  const runs::own_cluster* const own = of.asked.own.get();
  const runs::named_cluster& asked_on = of.asked.clusters[best.cluster];
  // Also what the steps hardly tell of is theirs where a figure that is shown is no longer as
  // before.
  const auto told = [&](stack_number number, const std::string& otherwise) {
    if (own == nullptr) return otherwise;
    const stack_estimate stack = own->estimate_of(time.setup.framework, asked_on);
    if (!stack.is_set[static_cast<std::size_t>(number)]) return otherwise;
    const double five_figures = 5e-5;
    const double moved = std::abs(std::log(stack.value(number) / own->before.value(number)));
    return moved > five_figures || own->tells(number) ? "timed steps of " + own->file : otherwise;
  };
  if (const auto rate = matmul_ceiling(time.on.gpu, format_of_linears(time.setup.precision)))
    add("dense peak of products",
        rounded(in(rate->value, 1_TFLOPS)) + " TFLOP/s",
        text(from.products));
  add("memory's bandwidth",
      gigabytes_per_second(memory_ceiling(time.on.gpu).value),
      text(from.memory));
  const bool is_replayed = of.best().is_replayed;
  if (is_replayed)
    for (const assumption& one : replayed_assumptions(of)) add(one.what, one.value, one.origin);
  const double products = (own != nullptr ? costs.matmul_rate : 1) * reached.products;
  if (!is_replayed) {
    add("of the peak, products reach",
        percent(products),
        told(stack_number::matmul_rate, of_device));
    add("of the peak, attention's forward reaches", percent(reached.attention_forward), of_device);
    add("of the peak, attention's backward reaches",
        percent(reached.attention_backward),
        of_device);
    add("of the bandwidth, other kernels reach", percent(reached.memory), of_device);
  }
  if (total_gpus(time.on) > 1)
    if (const auto link = inside_node_ceiling(time.on)) {
      const auto before = inside_node_ceiling(asked_on.on);
      add("a GPU's link inside its node",
          gigabytes_per_second(link->value),
          told(stack_number::inside_node, text((before ? before : link)->origin)));
    }
  if (time.on.nodes > 1)
    if (const auto link = link_between_nodes(time.on))
      add("a node's network",
          gigabytes_per_second(*link),
          told(stack_number::between_nodes,
               time.on.between_nodes ? "the request" : "the catalogue"));
  const std::string of_code = own != nullptr ? "the framework's own"
                              : costs.timed  ? "fitted to timed steps of this framework"
                                             : "no step of this framework was timed";
  if (!is_replayed) {
    add("the host launches an operator in",
        microseconds(costs.host_per_operator),
        told(stack_number::host_per_operator, of_code));
    add("the host's work of a step",
        microseconds(costs.host_per_step),
        told(stack_number::host_per_step, of_code));
    add("rate of other kernels, over what the device's reach",
        rounded(costs.element_rate),
        told(stack_number::element_rate, of_code));
  }
  add("lost for each second of communication beside kernels",
      rounded(costs.contention) + " s",
      of_code);
  add("all GPUs are as fast as each other",
      "slowest " + rounded(time.straggler_slowdown) + " times as long",
      "assumed");
  add("samples", time.loader ? "are read during the step" : "are there when asked for", "assumed");
  add("of the peak of memory, the allocator cannot use", percent(of.fragmentation), "the request");
  add("memory that a GPU has for PyTorch",
      setups::readable_bytes(static_cast<std::int64_t>(usable_memory(time.on.gpu).value())),
      time.on.gpu.memory ? "what the driver reports, less the CUDA context"
                         : "the label, less the CUDA context");
  if (time.on.price_per_gpu)
    add("a GPU's hour costs",
        rounded(in(time.on.price_per_gpu->each, 1_usd_per_hour)) + " dollars",
        time.on.price_per_gpu->source);
  if (of.best().run && of.best().run->energy_used)
    add("a GPU draws",
        rounded(in(*plan_program::draw_of_step(of.best()), 1_W)) + " W",
        time.on.power_per_gpu ? "the request"
                              : "what its step does, as an H100 draws of its TDP; without host and "
                                "cooling");
  if (of.best().carbon_kg)
    add("a kWh emits",
        rounded(*of.asked.clusters[best.cluster].carbon_g_per_kWh) + " g of CO2",
        "the request");
  return table;
}

std::string key_numbers(const findings& of) {
  const plan_program::described_plan& best = of.best();
  std::string out = "<dl class=\"keys\">\n";
  const auto add = [&](const char* what, const std::string& value) {
    out +=
        std::string("<div><dt>") + what + "</dt><dd>" + io::html_escaped(value) + "</dd></div>\n";
  };
  const double step = in(best.plan->step, 1_s);
  add("a step", step < 2 ? rounded(1e3 * step) + " ms" : rounded(step) + " s");
  add("tokens per second",
      setups::grouped(static_cast<std::int64_t>(in(best.rates.tokens, 1_tokens_per_s) + 0.5)));
  add("MFU", io::decimal(100 * best.rates.mfu, 1) + " %");
  add("fullest GPU",
      io::decimal(best.plan->required.value() / setups::gibibyte, 1) + " of " +
          setups::readable_bytes(static_cast<std::int64_t>(usable_memory(of.on().gpu).value())));
  if (best.run) {
    add("hours of the run", rounded(in(best.run->time, 1_h)));
    add("GPU-hours", rounded(in(best.run->gpu_time, 1_h)));
    if (best.run->cost) add("dollars", rounded(in(*best.run->cost, 1_usd)));
    if (best.run->energy_used) add("kWh", rounded(in(*best.run->energy_used, 1_kWh)));
    if (best.carbon_kg) add("kg CO2", rounded(*best.carbon_kg));
  }
  return out + "</dl>\n";
}

std::string section(const std::string& id, const std::string& heading, const std::string& content) {
  return "<section id=\"" + id + "\">\n<h2>" + io::html_escaped(heading) + "</h2>\n" + content +
         "</section>\n";
}
std::string paragraph(const std::string& words) {
  return "<p>" + io::html_escaped(words) + "</p>\n";
}

}  // namespace

std::string page_of(const findings& of, const std::vector<picture>& pictures) {
  const training_plan& best = *of.best().plan;
  const std::string title =
      "Plan: " + of.asked.name + " on " + std::to_string(best.gpus) + " x " + of.on().gpu.name;
  std::string links = "<a href=\"#plans\">Plans</a>\n";
  std::string sections;
  for (const picture& one : pictures) {
    links += "<a href=\"#" + one.name + "\">" + io::html_escaped(one.heading) + "</a>\n";
    std::string content = paragraph(one.words) + io::html_figure(one.wide, one.narrow);
    if (one.name == "step")
      content += io::to_html(plan_program::parts_of(of.plans)) +
                 (of.best().is_replayed
                      ? paragraph(plan_program::interval_in_words(of.plans.front()) + ".")
                      : io::to_html(plan_program::stacks_of(of.plans.front())));
    sections += section(one.name, one.heading, content);
  }
  links += "<a href=\"#request\">Request</a>\n<a href=\"#assumptions\">Assumptions</a>\n";
  std::string plans = io::to_html(plans_table(of));
  plans += paragraph(
      "Layouts: t, c, e and p are the degrees of tensor, context, expert and "
      "pipeline parallelism, v the chunks of a stage, and an s behind t means that "
      "tensor ranks share the sequence too. Batches are replicas x samples x "
      "accumulation. " +
      setups::grouped(of.evaluated) + " plans were worked out, and " +
      setups::grouped(of.excluded) + " excluded by a bound, which are no better than those found.");
  if (!of.limits.empty()) plans += io::to_html(limits_table(of));
  const std::string version = std::to_string(GPUPLAN_VERSION_MAJOR) + "." +
                              std::to_string(GPUPLAN_VERSION_MINOR) + "." +
                              std::to_string(GPUPLAN_VERSION_PATCH);
  return io::html_page(
      title,
      "<header>\n<h1>" + io::html_escaped(title) + "</h1>\n" +
          paragraph(plan_program::what_of(of.asked) + "; best: " + plan_program::in_words(best) +
                    ", batch " + plan_program::in_words(best.batch) +
                    (best.recompute == recompute_mode::none
                         ? std::string()
                         : ", recomputes " + plan_program::recomputed(of.best().model.setup))) +
          "<nav aria-label=\"sections\">" + links + "</nav>\n</header>\n<main>\n" +
          key_numbers(of) + section("plans", "Plans", plans) + sections +
          section("request", "The request", io::to_html(request_table(of))) +
          section("assumptions",
                  "Assumptions",
                  paragraph("Everything here is an estimate; how far off such estimates were of "
                            "measured steps is in gpuplan's documentation (docs/accuracy.md).") +
                      io::to_html(assumptions_table(of))) +
          "</main>\n<footer class=\"faint\">" + paragraph("gpuplan " + version) + "</footer>\n");
}

}  // namespace report_program
