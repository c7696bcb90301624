#include <gpuplan/cost.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "plan/how_many_gpus.hpp"
#include "plan/options.hpp"
#include "plan/report.hpp"
#include "plan/searches.hpp"

namespace plan_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using io::cell;

struct counted {
  described_plan is{};
  double efficiency = 0;
  known<price> hour_saved{};
  std::string note{};
};

// The best plan on each number of one kind of GPU.
std::vector<counted> counts_of(named_request asked, const searches& search) {
  plan_request& request = asked.request;
  std::vector<counted> rows;
  const counted* fewest = nullptr;
  std::size_t before = 0;
  const std::int64_t in_node = request.on.gpus_per_node;
  const std::int64_t all = total_gpus(request.on);
  const auto add = [&](std::int64_t gpus) {
    rows.push_back({.is = {.gpu = request.on.gpu.id, .gpus = gpus}});
  };
  for (std::int64_t gpus = 1; gpus < in_node; gpus *= 2) add(gpus);
  for (std::int64_t gpus = in_node; gpus < all; gpus *= 2) add(gpus);
  add(all);
  for (counted& row : rows) {
    search.answered(static_cast<std::size_t>(&row - rows.data()), rows.size());
    request.space.gpus = range<std::int64_t>{row.is.gpus, row.is.gpus};
    const auto found = search.plans_of(request, 1);
    if (!found) {
      row.note = in_words(found.why());
      continue;
    }
    row.is = describe(asked, found->best());
    const planned_run& run = *row.is.run;
    if (fewest != nullptr && run.cost) {
      const described_plan& fewer = rows[before].is;
      const auto saved = price_of_time_saved({fewer.gpus, fewer.run->time, *fewer.run->cost},
                                             {row.is.gpus, run.time, *run.cost});
      if (saved) row.hour_saved = *saved;
    }
    if (fewest == nullptr) fewest = &row;
    before = static_cast<std::size_t>(&row - rows.data());
    row.efficiency = fewest->is.run->gpu_time / run.gpu_time;
  }
  return rows;
}

// The cheapest and the fastest, and what others are better than in both.
void compare(std::vector<counted>& rows) {
  std::vector<priced_run> runs;
  std::vector<counted*> of;
  for (counted& row : rows) {
    if (!row.is.plan || !row.is.run->cost) continue;
    runs.push_back({row.is.gpus, row.is.run->time, *row.is.run->cost});
    of.push_back(&row);
  }
  if (runs.empty()) return;
  for (std::size_t at = 0; at < runs.size(); ++at)
    if (!on_pareto_front(runs, at)) of[at]->note = "dominated";
  of[*cheapest(runs)]->note = "cheapest";
  std::string& note = of[*fastest(runs)]->note;
  note = note == "cheapest" ? "cheapest and fastest" : "fastest";
}

io::table for_programs(const std::vector<counted>& rows) {
  io::table table;
  add_columns(table);
  for (const char* name : {"usd_per_hour_saved", "efficiency_pct", "note"})
    table.columns.push_back({.name = name});
  for (const counted& row : rows) {
    std::vector<cell> cells;
    add_cells(cells, row.is);
    cells.push_back(cell_of(row.hour_saved, 1_usd_per_hour, cell::shortest));
    cells.push_back(row.is.plan ? cell(100 * row.efficiency) : cell());
    cells.emplace_back(row.note);
    table.rows.push_back(cells);
  }
  return table;
}

// Of one kind of GPU: what each number of them takes, what of a step, and by which stack.
class listing {
 public:
  listing(const named_request& asked, const std::vector<counted>& rows)
      : asked_(asked),
        has_money_(static_cast<bool>(asked.request.on.price_per_gpu)),
        has_precisions_(has_precisions(asked)) {
    for (const counted& row : rows) {
      (row.is.plan ? rows_ : unplanned_).push_back(&row);
      if (!row.is.plan) continue;
      recomputes_ = recomputes_ || row.is.plan->recompute != recompute_mode::none;
      planned_.push_back({std::to_string(row.is.gpus), row.is});
      const planned_run& run = *row.is.run;
      const double hours = in(run.time, 1_h);
      if (!(least_hours_ > 0) || hours < least_hours_) least_hours_ = hours;
      const double cost = run.cost ? in(*run.cost, 1_usd) : in(run.gpu_time, 1_h);
      if (!(least_cost_ > 0) || cost < least_cost_) least_cost_ = cost;
    }
  }

  std::string text(const std::string& title, const guides::output& as) const {
    std::string tables;
    if (!unplanned_.empty()) tables = guides::render(reasons(title), as);
    if (planned_.empty()) return tables;
    if (!tables.empty()) tables += "\n";
    tables += guides::render(counts(unplanned_.empty() ? title : ""), as);
    const auto fastest =
        std::min_element(planned_.begin(), planned_.end(), [](const auto& a, const auto& b) {
          return a.is.run->time < b.is.run->time;
        });
    named_plan shown = *fastest;
    shown.name = "on " + shown.name;
    return tables + "\n" + guides::render(parts_of(planned_), as) + "\n" + how_sure(shown, as);
  }

