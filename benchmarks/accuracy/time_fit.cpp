#include "time_fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlopt.hpp>
#include <random>
#include <set>

namespace accuracy {
namespace {

constexpr double price_of_range = 0.002;
constexpr double weight_of_composed = 0.25;

// One parameter of one owner, and the rows that have it.
struct variable {
  const time_parameter* what = nullptr;
  std::string owner;
  std::vector<std::size_t> rows;
  double before = 0;
};

// A value below all that are possible says that the framework has no such limit.
bool changes_a_row(const time_parameter& what, const timed_row& row) {
  if (what.get(row.model) < what.low) return false;
  gpuplan::roofline_time low = row.model;
  gpuplan::roofline_time high = row.model;
  what.set(low, what.low);
  what.set(high, what.high);
  return std::abs(row.log_error(low) - row.log_error(high)) > 1e-6;
}

bool is_wanted(const std::string& name, const std::vector<std::string>& wanted) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
}

std::vector<variable> variables_of(const std::vector<timed_row>& rows,
                                   const fit_settings& settings) {
  std::vector<variable> variables;
  for (const time_parameter& what : time_parameters()) {
    if (!is_wanted(what.name, settings.only)) continue;
    std::map<std::string, variable> owners;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string owner = owner_name(rows[i].model, what.owner);
      if (!is_wanted(owner, settings.owners) || !changes_a_row(what, rows[i])) continue;
      variable& one = owners[owner];
      if (one.rows.empty()) one = {&what, owner, {}, what.get(rows[i].model)};
      one.rows.push_back(i);
    }
    for (auto& [name, one] : owners) variables.push_back(std::move(one));
  }
  return variables;
}

// The rows with the values of a fit in their models.
class fitting {
 public:
  fitting(const std::vector<timed_row>& rows,
          const std::vector<variable>& variables,
          const fit_settings& settings)
      : rows_(rows), variables_(variables) {
    for (timed_row& row : rows_) row.model.terms = settings.terms;
    for (const variable& one : variables_) values_.push_back(one.before);
  }

