#include "plan/report.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/energy.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/planner/domain.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/stack_numbers.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "plan/options.hpp"
#include "runs/own_cluster.hpp"
#include "runs/runs.hpp"
#include "runs/stated_step.hpp"
#include "setups/numbers.hpp"

namespace plan_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using io::cell;

constexpr step_part all_parts[] = {
    {"data_s", "waiting for samples", &step_breakdown::data},
    {"forward_s", "forward", &step_breakdown::forward},
    {"backward_s", "backward", &step_breakdown::backward},
    {"recompute_s", "recomputation", &step_breakdown::recompute},
    {"tensor_communication_s", "exposed: tensor parallel", &step_breakdown::tensor_communication},
    {"context_communication_s",
     "exposed: context parallel",
     &step_breakdown::context_communication},
    {"expert_communication_s", "exposed: tokens to experts", &step_breakdown::expert_communication},
    {"pipeline_communication_s",
     "exposed: between stages",
     &step_breakdown::pipeline_communication},
    {"gradient_communication_s", "exposed: gradients", &step_breakdown::gradient_communication},
    {"parameter_communication_s",
     "exposed: weights (ZeRO)",
     &step_breakdown::parameter_communication},
    {"bubble_s", "pipeline bubble", &step_breakdown::bubble},
    {"optimizer_s", "optimizer", &step_breakdown::optimizer},
    {"host_s", "host", &step_breakdown::host}};

struct stack_input {
  const char* name;      // for programs
  const char* in_words;  // for people
  range<duration> step_ranges::*step;
  range<double> stack_range::*factor;  // none: of a rate that nobody states
};
constexpr stack_input stack_inputs[] = {
    {"products",
     "matrix products: library, clocks",
     &step_ranges::matmul_rate,
     &stack_range::matmul_rate},
    {"elements",
     "element-wise kernels: fused, or not",
     &step_ranges::element_rate,
     &stack_range::element_rate},
    {"host", "host: launches, interpreter", &step_ranges::host, &stack_range::host},
    {"contention",
     "contention of exchanges with kernels",
     &step_ranges::contention,
     &stack_range::contention},
    {"link", "link of GPUs of a node: not stated", &step_ranges::link, nullptr}};

// Megatron's layers cost the host and the memory more than those that the default is of.
stack_range stack_of(const framework& by) {
  stack_range stack;
  if (by.implementation.layers == &layer_classes::megatron_core)
    stack.untimed = catalog::megatron_transformer_engine.costs;
  return stack;
}

// What timed steps leave open, with 80 % within.
stack_range left_open(const stack_estimate& found) {
  const auto around = [&](std::initializer_list<stack_number> numbers) {
    double off = 1;
    for (const stack_number one : numbers) off = std::max(off, runs::factor_either_way(found, one));
    return range<double>{1 / off, off};
  };
  return {.matmul_rate = around({stack_number::matmul_rate}),
          .element_rate = around({stack_number::element_rate}),
          .host = around({stack_number::host_per_operator, stack_number::host_per_step}),
          .contention = 1.0,
          .untimed_matmuls = device_efficiency{}.products};
}

template <class T>
T checked(const result<T>& answer) {
  if (!answer) throw guides::bad_request(setups::sentence_of(answer.why()), answer.why());
  return *answer;
}

cell share(double part, double whole) { return {100 * part / whole, 1}; }
cell seconds(duration time) { return in(time, 1_s); }

}  // namespace

step_rates rates_of(const replayed_time& by, const batch_plan& plan, duration step) {
  batch_plan once = plan;
  once.accumulation = 1;
  const step_counts counts = checked(counts_of(by.setup, once));
  const auto many = static_cast<double>(plan.accumulation);
  const compute_rate dense = *peak(by.on.gpu, format_of_linears(by.setup.precision));
  const std::int64_t tokens = plan.effective_batch() * runs::tokens_of_sample(by.setup);
  step_rates rates{.tokens = tokens_per(tokens, step),
                   .model = achieved_rate(many * counts.model(), step, 1),
                   .hardware = achieved_rate(many * counts.hardware(), step, 1)};
  rates.mfu = utilisation(rates.model, dense);
  rates.hfu = utilisation(rates.hardware, dense);
  return rates;
}

std::span<const step_part> step_parts() { return all_parts; }

