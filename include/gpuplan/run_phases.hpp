#pragma once

// A run as phases, each with its own batch, sequence length and time of a step: warm-up, ramps,
// long context at the end, other data; and evaluation beside them.

#include <gpuplan/detail/chance.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

/// Steps of one kind. What differs from phase to phase is the caller's: its plan, its data, its
/// frozen parts show in the time of a step.
struct run_phase {
  std::int64_t steps = 0;
  std::int64_t effective_batch = 1;  // sequences of a step
  std::int64_t sequence_length = 1;  // tokens
  duration step{};
  range<double> off = 1.0;  // 80 % of such steps lie between these factors of it
};

/// Evaluation: after every so many steps of the run, and how long one takes.
struct evaluation {
  std::int64_t every = 0;  // steps; 0: none
  duration time{};
};

/// What phases come to together.
struct phases_total {
  std::int64_t steps = 0;
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  duration training{};
  duration evaluating{};
  range<double> off = 1.0;  // 80 % of such runs lie between these factors of all time

  [[nodiscard]] constexpr duration time() const { return training + evaluating; }
};

/// The phase itself where its counts are at least 1, its tokens fit into 64 bits, its step is
/// positive and finite, and its factors are and hold 1. Errors: `not_positive`, `overflow`,
/// `not_finite`, `out_of_bounds`.
[[nodiscard]] constexpr result<run_phase> validate(const run_phase& phase) {
  if (phase.steps < 1) return failure(errc::not_positive, named_fact{fact::steps, phase.steps});
  if (phase.effective_batch < 1)
    return failure(errc::not_positive, named_fact{fact::effective_batch, phase.effective_batch});
  if (phase.sequence_length < 1)
    return failure(errc::not_positive, named_fact{fact::sequence_length, phase.sequence_length});
  const auto sequences = detail::checked_product(phase.steps, phase.effective_batch);
  if (!sequences.ok || !detail::checked_product(sequences.value, phase.sequence_length).ok)
    return failure(errc::overflow,
                   named_fact{fact::steps, phase.steps},
                   named_fact{fact::effective_batch, phase.effective_batch},
                   named_fact{fact::sequence_length, phase.sequence_length});
  if (const failure why = detail::check_positive(phase.step, fact::step); detail::failed(why))
    return why;
  if (const failure why = detail::check_positive(phase.off, fact::factor); detail::failed(why))
    return why;
  if (!phase.off.contains(1.0))
    return detail::about_range(errc::out_of_bounds, phase.off, fact::factor);
  return phase;
}

/// The steps of a phase that goes through so many tokens, rounded up. Errors: a number below 1, a
/// product beyond 64 bits.
[[nodiscard]] constexpr result<std::int64_t> steps_for_tokens(std::int64_t tokens,
                                                              std::int64_t effective_batch,
                                                              std::int64_t sequence_length) {
  if (tokens < 1) return failure(errc::not_positive, named_fact{fact::tokens, tokens});
  if (effective_batch < 1)
    return failure(errc::not_positive, named_fact{fact::effective_batch, effective_batch});
  if (sequence_length < 1)
    return failure(errc::not_positive, named_fact{fact::sequence_length, sequence_length});
  const auto each = detail::checked_product(effective_batch, sequence_length);
  if (!each.ok)
    return failure(errc::overflow,
                   named_fact{fact::effective_batch, effective_batch},
                   named_fact{fact::sequence_length, sequence_length});
  return detail::ceil_div(tokens, each.value);
}

/// All phases one after another, with evaluation. How far phases are off counts as independent, so
/// that what they add to either side adds up as squares; what is off in all of them alike, a
/// stack's speed, belongs into `run_uncertainty::work` of the whole run. Errors: no phase
/// (`not_positive`), `validate` of a phase, with its position; sums beyond 64 bits; an evaluation
/// whose interval is negative, or whose time is negative or not finite; a time that is not finite.
[[nodiscard]] constexpr result<phases_total> total_of(std::span<const run_phase> phases,
                                                      const evaluation& evaluated = {}) {
  if (phases.empty()) return failure(errc::not_positive).about(fact::stages);
  if (evaluated.every < 0) return failure(errc::negative, named_fact{fact::steps, evaluated.every});
  if (!detail::is_finite(evaluated.time.value()))
    return failure(errc::not_finite, named_fact{fact::time, evaluated.time.value()});
  if (evaluated.time < duration{})
    return failure(errc::negative, named_fact{fact::time, evaluated.time.value()});
  phases_total all;
  double below = 0;
  double above = 0;
  std::int64_t position = 0;
  for (const run_phase& phase : phases) {
    failure why = validate(phase).why();
    const auto steps = detail::checked_sum(all.steps, phase.steps);
    const std::int64_t own = detail::failed(why) ? 0 : phase.steps * phase.effective_batch;
    const auto sequences = detail::checked_sum(all.sequences, own);
    const auto tokens = detail::checked_sum(all.tokens, own * phase.sequence_length);
    if (!detail::failed(why) && !(steps.ok && sequences.ok && tokens.ok))
      why = failure(errc::overflow).about(fact::tokens);
    if (detail::failed(why)) {
      why.add(fact::position, position);
      return why;
    }
    all.steps = steps.value;
    all.sequences = sequences.value;
    all.tokens = tokens.value;
    const duration time = static_cast<double>(phase.steps) * phase.step;
    all.training += time;
    const double less = time.value() * (1 - phase.off.low());
    const double more = time.value() * (phase.off.high() - 1);
    below += less * less;
    above += more * more;
    ++position;
  }
  if (evaluated.every > 0) all.evaluating = all.steps / evaluated.every * evaluated.time;
  const auto time = detail::positive_answer(all.time(), fact::time);
  if (!time || !detail::is_finite(below) || !detail::is_finite(above))
    return failure(errc::not_finite).about(fact::time);
  // Above 0: the root of a sum of squares is no more than the sum, which is below all time.
  all.off = {1 - detail::sqrt(below) / time->value(), 1 + detail::sqrt(above) / time->value()};
  return all;
}

