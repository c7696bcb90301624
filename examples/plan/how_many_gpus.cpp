#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/divisions.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

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
    "How many GPUs to train a model on: for 1, 2, 4 and so on up to all of the cluster the "
    "fastest\n"
    "plan that fits, the hours of the run, its GPU-hours and money, and what of the throughput of\n"
    "the fewest GPUs each GPU keeps.";
constexpr const char* examples =
    "Examples:\n"
    "  how_many_gpus llama-3-8b --framework torchtitan --gpu h100_sxm5_80gb --nodes 8 --batch 256\n"
    "      --tokens 1e10 --price 3\n"
    "  how_many_gpus gpt3-175b --framework megatron-te --nodes 128 --batch 1536 --tokens 3e11";

std::string answer_to(const arguments& given, const guides::output& as) {
  const named_request named = request_of(given);
  plan_request request = named.request;
  if (request.samples == 0) throw guides::bad_request("--tokens says how long the run is");
  const transformer_memory_of memory_of{.fragmentation = given.fragmentation / 100,
                                        .channels = nccl_channels(request.on.gpu)};
  io::table table{.title = named.name + " on 1 to " + std::to_string(total_gpus(request.on)) +
                           " x " + given.gpu};
  table.columns = {{.name = "gpus", .align = io::alignment::right},
                   {.name = "division"},
                   {.name = "recompute"},
                   {.name = "micro_batch", .align = io::alignment::right},
                   {.name = "accumulation", .align = io::alignment::right},
                   {.name = "hours", .align = io::alignment::point},
                   {.name = "gpu_hours", .align = io::alignment::point},
                   {.name = "usd", .align = io::alignment::point},
                   {.name = "efficiency_pct", .align = io::alignment::point},
                   {.name = "why_not"}};
  double fewest = 0;  // GPU-hours of the first that fits
  const std::int64_t in_node = request.on.gpus_per_node;
  const std::int64_t all = total_gpus(request.on);
  for (std::int64_t gpus = 1; gpus <= all; gpus *= 2) {
    if (gpus > in_node && gpus % in_node != 0) continue;
    request.space.gpus = range<std::int64_t>{gpus, gpus};
    const auto found = plan_training(request, request.on.gpu, memory_of, 1);
    if (!found) {
      table.rows.push_back({gpus,
                            cell(),
                            cell(),
                            cell(),
                            cell(),
                            cell(),
                            cell(),
                            cell(),
                            cell(),
                            failure_text(found.why()).c_str()});
      continue;
    }
    const training_plan& best = found->best();
    const double hours = in(best.of_run(request.samples), 1_h);
    const double held = hours * static_cast<double>(gpus);
    if (fewest == 0) fewest = held;
    table.rows.push_back({gpus,
                          in_words(best),
                          recomputed(best),
                          best.batch.micro_batch,
                          best.batch.accumulation,
                          cell{hours, 1},
                          cell{held, 0},
                          given.price > 0 ? cell{held * given.price, 0} : cell(),
                          cell{100 * fewest / held, 1},
                          cell()});
  }
  return guides::render(table, as);
}

}  // namespace

int how_many_gpus(int argc, char** argv) {
  arguments asked;
  return guides::run_program(
      argc,
      argv,
      "how_many_gpus",
      about,
      [&](CLI::App& app) {
        app.footer(examples);
        add_options(app, asked);
      },
      [&](const guides::output& as) { return answer_to(asked, as); });
}

}  // namespace plan_program
