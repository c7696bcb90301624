#include "run/choosing.hpp"

#include <gpuplan/cost.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "plan/report.hpp"
#include "setups/numbers.hpp"

namespace run_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using io::cell;

std::string figures_of(double value) { return io::decimal(value, plan_program::digits_of(value)); }
cell figures(double value) { return {value, plan_program::digits_of(value)}; }
cell figures(double low, double high) {
  return {range<double>(low, high), plan_program::digits_of(std::abs(low))};
}

std::string days_of(double days) { return figures_of(days) + (days == 1 ? " day" : " days"); }
std::string name_of(const run& one) { return std::to_string(one.of.gpus) + " x " + one.of.name(); }

bool fits(const run& one) { return one.of.note.empty(); }
bool is_sure(const request& asked, const run& one) { return one.kept >= asked.sure / 100; }
double sure_dollars(const run& one) { return in(*one.cost(one.held.sure), 1_usd); }

// "$300,000", "$12.50".
std::string dollars_of(double value) {
  const std::int64_t cents = std::llround(100 * value);
  const std::string part = std::to_string(cents % 100);
  return "$" + setups::grouped(cents / 100) +
         (cents % 100 == 0 ? "" : (part.size() < 2 ? ".0" : ".") + part);
}
std::string needed_dollars(const run& one) {
  const double all = sure_dollars(one);
  return dollars_of(all < 100 ? all : std::round(all));
}

bool is_late(const request& asked, const run& one) {
  return asked.deadline > 0 && one.times.sure > asked.deadline * 1_d;
}
bool is_dear(const request& asked, const run& one) {
  return asked.dollars > 0 && sure_dollars(one) > asked.dollars;
}

// "within 14 days and for at most $5,000"
std::string limits(const request& asked) {
  std::string all;
  if (asked.deadline > 0) all = "within " + days_of(asked.deadline);
  if (asked.dollars > 0)
    all += (all.empty() ? "for" : " and for") + (" at most " + dollars_of(asked.dollars));
  return all;
}

// The same step, as many as still keep to both with the asked probability.
double steps_that_keep(const request& asked,
                       const failure_rate& rate,
                       known<bytes> checkpoint,
                       const run& of) {
  double least = INFINITY;
  const auto take = [&](const std::string& budget) {
    request within = asked;
    within.budget = budget;
    try {
      least = std::min(
          least, static_cast<double>(run_within_budget(within, rate, checkpoint, of.of).of.steps));
    } catch (const guides::bad_request&) {
      least = 0;  // not one step
    }
  };
  if (asked.deadline > 0) take(io::decimal(asked.deadline, 6) + "d");
  if (asked.dollars > 0) take("$" + io::decimal(asked.dollars, 2));
  return least;
}

}  // namespace

const run* chosen(const request& asked, const std::vector<run>& runs) {
  const bool has_prices = std::all_of(runs.begin(), runs.end(), [](const run& one) {
    return !fits(one) || static_cast<bool>(one.cost(one.held.sure));
  });
  const auto spends = [&](const run& one) {
    return has_prices ? sure_dollars(one) : static_cast<double>(one.paid_gpus);
  };
  const run* best = nullptr;
  for (const run& one : runs) {
    if (!fits(one)) continue;
    if (best == nullptr) {
      best = &one;
      continue;
    }
    const bool sure = is_sure(asked, one);
    const bool is_better = sure != is_sure(asked, *best) ? sure
                           : sure                        ? spends(one) < spends(*best)
                                                         : one.kept > best->kept;
    if (is_better) best = &one;
  }
  return best;
}

void judge(const request& asked, std::vector<run>& runs) {
  const run* const best = chosen(asked, runs);
  for (run& one : runs) {
    if (!fits(one)) continue;
    const bool late = is_late(asked, one);
    const bool dear = is_dear(asked, one);
    const std::string days = days_of(in(one.times.sure, 1_d));
    one.note = is_sure(asked, one) ? (asked.dollars > 0 ? "kept" : "on time")
               : late && dear      ? "reserve " + days + " and " + needed_dollars(one)
               : late              ? "reserve " + days
                                   : needed_dollars(one) + " are needed";
    if (&one == best && is_sure(asked, one) && runs.size() > 1)
      one.note = one.cost(one.held.sure) ? "cheapest that keeps to it" : "fewest GPUs on time";
  }
}