duration described_plan::time() const { return run ? run->time : plan->step; }
range<duration> described_plan::time_by(range<duration> step) const {
  const double times = time() / plan->step;
  return {times * step.low(), times * step.high()};
}

described_plan describe(const roofline_time& model,
                        const training_plan& plan,
                        const std::string& precision,
                        const known<stack_estimate>& by) {
  const stack_range stack = by ? left_open(*by) : stack_of(model.setup.framework);
  step_ranges ranges = step_ranges_of(model, plan.batch, stack);
  if (by) {
    const time_interval all = step_interval(model, plan.batch, *by);
    ranges.all = {all.low, all.high};
  }
  return {.gpu = model.on.gpu.id,
          .gpus = plan.gpus,
          .plan = plan,
          .framework = model.setup.framework.name,
          .sharding = model.setup.framework.engine.is->name->text,
          .sequence_length = runs::tokens_of_sample(model.setup),
          .precision = precision,
          .parts = model.breakdown(plan.batch),
          .stack = stack,
          .by_stack = ranges,
          .has_interval = static_cast<bool>(by),
          .rates = rates_of(model.setup, model.on.gpu, plan.batch, plan.step),
          .model = model};
}

described_plan describe(const replayed_time& by,
                        const training_plan& plan,
                        const std::string& precision) {
  const training_setup& setup = by.setup;
  const time_interval all = checked(by.interval(plan.batch));
  step_ranges ranges;
  ranges.all = {all.low, all.high};
  return {.gpu = by.on.gpu.id,
          .gpus = plan.gpus,
          .plan = plan,
          .framework = setup.framework.name,
          .sharding = setup.framework.engine.is->name->text,
          .sequence_length = runs::tokens_of_sample(setup),
          .precision = precision,
          .parts = checked(by.breakdown(plan.batch)),
          .by_stack = ranges,
          .has_interval = true,
          .is_replayed = true,
          .rates = rates_of(by, plan.batch, plan.step),
          .model = {.setup = setup, .on = by.on}};
}

described_plan describe(const named_request& asked,
                        const training_plan& plan,
                        std::int64_t layers) {
  const plan_request& request = asked.request;
  const std::string& precision = asked.precisions[plan.setup];
  roofline_time model = time_of(request, plan);
  described_plan described;
  if (asked.parts != nullptr) {
    described = describe(runs::time_by_replay(model.setup, model.on), plan, precision);
  } else {
    if (layers != 0) model.setup.model.num_hidden_layers = layers;
    known<stack_estimate> by;
    if (asked.own) by = asked.own->estimate_of(model.setup.framework, asked.clusters[plan.cluster]);
    described = describe(model, plan, precision, by);
  }
  if (request.samples != 0)
    add_run(described,
            request.samples,
            cluster_of(request, plan),
            asked.clusters[plan.cluster].carbon_g_per_kWh);
  return described;
}

known<power> draw_of_step(const described_plan& of) {
  if (of.model.on.power_per_gpu) return of.model.on.power_per_gpu;
  const auto share = average_draw(of.parts, h100_draws);
  if (!share || !of.model.on.gpu.tdp) return {};
  return *share * *of.model.on.gpu.tdp;
}

void add_run(described_plan& to,
             std::int64_t samples,
             const cluster& on,
             known<double> carbon_g_per_kWh) {
  plan_request request;
  request.on = on;
  request.samples = samples;
  training_plan plan = *to.plan;
  plan.cluster = 0;
  planned_run run = run_of(request, plan);
  // The library's own is at the TDP, which no step draws all the time.
  const known<power> draw = draw_of_step(to);
  if (!on.power_per_gpu && draw) run.energy_used = run.gpu_time * *draw;
  to.run = run;
  if (carbon_g_per_kWh && to.run->energy_used)
    to.carbon_kg = *carbon_g_per_kWh / 1000 * in(*to.run->energy_used, 1_kWh);
}

double rounded_count(double count) {
  const double unit = std::pow(10.0, std::max(0.0, std::floor(std::log10(count)) - 2));
  return std::round(count / unit) * unit;
}

int digits_of(double value, int figures) {
  if (!(value > 0)) return 1;
  const int digits = figures - 1 - static_cast<int>(std::floor(std::log10(value)));
  return std::clamp(digits, 0, 9);
}

