#include "time_reports.hpp"

#include <gpuplan/io/table.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "number.hpp"
#include "plan_choice.hpp"
#include "report.hpp"
#include "sources.hpp"

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

// How alike the orders of two lists are (Spearman): 1 where they are the same.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto ranks = [](const std::vector<double>& of) {
    std::vector<double> found;
    for (const double value : of) {
      const auto below = std::count_if(of.begin(), of.end(), [&](double x) { return x < value; });
      const auto same = std::count(of.begin(), of.end(), value);
      found.push_back(static_cast<double>(below) + static_cast<double>(same - 1) / 2);
    }
    return found;
  };
  const std::vector<double> x = ranks(a);
  const std::vector<double> y = ranks(b);
  const double middle = static_cast<double>(a.size() - 1) / 2;
  double xy = 0;
  double xx = 0;
  double yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 1;
}

// The mean of the questions that have three plans or more; blank where none has.
cell mean_rank_correlation(const std::vector<timed_row>& rows) {
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> questions;
  for (const timed_row& row : rows) {
    auto& [measured, predicted] = questions[row.question];
    measured.push_back(row.seconds);
    predicted.push_back(row.model.step(row.batch).value());
  }
  double sum = 0;
  std::size_t count = 0;
  for (const auto& [question, times] : questions) {
    if (times.first.size() < 3) continue;
    sum += rank_correlation(times.first, times.second);
    ++count;
  }
  if (count == 0) return {};
  return {percent_text(sum / static_cast<double>(count), 3)};
}

}  // namespace

std::string sources_report(const std::vector<file_comparison>& files, const guides::output& as) {
  table t{.columns = {{.name = "source"},
                      {.name = "rows", .align = alignment::right},
                      {.name = "predicted", .align = alignment::right},
                      {.name = "refused", .align = alignment::right},
                      {.name = "flagged", .align = alignment::right},
                      {.name = "mean_abs_error_pct", .align = alignment::right},
                      {.name = "median_abs_error_pct", .align = alignment::right},
                      {.name = "in_range_pct", .align = alignment::right},
                      {.name = "why_refused"}}};
  for (const source_summary& one : summarise_sources(files)) {
    std::string reasons;
    for (const auto& [reason, count] : one.refused)
      reasons += (reasons.empty() ? "" : "; ") + std::to_string(count) + ": " + reason;
    t.rows.push_back({one.source,
                      one.rows,
                      one.predicted,
                      one.rows - one.predicted,
                      one.flagged,
                      percent(one.mean),
                      percent(one.median),
                      percent(one.covered),
                      one.source == "all" ? std::string() : reasons});
  }
  return guides::render(t, as);
}

std::string calibration_report(const std::vector<calibrated_group>& groups,
                               bool each,
                               const guides::output& as) {
  if (each) {
    std::vector<file_comparison> files;
    for (const calibrated_group& group : groups)
      files.push_back({.path = group.source, .kind = "runs", .comparisons = group.times});
    return rows_report(files, as);
  }
  table t{.columns = {{.name = "source"},
                      {.name = "gpu"},
                      {.name = "timed", .align = alignment::right},
                      {.name = "predicted", .align = alignment::right},
                      {.name = "mean_abs_error_pct", .align = alignment::right},
                      {.name = "median_abs_error_pct", .align = alignment::right},
                      {.name = "in_range_pct", .align = alignment::right},
                      {.name = "questions", .align = alignment::right},
                      {.name = "rank_correlation", .align = alignment::right},
                      {.name = "mean_regret_pct", .align = alignment::right},
                      {.name = "median_regret_pct", .align = alignment::right},
                      {.name = "refused"}}};
  for (const calibrated_group& group : groups) {
    std::vector<double> errors;
    for (const timed_row& row : group.rows) errors.push_back(row.log_error());
    const error_size size = size_of(errors);
    std::vector<double> regrets;
    for (const plan_choice& one : plan_choices(group.rows)) regrets.push_back(one.regret);
    const error_size regret = size_of_percents(regrets);
    const bool has_any = size.rows != 0;
    const bool chooses = regret.rows != 0;
    t.rows.push_back({group.source,
                      group.gpu,
                      group.steps,
                      size.rows,
                      has_any ? percent(size.mean) : cell(),
                      has_any ? percent(size.median) : cell(),
                      has_any ? percent(covered_percent(group.times)) : cell(),
                      regret.rows,
                      mean_rank_correlation(group.rows),
                      chooses ? percent(regret.mean) : cell(),
                      chooses ? percent(regret.median) : cell(),
                      group.why_not});
  }
  return guides::render(t, as);
}

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
