#pragma once

// What differs from one cluster and its software to the next, as a few physical numbers: what is
// known of them beforehand, and how far the time of a step may be off. What timed steps add to that
// is in time/timed_steps.hpp.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/detail/chance.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/time_interval.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>

namespace gpuplan {

/// A number of a cluster or of its software that no data sheet states.
enum class stack_number {
  matmul_rate,           // of products, over what the device's kernels reach
  element_rate,          // of element-wise kernels, likewise
  host_per_operator,     // s
  host_per_collective,   // s
  host_per_rank,         // s
  wait_per_node,         // s
  host_per_step,         // s
  launch_of_collective,  // s
  hop_between,           // s
  inside_node,           // byte/s of one device
  between_nodes          // byte/s of one node
};
inline constexpr std::size_t stack_number_count = 11;

/// What is known of a number before any step was timed: its bounds, what it is where a stack has
/// none of its own, and how far it is from that, as the standard deviation of its logarithm: where
/// steps of the software were timed, and where not. Judgement, not fitted, but for the bounds,
/// beyond which it would mean something else, and the rate of products by software that nobody
/// timed: as the rates of the nine frameworks of the catalogue that were timed differ.
struct prior_of_number {
  stack_number number{};
  const char* name = "";
  const char* unit = "";
  double least = 0;
  double most = 0;
  double usual = 0;
  double spread = 0;
  double spread_untimed = 0;
};
inline constexpr prior_of_number priors_of_numbers[stack_number_count] = {
    {stack_number::matmul_rate, "matmul_rate", "", 0.2, 1.5, 1, 0.03, 0.065},
    {stack_number::element_rate, "element_rate", "", 0.2, 2, 1, 0.05, 0.15},
    {stack_number::host_per_operator, "host_per_operator", "s", 1e-6, 1e-3, 3e-5, 0.15, 0.6},
    {stack_number::host_per_collective, "host_per_collective", "s", 1e-7, 5e-3, 2e-5, 0.3, 1},
    {stack_number::host_per_rank, "host_per_rank", "s", 1e-8, 1e-2, 2e-6, 0.3, 1.5},
    {stack_number::wait_per_node, "wait_per_node", "s", 1e-7, 1e-2, 1e-5, 0.3, 1.5},
    {stack_number::host_per_step, "host_per_step", "s", 1e-4, 1, 1e-2, 0.3, 0.8},
    {stack_number::launch_of_collective, "collective_launch", "s", 2e-6, 1e-3, 43e-6, 0.3, 0.5},
    {stack_number::hop_between, "hop_between", "s", 1e-6, 5e-3, 7e-6, 0.3, 0.7},
    {stack_number::inside_node, "inside_node", "byte/s", 1e8, 2e12, 1e10, 0.08, 0.15},
    {stack_number::between_nodes, "between_nodes", "byte/s", 1e7, 1e13, 1e10, 0.2, 0.4}};

namespace detail {

// The spread of it: by what published steps of BERT took longer on 2 to 8 such cards than on one,
// gradients were exchanged at 0.5 to 12 GB/s by PCIe 4, whose copies reach 27. Judgement, as above.
inline constexpr double spread_of_unknown_link = 0.9;

// The number as the model has it; 0 where it has none.
constexpr double number_in(const roofline_time& model, stack_number which) {
  const software_costs& costs = model.setup.framework.costs;
  switch (which) {
    case stack_number::matmul_rate:
      return costs.matmul_rate;
    case stack_number::element_rate:
      return costs.element_rate;
    case stack_number::host_per_operator:
      return costs.host_per_operator.value();
    case stack_number::host_per_collective:
      return costs.host_per_collective.value();
    case stack_number::host_per_rank:
      return costs.host_per_rank.value();
    case stack_number::wait_per_node:
      return costs.wait_per_node.value();
    case stack_number::host_per_step:
      return costs.host_per_step.value();
    case stack_number::inside_node:
      if (is_beyond_bridge(model.on) || has_unknown_pcie(model.on))
        return pcie_between_devices(model.on.gpu).value();
      if (const auto link = link_inside_node(model.on)) return link->value();
      return 0;
    case stack_number::between_nodes:
      return model.on.between_nodes ? model.on.between_nodes->value() : 0;
    case stack_number::launch_of_collective:
      return (model.on.collective_launch ? *model.on.collective_launch : gpuplan::collective_launch)
          .value();
    case stack_number::hop_between:
      return (model.on.hop_between ? *model.on.hop_between
                                   : constants_between_nodes(model.on.network).hop)
          .value();
  }
  return 0;
}

constexpr void set_number(roofline_time& model, stack_number which, double value) {
  software_costs& costs = model.setup.framework.costs;
  cluster& on = model.on;
  switch (which) {
    case stack_number::matmul_rate:
      costs.matmul_rate = value;
      return;
    case stack_number::element_rate:
      costs.element_rate = value;
      return;
    case stack_number::host_per_operator:
      costs.host_per_operator = duration::from_value(value);
      return;
    case stack_number::host_per_collective:
      costs.host_per_collective = duration::from_value(value);
      return;
    case stack_number::host_per_rank:
      costs.host_per_rank = duration::from_value(value);
      return;
    case stack_number::wait_per_node:
      costs.wait_per_node = duration::from_value(value);
      return;
    case stack_number::host_per_step:
      costs.host_per_step = duration::from_value(value);
      return;
    case stack_number::launch_of_collective:
      on.collective_launch = duration::from_value(value);
      return;
    case stack_number::hop_between:
      on.hop_between = duration::from_value(value);
      return;
    case stack_number::inside_node:
      if (linked_gpus(on) > 1) on.inside_node = bandwidth::from_value(value);
      return;
    case stack_number::between_nodes:
      if (on.between_nodes) on.between_nodes = bandwidth::from_value(value);
      return;
  }
}

// Lower triangle of the Cholesky factor; what is not positive within rounding counts as nothing.
struct stack_matrix {
  double at[stack_number_count][stack_number_count] = {};

