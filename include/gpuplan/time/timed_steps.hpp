#pragma once

// What a few timed steps say of a cluster and its software, and which step to time next.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/detail/chance.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/stack_numbers.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace gpuplan {

/// A step that was timed: what it was of, and how long it took.
struct timed_step {
  roofline_time model{};
  batch_plan plan{};
  duration time{};
};

/// A step that may be timed next.
struct possible_step {
  roofline_time model{};
  batch_plan plan{};
};

namespace detail {

// Whether anything of a step crosses the link that a number is of; true of what is no link.
constexpr bool is_crossed(const roofline_time& model, stack_number which) {
  const cluster& on = model.on;
  if (which == stack_number::hop_between) return total_gpus(on) > linked_gpus(on);
  if (which == stack_number::between_nodes)
    return total_gpus(on) > linked_gpus(on) && number_in(model, which) > 0;
  if (which == stack_number::inside_node) return linked_gpus(on) > 1 && number_in(model, which) > 0;
  return true;
}

}  // namespace detail

/// What is known beforehand of the numbers of the cluster that some steps ran on, of each by the
/// step that knows it least. Of links that no step crosses, as between nodes where all ran on one,
/// nothing is set: a model keeps its own. Precondition: at least one, each as `roofline_time::step`
/// takes it.
[[nodiscard]] constexpr stack_estimate untimed_estimate(std::span<const timed_step> steps) {
  stack_estimate found = untimed_estimate(steps.front().model);
  for (const timed_step& one : steps) {
    const stack_estimate with = untimed_estimate(one.model);
    for (const prior_of_number& prior : priors_of_numbers) {
      const auto at = static_cast<std::size_t>(prior.number);
      if (!detail::is_crossed(one.model, prior.number)) continue;
      if (found.is_set[at] && with.spread(prior.number) <= found.spread(prior.number)) continue;
      found.logarithms[at] = with.logarithms[at];
      found.covariance.at[at][at] = with.covariance.at[at][at];
      found.is_set[at] = true;
    }
  }
  return found;
}

/// The fewest steps that numbers are estimated from.
inline constexpr std::int64_t least_timed_steps = 3;
/// Where steps lie further apart than this from what any numbers give, in the middle of them, as
/// the logarithm of their times: they are not of one cluster, or not of what they say.
inline constexpr double most_scatter = 0.7;

namespace detail {

// The logarithm of a step's time, and how it changes with the logarithm of each number.
struct step_slopes {
  double time = 0;
  double by[stack_number_count] = {};

  constexpr step_slopes(const roofline_time& model,
                        const batch_plan& plan,
                        const stack_estimate& at,
                        bool with_slopes = true) {
    const roofline_time own = at.applied_to(model);
    time = natural_log(own.step(plan).value());
    if (!with_slopes) return;
    constexpr double width = 0.05;
    for (std::size_t i = 0; i < stack_number_count; ++i) {
      const double value = value_in(own, at, i);
      roofline_time changed = own;
      set_number(changed, priors_of_numbers[i].number, value * exp(width));
      const double more = changed.step(plan).value();
      set_number(changed, priors_of_numbers[i].number, value * exp(-width));
      by[i] = natural_log(more / changed.step(plan).value()) / (2 * width);
    }
  }
};

// Of Student's t with four degrees of freedom: a step far from the others counts little.
constexpr double weight_of(double error, double scatter) {
  const double off = error / scatter;
  return 5 / (4 + off * off);
}

// Steps that are off by more than `far` count less and less.
constexpr double misfit(std::span<const timed_step> steps,
                        const stack_estimate& at,
                        const stack_estimate& before,
                        double far) {
  double sum = 0;
  for (const timed_step& one : steps) {
    const double off =
        (step_slopes(one.model, one.plan, at, false).time - natural_log(one.time.value())) / far;
    sum += 5 * natural_log(1 + off * off / 4);
  }
  sum *= far * far / (at.scatter * at.scatter);
  for (std::size_t i = 0; i < stack_number_count; ++i) {
    const double off = at.logarithms[i] - before.logarithms[i];
    sum += off * off / before.covariance.at[i][i];
  }
  return sum;
}

constexpr failure flaw_of_steps(const cluster& on, std::span<const timed_step> steps) {
  const auto count = static_cast<std::int64_t>(steps.size());
  if (count < least_timed_steps)
    return failure(errc::too_few_steps,
                   named_fact{fact::timed_steps, count},
                   named_fact{fact::at_least, least_timed_steps});
  for (const timed_step& one : steps) {
    if (const auto valid = validate(one.model); !valid) return valid.why();
    if (const auto valid = validate(one.model, one.plan); !valid) return valid.why();
    if (const failure why = check_positive(one.time, fact::time_of_step); failed(why)) return why;
    if (std::string_view(one.model.on.gpu.id) != on.gpu.id)
      return failure(errc::measured_elsewhere).about(one.model.on.gpu.id);
  }
  return {};
}

}  // namespace detail

