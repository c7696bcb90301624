#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/divisions.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/front.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "plan/command_line.hpp"
#include "plan/options.hpp"

namespace plan_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using io::cell;

constexpr const char* about =
    "The fastest ways to train a model on a cluster: how it is divided among GPUs, what is\n"
    "recomputed, micro-batch and accumulation, with the time of a step and the memory of the\n"
    "fullest GPU; then those that take longer and need less memory.";
constexpr const char* examples =
    "Examples:\n"
    "  plan_training gpt3-175b --framework megatron-te --nodes 64 --batch 1536\n"
    "  plan_training llama-3-8b --framework torchtitan --gpu h100_sxm5_80gb --batch 64\n"
    "  plan_training llama-3-70b --framework megatron-te --nodes 16 --batch 512 --tokens 1e11\n"
    "      --price 2 --days 30 --format csv";

struct request {
  arguments asked{};
  int plans = 5;
};

// People read the parts of a batch side by side, programs one by one.
bool is_for_people(const guides::output& as) {
  return as.format == "text" || as.format == "markdown";
}

struct listing {
  const plan_request& request;
  const training_plan& best;
  bool for_people = true;
  io::table table{};

  void begin(const std::string& title) {
    table.title = title;
    table.columns = {{.name = "plan"}, {.name = "division"}, {.name = "recompute"}};
    if (for_people)
      table.columns.push_back({.name = "batch", .align = io::alignment::right});
    else
      for (const char* name : {"gpus", "data_parallel", "micro_batch", "accumulation"})
        table.columns.push_back({.name = name});
    for (const char* name : {"step_s", "tokens_per_s", "memory_GB", "slower_pct"})
      table.columns.push_back({.name = name, .align = io::alignment::point});
  }
  void add(const char* kind, const training_plan& plan) {
    const batch_plan& batch = plan.batch;
    const double tokens = static_cast<double>(batch.effective_batch()) *
                          static_cast<double>(request.setup.sequence_length);
    std::vector<cell> row{kind, in_words(plan), recomputed(plan)};
    if (for_people)
      row.emplace_back(std::to_string(batch.data_parallel) + "x" +
                       std::to_string(batch.micro_batch) + "x" +
                       std::to_string(batch.accumulation));
    else
      row.insert(row.end(),
                 {plan.gpus, batch.data_parallel, batch.micro_batch, batch.accumulation});
    row.insert(row.end(),
               {cell{in(plan.step, 1_s), 3},
                cell{tokens / in(plan.step, 1_s), 0},
                plan.required > bytes{} ? cell{in(plan.required, 1_GB), 1} : cell(),
                cell{100 * loss_of(plan, best), 1}});
    table.rows.push_back(row);
  }
};

std::string answer_to(const request& given, const guides::output& as) {
  const named_request named = request_of(given.asked);
  const plan_request& request = named.request;
  const transformer_memory_of memory_of{.fragmentation = given.asked.fragmentation / 100,
                                        .channels = nccl_channels(request.on.gpu)};
  const auto found = plan_training(request, request.on.gpu, memory_of, given.plans);
  if (!found) throw guides::bad_request(failure_text(found.why()).c_str());
  const training_plan& best = found->best();
  listing list{request, best, is_for_people(as)};
  list.begin(named.name + " on " + std::to_string(best.gpus) + " x " + given.asked.gpu + ": " +
             std::to_string(found->evaluated) + " plans worked out, " +
             std::to_string(found->excluded) +
             " excluded by a bound; batches are replicas x samples x accumulation");
  for (const training_plan& plan : *found)
    list.add(&plan == found->begin() ? "best" : "next", plan);
  if (found->beyond_memory) list.add("more memory", *found->beyond_memory);
  const auto front = front_of(request, request.on.gpu, memory_of, 0.1);
  for (int at = 1; front && at < front->count; ++at) list.add("less memory", front->plans[at]);
  return guides::render(list.table, as);
}

}  // namespace

int plan_training(int argc, char** argv) {
  request asked;
  return guides::run_program(
      argc,
      argv,
      "plan_training",
      about,
      [&](CLI::App& app) {
        app.footer(examples);
        add_options(app, asked.asked);
        app.add_option("--days", asked.asked.days, "The run must end in so many days")
            ->type_name("");
        app.add_option("--dollars", asked.asked.dollars, "The run may cost so much")->type_name("");
        app.add_option("--plans", asked.plans, "Plans to list, each of another division")
            ->check(CLI::Range(1, plan_answer::most_plans))
            ->type_name("")
            ->capture_default_str();
      },
      [&](const guides::output& as) { return answer_to(asked, as); });
}

}  // namespace plan_program