  constexpr stack_matrix factor() const {
    stack_matrix found;
    for (std::size_t i = 0; i < stack_number_count; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = at[i][j];
        for (std::size_t k = 0; k < j; ++k) sum -= found.at[i][k] * found.at[j][k];
        if (i == j)
          found.at[i][i] = sum > 0 ? sqrt(sum) : 0;
        else
          found.at[i][j] = found.at[j][j] > 0 ? sum / found.at[j][j] : 0;
      }
    return found;
  }
  // Of a positive definite matrix.
  constexpr stack_matrix inverse() const {
    const stack_matrix lower = factor();
    stack_matrix found;
    for (std::size_t column = 0; column < stack_number_count; ++column) {
      double x[stack_number_count] = {};
      for (std::size_t i = 0; i < stack_number_count; ++i) {
        double sum = i == column ? 1 : 0;
        for (std::size_t k = 0; k < i; ++k) sum -= lower.at[i][k] * x[k];
        x[i] = sum / lower.at[i][i];
      }
      for (std::size_t i = stack_number_count; i-- > 0;) {
        for (std::size_t k = i + 1; k < stack_number_count; ++k) x[i] -= lower.at[k][i] * x[k];
        x[i] /= lower.at[i][i];
      }
      for (std::size_t i = 0; i < stack_number_count; ++i) found.at[i][column] = x[i];
    }
    return found;
  }
};

}  // namespace detail

/// What is known of the numbers of one cluster and its software: a normal distribution of their
/// logarithms, and of what is left.
struct stack_estimate {
  double logarithms[stack_number_count] = {};  // of the medians, in base units
  bool is_set[stack_number_count] = {};        // else a model keeps its own
  detail::stack_matrix covariance{};
  double scatter = software_costs{}.scatter;  // of a step beside, of the logarithm of its time
  std::int64_t steps = 0;                     // that were timed
  std::int64_t most_gpus = 0;                 // of a timed step; 0: none was

