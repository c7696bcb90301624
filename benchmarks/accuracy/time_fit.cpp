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

bool is_wanted(const time_parameter& what, const fit_settings& settings) {
  return settings.only.empty() ||
         std::find(settings.only.begin(), settings.only.end(), what.name) != settings.only.end();
}

std::vector<variable> variables_of(const std::vector<timed_row>& rows,
                                   const fit_settings& settings) {
  std::vector<variable> variables;
  for (const time_parameter& what : time_parameters()) {
    if (!is_wanted(what, settings)) continue;
    std::map<std::string, variable> owners;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!changes_a_row(what, rows[i])) continue;
      const std::string owner = owner_name(rows[i].model, what.owner);
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
      : rows_(rows), variables_(variables), settings_(settings) {
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

  // Minimises the loss, owner by owner, since each has rows of its own.
  void minimise(const std::vector<double>& weights, int sweeps) {
    std::map<std::string, std::vector<std::size_t>> owners;
    for (std::size_t i = 0; i < variables_.size(); ++i)
      if (has_weight(variables_[i], weights)) owners[variables_[i].owner].push_back(i);
    for (int sweep = 0; sweep < sweeps; ++sweep)
      for (const auto& [name, own] : owners) minimise_owner(own, weights);
  }

 private:
  std::vector<timed_row> rows_;
  const std::vector<variable>& variables_;
  const fit_settings& settings_;
  std::vector<double> values_;

  static bool has_weight(const variable& one, const std::vector<double>& weights) {
    return std::any_of(
        one.rows.begin(), one.rows.end(), [&](std::size_t row) { return weights[row] > 0; });
  }

  // So many values of 0 to 1 stand for the parameters' ranges.
  void minimise_owner(const std::vector<std::size_t>& own, const std::vector<double>& weights) {
    std::set<std::size_t> touched;
    double total = 0;
    for (const std::size_t i : own)
      for (const std::size_t row : variables_[i].rows)
        if (weights[row] > 0) touched.insert(row);
    for (const std::size_t row : touched) total += weights[row];
    const auto place = [&](std::size_t i, double value) {
      const time_parameter& what = *variables_[i].what;
      return (value - what.low) / (what.high - what.low);
    };
    const auto put = [&](const std::vector<double>& x) {
      for (std::size_t k = 0; k < own.size(); ++k) {
        const time_parameter& what = *variables_[own[k]].what;
        set(own[k], what.low + x[k] * (what.high - what.low));
      }
    };
    const auto loss = [&](const std::vector<double>& x) {
      put(x);
      double sum = 0;
      for (const std::size_t row : touched) sum += weights[row] * std::abs(error(row));
      for (std::size_t k = 0; k < own.size(); ++k)
        sum += price_of_range * total * std::abs(x[k] - place(own[k], variables_[own[k]].before));
      return sum / total;
    };
    std::vector<double> x;
    for (const std::size_t i : own) x.push_back(std::clamp(place(i, values_[i]), 0.0, 1.0));
    nlopt::opt search(nlopt::LN_SBPLX, static_cast<unsigned>(x.size()));
    search.set_lower_bounds(0.0);
    search.set_upper_bounds(1.0);
    search.set_initial_step(0.1);
    search.set_ftol_abs(1e-5);
    search.set_maxeval(settings_.evaluations);
    nlopt::func objective = [](unsigned count, const double* at, double*, void* data) {
      const auto& call = *static_cast<decltype(loss)*>(data);
      return call(std::vector<double>(at, at + count));
    };
    search.set_min_objective(objective, const_cast<void*>(static_cast<const void*>(&loss)));
    double least = 0;
    search.optimize(x, least);
    put(x);
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
    const double share = times(row);
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
  best.minimise(weights_of(rows, cells), settings.sweeps);

  // Without a part of the cells.
  std::vector<double> without_cell(rows.size());
  for (int fold = 0; fold < settings.folds; ++fold) {
    std::map<std::string, double> others = cells;
    int at = 0;
    for (auto& [cell, times] : others)
      if (at++ % settings.folds == fold) times = 0;
    fitting part(rows, variables, settings);
    part.take(best.values());
    part.minimise(weights_of(rows, others), 1);
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
    part.minimise(weights, settings.sweeps);
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
    part.minimise(weights_of(rows, drawn), 1);
    for (std::size_t i = 0; i < variables.size(); ++i) {
      result.parameters[i].low = std::min(result.parameters[i].low, part.values()[i]);
      result.parameters[i].high = std::max(result.parameters[i].high, part.values()[i]);
    }
  }
  add_sources(rows, best, without_cell, without_source, settings.terms, result);
  return result;
}

}  // namespace accuracy
