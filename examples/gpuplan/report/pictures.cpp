#include "report/pictures.hpp"

#include <gpuplan/gpu.hpp>
#include <gpuplan/io/chart/gantt.hpp>
#include <gpuplan/io/chart/points.hpp>
#include <gpuplan/io/chart/stacked_areas.hpp>
#include <gpuplan/io/chart/stacked_bars.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memory/picture.hpp"
#include "plan/options.hpp"
#include "plan/report.hpp"
#include "report/schedule.hpp"
#include "setups/numbers.hpp"

namespace report_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using plan_program::digits_of;
using plan_program::named_plan;

template <class Chart>
picture drawn(std::string name, std::string heading, std::string words, const Chart& chart) {
  constexpr double of_page = 880;
  constexpr double of_phone = 328;
  return {std::move(name),
          std::move(heading),
          std::move(words),
          io::to_svg(chart, of_page),
          io::to_svg(chart, of_phone)};
}

struct time_unit {
  double of_second;
  const char* name;
  const char* letters;
};
time_unit unit_of(double seconds) {
  if (seconds >= 2) return {1, "seconds", " s"};
  return {1e3, "milliseconds", " ms"};
}

std::string rounded(double value) {
  if (value >= 1e4) return setups::grouped(std::llround(value));
  return io::decimal(value, digits_of(value));
}
std::string micro_batches(std::int64_t count) {
  return setups::grouped(count) + (count == 1 ? " micro-batch" : " micro-batches");
}

std::string layout_of(const plan_program::described_plan& of) {
  const training_plan& plan = *of.plan;
  const std::string again = plan_program::recomputed(of.model.setup);
  return plan_program::in_words(plan) + ", batch " + plan_program::in_words(plan.batch) +
         (again == "none" ? "" : ", recomputes " + again);
}

picture step_parts_of(const findings& of) {
  double longest = 0;
  for (const named_plan& one : of.plans) longest = std::max(longest, in(one.is.plan->step, 1_s));
  const time_unit unit = unit_of(longest);
  io::stacked_bars chart{.title = "Where a step goes",
                         .subtitle =
                             "The best plan and those that come next, each of another "
                             "layout; what other work hides is not in a bar",
                         .counts = std::string(unit.name) + " of a step"};
  for (const plan_program::step_part& part : plan_program::step_parts())
    chart.parts.emplace_back(part.in_words);
  for (const named_plan& one : of.plans) {
    const double step = in(one.is.plan->step, 1_s) * unit.of_second;
    io::stacked_bars::bar bar{.name = one.name + ": " + layout_of(one.is),
                              .total = rounded(step) + unit.letters};
    for (const plan_program::step_part& part : plan_program::step_parts())
      bar.values.push_back(in(one.is.parts.*part.time, 1_s) * unit.of_second);
    chart.bars.push_back(bar);
  }
  return drawn("step",
               "Where a step goes",
               "One optimizer step of the slowest GPU, by what it is spent on. Communication is "
               "what no other work hides.",
               chart);
}

double usable_GiB(const findings& of) {
  return in(usable_memory(of.on().gpu), 1_GB) * 1e9 / setups::gibibyte;
}
std::string usable_name(const findings& of) {
  return std::string(of.on().gpu.name) + ": " + io::decimal(usable_GiB(of), 1) + " GiB";
}

picture memory_over_step(const findings& of) {
  const training_plan& best = *of.best().plan;
  const bool has_stages = of.stages.size() > 1;
  std::string subtitle = "What the tensors of one GPU take";
  if (has_stages) subtitle += " of stage " + std::to_string(of.fullest) + ", the fullest";
  if (of.drawn_micro_batches < best.batch.accumulation)
    subtitle += "; " + std::to_string(of.drawn_micro_batches) + " of the " +
                micro_batches(best.batch.accumulation) + " are drawn, since others repeat";
  if (has_stages) subtitle += "; without what the stage waits for others";
  io::stacked_areas chart = chart_of(memory_timeline::picture{
      .title = "Memory over the step of the best plan", .subtitle = subtitle, .step = of.step});
  chart.limit = usable_GiB(of);
  chart.limit_name = usable_name(of);
  return drawn("memory",
               "Memory over the step",
               "Every allocation and free of the replayed step. Sizes and their order are those of "
               "the code; " +
                   std::string(of.best().is_replayed
                                   ? "each comes when the host issues its operator"
                                   : "when each comes is approximated: passes take what the step's "
                                     "estimate says, and within a pass an operator lasts by its "
                                     "products and bytes") +
                   ". The line is what the GPU has for PyTorch; below it there must also be room "
                   "for what the allocator cannot use.",
               chart);
}