  /// The median, in base units.
  [[nodiscard]] constexpr double value(stack_number which) const {
    return detail::exp(logarithms[static_cast<std::size_t>(which)]);
  }
  /// The standard deviation of its logarithm: of a number of which nothing more was learnt, as
  /// before.
  [[nodiscard]] constexpr double spread(stack_number which) const {
    const auto at = static_cast<std::size_t>(which);
    return detail::sqrt(covariance.at[at][at]);
  }
  /// The model with these numbers, for another plan or model on the same cluster by the same
  /// software.
  [[nodiscard]] constexpr roofline_time applied_to(roofline_time model) const {
    for (const prior_of_number& one : priors_of_numbers)
      if (is_set[static_cast<std::size_t>(one.number)])
        detail::set_number(model, one.number, value(one.number));
    return model;
  }
};

namespace detail {

// What steps on twice as many devices as any that was timed scatter more, as a standard deviation
// of the logarithm: more switches and neighbours than those that were seen. Judgement, by steps of
// nanotron on 8 to 256 H100, of which ten on at most 32 tell the others.
inline constexpr double scatter_of_doubling = 0.1;

constexpr double scatter_beyond(const stack_estimate& stack, const roofline_time& model) {
  const auto gpus = static_cast<double>(total_gpus(model.on));
  const auto timed = static_cast<double>(stack.most_gpus);
  if (!(timed > 0) || !(gpus > timed)) return 0;
  return scatter_of_doubling * sqrt(natural_log(gpus / timed) / natural_log(2.0));
}

// Of a model with an estimate's numbers: what it has, or where it has none, the estimate's median.
constexpr double value_in(const roofline_time& own, const stack_estimate& stack, std::size_t at) {
  const double value = number_in(own, priors_of_numbers[at].number);
  return value > 0 ? value : exp(stack.logarithms[at]);
}

}  // namespace detail

/// What is known before any step was timed. Numbers that the model's software or cluster states are
/// the medians; the others are as `priors_of_numbers` has them, and are none of the model's.
[[nodiscard]] constexpr stack_estimate untimed_estimate(const roofline_time& model) {
  stack_estimate found;
  const bool timed = model.setup.framework.costs.timed;
  const bool known_device = model.efficiency.products != device_efficiency{}.products;
  for (const prior_of_number& one : priors_of_numbers) {
    const auto at = static_cast<std::size_t>(one.number);
    const double own = detail::number_in(model, one.number);
    found.logarithms[at] = detail::natural_log(own > 0 ? own : one.usual);
    double spread = timed && own > 0 ? one.spread : one.spread_untimed;
    if (one.number == stack_number::matmul_rate && !known_device) spread += 0.1;
    if (one.number == stack_number::inside_node && detail::is_link_unknown(model.on))
      spread = detail::spread_of_unknown_link;
    found.covariance.at[at][at] = spread * spread;
  }
  found.scatter = detail::larger_of(0.01, model.setup.framework.costs.scatter);
  return found;
}

/// The time of a step on the cluster that an estimate is of, with the range that holds as many of
/// such steps as `coverage` says: what each direction of the estimate's uncertainty adds to either
/// side, and the scatter, which is larger on more devices than any step was timed on. 23 steps are
/// estimated. Preconditions: as `roofline_time::step`; a coverage between 0 and 1.
[[nodiscard]] constexpr time_interval step_interval(const roofline_time& model,
                                                    const batch_plan& plan,
                                                    const stack_estimate& stack,
                                                    double coverage = 0.8) {
  const roofline_time own = stack.applied_to(model);
  const duration median = own.step(plan);
  const detail::stack_matrix directions = stack.covariance.factor();
  const double beyond = detail::scatter_beyond(stack, model);
  double above = stack.scatter * stack.scatter + beyond * beyond;
  double below = above;
  for (std::size_t column = 0; column < stack_number_count; ++column)
    for (const double sign : {1.0, -1.0}) {
      roofline_time changed = own;
      for (const prior_of_number& one : priors_of_numbers) {
        const auto at = static_cast<std::size_t>(one.number);
        const double by = directions.at[at][column];
        if (by == 0) continue;
        const double value = detail::value_in(own, stack, at) * detail::exp(sign * by);
        const double limited = detail::smaller_of(one.most, detail::larger_of(one.least, value));
        detail::set_number(changed, one.number, limited);
      }
      const double ratio = changed.step(plan) / median;
      const double moved = detail::natural_log(ratio);
      (moved > 0 ? above : below) += moved * moved;
    }
  const double deviations = detail::deviations_of(coverage);
  return {median,
          detail::exp(-deviations * detail::sqrt(below)) * median,
          detail::exp(deviations * detail::sqrt(above)) * median};
}
/// Likewise before any step was timed.
[[nodiscard]] constexpr time_interval step_interval(const roofline_time& model,
                                                    const batch_plan& plan,
                                                    double coverage = 0.8) {
  return step_interval(model, plan, untimed_estimate(model), coverage);
}

namespace detail {

// Whether a number is the software's, wherever it runs, and not one of a cluster's links.
constexpr bool is_of_software(stack_number which) {
  return which < stack_number::launch_of_collective;
}

}  // namespace detail

/// How many times as long, with the range that holds it at the stated coverage.
struct times_as_long {
  double median = 1;
  double low = 1;
  double high = 1;
};

/// How many times as long a step of `to` takes as one of `from` by the same software, for a time
/// that was measured on one cluster and is asked of another. What nobody knows of the software is
/// off alike in both, and hardly shows; what nobody knows of links, or of a device without values
/// of its own, is off in one of them; each scatters. Of 247 published pairs of one step of
/// transformers' kind on two devices 78 % lie within what the scatter alone makes of 80. At most 47
/// steps of either are estimated.
/// Preconditions: as `roofline_time::step`, of both; a coverage between 0 and 1.
[[nodiscard]] constexpr times_as_long step_ratio(const roofline_time& from,
                                                 const batch_plan& plan_from,
                                                 const roofline_time& to,
                                                 const batch_plan& plan_to,
                                                 double coverage = 0.8) {
  const stack_estimate of_from = untimed_estimate(from);
  const stack_estimate of_to = untimed_estimate(to);
  const roofline_time one = of_from.applied_to(from);
  const roofline_time other = of_to.applied_to(to);
  const double median = other.step(plan_to) / one.step(plan_from);
  double above = of_from.scatter * of_from.scatter + of_to.scatter * of_to.scatter;
  double below = above;
  const auto add = [&](const prior_of_number& number, double by_from, double by_to) {
    if (by_from == 0 && by_to == 0) return;
    const auto moved = [&](const roofline_time& own, const stack_estimate& stack, double by) {
      roofline_time changed = own;
      const auto at = static_cast<std::size_t>(number.number);
      const double value = detail::value_in(own, stack, at) * detail::exp(by);
      const double limited =
          detail::smaller_of(number.most, detail::larger_of(number.least, value));
      if (by != 0) detail::set_number(changed, number.number, limited);
      return changed;
    };
    for (const double sign : {1.0, -1.0}) {
      const duration longer = moved(other, of_to, sign * by_to).step(plan_to);
      const double ratio = longer / moved(one, of_from, sign * by_from).step(plan_from);
      const double off = detail::natural_log(ratio / median);
      (off > 0 ? above : below) += off * off;
    }
  };
  for (const prior_of_number& number : priors_of_numbers) {
    const double spread_from = of_from.spread(number.number);
    const double spread_to = of_to.spread(number.number);
    const double shared =
        detail::is_of_software(number.number) ? detail::smaller_of(spread_from, spread_to) : 0;
    const auto alone = [&](double spread) {
      return detail::sqrt(spread * spread - shared * shared);
    };
    add(number, shared, shared);
    add(number, alone(spread_from), 0);
    add(number, 0, alone(spread_to));
  }
  const double deviations = detail::deviations_of(coverage);
  return {median,
          detail::exp(-deviations * detail::sqrt(below)) * median,
          detail::exp(deviations * detail::sqrt(above)) * median};
}

}  // namespace gpuplan
