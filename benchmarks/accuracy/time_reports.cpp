#include "time_reports.hpp"

#include <gpuplan/io/table.hpp>

#include <algorithm>
#include <map>

#include "number.hpp"
#include "plan_choice.hpp"

namespace accuracy {
namespace {

using gpuplan::io::alignment;
using gpuplan::io::cell;
using gpuplan::io::table;

cell percent(double value) { return {percent_text(value, value < 0.1 ? 1 : 3)}; }

table choices_as_table(const std::vector<plan_choice>& choices) {
  table t{.columns = {{.name = "question"},
                      {.name = "plans", .align = alignment::right},
                      {.name = "chosen"},
                      {.name = "fastest"},
                      {.name = "regret_pct", .align = alignment::right}}};
  for (const plan_choice& one : choices)
    t.rows.push_back({one.question, one.plans, one.chosen, one.fastest, percent(one.regret)});
  return t;
}

table choices_by_source(const std::vector<plan_choice>& choices) {
  struct sums {
    std::size_t questions = 0;
    std::size_t plans = 0;
    std::size_t right = 0;
    double regret = 0;
    double worst = 0;
  };
  std::map<std::string, sums> sources;
  for (const plan_choice& one : choices) {
    sums& sum = sources[one.source];
    ++sum.questions;
    sum.plans += one.plans;
    if (one.regret == 0) ++sum.right;
    sum.regret += one.regret;
    sum.worst = std::max(sum.worst, one.regret);
  }
  table t{.columns = {{.name = "source"},
                      {.name = "questions", .align = alignment::right},
                      {.name = "plans", .align = alignment::right},
                      {.name = "fastest_chosen", .align = alignment::right},
                      {.name = "mean_regret_pct", .align = alignment::right},
                      {.name = "worst_regret_pct", .align = alignment::right}}};
  for (const auto& [source, sum] : sources)
    t.rows.push_back({source,
                      sum.questions,
                      sum.plans,
                      sum.right,
                      percent(sum.regret / static_cast<double>(sum.questions)),
                      percent(sum.worst)});
  return t;
}

}  // namespace

std::string plans_report(const std::vector<timed_row>& rows, bool each, const guides::output& as) {
  const std::vector<plan_choice> choices = plan_choices(rows);
  return guides::render(each ? choices_as_table(choices) : choices_by_source(choices), as);
}

std::string ablation_report(const std::vector<timed_row>& rows, const guides::output& as) {
  const std::vector<term_error> errors = ablation(rows);
  if (traits_of(as.format).for_people) {
    // A column for each source, in the order of the errors.
    table t{.columns = {{.name = "without"}}};
    for (const term_error& one : errors) {
      if (t.rows.empty() || t.rows.back().front().text() != one.term) t.rows.push_back({one.term});
      if (t.rows.size() == 1) t.columns.push_back({.name = one.source, .align = alignment::right});
      t.rows.back().push_back(percent_text(one.size.mean, 3));
    }
    guides::output wide = as;
    wide.width = std::max(wide.width, static_cast<int>(24 * t.columns.size()));
    return guides::render(t, wide);
  }
  table t{.columns = {{.name = "without"},
                      {.name = "source"},
                      {.name = "rows", .align = alignment::right},
                      {.name = "mean_abs_error_pct", .align = alignment::right},
                      {.name = "median_abs_error_pct", .align = alignment::right}}};
  for (const term_error& one : errors)
    t.rows.push_back({one.term,
                      one.source,
                      one.size.rows,
                      percent_text(one.size.mean),
                      percent_text(one.size.median)});
  return guides::render(t, as);
}

}  // namespace accuracy