namespace detail {

// Least squares of the logarithms of the steps' times, from `before` on, and within its spreads.
constexpr stack_estimate fitted(std::span<const timed_step> steps,
                                const stack_estimate& before,
                                double far) {
  stack_estimate found = before;
  stack_matrix precision;
  double misfit_here = misfit(steps, found, before, far);
  const auto gather = [&](double(&right)[stack_number_count]) {
    precision = {};
    for (std::size_t i = 0; i < stack_number_count; ++i) {
      const double trust = 1 / before.covariance.at[i][i];
      precision.at[i][i] = trust;
      right[i] = trust * (before.logarithms[i] - found.logarithms[i]);
    }
    for (const timed_step& one : steps) {
      const step_slopes slopes(one.model, one.plan, found);
      const double error = natural_log(one.time.value()) - slopes.time;
      const double weight = weight_of(error, far) / (found.scatter * found.scatter);
      for (std::size_t i = 0; i < stack_number_count; ++i) {
        right[i] += weight * slopes.by[i] * error;
        for (std::size_t j = 0; j < stack_number_count; ++j)
          precision.at[i][j] += weight * slopes.by[i] * slopes.by[j];
      }
    }
  };
  for (int round = 0; round < 12; ++round) {
    double right[stack_number_count] = {};
    gather(right);
    const stack_matrix inverse = precision.inverse();
    double step[stack_number_count] = {};
    for (std::size_t i = 0; i < stack_number_count; ++i)
      for (std::size_t j = 0; j < stack_number_count; ++j) step[i] += inverse.at[i][j] * right[j];
    bool is_better = false;
    for (double share = 1; share > 0.02 && !is_better; share /= 2) {
      stack_estimate there = found;
      for (std::size_t i = 0; i < stack_number_count; ++i) {
        const prior_of_number& one = priors_of_numbers[i];
        there.logarithms[i] =
            smaller_of(natural_log(one.most),
                       larger_of(natural_log(one.least), found.logarithms[i] + share * step[i]));
      }
      const double misfit_there = misfit(steps, there, before, far);
      is_better = misfit_there < misfit_here - 1e-9;
      if (!is_better) continue;
      found = there;
      misfit_here = misfit_there;
    }
    if (!is_better) break;
  }
  double right[stack_number_count] = {};
  gather(right);
  found.covariance = precision.inverse();
  found.steps = static_cast<std::int64_t>(steps.size());
  for (const timed_step& one : steps)
    if (total_gpus(one.model.on) > found.most_gpus) found.most_gpus = total_gpus(one.model.on);
  return found;
}

// How far off the middle one of the steps is, as a logarithm: within 2^-30 of the most, by halves,
// since no room is taken to sort them in.
constexpr double middle_error(std::span<const timed_step> steps, const stack_estimate& at) {
  const auto error_of = [&](const timed_step& one) {
    return abs(step_slopes(one.model, one.plan, at, false).time - natural_log(one.time.value()));
  };
  double low = 0;
  double high = 0;
  for (const timed_step& one : steps) high = larger_of(high, error_of(one));
  for (int halves = 0; halves < 30; ++halves) {
    const double middle = (low + high) / 2;
    std::size_t within = 0;
    for (const timed_step& one : steps) within += error_of(one) <= middle ? 1U : 0U;
    (2 * within > steps.size() ? high : low) = middle;
  }
  return high;
}

// As of software that nobody timed.
constexpr stack_estimate less_known(stack_estimate before) {
  for (const prior_of_number& one : priors_of_numbers) {
    double& variance =
        before.covariance
            .at[static_cast<std::size_t>(one.number)][static_cast<std::size_t>(one.number)];
    const double most = one.spread_untimed * one.spread_untimed;
    if (variance < most) variance = most;
  }
  return before;
}

}  // namespace detail