  [[nodiscard]] const std::vector<double>& values() const { return values_; }
  void take(const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) set(i, values[i]);
  }
  void set(std::size_t which, double value) {
    values_[which] = value;
    for (const std::size_t row : variables_[which].rows)
      variables_[which].what->set(rows_[row].model, value);
  }
  [[nodiscard]] double error(std::size_t row) const { return rows_[row].log_error(); }

  // Minimises the loss from the values as they are: owner by owner without its gradient, since it
  // has more than one valley, and along it in all parameters, since those of several owners can
  // stand in for each other. A gradient costs each row once for each of its own parameters.
  void minimise(const std::vector<double>& weights, int rounds) {
    std::map<std::string, std::vector<std::size_t>> owners;
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      if (!has_weight(variables_[i], weights)) continue;
      all.push_back(i);
      owners[variables_[i].owner].push_back(i);
    }
    if (all.empty()) return;
    for (int round = 0; round < rounds; ++round) {
      for (const auto& [name, own] : owners) search(nlopt::LN_SBPLX, own, weights, 250);
      search(nlopt::LD_SLSQP, all, weights, 40);
    }
  }

 private:
  // What a minimisation needs of the fit.
  struct descent {
    fitting& fit;
    const std::vector<double>& weights;
    const std::vector<std::size_t>& own;
    std::vector<std::size_t> rows;  // with a weight and one of these parameters
    double total = 0;               // of their weights
  };

  std::vector<timed_row> rows_;
  const std::vector<variable>& variables_;
  std::vector<double> values_;

  void search(nlopt::algorithm how,
              const std::vector<std::size_t>& own,
              const std::vector<double>& weights,
              int evaluations) {
    descent to{*this, weights, own, {}};
    std::set<std::size_t> touched;
    for (const std::size_t i : own)
      touched.insert(variables_[i].rows.begin(), variables_[i].rows.end());
    for (const std::size_t row : touched)
      if (weights[row] > 0) {
        to.rows.push_back(row);
        to.total += weights[row];
      }
    std::vector<double> x;
    for (const std::size_t i : own) x.push_back(std::clamp(place(i, values_[i]), 0.0, 1.0));
    nlopt::opt by(how, static_cast<unsigned>(x.size()));
    by.set_lower_bounds(0.0);
    by.set_upper_bounds(1.0);
    if (how == nlopt::LN_SBPLX) by.set_initial_step(0.1);
    by.set_ftol_abs(1e-6);
    by.set_maxeval(evaluations);
    by.set_min_objective(loss_of, &to);
    double least = 0;
    try {
      by.optimize(x, least);
    } catch (const nlopt::roundoff_limited&) {
      // x is as good as it gets
    }
    put(own, x);
  }

  static bool has_weight(const variable& one, const std::vector<double>& weights) {
    return std::any_of(
        one.rows.begin(), one.rows.end(), [&](std::size_t row) { return weights[row] > 0; });
  }

  // 0 to 1 stand for a parameter's range.
  [[nodiscard]] double place(std::size_t i, double value) const {
    const time_parameter& what = *variables_[i].what;
    return (value - what.low) / (what.high - what.low);
  }
  void put(std::size_t i, double x) {
    const time_parameter& what = *variables_[i].what;
    set(i, what.low + x * (what.high - what.low));
  }
  void put(const std::vector<std::size_t>& own, const std::vector<double>& x) {
    for (std::size_t k = 0; k < own.size(); ++k) put(own[k], x[k]);
  }

  // |x|, rounded off below a hundredth, so that it has a slope everywhere.
  static double size(double x) { return std::sqrt(x * x + 1e-4) - 1e-2; }

  double loss(const descent& to, const std::vector<double>& x) {
    put(to.own, x);
    double sum = 0;
    for (const std::size_t row : to.rows) sum += to.weights[row] * size(error(row));
    for (std::size_t k = 0; k < to.own.size(); ++k) sum += price(to, k, x[k]);
    return sum / to.total;
  }
  [[nodiscard]] double price(const descent& to, std::size_t k, double x) const {
    const variable& of = variables_[to.own[k]];
    return price_of_range * to.total * size(x - place(to.own[k], of.before));
  }
  double slope(const descent& to, const std::vector<double>& x, std::size_t k) {
    const double step = x[k] < 0.5 ? 1e-4 : -1e-4;
    const std::vector<std::size_t>& touched = variables_[to.own[k]].rows;
    const auto sum = [&](double at) {
      put(to.own[k], at);
      double of_rows = price(to, k, at);
      for (const std::size_t row : touched)
        if (to.weights[row] > 0) of_rows += to.weights[row] * size(error(row));
      return of_rows;
    };
    const double there = sum(x[k] + step);
    return (there - sum(x[k])) / step / to.total;
  }

  static double loss_of(unsigned count, const double* at, double* gradient, void* data) {
    const descent& to = *static_cast<descent*>(data);
    const std::vector<double> x(at, at + count);
    const double value = to.fit.loss(to, x);
    if (gradient != nullptr)
      for (std::size_t k = 0; k < count; ++k) gradient[k] = to.fit.slope(to, x, k);
    return value;
  }
};

// Of rows that are not left out: cells weigh alike within a source, a source as the root of their
// number.
std::vector<double> weights_of(const std::vector<timed_row>& rows,
                               const std::map<std::string, double>& times_of_cell) {
  std::map<std::string, std::map<std::string, double>> counts;
  const auto times = [&](const timed_row& row) {
    const auto found = times_of_cell.find(row.cell);
    return found == times_of_cell.end() ? 0 : found->second;
  };
  for (const timed_row& row : rows)
    if (times(row) > 0) ++counts[row.source][row.cell];
  std::vector<double> weights;
  for (const timed_row& row : rows) {
    const double share = times(row) * (row.is_composed ? weight_of_composed : 1);
    const auto& cells = counts[row.source];
    weights.push_back(
        share > 0 ? share / (cells.at(row.cell) * std::sqrt(static_cast<double>(cells.size())))
                  : 0);
  }
  return weights;
}