picture memory_by_stage(const findings& of) {
  constexpr std::size_t most_bars = 32;
  io::stacked_bars chart{.title = "Memory by pipeline stage",
                         .counts = "GiB",
                         .limit = usable_GiB(of),
                         .limit_name = usable_name(of)};
  if (of.stages.size() > most_bars)
    chart.subtitle = "The first and the last " + std::to_string(most_bars / 2) + " of " +
                     std::to_string(of.stages.size()) + " stages";
  for (const memory_breakdown_part& one : memory_breakdown_parts)
    chart.parts.emplace_back(one.name);
  for (std::size_t stage = 0; stage < of.stages.size(); ++stage) {
    if (of.stages.size() > most_bars && stage >= most_bars / 2 &&
        stage + most_bars / 2 < of.stages.size())
      continue;
    const memory_breakdown& held = of.stages[stage];
    const auto in_GiB = [](bytes size) { return size.value() / setups::gibibyte; };
    io::stacked_bars::bar bar{
        .name = of.stages.size() == 1 ? std::string("each GPU") : "stage " + std::to_string(stage),
        .total = io::decimal(in_GiB(held.total()), 1) + " GiB"};
    if (of.stages.size() > 1) bar.name += std::string(", fullest in ") + text(held.when);
    for (const memory_breakdown_part& one : memory_breakdown_parts)
      bar.values.push_back(in_GiB(held.*one.size));
    chart.bars.push_back(bar);
  }
  return drawn("stages",
               of.stages.size() == 1 ? "Memory of a GPU" : "Memory by pipeline stage",
               "At the moment when a GPU holds most, with what the allocator cannot use "
               "(fragmentation, assumed) and what is beside tensors. The CUDA context is off the "
               "limit already.",
               chart);
}

picture schedule_picture(const findings& of) {
  double end = 0;
  for (const pipeline_task& task : of.schedule) end = std::max(end, task.end);
  const time_unit unit = unit_of(end);
  const training_plan& best = *of.best().plan;
  const parallelism& layout = best.layout;
  io::gantt_chart chart{.title = "The pipeline's schedule",
                        .subtitle = micro_batches(of.scheduled_micro_batches),
                        .counts = unit.name,
                        .idle = "waits",
                        .mark = mark_of(layout),
                        .rows = names_of_stages(of.schedule)};
  for (const auto& look : pass_looks) chart.kinds.push_back({look.name, look.fill, ink_of_passes});
  if (of.scheduled_micro_batches < best.batch.accumulation)
    chart.subtitle += " of the step's " + setups::grouped(best.batch.accumulation) +
                      "; with more, the middle goes on";
  const bool has_chunks = chunks_held(layout) > 1;
  for (const pipeline_task& task : of.schedule) {
    const std::string number = std::to_string(task.micro_batch + 1);
    chart.tasks.push_back({.row = static_cast<std::size_t>(task.stage),
                           .kind = static_cast<std::size_t>(task.what),
                           .begin = task.begin * unit.of_second,
                           .end = task.end * unit.of_second,
                           .label = number,
                           .says = "stage " + std::to_string(task.stage) + ", micro-batch " +
                                   number +
                                   (has_chunks ? ", chunk " + std::to_string(task.chunk) : "") +
                                   ", " + chart.kinds[static_cast<std::size_t>(task.what)].name,
                           .marked = task.chunk % 2 != 0});
  }
  return drawn("schedule",
               "The pipeline's schedule",
               "A pass begins once its stage is free and what it needs has come from the "
               "neighbour; where a stage waits is the bubble. Numbers are micro-batches.",
               chart);
}

std::string label_of(const counted_plan& one, bool has_kinds) {
  return setups::grouped(one.gpus) + (has_kinds ? " x " + one.gpu : "");
}