/// What a few timed steps say of the numbers of the cluster that they ran on, by least squares of
/// the logarithms of their times, with `untimed_estimate` of them as it was before and the bounds
/// of `priors_of_numbers`; steps far from all others count little. Where most of them are further
/// off than the software's steps usually are, its numbers count as known no better than those of
/// software that nobody timed, and the scatter is at least what the middle one is off by. Five to
/// ten that differ in degrees and micro-batch say more than many of one plan. Errors:
/// `too_few_steps` with fewer than three; those of a model and of a plan; `not_positive` or
/// `not_finite` of a time; `measured_elsewhere` of a step on other devices; `contradictory_steps`
/// where in the middle of them times are more than twice, or less than half, of what any numbers
/// give.
[[nodiscard]] constexpr result<stack_estimate> calibrate(const cluster& on,
                                                         std::span<const timed_step> steps) {
  using namespace detail;
  if (const failure why = flaw_of_steps(on, steps); failed(why)) return why;
  stack_estimate before = untimed_estimate(steps);
  stack_estimate found = fitted(steps, before, before.scatter);
  // 1.48 of the middle one is the standard deviation, where errors are normal
  const auto spread_of = [&] { return 1.48 * middle_error(steps, found); };
  if (const double spread = spread_of(); spread > 2 * before.scatter) {
    before = less_known(before);
    found = fitted(steps, before, spread);
  }
  const double left = spread_of();
  const double scatter = left > before.scatter ? left : before.scatter;
  // What was assumed of the scatter counts as much as four steps; what the steps determine of the
  // numbers is lost for the scatter.
  double squares = 4 * scatter * scatter;
  double weights = 4;
  for (std::size_t i = 0; i < stack_number_count; ++i)
    weights -= 1 - found.covariance.at[i][i] / before.covariance.at[i][i];
  std::int64_t far = 0;
  for (const timed_step& one : steps) {
    const double error =
        step_slopes(one.model, one.plan, found, false).time - natural_log(one.time.value());
    const double weight = weight_of(error, scatter);
    squares += weight * error * error;
    weights += 1;
    if (abs(error) > most_scatter) ++far;
  }
  if (2 * far > found.steps)
    return failure(errc::contradictory_steps,
                   named_fact{fact::timed_steps, found.steps},
                   named_fact{fact::rows_out_of_line, far});
  found.scatter = sqrt(squares / weights);
  return found;
}

/// Which of some steps to time next: the one of whose time the estimate knows least, so that timing
/// it says most of the numbers; its place among them. Precondition: as `roofline_time::step` of
/// each; at least one.
[[nodiscard]] constexpr std::size_t step_to_time_next(const stack_estimate& stack,
                                                      std::span<const possible_step> steps) {
  std::size_t best = 0;
  double most = -1;
  for (std::size_t which = 0; which < steps.size(); ++which) {
    const detail::step_slopes slopes(steps[which].model, steps[which].plan, stack);
    double variance = 0;
    for (std::size_t i = 0; i < stack_number_count; ++i)
      for (std::size_t j = 0; j < stack_number_count; ++j)
        variance += slopes.by[i] * stack.covariance.at[i][j] * slopes.by[j];
    if (variance <= most) continue;
    most = variance;
    best = which;
  }
  return best;
}

}  // namespace gpuplan