io::table parts_of(const std::vector<named_plan>& plans) {
  io::table table{.title = "where the time of a step goes, in %"};
  table.columns.push_back({});
  for (const named_plan& one : plans)
    table.columns.push_back({.name = one.name, .align = io::alignment::point});
  const auto add = [&](const char* name, const auto& share_of, double least) {
    std::vector<cell> row{name};
    double most = 0;
    for (const named_plan& one : plans) {
      const double value = share_of(one.is);
      most = std::max(most, value);
      row.push_back(share(value, 1));
    }
    if (most >= least) table.rows.push_back(row);
  };
  for (const step_part& part : all_parts)
    add(
        part.in_words,
        [&](const described_plan& of) {
          return in(of.parts.*part.time, 1_s) / in(of.parts.total(), 1_s);
        },
        0.0005);
  add(
      "MFU", [](const described_plan& of) { return of.rates.mfu; }, 0);
  const bool recomputes = std::any_of(plans.begin(), plans.end(), [](const named_plan& one) {
    return one.is.rates.hfu > one.is.rates.mfu;
  });
  if (recomputes)
    add(
        "HFU", [](const described_plan& of) { return of.rates.hfu; }, 0);
  return table;
}

io::table seconds_of(const described_plan& plan) {
  io::table table{.title = "where the time of a step goes"};
  table.columns = {{.name = "part"},
                   {.name = "s", .align = io::alignment::point},
                   {.name = "%", .align = io::alignment::point}};
  const double whole = in(plan.parts.total(), 1_s);
  const int digits = digits_of(whole, 4);
  for (const step_part& part : step_parts()) {
    const double time = in(plan.parts.*part.time, 1_s);
    if (time >= 0.0005 * whole)
      table.rows.push_back({part.in_words, {time, digits}, share(time, whole)});
  }
  table.rows.push_back({"the step", {whole, digits}, share(whole, whole)});
  return table;
}

io::table rates_of(const described_plan& plan) {
  io::table table{.title = "what it reaches"};
  table.columns = {{.name = "what"}, {.name = "value", .align = io::alignment::right}};
  const auto add = [&](const char* name, const std::string& value) {
    table.rows.push_back({name, value});
  };
  const auto whole = [](double value) { return setups::grouped(std::llround(value)); };
  const double tokens = in(plan.rates.tokens, 1_tokens_per_s);
  add("tokens/s", whole(tokens));
  add("tokens/s of a GPU", whole(tokens / static_cast<double>(plan.gpus)));
  add("samples of a step", setups::grouped(plan.plan->batch.effective_batch()));
  add("MFU", io::decimal(100 * plan.rates.mfu, 1) + " %");
  if (plan.rates.hfu > plan.rates.mfu) add("HFU", io::decimal(100 * plan.rates.hfu, 1) + " %");
  const double needed = in(plan.plan->required, 1_GiB);
  const double usable = in(usable_memory(plan.model.on.gpu), 1_GiB);
  if (needed > 0)
    add("memory of the fullest GPU",
        io::decimal(needed, 1) + " of " + io::decimal(usable, 1) + " GiB" +
            (needed > usable ? ": too much" : ""));
  return table;
}

io::table costs_of(const described_plan& plan, const std::string& run) {
  const planned_run& takes = *plan.run;
  const double low = plan.by_stack.all.low() / plan.plan->step;
  const double high = plan.by_stack.all.high() / plan.plan->step;
  io::table table{.title = run + ", on " + setups::grouped(plan.gpus) + " x " + plan.gpu};
  table.columns = {
      {.name = "what it takes"},
      {.name = "estimate", .align = io::alignment::right},
      {.name = plan.has_interval ? "80 % within" : "by stack", .align = io::alignment::right}};
  const auto add = [&](const char* name, double value) {
    const int digits = digits_of(low * value);
    table.rows.push_back(
        {name, {value, digits}, cell{range<double>{low * value, high * value}, digits}});
  };
  const double hours = in(takes.time, 1_h);
  if (hours >= 48) add("days", hours / 24);
  add("hours", hours);
  add("GPU-hours", in(takes.gpu_time, 1_h));
  if (takes.cost) add("dollars", in(*takes.cost, 1_usd));
  if (takes.energy_used)
    add(plan.model.on.power_per_gpu ? "kWh" : "kWh, of the GPUs alone",
        in(*takes.energy_used, 1_kWh));
  if (plan.carbon_kg) add("kg CO2", *plan.carbon_kg);
  return table;
}

