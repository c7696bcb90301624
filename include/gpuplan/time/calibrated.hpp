#pragma once

// The time of a step from what a person timed: of parts of one step, which give a factor for each
// part, or of a few whole steps on a cluster, which tell what its links, its host and its devices
// take; and how far it may be off.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/stack_numbers.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/time/timed_steps.hpp>
#include <gpuplan/time_model.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

/// The time of a step by a roofline with the numbers of a cluster and its software as they are
/// estimated, and whose parts are scaled. Factors from timings of one micro-batch and of one layout
/// of a layer (tensor, context, expert) carry over to other numbers of layers, stages,
/// accumulations and replicas; numbers carry over to all plans. From all parts of one profile it
/// meets the steps that vTrain composed of it (seven published ones, of 2 and 4 stages and 2 to 8
/// micro-batches) within 0.001 %.
struct calibrated_time {
  roofline_time model{};
  time_factors factors{};
  known<stack_estimate> stack{};  // absent: the model's own numbers

  /// Preconditions: as those of `roofline_time`.
  [[nodiscard]] constexpr step_breakdown breakdown(const batch_plan& plan) const {
    if (!stack) return detail::step_composer(model, plan, factors).line().at(plan.accumulation);
    const roofline_time own = stack->applied_to(model);
    return detail::step_composer(own, plan, factors).line().at(plan.accumulation);
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

namespace detail {

inline constexpr std::size_t time_part_count = 7;
inline constexpr double time_factors::*time_parts[time_part_count] = {&time_factors::layer,
                                                                      &time_factors::input,
                                                                      &time_factors::output,
                                                                      &time_factors::point_to_point,
                                                                      &time_factors::sharing,
                                                                      &time_factors::optimizer,
                                                                      &time_factors::host};

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
  if (model.stack)
    for (const double logarithm : model.stack->logarithms)
      if (!detail::is_finite(logarithm))
        return failure(errc::not_finite, named_fact{fact::factors, logarithm});
  return model;
}

/// The plan where the roofline takes it. Errors: as of that.
[[nodiscard]] constexpr result<batch_plan> validate(const calibrated_time& model,
                                                    const batch_plan& plan) {
  return validate(model.model, plan);
}

/// The factors that timed parts give on the setup and cluster of `model`: of each what was timed
/// over what the roofline says, and 1 of what was not or takes no time there. Exact for the
/// micro-batch and degrees that they were timed with. Errors: those of the roofline and of the
/// plan; `not_positive` or `not_finite` of a part.
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
    if (!(part.said > 0)) continue;
    const auto factor = detail::positive_answer(part.timed->value() / part.said, part.name);
    if (!factor) return factor.why();
    factors.*part.factor = *factor;
  }
  return factors;
}

static_assert(time_model<calibrated_time>);

}  // namespace gpuplan
