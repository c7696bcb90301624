#pragma once

// The time of a step composed of parts that were timed: a layer, and what else there is.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/time_model.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan {

/// What was timed, on the setup and cluster of the model and with the micro-batch and the
/// data-parallel size of `at`. What is absent, the roofline says.
struct timed_parts {
  batch_plan at{};
  // Of one micro-batch, forward and backward, with recomputation and tensor exchanges:
  known<duration> layer{};   // the model's last one
  known<duration> input{};   // the embedding
  known<duration> output{};  // head and loss
  // Of one step:
  known<duration> hop{};        // one send between stages
  known<duration> gradients{};  // what is exposed of their exchange
  known<duration> optimizer{};
};

/// The roofline's composition of parts that were timed. Each part keeps the ratio of what was timed
/// to what the roofline says of it: exact at the micro-batch and degrees that it was timed with,
/// for any number of layers, micro-batches and stages, and carried over to others. Where all parts
/// are given, it meets steps that vTrain composed of profiled layers (seven published ones, of 2
/// and 4 stages and 2 to 8 micro-batches) within 0.001 %.
struct composed_time {
  roofline_time model{};
  timed_parts timed{};

  /// Preconditions: `validate` accepts the model and the plan, and those of `roofline_time`.
  [[nodiscard]] constexpr step_breakdown breakdown(const batch_plan& plan) const {
    return detail::step_composer(model, plan, factors_of_parts()).compose();
  }
  [[nodiscard]] constexpr duration step(const batch_plan& plan) const {
    return breakdown(plan).total();
  }

 private:
  [[nodiscard]] constexpr detail::part_factors factors_of_parts() const {
    const detail::step_composer said(model, timed.at);
    const auto factor = [](const known<duration>& part, double seconds) {
      return part && seconds > 0 ? part->value() / seconds : 1;
    };
    detail::part_factors factors{.layer = factor(timed.layer, said.of_layer().total()),
                                 .input = factor(timed.input, said.of_input().total()),
                                 .output = factor(timed.output, said.of_output().total()),
                                 .hop = factor(timed.hop, timed.hop ? said.of_hop() : 0)};
    if (!timed.gradients && !timed.optimizer) return factors;
    const step_breakdown step = said.compose();
    factors.gradients = factor(timed.gradients, step.gradient_exchange.value());
    factors.optimizer = factor(timed.optimizer, step.optimizer.value());
    return factors;
  }
};

/// The model itself where its roofline and its plan are valid and what was timed is positive and
/// finite. Errors: those of the roofline and of the plan; `not_positive`, `not_finite`.
[[nodiscard]] constexpr result<composed_time> validate(const composed_time& model) {
  const timed_parts& timed = model.timed;
  if (const auto valid = validate(model.model); !valid) return valid.why();
  if (const auto valid = validate(timed.at); !valid) return valid.why();
  struct named_part {
    const known<duration>* part;
    const char* name;
  };
  for (const named_part& one : {named_part{&timed.layer, "layer"},
                                named_part{&timed.input, "input"},
                                named_part{&timed.output, "output"},
                                named_part{&timed.hop, "hop"},
                                named_part{&timed.gradients, "gradients"},
                                named_part{&timed.optimizer, "optimizer"}}) {
    if (!*one.part) continue;
    if (const failure why = detail::check_positive(**one.part, one.name); detail::failed(why))
      return why;
  }
  return model;
}

static_assert(time_model<composed_time>);

}  // namespace gpuplan
