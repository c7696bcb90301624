#include <gpuplan/cost.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/divisions.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
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
    "How many GPUs to train a model on, and of which kind: for 1, 2, 4 and so on up to all of the\n"
    "cluster the fastest plan that fits, the hours of the run, its GPU-hours, energy and money, "
    "what\n"
    "of the throughput of the fewest GPUs each GPU keeps, and what an hour less costs beside the\n"
    "next fewer GPUs. Dominated is what takes longer and costs more than another row.";
constexpr const char* examples =
    "Examples:\n"
    "  how_many_gpus llama-3-8b --framework torchtitan --gpu h100_sxm5_80gb --nodes 8 --batch 256\n"
    "      --tokens 1e10 --price 3\n"
    "  how_many_gpus gpt3-6.7b --framework megatron-te --batch 512 --tokens 1e10 --nodes 4\n"
    "      --gpu a100_sxm4_80gb,h100_sxm5_80gb --price 1.8,3 --days 7";

struct counted {
  const char* gpu = "";
  std::int64_t gpus = 0;
  known<training_plan> best{};
  planned_run run{};
  double efficiency = 0;
  known<price> hour_saved{};
  std::string note{};
};

// The best plan on each number of one kind of GPU.
std::vector<counted> counts_of(plan_request request, const transformer_memory_of& memory_of) {
  std::vector<counted> rows;
  const counted* fewest = nullptr;
  std::size_t before = 0;
  const std::int64_t in_node = request.on.gpus_per_node;
  const std::int64_t all = total_gpus(request.on);
  for (std::int64_t gpus = 1; gpus < in_node; gpus *= 2) rows.push_back({request.on.gpu.id, gpus});
  for (std::int64_t gpus = in_node; gpus < all; gpus *= 2)
    rows.push_back({request.on.gpu.id, gpus});
  rows.push_back({request.on.gpu.id, all});
  for (counted& row : rows) {
    request.space.gpus = range<std::int64_t>{row.gpus, row.gpus};
    const auto found = plan_training(request, memory_of, 1);
    if (!found) {
      row.note = in_words(found.why());
      continue;
    }
    row.best = found->best();
    row.run = run_of(request, *row.best);
    if (fewest != nullptr && row.run.cost) {
      const counted& fewer = rows[before];
      const auto saved = price_of_time_saved({fewer.gpus, fewer.run.time, *fewer.run.cost},
                                             {row.gpus, row.run.time, *row.run.cost});
      if (saved) row.hour_saved = *saved;
    }
    if (fewest == nullptr) fewest = &row;
    before = static_cast<std::size_t>(&row - rows.data());
    row.efficiency = fewest->run.gpu_time / row.run.gpu_time;
  }
  return rows;
}

// The cheapest and the fastest, and what others are better than in both.
void compare(std::vector<counted>& rows) {
  std::vector<priced_run> runs;
  std::vector<counted*> of;
  for (counted& row : rows) {
    if (!row.best || !row.run.cost) continue;
    runs.push_back({row.gpus, row.run.time, *row.run.cost});
    of.push_back(&row);
  }
  if (runs.empty()) return;
  for (std::size_t at = 0; at < runs.size(); ++at)
    if (!on_pareto_front(runs, at)) of[at]->note = "dominated";
  of[*cheapest(runs)]->note = "cheapest";
  std::string& note = of[*fastest(runs)]->note;
  note = note == "cheapest" ? "cheapest and fastest" : "fastest";
}

struct listing {
  bool for_people = true;
  bool has_money = true;

  io::table of(const std::string& title, const std::vector<counted>& rows) const {
    io::table table{.title = title};
    const auto add_columns = [&](std::initializer_list<const char*> names, io::alignment align) {
      for (const char* name : names) table.columns.push_back({.name = name, .align = align});
    };
    if (!for_people) add_columns({"gpu"}, io::alignment::left);
    add_columns({"gpus"}, io::alignment::right);
    add_columns({"division", "recompute"}, io::alignment::left);
    if (for_people)
      add_columns({"batch"}, io::alignment::right);
    else
      add_columns({"data_parallel", "micro_batch", "accumulation"}, io::alignment::right);
    add_columns({"hours"}, io::alignment::point);
    if (!for_people || !has_money) add_columns({"gpu_hours"}, io::alignment::point);
    if (!for_people) add_columns({"kWh"}, io::alignment::point);
    if (!for_people || has_money)
      add_columns({"usd", for_people ? "usd/h saved" : "usd_per_hour_saved"}, io::alignment::point);
    add_columns({"efficiency_pct"}, io::alignment::point);
    add_columns({"note"}, io::alignment::left);
    for (const counted& row : rows) table.rows.push_back(cells_of(row));
    return table;
  }

 private:
  std::vector<cell> cells_of(const counted& row) const {
    std::vector<cell> cells;
    if (!for_people) cells.emplace_back(row.gpu);
    cells.emplace_back(row.gpus);
    const bool is_planned = static_cast<bool>(row.best);
    const auto add = [&](const auto& value) { cells.push_back(is_planned ? cell(value) : cell()); };
    const auto add_number = [&](const auto& quantity, const auto& unit, int digits) {
      cells.push_back(quantity ? cell{in(*quantity, unit), digits} : cell());
    };
    const training_plan plan = is_planned ? *row.best : training_plan{};
    const batch_plan& batch = plan.batch;
    add(in_words(plan));
    add(recomputed(plan));
    if (for_people)
      add(in_words(batch));
    else
      for (const std::int64_t part : {batch.data_parallel, batch.micro_batch, batch.accumulation})
        add(part);
    add(cell{in(row.run.time, 1_h), 1});
    if (!for_people || !has_money) add(cell{in(row.run.gpu_time, 1_h), 0});
    if (!for_people) add_number(row.run.energy_used, 1_kWh, 0);
    if (!for_people || has_money) {
      add_number(row.run.cost, 1_usd, 0);
      add_number(row.hour_saved, 1_usd_per_hour, 2);
    }
    add(cell{100 * row.efficiency, 1});
    cells.emplace_back(row.note);
    return cells;
  }
};

std::string answer_to(const arguments& given, const guides::output& as) {
  const named_request named = request_of(given);
  const plan_request& request = named.request;
  if (request.samples == 0) throw guides::bad_request("--tokens says how long the run is");
  const transformer_memory_of memory_of{.fragmentation = given.fragmentation / 100};
  plan_request one = request;
  one.others = {};
  std::vector<counted> rows = counts_of(one, memory_of);
  std::vector<std::size_t> ends{rows.size()};  // of the rows of each kind of GPU
  for (const cluster_choice& other : request.others) {
    one.on = other.on;
    one.efficiency = other.efficiency;
    const std::vector<counted> more = counts_of(one, memory_of);
    rows.insert(rows.end(), more.begin(), more.end());
    ends.push_back(rows.size());
  }
  compare(rows);

  const listing list{is_for_people(as), static_cast<bool>(request.on.price_per_gpu)};
  const std::string title =
      named.name + ", " + io::decimal(given.tokens / 1e9, -1) + " billion tokens, on 1 to ";
  if (!list.for_people) return guides::render(list.of(title + gpus_of(request), rows), as);
  std::string tables;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const std::vector<counted> of_kind(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                                       rows.begin() + static_cast<std::ptrdiff_t>(end));
    if (begin != 0) tables += "\n";
    const std::string gpus = std::to_string(of_kind.back().gpus) + " x " + of_kind.back().gpu;
    tables += guides::render(list.of(title + gpus, of_kind), as);
    begin = end;
  }
  return tables;
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
