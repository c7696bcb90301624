#include "plan_choice.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "time_parameters.hpp"

namespace accuracy {
namespace {

struct plan_times {
  std::string plan;
  std::size_t runs = 0;
  double measured = 0;  // sums over runs
  double predicted = 0;
};

std::map<std::string, std::vector<double>> errors_by_source(const std::vector<timed_row>& rows,
                                                            const gpuplan::time_terms& terms) {
  std::map<std::string, std::vector<double>> errors;
  for (const timed_row& row : rows) {
    gpuplan::roofline_time model = row.model;
    model.terms = terms;
    errors[row.source].push_back(row.log_error(model));
  }
  return errors;
}

error_size regret_of(const std::vector<plan_choice>& choices) {
  std::vector<double> regrets;
  for (const plan_choice& one : choices) regrets.push_back(one.regret);
  return size_of_percents(regrets);
}

}  // namespace

std::vector<plan_choice> plan_choices(const std::vector<timed_row>& rows,
                                      const gpuplan::time_terms& terms) {
  std::map<std::pair<std::string, std::string>, std::vector<plan_times>> questions;
  for (const timed_row& row : rows) {
    std::vector<plan_times>& plans = questions[{row.source, row.question}];
    auto known = std::find_if(
        plans.begin(), plans.end(), [&](const plan_times& one) { return one.plan == row.plan; });
    if (known == plans.end()) known = plans.insert(plans.end(), {.plan = row.plan});
    ++known->runs;
    known->measured += row.seconds;
    gpuplan::roofline_time model = row.model;
    model.terms = terms;
    known->predicted += model.step(row.batch).value();
  }
  std::vector<plan_choice> choices;
  for (const auto& [question, plans] : questions) {
    if (plans.size() < 2) continue;
    const auto mean = [](const plan_times& of, double sum) {
      return sum / static_cast<double>(of.runs);
    };
    const plan_times& fastest =
        *std::min_element(plans.begin(), plans.end(), [&](const auto& a, const auto& b) {
          return mean(a, a.measured) < mean(b, b.measured);
        });
    const plan_times& chosen =
        *std::min_element(plans.begin(), plans.end(), [&](const auto& a, const auto& b) {
          return mean(a, a.predicted) < mean(b, b.predicted);
        });
    choices.push_back(
        {.source = question.first,
         .question = question.second,
         .plans = plans.size(),
         .chosen = chosen.plan,
         .fastest = fastest.plan,
         .regret = 100 * (mean(chosen, chosen.measured) / mean(fastest, fastest.measured) - 1)});
  }
  return choices;
}

std::vector<term_error> ablation(const std::vector<timed_row>& rows) {
  std::vector<term_error> table;
  const auto add = [&](const char* name, const gpuplan::time_terms& terms) {
    std::vector<double> all;
    for (const auto& [source, errors] : errors_by_source(rows, terms)) {
      table.push_back({name, source, size_of(errors)});
      all.insert(all.end(), errors.begin(), errors.end());
    }
    table.push_back({name, "all", size_of(all)});
    table.push_back({name, "regret", regret_of(plan_choices(rows, terms))});
  };
  add("none", {});
  for (const time_term& term : time_terms_by_name()) {
    gpuplan::time_terms without;
    without.*term.is_on = false;
    add(term.name, without);
  }
  return table;
}

}  // namespace accuracy