io::table stacks_of(const named_plan& plan) {
  const training_plan& best = *plan.is.plan;
  const roofline_time& model = plan.is.model;
  const framework& by = model.setup.framework;
  const bool is_run = static_cast<bool>(plan.is.run);
  const double unit = in(is_run ? 1_h : 1_s, 1_s);
  const int digits = digits_of(in(plan.is.time(), 1_s) / unit);
  const auto cell_of_range = [&](range<duration> step) {
    const range<duration> time = plan.is.time_by(step);
    return cell{range<double>{in(time.low(), 1_s) / unit, in(time.high(), 1_s) / unit}, digits};
  };
  const auto unknown = [&]() -> std::string {
    std::string what;
    if (!is_timed(by)) what = std::string("no step of ") + by.name;
    if (!is_timed(model.efficiency)) {
      what += what.empty() ? "no step on " : ", and none on ";
      what += model.on.gpu.id;
    }
    return what.empty() ? what : " (" + what + " was timed)";
  };
  const std::string title =
      plan.name + ": " + io::decimal(in(plan.is.time(), 1_s) / unit, digits) +
      (is_run ? " hours, " : " s a step, ") +
      io::decimal(in(plan.is.rates.tokens, 1_tokens_per_s), 0) +
      (plan.is.has_interval ? " tokens/s; 80 % within " : " tokens/s; by stack ") +
      to_text(cell_of_range(plan.is.by_stack.all)) + (is_run ? " hours" : " s") + unknown();
  io::table table{.title = title};
  table.columns = {{.name = "what makes it fast or slow"},
                   {.name = "as estimated x", .align = io::alignment::right},
                   {.name = is_run ? "hours" : "step_s", .align = io::alignment::right}};
  const stack_range& stack = plan.is.stack;
  const double shown = 0.0005;
  for (const stack_input& input : stack_inputs) {
    const range<duration> step = plan.is.by_stack.*input.step;
    if (step.high() - step.low() < shown * best.step) continue;
    if (input.factor == nullptr) {
      const range<bandwidth> link = link_range(model.on, stack);
      const range<double> rates{in(link.low(), 1_GBps), in(link.high(), 1_GBps)};
      table.rows.push_back(
          {input.in_words, to_text(cell{rates, 0}) + " GB/s", cell_of_range(step)});
      continue;
    }
    const range<double> factor = stack.*input.factor;
    cell times = plan.is.has_interval ? cell{factor, 2} : cell{factor};
    if (input.step == &step_ranges::matmul_rate && !is_timed(model.efficiency))
      times = cell{
          range<double>{factor.low() * stack.untimed_matmuls.low() / stack.untimed_matmuls.high(),
                        factor.high()},
          2};
    if (!is_timed(by) && input.step == &step_ranges::host)
      times = "up to " + io::decimal(in(stack.untimed.host_per_operator, 1_us), 0) + " us each";
    if (!is_timed(by) && input.step == &step_ranges::contention)
      times = "up to " + io::decimal(stack.untimed.contention, -1);
    if (!is_timed(by) && input.step == &step_ranges::element_rate)
      times =
          cell{range<double>{std::min(factor.low(), stack.untimed.element_rate), factor.high()}};
    table.rows.push_back({input.in_words, times, cell_of_range(step)});
  }
  table.rows.push_back({"all of it", cell(), cell_of_range(plan.is.by_stack.all)});
  return table;
}

std::string interval_in_words(const named_plan& plan) {
  const double unit = in(plan.is.run ? 1_h : 1_s, 1_s);
  const int digits = digits_of(in(plan.is.time(), 1_s) / unit);
  const auto time = [&](duration of) { return io::decimal(in(of, 1_s) / unit, digits); };
  const range<duration> all = plan.is.time_by(plan.is.by_stack.all);
  return (plan.name.empty() ? "" : plan.name + ": ") + time(plan.is.time()) +
         (plan.is.run ? " hours; 80 % of such runs take " : " s a step; 80 % of such steps take ") +
         time(all.low()) + " to " + time(all.high()) + (plan.is.run ? " hours" : " s");
}

std::string how_sure(const named_plan& plan, const guides::output& as) {
  if (!plan.is.is_replayed) return guides::render(stacks_of(plan), as);
  std::string text;
  for (const std::string& line :
       io::wrap(interval_in_words(plan) + ". Its operators are replayed one by one.", as.width))
    text += line + "\n";
  return text;
}