io::table chances(const request& asked,
                  const failure_rate& rate,
                  known<bytes> checkpoint,
                  const run& of) {
  const std::string sure = io::decimal(asked.sure, -1) + " %";
  const bool late = is_late(asked, of);
  const bool dear = is_dear(asked, of);
  const bool keeps = is_sure(asked, of);
  io::table table{.title = name_of(of) + ": done " + limits(asked) + " in " +
                           io::decimal(100 * of.kept, 1) + " % of cases, " +
                           (keeps ? "and " : "but ") + sure + " are asked for"};
  table.columns = {{.name = "what"},
                   {.name = "as asked", .align = io::alignment::point},
                   {.name = "for " + sure, .align = io::alignment::point}};
  // Of two limits, one that is kept as it is asked for is no remedy of the other.
  if (late || (keeps && asked.deadline > 0))
    table.rows.push_back({"days", figures(asked.deadline), figures(in(of.times.sure, 1_d))});
  if (dear || (keeps && asked.dollars > 0))
    table.rows.push_back({"dollars", figures(asked.dollars), figures(sure_dollars(of))});
  const double steps = of.of.phases.empty() ? steps_that_keep(asked, rate, checkpoint, of) : 0;
  if (steps > 0) {
    const double share = steps / static_cast<double>(of.of.steps);
    const double samples = static_cast<double>(of.of.steps) * static_cast<double>(of.of.batch);
    const double size = of.of.tokens > 0 ? of.of.tokens : samples;
    table.rows.push_back({of.of.tokens > 0 ? "tokens" : "samples",
                          {plan_program::rounded_count(size), 0},
                          {plan_program::rounded_count(size * share), 0}});
    // The same time of work, so the same failures.
    table.rows.push_back(
        {"seconds of a step", figures(in(of.of.step, 1_s)), figures(in(of.of.step, 1_s) * share)});
  }
  if (keeps)
    table.title += "; just enough for " + sure;
  else if (late && dear)
    table.title += "; for " + sure + " it needs the days and the dollars both" +
                   (steps > 0 ? ", or one of the others alone" : "");
  else if (asked.deadline > 0 && asked.dollars > 0)
    table.title += std::string("; the ") + (late ? "dollars" : "days") +
                   " are enough as asked, and each of these alone makes it " + sure;
  else
    table.title += "; each alone is enough for " + sure;
  return table;
}

namespace {

// 10, 50 and 90 % of a run, as priced.
struct three_cases {
  const run* of = nullptr;
  priced_run each[3]{};
};

three_cases cases_of(const run& one) {
  three_cases all{.of = &one};
  const std::pair<duration, duration> times[] = {{one.times.low, one.held.low},
                                                 {one.times.median, one.held.median},
                                                 {one.times.high, one.held.high}};
  for (std::size_t at = 0; at < 3; ++at)
    all.each[at] = {one.paid_gpus, times[at].first, *one.cost(times[at].second)};
  return all;
}

}  // namespace

bool has_choices(const std::vector<run>& runs) {
  return std::count_if(runs.begin(), runs.end(), [](const run& one) {
           return fits(one) && static_cast<bool>(one.cost(one.held.median));
         }) > 1;
}

io::table choices(const request& asked, const std::vector<run>& runs) {
  std::vector<three_cases> all;
  for (const run& one : runs)
    if (fits(one) && one.cost(one.held.median)) all.push_back(cases_of(one));
  // From the longest on; runs that take as long stay in their order.
  std::sort(all.begin(), all.end(), [](const three_cases& a, const three_cases& b) {
    if (a.each[1].time != b.each[1].time) return b.each[1].time < a.each[1].time;
    return a.of < b.of;
  });
  io::table table{.title = "which to choose"};
  table.columns = {{.name = "gpu"}, {.name = "gpus", .align = io::alignment::right}};
  for (const char* name : {"days, 80 %", "usd, 80 %", "usd an hour less"})
    table.columns.push_back({.name = name, .align = io::alignment::point});
  const bool has_limits = asked.deadline > 0 || asked.dollars > 0;
  if (has_limits) table.columns.push_back({.name = "kept %", .align = io::alignment::point});
  table.columns.push_back({.name = "note"});
  const three_cases* slower = nullptr;
  for (const three_cases& one : all) {
    int dominated = 0;
    for (std::size_t at = 0; at < 3; ++at)
      dominated += std::any_of(all.begin(), all.end(), [&](const three_cases& other) {
        return dominates(other.each[at], one.each[at]);
      });
    std::vector<cell> row{one.of->of.name(),
                          one.of->of.gpus,
                          figures(in(one.each[0].time, 1_d), in(one.each[2].time, 1_d)),
                          figures(in(one.each[0].cost, 1_usd), in(one.each[2].cost, 1_usd))};
    if (dominated < 3 && slower != nullptr) {
      double least = INFINITY;
      double most = -INFINITY;
      for (std::size_t at = 0; at < 3; ++at) {
        const auto price = price_of_time_saved(slower->each[at], one.each[at]);
        if (!price) continue;
        least = std::min(least, in(*price, 1_usd_per_hour));
        most = std::max(most, in(*price, 1_usd_per_hour));
      }
      row.push_back(most - least > 1e-3 * std::abs(most) ? figures(least, most)
                    : least <= most                      ? figures(most)
                                                         : cell());
    } else {
      row.emplace_back();
    }
    if (has_limits) row.emplace_back(io::decimal(100 * one.of->kept, 1));
    row.emplace_back(dominated == 0   ? "worth choosing"
                     : dominated == 3 ? "dominated"
                                      : "dominated in some cases");
    if (dominated < 3) slower = &one;
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace run_program