 private:
  const named_request& asked_;
  bool has_money_;
  bool has_precisions_;
  std::vector<const counted*> rows_{};
  std::vector<const counted*> unplanned_{};
  bool recomputes_ = false;
  std::vector<named_plan> planned_{};
  double least_hours_ = 0;
  double least_cost_ = 0;

  io::table reasons(const std::string& title) const {
    io::table table{.title = title,
                    .columns = {{.name = "gpus", .align = io::alignment::right},
                                {.name = "why there is no plan"}}};
    for (const counted* row : unplanned_) table.rows.push_back({row->is.gpus, row->note});
    return table;
  }
  io::table counts(const std::string& title) const {
    io::table table{.title = title};
    const auto add_columns = [&](std::initializer_list<const char*> names, io::alignment align) {
      for (const char* name : names) table.columns.push_back({.name = name, .align = align});
    };
    add_columns({"gpus"}, io::alignment::right);
    if (has_codes(asked_)) add_columns({"code"}, io::alignment::left);
    if (has_precisions_) add_columns({"precision"}, io::alignment::left);
    add_columns({"layout"}, io::alignment::left);
    if (recomputes_) add_columns({"recompute"}, io::alignment::left);
    add_columns({"batch"}, io::alignment::right);
    add_columns({"hours"}, io::alignment::point);
    add_columns({planned_.front().is.has_interval ? "80 % within" : "by stack"},
                io::alignment::right);
    if (has_money_)
      add_columns({"usd", "usd/h saved"}, io::alignment::point);
    else
      add_columns({"gpu_hours"}, io::alignment::point);
    add_columns({"kept_pct"}, io::alignment::point);
    if (has_money_) add_columns({"note"}, io::alignment::left);
    for (const counted* row : rows_) table.rows.push_back(cells_of(*row));
    return table;
  }
  std::vector<cell> cells_of(const counted& row) const {
    std::vector<cell> cells{row.is.gpus};
    const training_plan& plan = *row.is.plan;
    const planned_run& run = *row.is.run;
    if (has_codes(asked_)) cells.emplace_back(code_of(row.is.model.setup.framework));
    if (has_precisions_) cells.emplace_back(row.is.precision);
    const range<duration> time = row.is.time_by(row.is.by_stack.all);
    const int digits = digits_of(least_hours_, 2);
    cells.emplace_back(in_words(plan));
    if (recomputes_) cells.emplace_back(recomputed(row.is.model.setup));
    cells.emplace_back(in_words(plan.batch));
    cells.emplace_back(in(run.time, 1_h), digits);
    cells.emplace_back(range<double>{in(time.low(), 1_h), in(time.high(), 1_h)}, digits);
    if (has_money_) {
      cells.push_back(cell_of(run.cost, 1_usd, digits_of(least_cost_)));
      cells.push_back(cell_of(row.hour_saved, 1_usd_per_hour, 2));
    } else {
      cells.emplace_back(in(run.gpu_time, 1_h), digits_of(least_cost_));
    }
    cells.emplace_back(100 * row.efficiency, 0);
    if (has_money_) cells.emplace_back(row.note);
    return cells;
  }
};

}  // namespace

std::string how_many_gpus(const arguments& given, const guides::output& as) {
  const named_request named = request_of(given);
  const plan_request& request = named.request;
  if (request.samples == 0)
    throw guides::bad_request("--tokens, or --samples, says how long the run is");
  const searches search(given.fragmentation);
  std::vector<named_request> kinds;
  for (const runs::named_cluster& cluster : named.clusters) {
    named_request one = named;
    one.request.others = {};
    one.request.on = cluster.on;
    one.request.efficiency = cluster.efficiency;
    one.clusters = {cluster};
    kinds.push_back(one);
  }
  std::vector<counted> rows;
  std::vector<std::size_t> ends;  // of the rows of each kind of GPU
  for (const named_request& kind : kinds) {
    const std::vector<counted> more = counts_of(kind, search);
    rows.insert(rows.end(), more.begin(), more.end());
    ends.push_back(rows.size());
  }
  compare(rows);
  if (!is_for_people(as)) return guides::render(for_programs(rows), as);

  const std::string title = what_of(named) + ", " + runs::in_words(named.run) + ", on 1 to ";
  std::string tables;
  std::size_t begin = 0;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const std::vector<counted> of_kind(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                                       rows.begin() + static_cast<std::ptrdiff_t>(ends[kind]));
    if (begin != 0) tables += "\n";
    tables += listing(kinds[kind], of_kind).text(title + gpus_of(kinds[kind].request), as);
    begin = ends[kind];
  }
  return tables;
}

}  // namespace plan_program