namespace {

// Of each stage or chunk, where layers are recomputed.
cell layers_again_of(const training_setup& setup) {
  if (setup.recompute != recompute_mode::full) return {};
  const std::int64_t most = detail::most_to_recompute(setup);
  return setup.recompute_layers == 0 ? most : std::min(setup.recompute_layers, most);
}

}  // namespace

void add_columns(io::table& to) {
  const auto add = [&](const std::string& name) { to.columns.push_back({.name = name}); };
  for (const char* name : {"gpu",
                           "gpus",
                           "framework",
                           "sharding",
                           "sequence_length",
                           "precision",
                           "layout",
                           "recompute",
                           "recompute_layers",
                           "tensor_parallel",
                           "sequence_parallel",
                           "context_parallel",
                           "expert_parallel",
                           "pipeline_parallel",
                           "virtual_pipeline",
                           "pipeline_split",
                           "pipeline_schedule",
                           "zero_stage",
                           "data_parallel",
                           "micro_batch",
                           "accumulation",
                           "memory_GiB",
                           "fits",
                           "step_s",
                           "step_s_low",
                           "step_s_high",
                           "tokens_per_s",
                           "mfu_pct",
                           "hfu_pct",
                           "hours",
                           "hours_low",
                           "hours_high",
                           "gpu_hours",
                           "kWh",
                           "CO2_kg",
                           "usd",
                           "usd_low",
                           "usd_high"})
    add(name);
  for (const step_part& part : all_parts) add(part.name);
  for (const stack_input& input : stack_inputs)
    for (const char* end : {"step_s_low_by_", "step_s_high_by_"})
      add(std::string(end) + input.name);
}

void add_cells(std::vector<cell>& to, const described_plan& of) {
  to.insert(to.end(), {of.gpu, of.gpus});
  if (!of.plan) {
    io::table columns;
    add_columns(columns);
    to.resize(to.size() + columns.columns.size() - 2);
    return;
  }
  const training_plan& plan = *of.plan;
  const parallelism& layout = plan.layout;
  const range<duration> step = of.by_stack.all;
  to.insert(to.end(),
            {of.framework,
             of.sharding,
             of.sequence_length,
             of.precision,
             in_words(plan),
             setups::word_of(setups::recomputation::of(of.model.setup)),
             layers_again_of(of.model.setup),
             layout.tensor_parallel,
             divides_sequence(plan) ? "yes" : "no",
             layout.context_parallel,
             layout.expert_parallel,
             layout.pipeline_parallel,
             layout.virtual_pipeline,
             layout.pipeline_parallel > 1 ? setups::split_in_letters(layout.split) : std::string(),
             layout.pipeline_parallel > 1 ? setups::word_of(layout.schedule) : "",
             layout.zero_stage,
             plan.batch.data_parallel,
             plan.batch.micro_batch,
             plan.batch.accumulation,
             plan.required > bytes{} ? cell(in(plan.required, 1_GiB)) : cell(),
             plan.required > bytes{}
                 ? cell(plan.required <= usable_memory(of.model.on.gpu) ? "yes" : "no")
                 : cell(),
             seconds(plan.step),
             seconds(step.low()),
             seconds(step.high()),
             in(of.rates.tokens, 1_tokens_per_s),
             100 * of.rates.mfu,
             100 * of.rates.hfu});
  if (of.run) {
    const range<duration> time = of.time_by(step);
    to.insert(to.end(),
              {in(of.run->time, 1_h),
               in(time.low(), 1_h),
               in(time.high(), 1_h),
               in(of.run->gpu_time, 1_h),
               cell_of(of.run->energy_used, 1_kWh, cell::shortest),
               of.carbon_kg ? cell(*of.carbon_kg) : cell()});
    known<money> low;
    known<money> high;
    if (of.run->cost) low = time.low() / of.run->time * *of.run->cost;
    if (of.run->cost) high = time.high() / of.run->time * *of.run->cost;
    for (const known<money>& cost : {of.run->cost, low, high})
      to.push_back(cell_of(cost, 1_usd, cell::shortest));
  } else {
    to.resize(to.size() + 9);
  }
  for (const step_part& part : all_parts) to.push_back(seconds(of.parts.*part.time));
  for (const stack_input& input : stack_inputs)
    for (const duration& end : {(of.by_stack.*input.step).low(), (of.by_stack.*input.step).high()})
      to.push_back(of.is_replayed ? cell() : seconds(end));
}

}  // namespace plan_program