picture money_picture(const findings& of) {
  const bool has_money = have_all_costs(of.counts);
  io::point_chart chart{.title = has_money ? "Hours against money" : "Hours against GPU-hours",
                        .subtitle =
                            "The best plan on each number of GPUs; what is on the line is "
                            "beaten by none in both",
                        .counts_along = "hours of the run",
                        .counts_upwards = has_money ? "dollars" : "GPU-hours"};
  io::point_chart::series front{
      .name = "on the front", .are = io::point_chart::joined::by_lines, .colour = 0};
  io::point_chart::series others{.name = "slower and dearer than another", .colour = 5};
  const bool has_kinds = !of.asked.request.others.empty();
  for (const counted_plan& one : of.counts) {
    const planned_run& run = *one.is.run;
    const double cost = has_money ? in(*run.cost, 1_usd) : in(run.gpu_time, 1_h);
    const std::string gpus = setups::grouped(one.gpus) + " x " + one.gpu;
    (one.is_on_front ? front : others)
        .points.push_back({in(run.time, 1_h),
                           cost,
                           label_of(one, has_kinds),
                           gpus + ": " + rounded(in(run.time, 1_h)) + " hours, " + rounded(cost) +
                               " " + chart.counts_upwards});
  }
  std::sort(
      front.points.begin(),
      front.points.end(),
      [](const io::point_chart::point& a, const io::point_chart::point& b) { return a.x < b.x; });
  chart.all = {front, others};
  return drawn("money",
               chart.title,
               "Of the whole run, on 1, 2, 4 and so on up to all GPUs, each with its best plan. "
               "Numbers of GPUs on which nothing fits are not there.",
               chart);
}

picture scaling_picture(const findings& of) {
  io::point_chart chart{.title = "Throughput over GPUs",
                        .subtitle =
                            "Both axes are logarithmic; dashes are what the fewest GPUs "
                            "reach, times the number of GPUs",
                        .counts_along = "GPUs",
                        .counts_upwards = "tokens per second",
                        .is_logarithmic = true,
                        .names_each = true};
  for (std::size_t first = 0; first < of.counts.size();) {
    std::size_t end = first;
    const std::string& gpu = of.counts[first].gpu;
    io::point_chart::series reached{.name = gpu, .are = io::point_chart::joined::by_lines};
    io::point_chart::series linear{.name = gpu + ", in proportion",
                                   .are = io::point_chart::joined::by_dashes,
                                   .has_marks = false};
    reached.colour = linear.colour = 2 * (chart.all.size() / 2);
    const auto tokens_of = [&](std::size_t at) {
      return in(of.counts[at].is.rates.tokens, 1_tokens_per_s);
    };
    for (; end < of.counts.size() && of.counts[end].gpu == gpu; ++end) {
      const auto gpus = static_cast<double>(of.counts[end].gpus);
      const double in_proportion =
          tokens_of(first) * gpus / static_cast<double>(of.counts[first].gpus);
      const std::string kept = io::decimal(100 * tokens_of(end) / in_proportion, 0) + " %";
      reached.points.push_back({gpus,
                                tokens_of(end),
                                end == first ? "" : kept,
                                setups::grouped(of.counts[end].gpus) + " x " + gpu + ": " +
                                    io::short_number(tokens_of(end)) + " tokens/s, " + kept +
                                    " of what the fewest reach each"});
      linear.points.push_back({gpus, in_proportion, "", ""});
    }
    chart.all.push_back(reached);
    chart.all.push_back(linear);
    first = end;
  }
  return drawn("scaling",
               "Scaling over GPUs",
               "The best plan on each number of GPUs, with the same batch. Percentages are what "
               "each GPU keeps of the throughput that it has on the fewest.",
               chart);
}

}  // namespace

std::vector<picture> pictures_of(const findings& of) {
  std::vector<picture> all{step_parts_of(of), memory_over_step(of), memory_by_stage(of)};
  if (!of.schedule.empty()) all.push_back(schedule_picture(of));
  if (!of.counts.empty() && of.counts.front().is.run) all.push_back(money_picture(of));
  if (of.counts.size() > 1) all.push_back(scaling_picture(of));
  return all;
}

}  // namespace report_program
