#include "links_fit.hpp"

#include <gpuplan/catalog/gpus.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlopt.hpp>
#include <numeric>
#include <set>

namespace accuracy {
namespace {

using namespace gpuplan::literals;
using gpuplan::collective_algorithm;
using gpuplan::interconnect;

struct link_value {
  const char* name;
  const char* unit;
  double low;
  double high;
  double (*get)(const interconnect&);
  void (*set)(interconnect&, double);
  std::string (*owner)(const interconnect&);
};

std::string kind_inside(const interconnect& links) { return links.inside.kind; }
std::string kind_between(const interconnect& links) {
  return links.between_nodes ? links.between.kind : "";
}

const std::vector<link_value>& link_values() {
  static const std::vector<link_value> all{
      {"launch",
       "us",
       1,
       500,
       [](const interconnect& links) { return in(links.launch, 1_us); },
       [](interconnect& links, double value) { links.launch = value * 1_us; },
       [](const interconnect&) { return std::string("all"); }},
      {"ring_share",
       "",
       0.3,
       1,
       [](const interconnect& links) { return links.inside.ring_share; },
       [](interconnect& links, double value) { links.inside.ring_share = value; },
       kind_inside},
      {"in_switch_share",
       "",
       0.3,
       1,
       [](const interconnect& links) { return links.inside.in_switch_share; },
       [](interconnect& links, double value) {
         if (links.inside.in_switch_share > 0) links.inside.in_switch_share = value;
       },
       kind_inside},
      {"ramp",
       "MB",
       0.01,
       1000,
       [](const interconnect& links) { return in(links.inside.ramp, 1_MB); },
       [](interconnect& links, double value) { links.inside.ramp = value * 1_MB; },
       kind_inside},
      {"ring_share",
       "",
       0.3,
       1,
       [](const interconnect& links) { return links.between.ring_share; },
       [](interconnect& links, double value) { links.between.ring_share = value; },
       kind_between},
      {"hop",
       "us",
       0.1,
       1000,
       [](const interconnect& links) { return in(links.between.hop, 1_us); },
       [](interconnect& links, double value) { links.between.hop = value * 1_us; },
       kind_between},
      {"ramp",
       "MB",
       0.01,
       1000,
       [](const interconnect& links) { return in(links.between.ramp, 1_MB); },
       [](interconnect& links, double value) { links.between.ramp = value * 1_MB; },
       kind_between},
  };
  return all;
}

using collectives = std::vector<measured_collective>;

double log_error(const measured_collective& row) {
  const described_collective& as = row.as;
  const gpuplan::duration time = collective_time(as.what, as.message, as.group, as.links, as.by);
  return std::log(time.value() / row.seconds);
}

double mean_error(const collectives& rows) {
  double sum = 0;
  for (const measured_collective& row : rows) sum += std::abs(log_error(row));
  return sum / static_cast<double>(rows.size());
}

// One value of one owner, and the rows that depend on it.
struct variable {
  const link_value* what;
  std::string owner;
  std::vector<std::size_t> rows;
};

using owner_rule = std::function<std::string(const std::string&)>;

std::string each_its_own(const std::string& kind) { return kind; }
std::string one_for_like_links(const std::string& kind) {
  return kind.starts_with("NVLink") ? "NVLink" : kind == "EFA" ? "InfiniBand" : kind;
}

bool matters(const link_value& what, const measured_collective& row) {
  measured_collective low = row;
  measured_collective high = row;
  what.set(low.as.links, what.low);
  what.set(high.as.links, what.high);
  return std::abs(log_error(low) - log_error(high)) > 1e-3;
}

std::vector<variable> variables_of(const collectives& rows, const owner_rule& rule) {
  std::map<std::pair<std::size_t, std::string>, variable> found;
  for (std::size_t v = 0; v < link_values().size(); ++v)
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const link_value& what = link_values()[v];
      const std::string owner = what.owner(rows[i].as.links);
      if (owner.empty() || !matters(what, rows[i])) continue;
      variable& one = found[{v, rule(owner)}];
      one.what = &what;
      one.owner = rule(owner);
      one.rows.push_back(i);
    }
  std::vector<variable> all;
  for (auto& [key, one] : found) all.push_back(std::move(one));
  return all;
}

void assign(collectives& rows, const variable& one, double value) {
  for (const std::size_t row : one.rows) one.what->set(rows[row].as.links, value);
}

double mean_square(const collectives& rows) {
  double sum = 0;
  for (const measured_collective& row : rows) sum += log_error(row) * log_error(row);
  return sum / static_cast<double>(rows.size());
}

// Fits the variables, in logarithms, and leaves the rows with their values. The sum of absolute
// errors has edges where searches rest, so squares come first.
std::vector<double> fit(collectives& rows, const std::vector<variable>& variables, int limit) {
  if (variables.empty()) return {};
  std::vector<double> at;
  std::vector<double> low;
  std::vector<double> high;
  for (const variable& one : variables) {
    low.push_back(std::log(one.what->low));
    high.push_back(std::log(one.what->high));
    const double now = std::log(one.what->get(rows[one.rows.front()].as.links));
    at.push_back(std::clamp(now, low.back(), high.back()));
  }
  using measure = double (*)(const collectives&);
  const auto search = [&](nlopt::algorithm method, measure error, double step) {
    auto error_at = [&](const std::vector<double>& x) {
      for (std::size_t i = 0; i < x.size(); ++i) assign(rows, variables[i], std::exp(x[i]));
      return error(rows);
    };
    using objective = decltype(error_at);
    nlopt::opt one(method, static_cast<unsigned>(variables.size()));
    one.set_lower_bounds(low);
    one.set_upper_bounds(high);
    one.set_initial_step(step);
    one.set_maxeval(limit);
    one.set_xtol_rel(1e-9);
    one.set_min_objective(
        [](const std::vector<double>& x, std::vector<double>&, void* context) {
          return (*static_cast<objective*>(context))(x);
        },
        &error_at);
    double least = 0;
    one.optimize(at, least);
  };
  search(nlopt::LN_BOBYQA, mean_square, 0.3);
  search(nlopt::LN_SBPLX, mean_square, 0.1);
  search(nlopt::LN_SBPLX, mean_error, 0.1);
  search(nlopt::LN_SBPLX, mean_error, 0.02);
  for (std::size_t i = 0; i < at.size(); ++i) {
    at[i] = std::exp(at[i]);
    assign(rows, variables[i], at[i]);
  }
  return at;
}

// One value for all of an owner: of rows that were fitted, to one that was not.
void take_over(measured_collective& to,
               const collectives& rows,
               const std::vector<variable>& variables,
               const owner_rule& rule) {
  for (const variable& one : variables)
    if (rule(one.what->owner(to.as.links)) == one.owner)
      one.what->set(to.as.links, one.what->get(rows[one.rows.front()].as.links));
}

double percent_of(double error) { return 100 * std::abs(std::exp(error) - 1); }

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct errors_by_way {
  std::vector<double> before, fitted, row_left_out, system_left_out;
};

system_errors summary_of(const std::string& name, const errors_by_way& errors) {
  return {name,
          errors.before.size(),
          mean_of(errors.before),
          mean_of(errors.fitted),
          median_of(errors.fitted),
          mean_of(errors.row_left_out),
          mean_of(errors.system_left_out)};
}

double without(collectives rows, int limit, void (*change)(interconnect&)) {
  for (measured_collective& row : rows) {
    change(row.as.links);
    // Where no switch adds, the rows that say so are left to the ring.
    if (row.as.links.inside.in_switch_share == 0 && row.as.by == collective_algorithm::in_switch)
      row.as.by = collective_algorithm::ring;
  }
  auto variables = variables_of(rows, each_its_own);
  std::erase_if(variables, [&](const variable& one) {
    return one.what->get(rows[one.rows.front()].as.links) == 0;
  });
  fit(rows, variables, limit);
  double sum = 0;
  for (const measured_collective& row : rows) sum += percent_of(log_error(row));
  return sum / static_cast<double>(rows.size());
}

}  // namespace

