#include "check/verdict.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/stack_range.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "plan/options.hpp"
#include "plan/report.hpp"
#include "runs/stated_step.hpp"
#include "setups/numbers.hpp"
#include "setups/options.hpp"

namespace check_program {
namespace {

using namespace gpuplan;

void find_time(const io::configured_training& training, const cluster& on, verdict& to) {
  if (training.setup.composite != nullptr) {
    const replayed_time replayed = runs::time_by_replay(training.setup, on);
    const auto interval = replayed.interval(training.plan);
    if (!interval) {
      to.why_no_time = setups::sentence_of(interval.why());
      return;
    }
    to.step = interval->median;
    to.step_by_stack = {interval->low, interval->high};
    to.rates = plan_program::rates_of(replayed, training.plan, *to.step);
    return;
  }
  const roofline_time time{
      .setup = training.setup, .on = on, .efficiency = catalog::efficiency_of(on.gpu)};
  const auto model = validate(time);
  const auto plan = validate(time, training.plan);
  if (!model || !plan) {
    to.why_no_time = setups::sentence_of(model ? plan.why() : model.why());
    return;
  }
  to.step = time.step(training.plan);
  to.step_by_stack = step_ranges_of(time, training.plan).all;
  to.rates = rates_of(training.setup, on.gpu, training.plan, *to.step);
}

std::string change_of(const io::configured_training& from, const training_plan& to) {
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  const auto number = [&](const char* name, std::int64_t before, std::int64_t after) {
    if (before != after) add(std::string(name) + " " + std::to_string(after));
  };
  const parallelism& before = from.setup.parallelism;
  number("tensor-parallel", before.tensor_parallel, to.layout.tensor_parallel);
  number("pipeline-parallel", before.pipeline_parallel, to.layout.pipeline_parallel);
  number("virtual-pipeline", before.virtual_pipeline, to.layout.virtual_pipeline);
  if (to.layout.pipeline_parallel > 1 && !(before.split == to.layout.split)) {
    const std::string split = setups::in_words(to.layout.split);
    add(split.empty() ? "stages alike" : split);
  }
  number("context-parallel", before.context_parallel, to.layout.context_parallel);
  number("expert-parallel", before.expert_parallel, to.layout.expert_parallel);
  number("expert-tensor-parallel", before.expert_tensor_parallel, to.layout.expert_tensor_parallel);
  number("ZeRO", before.zero_stage, to.layout.zero_stage);
  number("micro-batch", from.plan.micro_batch, to.batch.micro_batch);
  number("accumulation", from.plan.accumulation, to.batch.accumulation);
  if (from.setup.recompute != to.recompute || from.setup.recompute_layers != to.recompute_layers) {
    add("recompute " + plan_program::recomputed(to.applied_to(from.setup)));
  }
  return text;
}

void find_better(const io::configured_training& training,
                 const cluster& on,
                 double fragmentation,
                 verdict& to) {
  const parallelism& layout = training.setup.parallelism;
  const auto up_to = [&](std::int64_t most) { return range<std::int64_t>{1, most}; };
  const std::int64_t gpus = training.gpus;
  const int most_stage = training.setup.framework.engine.is->most_zero_stage;
  const bool divides = !(layout == parallelism{.zero_stage = layout.zero_stage,
                                               .optimizer_on_host = layout.optimizer_on_host,
                                               .weights_on_host = layout.weights_on_host});
  plan_request request{.setup = training.setup,
                       .on = on,
                       .efficiency = catalog::efficiency_of(on.gpu),
                       .effective_batch = {training.plan.effective_batch()},
                       .space = {.gpus = range<std::int64_t>{gpus, gpus},
                                 .recompute = true,
                                 .recompute_layers = true,
                                 .micro_batch = up_to(std::clamp<std::int64_t>(
                                     training.plan.effective_batch(), 1, 1024))}};
  if (divides) {
    request.space.tensor_parallel = up_to(gpus);
    request.space.pipeline_parallel = up_to(gpus);
    request.space.virtual_pipeline = up_to(16);
    request.space.context_parallel = up_to(layout.context_parallel);
    request.space.expert_parallel = up_to(gpus);
  }
  if (gpus > 1)
    request.space.zero_stage =
        range<std::int64_t>{training.setup.framework.engine.is->least_zero_stage, most_stage};
  // What the files state of stages is of as many stages as theirs.
  training_setup alike = training.setup;
  alike.parallelism.split = {};
  if (!layout.split.is_even()) request.setups = std::span(&alike, 1);
  // Without stages both setups have the same plans.
  constexpr std::size_t most = 3;
  const auto found =
      plan_training(request, transformer_memory_of{.fragmentation = fragmentation}, 2 * most);
  if (!found) return;
  const double faster = 0.99;
  for (const training_plan& plan : *found) {
    if (to.better.size() == most) break;
    const bool is_better = !to.fits() || (to.step && plan.step < faster * *to.step);
    const std::string change = change_of(training, plan);
    const bool is_there = std::any_of(
        to.better.begin(), to.better.end(), [&](const auto& one) { return one.change == change; });
    if (is_better && !change.empty() && !is_there) to.better.push_back({change, plan});
  }
}

// The micro-batch where it can be counted, else the largest half, quarter, ... of it that can.
batch_plan countable(const transformer_memory& memory, batch_plan plan) {
  while (plan.micro_batch > 1 && !validate(memory, plan)) plan.micro_batch /= 2;
  return plan;
}

}  // namespace

verdict judge(const io::configured_training& training, const cluster& on, double fragmentation) {
  const fullest_stage_memory memory =
      transformer_memory_of{.fragmentation = fragmentation}.on(on.gpu)(training.setup);
  verdict made{.usable = usable_memory(on.gpu)};
  for (std::int64_t stage = 0; stage < training.setup.parallelism.pipeline_parallel; ++stage) {
    transformer_memory there = memory.of;
    there.setup.place.stage = stage;
    const batch_plan plan = countable(there, training.plan);
    made.is_uncountable |= plan.micro_batch != training.plan.micro_batch;
    const memory_breakdown parts = there.breakdown(plan);
    if (parts.total() > made.memory.total()) made.memory = parts;
  }
  if (const auto largest = max_micro_batch(on.gpu, memory, training.plan))
    made.largest_micro_batch = *largest;
  else
    made.remedies = runs::remedies_of(training.setup, training.plan, on.gpu, fragmentation);
  if (const auto runs = runs_on(on.gpu, training.setup);
      !runs && runs.why().code == errc::no_such_code)
    made.why_it_cannot_run = setups::sentence_of(runs.why());
  find_time(training, on, made);
  // Other plans of several transformers are as many replays, which gpuplan plan makes.
  if (training.setup.composite == nullptr) find_better(training, on, fragmentation, made);
  return made;
}

}  // namespace check_program
