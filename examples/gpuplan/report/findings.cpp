#include "report/findings.hpp"

#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/roofline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "memory/pace.hpp"
#include "plan/options.hpp"
#include "plan/searches.hpp"
#include "runs/stated_step.hpp"
#include "setups/numbers.hpp"

namespace report_program {
namespace {

using namespace gpuplan;
using plan_program::named_request;
using plan_program::searches;

// "best", "2nd", "3rd" and so on to "8th".
std::string rank_of(std::size_t at) {
  if (at == 0) return "best";
  return std::to_string(at + 1) + (at == 1 ? "nd" : at == 2 ? "rd" : "th");
}

// Of the best plan each stage's memory, and the fullest one's step.
void look_at_memory(findings& to) {
  const training_plan& best = *to.best().plan;
  roofline_time time = time_of(to.asked.request, best);
  const auto memory_of = transformer_memory_of{.fragmentation = to.fragmentation}.on(time.on.gpu);
  transformer_memory of_stage = memory_of(time.setup).of;
  for (std::int64_t stage = 0; stage < best.layout.pipeline_parallel; ++stage) {
    of_stage.setup.place.stage = stage;
    to.stages.push_back(of_stage.breakdown(best.batch));
    if (to.stages.back().total() > to.stages[to.fullest].total())
      to.fullest = static_cast<std::size_t>(stage);
  }
  time.setup.place.stage = static_cast<std::int64_t>(to.fullest);
  batch_plan drawn = best.batch;
  drawn.accumulation =
      std::min(drawn.accumulation, detail::repeated_micro_batches(time.setup, drawn).fewer);
  to.drawn_micro_batches = drawn.accumulation;
  to.step = time.setup.composite != nullptr
                ? memory_timeline::timed(runs::time_by_replay(time.setup, time.on), drawn)
                : memory_timeline::timed(time, best.batch, drawn);
}

// As many micro-batches as show how it begins, goes on and ends.
void look_at_schedule(findings& to) {
  const training_plan& best = *to.best().plan;
  const std::int64_t stages = best.layout.pipeline_parallel;
  constexpr std::int64_t most_stages = 64;
  if (stages == 1 || stages > most_stages) return;
  const roofline_time time = time_of(to.asked.request, best);
  detail::pipeline_seconds line = detail::step_composer(time, best.batch).line().work.stages;
  line.micro_batches =
      std::min(best.batch.accumulation, (best.layout.virtual_pipeline > 1 ? 2 : 3) * stages);
  to.scheduled_micro_batches = line.micro_batches;
  to.schedule = tasks_of(line, best.layout.schedule);
}

void mark_front(std::vector<counted_plan>& counts) {
  const bool have_costs = have_all_costs(counts);
  const auto price_of = [have_costs](const planned_run& run) {
    return have_costs ? in(*run.cost, 1_usd) : in(run.gpu_time, 1_h);
  };
  for (counted_plan& one : counts) {
    if (!one.is.run) continue;
    one.is_on_front = std::none_of(counts.begin(), counts.end(), [&](const counted_plan& other) {
      if (!other.is.run) return false;
      const bool no_worse = other.is.run->time <= one.is.run->time &&
                            price_of(*other.is.run) <= price_of(*one.is.run);
      return no_worse && (other.is.run->time < one.is.run->time ||
                          price_of(*other.is.run) < price_of(*one.is.run));
    });
  }
}

// The best plan on 1, 2, 4 and so on up to all GPUs of each kind; where none fits, none.
void count_gpus(findings& to, const searches& search, std::size_t questions) {
  named_request one = to.asked;
  std::vector<cluster_choice> kinds{{one.request.on, one.request.efficiency}};
  kinds.insert(kinds.end(), to.asked.request.others.begin(), to.asked.request.others.end());
  one.request.others = {};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    one.request.on = kinds[kind].on;
    one.request.efficiency = kinds[kind].efficiency;
    one.clusters = {to.asked.clusters[kind]};
    const std::int64_t in_node = one.request.on.gpus_per_node;
    const std::int64_t all = total_gpus(one.request.on);
    std::vector<std::int64_t> numbers;
    for (std::int64_t gpus = 1; gpus < in_node; gpus *= 2) numbers.push_back(gpus);
    for (std::int64_t gpus = in_node; gpus < all; gpus *= 2) numbers.push_back(gpus);
    numbers.push_back(all);
    for (const std::int64_t gpus : numbers) {
      one.request.space.gpus = range<std::int64_t>{gpus, gpus};
      const auto found = search.plans_of(one.request, 1);
      search.answered(questions + to.counts.size(), questions + kinds.size() * numbers.size());
      if (!found) continue;
      training_plan plan = found->best();
      const std::string gpu = one.request.on.gpu.name;
      to.counts.push_back({.gpu = gpu, .gpus = gpus, .is = describe(one, plan)});
    }
  }
  mark_front(to.counts);
}

}  // namespace

bool have_all_costs(const std::vector<counted_plan>& counts) {
  return std::all_of(counts.begin(), counts.end(), [](const counted_plan& one) {
    return !one.is.run || one.is.run->cost;
  });
}

findings find(const plan_program::arguments& given, plan_goal goal, int plans) {
  findings found{.asked = request_of(given), .fragmentation = given.fragmentation / 100};
  plan_request& request = found.asked.request;
  request.goal = goal;
  if (const auto valid = validate(request); !valid) throw guides::bad_request(valid.why());
  const searches search(given.fragmentation);
  constexpr std::size_t questions = 2;  // before other numbers of GPUs
  const auto answer = search.plans_of(request, plans);
  search.answered(1, 2 * questions);
  if (!answer)
    throw guides::bad_request(setups::sentence_of(answer.why()) +
                                  "; gpuplan plan with the same options says what would do",
                              answer.why());
  found.evaluated = answer->evaluated;
  found.excluded = answer->excluded;
  for (const training_plan& plan : *answer)
    found.plans.push_back({rank_of(found.plans.size()), describe(found.asked, plan)});
  const auto limits = search.limits_of(request);
  search.answered(2, 2 * questions);
  constexpr double shown = 0.0005;
  if (limits)
    for (const lifted_limit& lifted : *limits)
      if (lifted.gain > shown) found.limits.push_back(lifted);
  look_at_memory(found);
  look_at_schedule(found);
  count_gpus(found, search, questions);
  return found;
}

}  // namespace report_program
