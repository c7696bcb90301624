#pragma once

// The time of a step from what a person timed, of parts of a step or of whole ones: what a roofline
// says of each part, times a factor that the timings give.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/time_model.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <span>

namespace gpuplan {

/// The time of a step by a roofline whose parts are scaled. Factors from timings of one micro-batch
/// and of one layout of a layer (tensor, context, expert) carry over to other numbers of layers,
/// stages, accumulations and replicas. From all parts of one profile it meets the steps that vTrain
/// composed of it (seven published ones, of 2 and 4 stages and 2 to 8 micro-batches) within 0.001
/// %; from other steps of the same layer, 432 of vTrain's within 0.12 % in the mean.
struct calibrated_time {
  roofline_time model{};
  time_factors factors{};

  /// Preconditions: as those of `roofline_time`.
  [[nodiscard]] constexpr step_breakdown breakdown(const batch_plan& plan) const {
    return detail::step_composer(model, plan, factors).line().at(plan.accumulation);
  }
  [[nodiscard]] constexpr duration step(const batch_plan& plan) const {
    return breakdown(plan).total();
  }
};

/// What was timed of a step's parts, with the micro-batch and the data-parallel size of `at`.
struct timed_parts {
  batch_plan at{};
  // Of one micro-batch, forward and backward, with recomputation and tensor exchanges:
  known<duration> layer{};   // the model's last one
  known<duration> input{};   // the embedding
  known<duration> output{};  // head and loss
  // Of one step:
  known<duration> point_to_point{};  // one send between stages
  known<duration> sharing{};         // the exchange of gradients by itself
  known<duration> optimizer{};
};

/// A step that was timed: what it was of, and how long it took.
struct timed_step {
  roofline_time model{};
  batch_plan plan{};
  duration time{};
};

namespace detail {

inline constexpr std::size_t time_part_count = 7;
inline constexpr double time_factors::*time_parts[time_part_count] = {&time_factors::layer,
                                                                      &time_factors::input,
                                                                      &time_factors::output,
                                                                      &time_factors::point_to_point,
                                                                      &time_factors::sharing,
                                                                      &time_factors::optimizer,
                                                                      &time_factors::host};

// By how many seconds a step grows with each factor, in the order of `time_parts`. Times those
// factors they add up to the step, whose time doubles with all of them.
struct parts_of_step {
  double seconds[time_part_count] = {0, 0, 0, 0, 0, 0, 0};

  constexpr parts_of_step(const timed_step& timed, const time_factors& factors) {
    step_composer composer(timed.model, timed.plan);
    const parameter_counts held =
        parameters(timed.model.setup.model, timed.model.setup.parallelism, {});
    const auto time = [&](const time_factors& changed) {
      composer.set_factors(changed);
      return composer.line(held).at(timed.plan.accumulation).total().value();
    };
    const double all = time(factors);
    for (std::size_t i = 0; i < time_part_count; ++i) {
      time_factors more = factors;
      more.*time_parts[i] +=
          1.0 / 1024;  // which kind of path is the longest seldom changes so soon
      seconds[i] = (time(more) - all) * 1024;
    }
  }
};

// The sums of a least-squares fit of factors.
struct factor_sums {
  double matrix[time_part_count][time_part_count] = {};
  double right[time_part_count] = {};

  // Holds a factor at 0.
  constexpr void drop(std::size_t which) {
    for (std::size_t i = 0; i < time_part_count; ++i) matrix[i][which] = matrix[which][i] = 0;
    matrix[which][which] = 1;
    right[which] = 0;
  }

  // Solves for the factors in place (Cholesky): the solution is in `right`.
  constexpr void solve() {
    for (std::size_t i = 0; i < time_part_count; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = matrix[i][j];
        for (std::size_t k = 0; k < j; ++k) sum -= matrix[i][k] * matrix[j][k];
        matrix[i][j] = i == j ? sqrt(sum) : sum / matrix[j][j];
      }
      for (std::size_t k = 0; k < i; ++k) right[i] -= matrix[i][k] * right[k];
      right[i] /= matrix[i][i];
    }
    for (std::size_t i = time_part_count; i-- > 0;) {
      for (std::size_t k = i + 1; k < time_part_count; ++k) right[i] -= matrix[k][i] * right[k];
      right[i] /= matrix[i][i];
    }
  }
};

// How far a factor is from 1 before anything was timed: other stacks on one device were 8 to 40 %
// slower.
inline constexpr double spread_of_factors = 0.4;

// The factors, none below 0, of steps whose parts are those near `around`. Parts that always come
// together can end up with factors of opposite sign: the lowest of those below 0 is held there,
// until none is.
constexpr time_factors factors_around(const time_factors& around,
                                      std::span<const timed_step> steps,
                                      double scatter) {
  factor_sums sums;
  const double trust = scatter * scatter / (spread_of_factors * spread_of_factors);
  for (std::size_t i = 0; i < time_part_count; ++i) sums.matrix[i][i] = sums.right[i] = trust;
  for (const timed_step& step : steps) {
    const parts_of_step parts(step, around);
    const double time = step.time.value();
    for (std::size_t i = 0; i < time_part_count; ++i) {
      const double share = parts.seconds[i] / time;
      sums.right[i] += share;
      for (std::size_t j = 0; j < time_part_count; ++j)
        sums.matrix[i][j] += share * parts.seconds[j] / time;
    }
  }
  factor_sums solved = sums;
  for (std::size_t round = 0; round < time_part_count; ++round) {
    solved = sums;
    solved.solve();
    std::size_t lowest = 0;
    for (std::size_t i = 1; i < time_part_count; ++i)
      if (solved.right[i] < solved.right[lowest]) lowest = i;
    if (!(solved.right[lowest] < 0)) break;
    sums.drop(lowest);
  }
  time_factors factors;
  for (std::size_t i = 0; i < time_part_count; ++i) factors.*time_parts[i] = solved.right[i];
  return factors;
}

}  // namespace detail