std::map<std::string, double> cells_of(const std::vector<timed_row>& rows) {
  std::map<std::string, double> cells;
  for (const timed_row& row : rows)
    if (!row.is_unseen) cells[row.cell] = 1;
  return cells;
}

void add_sources(const std::vector<timed_row>& rows,
                 const fitting& fitted,
                 const std::vector<double>& without_cell,
                 const std::vector<double>& without_source,
                 const gpuplan::time_terms& terms,
                 time_fit& result) {
  std::set<std::string> names;
  for (const timed_row& row : rows) names.insert(row.source);
  for (const std::string& name : names) {
    std::vector<double> before, after, cells, source, unseen;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].source != name) continue;
      gpuplan::roofline_time model = rows[i].model;
      model.terms = terms;
      before.push_back(rows[i].log_error(model));
      (rows[i].is_unseen ? unseen : after).push_back(fitted.error(i));
      if (rows[i].is_unseen) continue;
      cells.push_back(without_cell[i]);
      source.push_back(without_source[i]);
    }
    result.sources.push_back({.source = name,
                              .before = size_of(before),
                              .fitted = size_of(after),
                              .left_out_cells = size_of(cells),
                              .left_out_source = size_of(source),
                              .unseen = size_of(unseen)});
  }
}

}  // namespace

time_fit fit_time(const std::vector<timed_row>& rows, const fit_settings& settings) {
  const std::vector<variable> variables = variables_of(rows, settings);
  const std::map<std::string, double> cells = cells_of(rows);
  fitting best(rows, variables, settings);
  best.minimise(weights_of(rows, cells), settings.rounds);

  // Without a part of the cells.
  std::vector<double> without_cell(rows.size());
  for (int fold = 0; fold < settings.folds; ++fold) {
    std::map<std::string, double> others = cells;
    int at = 0;
    for (auto& [cell, times] : others)
      if (at++ % settings.folds == fold) times = 0;
    fitting part(rows, variables, settings);
    part.take(best.values());
    part.minimise(weights_of(rows, others), settings.rounds_again);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (const auto cell = others.find(rows[i].cell); cell != others.end() && cell->second == 0)
        without_cell[i] = part.error(i);
  }

  // Without a source: what only its rows have is then as in a setup that says nothing.
  std::vector<double> without_source(rows.size());
  std::set<std::string> sources;
  for (const timed_row& row : rows) sources.insert(row.source);
  for (const std::string& source : sources) {
    std::map<std::string, double> others = cells;
    for (const timed_row& row : rows)
      if (row.source == source) others.erase(row.cell);
    const std::vector<double> weights = weights_of(rows, others);
    fitting part(rows, variables, settings);
    part.take(best.values());
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const auto& own = variables[i].rows;
      if (std::none_of(own.begin(), own.end(), [&](std::size_t row) { return weights[row] > 0; }))
        part.set(i, variables[i].what->get(gpuplan::roofline_time{}));
    }
    part.minimise(weights, settings.rounds_again);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].source == source) without_source[i] = part.error(i);
  }

  time_fit result;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const variable& one = variables[i];
    const double value = best.values()[i];
    result.parameters.push_back(
        {one.what, one.owner, one.rows.size(), one.before, value, value, value});
  }
  std::mt19937 random(1);
  for (int resample = 0; resample < settings.resamples; ++resample) {
    std::vector<std::string> names;
    for (const auto& [cell, times] : cells) names.push_back(cell);
    std::map<std::string, double> drawn;
    for (std::size_t i = 0; i < names.size(); ++i) ++drawn[names[random() % names.size()]];
    fitting part(rows, variables, settings);
    part.take(best.values());
    part.minimise(weights_of(rows, drawn), settings.rounds_again);
    for (std::size_t i = 0; i < variables.size(); ++i) {
      result.parameters[i].low = std::min(result.parameters[i].low, part.values()[i]);
      result.parameters[i].high = std::max(result.parameters[i].high, part.values()[i]);
    }
  }
  add_sources(rows, best, without_cell, without_source, settings.terms, result);
  return result;
}

}  // namespace accuracy