std::vector<measured_collective> measured_collectives(const std::vector<csv_file>& files) {
  std::vector<measured_collective> found;
  for (const csv_file& file : files)
    for (const csv_file::row_of_cells& cells : file.rows) {
      const row source(file, cells);
      measured_collective one{describe_collective(source), 0};
      const auto bus = source.number("busbw_GBps");
      if (!bus || *bus <= 0 || one.as.is_copy) continue;
      if (!one.as.why_not.empty()) {
        if (!source.blank("gpu") || !source.number("bytes")) continue;
        const auto links = gpuplan::interconnect_of({.gpu = gpuplan::catalog::h100_sxm5_80gb,
                                                     .nodes = one.as.group.nodes(),
                                                     .gpus_per_node = one.as.group.per_node,
                                                     .between_nodes = 100_GBps});
        one.as.links = *links;
        one.as.system = "not stated" + one.as.system;
      }
      one.seconds = seconds_at(one.as, *bus * 1_GBps);
      found.push_back(std::move(one));
    }
  return found;
}

links_fit fit_links(const std::vector<measured_collective>& rows, int evaluations) {
  links_fit result;
  if (rows.empty()) return result;
  collectives fitted = rows;
  const auto variables = variables_of(rows, each_its_own);
  const auto values = fit(fitted, variables, evaluations);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const variable& one = variables[i];
    result.values.push_back({one.owner,
                             one.what->name,
                             one.what->unit,
                             one.rows.size(),
                             one.what->get(rows[one.rows.front()].as.links),
                             values[i],
                             values[i],
                             values[i]});
  }

  std::map<std::string, errors_by_way> systems;
  errors_by_way all;
  const auto both =
      [&](const std::string& system, std::vector<double> errors_by_way::*way, double error) {
        (systems[system].*way).push_back(percent_of(error));
        (all.*way).push_back(percent_of(error));
      };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string& system = rows[i].as.system;
    both(system, &errors_by_way::before, log_error(rows[i]));
    both(system, &errors_by_way::fitted, log_error(fitted[i]));
    collectives others = fitted;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const auto left = variables_of(others, each_its_own);
    const auto refitted = fit(others, left, evaluations);
    for (std::size_t v = 0; v < left.size(); ++v)
      for (fitted_link_value& value : result.values)
        if (value.owner == left[v].owner && value.name == left[v].what->name) {
          value.low = std::min(value.low, refitted[v]);
          value.high = std::max(value.high, refitted[v]);
        }
    measured_collective one = fitted[i];
    take_over(one, others, left, each_its_own);
    both(system, &errors_by_way::row_left_out, log_error(one));
  }
  std::set<std::string> names;
  for (const measured_collective& row : rows) names.insert(row.as.system);
  for (const std::string& name : names) {
    collectives others;
    for (const measured_collective& row : rows)
      if (row.as.system != name) others.push_back(row);
    if (others.empty()) continue;
    const auto left = variables_of(others, one_for_like_links);
    fit(others, left, evaluations);
    for (measured_collective row : rows) {
      if (row.as.system != name) continue;
      take_over(row, others, left, one_for_like_links);
      both(name, &errors_by_way::system_left_out, log_error(row));
    }
  }
  for (const auto& [name, errors] : systems) result.systems.push_back(summary_of(name, errors));
  result.systems.push_back(summary_of("all", all));

  const std::pair<const char*, void (*)(interconnect&)> terms[]{
      {"nothing", [](interconnect&) {}},
      {"ramp",
       [](interconnect& links) { links.inside.ramp = links.between.ramp = gpuplan::bytes{}; }},
      {"hops between nodes", [](interconnect& links) { links.between.hop = gpuplan::duration{}; }},
      {"launch", [](interconnect& links) { links.launch = gpuplan::duration{}; }},
      {"sums in the switch", [](interconnect& links) { links.inside.in_switch_share = 0; }},
  };
  for (const auto& [name, change] : terms)
    result.ablations.push_back({name, without(fitted, evaluations, change)});
  return result;
}

}  // namespace accuracy