/// A batch that grows from `start` by `increment` to `full`, in equal parts of `samples`
/// (Megatron-LM's `--rampup-batch-size start increment samples`).
struct batch_ramp {
  std::int64_t start = 1;
  std::int64_t increment = 1;
  std::int64_t full = 1;
  std::int64_t samples = 0;  // until the batch is full

  /// The batches that it goes through before it is full.
  [[nodiscard]] constexpr std::int64_t stages() const { return (full - start) / increment; }
};

namespace detail {

inline constexpr std::int64_t most_ramp_stages = 1'000'000;
inline constexpr std::int64_t most_ramp_samples = std::int64_t{1} << 53;

}  // namespace detail

/// The ramp itself where its batches are at least 1, `full` is no less than `start` and whole
/// increments above it, at most a million, and its samples are no fewer than those and below 2^53.
/// Errors: `not_positive`, `out_of_bounds`, `not_a_multiple`.
[[nodiscard]] constexpr result<batch_ramp> validate(const batch_ramp& ramp) {
  for (const std::int64_t batch : {ramp.start, ramp.increment})
    if (batch < 1) return failure(errc::not_positive, named_fact{fact::effective_batch, batch});
  if (ramp.full < ramp.start)
    return failure(errc::out_of_bounds,
                   named_fact{fact::effective_batch, ramp.full},
                   named_fact{fact::at_least, ramp.start});
  if ((ramp.full - ramp.start) % ramp.increment != 0)
    return failure(errc::not_a_multiple,
                   named_fact{fact::effective_batch, ramp.full - ramp.start},
                   named_fact{fact::factor, ramp.increment});
  if (ramp.stages() > detail::most_ramp_stages)
    return failure(errc::out_of_bounds,
                   named_fact{fact::stages, ramp.stages()},
                   named_fact{fact::at_most, detail::most_ramp_stages});
  if (ramp.samples < ramp.stages() || ramp.samples >= detail::most_ramp_samples)
    return failure(errc::out_of_bounds,
                   named_fact{fact::samples, ramp.samples},
                   named_fact{fact::at_least, ramp.stages()},
                   named_fact{fact::at_most, detail::most_ramp_samples});
  return ramp;
}

/// The batch of the step after so many samples: `start + increment floor(consumed / (samples /
/// stages))`, and `full` from `samples` on, as Megatron-LM's
/// RampupBatchSizeNumMicroBatchesCalculator computes it. Errors: `validate`, a negative number.
[[nodiscard]] constexpr result<std::int64_t> batch_after(const batch_ramp& ramp,
                                                         std::int64_t consumed_samples) {
  if (const auto valid = validate(ramp); !valid) return valid.why();
  if (consumed_samples < 0)
    return failure(errc::negative, named_fact{fact::samples, consumed_samples});
  if (consumed_samples > ramp.samples || ramp.stages() == 0) return ramp.full;
  const double each = static_cast<double>(ramp.samples) / static_cast<double>(ramp.stages());
  const auto stage = static_cast<std::int64_t>(static_cast<double>(consumed_samples) / each);
  return ramp.start + (stage < ramp.stages() ? stage : ramp.stages()) * ramp.increment;
}

/// So many steps with one batch.
struct ramp_stage {
  std::int64_t steps = 0;
  std::int64_t effective_batch = 0;
};

/// The steps that a ramp takes with each batch, from stage 0 to `stages() - 1`: until its samples
/// are consumed. A stage that the step before it passes has none. Time grows with the stage.
/// Errors: `validate`, a stage that is none.
[[nodiscard]] constexpr result<ramp_stage> stage_of(const batch_ramp& ramp, std::int64_t stage) {
  if (const auto valid = validate(ramp); !valid) return valid.why();
  if (stage < 0 || stage >= ramp.stages())
    return failure(errc::out_of_bounds,
                   named_fact{fact::stage, stage},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, ramp.stages() - 1});
  const double each = static_cast<double>(ramp.samples) / static_cast<double>(ramp.stages());
  std::int64_t consumed = 0;
  ramp_stage found;
  for (std::int64_t at = 0; at <= stage; ++at) {
    const std::int64_t batch = ramp.start + at * ramp.increment;
    // The first count after which the next stage begins, by the same division as `batch_after`.
    auto end = static_cast<std::int64_t>(detail::ceil(static_cast<double>(at + 1) * each));
    const auto is_past = [&](std::int64_t count) {
      return count > ramp.samples ||
             static_cast<std::int64_t>(static_cast<double>(count) / each) > at;
    };
    while (!is_past(end)) ++end;
    while (is_past(end - 1)) --end;
    found = {consumed < end ? detail::ceil_div(end - consumed, batch) : 0, batch};
    consumed += found.steps * batch;
  }
  return found;
}

}  // namespace gpuplan