/// The model itself where its roofline is valid and no factor is below 0. Errors: those of the
/// roofline; `negative`, `not_finite`.
[[nodiscard]] constexpr result<calibrated_time> validate(const calibrated_time& model) {
  if (const auto valid = validate(model.model); !valid) return valid.why();
  for (const auto factor : detail::time_parts) {
    const double value = model.factors.*factor;
    if (!detail::is_finite(value))
      return failure(errc::not_finite, named_fact{fact::factors, value});
    if (value < 0) return failure(errc::negative, named_fact{fact::factors, value});
  }
  return model;
}

/// The plan where the roofline takes it. Errors: as of that.
[[nodiscard]] constexpr result<batch_plan> validate(const calibrated_time& model,
                                                    const batch_plan& plan) {
  return validate(model.model, plan);
}

/// The factors that timed parts give on the setup and cluster of `model`: of each what was timed
/// over what the roofline says, and 1 of what was not. Exact for the micro-batch and degrees that
/// they were timed with. Errors: those of the roofline and of the plan; `not_positive` or
/// `not_finite` of a part.
[[nodiscard]] constexpr result<time_factors> calibrate(const roofline_time& model,
                                                       const timed_parts& timed) {
  if (const auto valid = validate(model); !valid) return valid.why();
  if (const auto valid = validate(model, timed.at); !valid) return valid.why();
  const detail::step_composer said(model, timed.at);
  const parameter_counts held = parameters(model.setup.model, model.setup.parallelism, {});
  struct timed_part {
    double time_factors::*factor;
    known<duration> timed;
    double said;
    fact name;
  };
  time_factors factors;
  for (const timed_part& part :
       {timed_part{&time_factors::layer, timed.layer, said.of_layer(), fact::layer},
        timed_part{&time_factors::input, timed.input, said.of_input(), fact::input},
        timed_part{&time_factors::output, timed.output, said.of_output(), fact::output},
        timed_part{&time_factors::point_to_point,
                   timed.point_to_point,
                   said.of_point_to_point(),
                   fact::point_to_point},
        timed_part{&time_factors::sharing, timed.sharing, said.of_gradients(held), fact::sharing},
        timed_part{&time_factors::optimizer,
                   timed.optimizer,
                   said.line(held).optimizer,
                   fact::optimizer}}) {
    if (!part.timed) continue;
    if (const failure why = detail::check_positive(*part.timed, part.name); detail::failed(why))
      return why;
    if (part.said > 0) factors.*part.factor = part.timed->value() / part.said;
  }
  return factors;
}

/// The factors that timed steps give: those, none below 0, that minimise the sum of ((predicted -
/// timed) / timed / scatter)^2 over the steps and of ((factor - 1) / 0.4)^2 over the factors.
/// `scatter` is by how much one step's timing is off, relative to it: the fewer and the more alike
/// the steps, the more a factor stays at 1; one step alone moves all in proportion to their parts.
/// Preconditions: those of `roofline_time::step`, of all steps, and a positive scatter. Errors:
/// `not_positive` or `not_finite` of a time, `too_few_rows` where there is none.
[[nodiscard]] constexpr result<time_factors> calibrate(std::span<const timed_step> steps,
                                                       double scatter = 0.005) {
  if (steps.empty()) return failure(errc::too_few_rows).about(fact::timed_steps);
  for (const timed_step& step : steps)
    if (const failure why = detail::check_positive(step.time, fact::time_of_step);
        detail::failed(why))
      return why;
  // Which stage is the busiest, and what hides which exchange, changes with the factors.
  time_factors factors;
  for (int round = 0; round < 2; ++round) factors = detail::factors_around(factors, steps, scatter);
  return factors;
}

static_assert(time_model<calibrated_time>);

}  // namespace gpuplan
