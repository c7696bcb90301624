#pragma once

// The time of a step from steps that a person timed: what a roofline says of its parts, each times
// a factor that the timed steps give.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time_model.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <span>

namespace gpuplan {

/// What each part of a step takes, over what `roofline_time` says of it.
struct time_factors {
  double layers = 1;             // kernels and exchanges of the layers, waiting for other stages
  double ends = 1;               // embedding, head and loss
  double pipeline_exchange = 1;  // between stages
  double data_exchange = 1;      // of gradients and weights that ranks share
  double optimizer = 1;
  double host = 1;  // once a step

  friend constexpr bool operator==(const time_factors&, const time_factors&) = default;
};

/// A step that was timed: what it was of, and how long it took.
struct timed_step {
  roofline_time model{};
  batch_plan plan{};
  duration time{};
};

/// The time of a step by a roofline whose parts are scaled. Factors from steps of one micro-batch
/// and of one division of a layer (tensor, context, expert) carry over to other numbers of layers,
/// stages, accumulations and replicas.
struct calibrated_time {
  roofline_time model{};
  time_factors factors{};

  /// Precondition: that of `roofline_time::step`.
  [[nodiscard]] constexpr duration step(const batch_plan& plan) const;
};

namespace detail {

inline constexpr std::size_t time_part_count = 6;
inline constexpr double time_factors::*time_parts[time_part_count] = {
    &time_factors::layers,
    &time_factors::ends,
    &time_factors::pipeline_exchange,
    &time_factors::data_exchange,
    &time_factors::optimizer,
    &time_factors::host};

// The parts of a step in seconds, in the order of `time_parts`: they add up to the step.
struct parts_of_step {
  double seconds[time_part_count] = {0, 0, 0, 0, 0, 0};

  constexpr parts_of_step(const roofline_time& model, const batch_plan& plan) {
    const step_breakdown all = model.breakdown(plan);
    roofline_time of_layers = model;
    of_layers.terms.gradient_exchange = false;
    of_layers.terms.parameter_exchange = false;
    of_layers.terms.pipeline_exchange = false;
    of_layers.terms.optimizer = false;
    of_layers.setup.framework.costs.host_per_step = duration();
    const double with_ends = of_layers.step(plan).value();
    of_layers.terms.ends = false;
    const double layers = of_layers.step(plan).value();
    const double host = model.terms.host ? model.setup.framework.costs.host_per_step.value() : 0.0;
    seconds[0] = layers;
    seconds[1] = with_ends - layers;
    seconds[2] = all.pipeline_exchange.value();
    seconds[4] = all.optimizer.value();
    seconds[5] = host;
    seconds[3] = all.total().value() - with_ends - seconds[2] - seconds[4] - host;
  }
};

// The sums of a least-squares fit of factors.
struct factor_sums {
  double matrix[time_part_count][time_part_count] = {{0, 0, 0, 0, 0, 0},
                                                     {0, 0, 0, 0, 0, 0},
                                                     {0, 0, 0, 0, 0, 0},
                                                     {0, 0, 0, 0, 0, 0},
                                                     {0, 0, 0, 0, 0, 0},
                                                     {0, 0, 0, 0, 0, 0}};
  double right[time_part_count] = {0, 0, 0, 0, 0, 0};

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

}  // namespace detail

constexpr duration calibrated_time::step(const batch_plan& plan) const {
  const detail::parts_of_step parts(model, plan);
  double seconds = 0;
  for (std::size_t i = 0; i < detail::time_part_count; ++i)
    seconds += parts.seconds[i] * (factors.*detail::time_parts[i]);
  return duration::from_value(seconds);
}

/// The model itself where its roofline is valid and no factor is below 0. Errors: those of the
/// roofline; `negative`, `not_finite`.
[[nodiscard]] constexpr result<calibrated_time> validate(const calibrated_time& model) {
  if (const auto valid = validate(model.model); !valid) return valid.why();
  for (const auto factor : detail::time_parts) {
    const double value = model.factors.*factor;
    if (!detail::is_finite(value)) return failure(errc::not_finite).about("factors");
    if (value < 0) return failure(errc::negative).about("factors");
  }
  return model;
}

/// The factors that timed steps give: those, none below 0, that minimise the sum of ((predicted -
/// timed) / timed / scatter)^2 over the steps and of ((factor - 1) / 0.4)^2 over the factors.
/// `scatter` is by how much one step's timing is off, relative to it: the fewer and the more alike
/// the steps, the more a factor stays at 1; one step alone moves all in proportion to their parts.
/// Preconditions: those of `roofline_time::step`, of all steps, and a positive scatter. Errors:
/// `not_positive` or `not_finite` of a time, `too_few_rows` where there is none.
[[nodiscard]] constexpr result<time_factors> calibrate(std::span<const timed_step> steps,
                                                       double scatter = 0.005) {
  using namespace detail;
  if (steps.empty()) return failure(errc::too_few_rows).about("timed steps");
  factor_sums sums;
  const double trust = scatter * scatter / (spread_of_factors * spread_of_factors);
  for (std::size_t i = 0; i < time_part_count; ++i) sums.matrix[i][i] = sums.right[i] = trust;
  for (const timed_step& step : steps) {
    if (const failure why = check_positive(step.time, "time of a step"); failed(why)) return why;
    const parts_of_step parts(step.model, step.plan);
    const double time = step.time.value();
    for (std::size_t i = 0; i < time_part_count; ++i) {
      const double share = parts.seconds[i] / time;
      sums.right[i] += share;
      for (std::size_t j = 0; j < time_part_count; ++j)
        sums.matrix[i][j] += share * parts.seconds[j] / time;
    }
  }
  // Parts that always come together can end up with factors of opposite sign: the lowest of those
  // below 0 is held there, until none is.
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

static_assert(time_model<calibrated_time>);

}  // namespace gpuplan
