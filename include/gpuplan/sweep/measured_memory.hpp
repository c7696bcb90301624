#pragma once

// The memory model that a sweep measured.

#include <gpuplan/memory_model.hpp>
#include <gpuplan/sweep/curve.hpp>
#include <gpuplan/sweep/rows.hpp>

#include <cstdint>

namespace gpuplan {

/// The memory of a step as a sweep measured it: of its setting, on as many GPUs as it ran on, with
/// one micro-batch a step. What accumulation adds where the sweep did not accumulate (gradients
/// that outlive a micro-batch) is `while_accumulating`, which the caller states.
struct measured_memory {
  measured_curve<bytes> curve{};     // of the rows below the smallest that ran out
  known<std::int64_t> ran_out_at{};  // the smallest micro-batch that did
  known<bytes> ran_out_of{};         // the memory that was too small for it
  bytes while_accumulating{};        // more than `curve`, where a plan accumulates

  /// Never below what a row of this or a smaller micro-batch took, outlier or not, and otherwise
  /// what the curve has between its rows. Below the span what its smallest row took. Above the span
  /// nothing is known to be enough: infinite, so that no decision goes there; `extrapolated` does.
  [[nodiscard]] constexpr bytes required(const batch_plan& plan) const;

  /// Within the span `required`. Below it, from the share of its smallest row's memory that the
  /// samples have to all of it. Above it, from the lower line to the upper one, widened by the
  /// scatter; what ran out needs more than it ran out of, and where the upper line denies that, the
  /// upper end is infinite.
  [[nodiscard]] constexpr forecast<bytes> forecast_of(const batch_plan& plan) const;
};

constexpr forecast<bytes> measured_memory::forecast_of(const batch_plan& plan) const {
  const std::int64_t n = plan.micro_batch;
  const bytes kept = plan.accumulation > 1 ? while_accumulating : bytes{};
  const range<std::int64_t> span = curve.span();
  bytes taken{};  // by a row of at most this micro-batch
  for (std::int64_t i = 0; i < curve.rows && (i == 0 || curve.micro_batches[i] <= n); ++i)
    if (curve.values[i] > taken) taken = curve.values[i];
  if (n < span.low()) return {detail::below_curve(taken, span.low(), n) + kept, true};
  if (n <= span.high()) {
    const bytes on_curve = detail::value_of_curve(curve, n);
    return {(on_curve > taken ? on_curve : taken) + kept, false};
  }
  const range<bytes> beyond = detail::beyond_curve(curve, n);
  bytes low = beyond.low() > taken ? beyond.low() : taken;
  bytes high = beyond.high() > taken ? beyond.high() : taken;
  if (ran_out_at && ran_out_of && n >= *ran_out_at) {
    if (!(low > *ran_out_of)) low = *ran_out_of + 1_B;
    if (!(detail::beyond_curve(curve, *ran_out_at).high() > *ran_out_of))
      high = bytes::from_value(detail::infinity);
    if (high < low) high = low;
  }
  return {range<bytes>(low, high) + kept, true};
}

constexpr bytes measured_memory::required(const batch_plan& plan) const {
  if (plan.micro_batch > curve.span().high()) return bytes::from_value(detail::infinity);
  return forecast_of(plan).value.high();
}

/// The model itself where its rows ascend and are positive, its line rises and its numbers are
/// finite. Errors: `out_of_bounds`, `not_positive`, `not_rising`, `not_finite`, `negative`,
/// `inverted_range`, with the row or the name of the field.
[[nodiscard]] constexpr result<measured_memory> validate(const measured_memory& model) {
  if (const failure why = detail::flaw_of(model.curve); detail::failed(why)) return why;
  if (const failure why =
          detail::flaw_of_memory(fact::while_accumulating, model.while_accumulating);
      detail::failed(why))
    return why;
  if (model.ran_out_at && *model.ran_out_at <= model.curve.span().high())
    return failure(errc::out_of_bounds,
                   named_fact{fact::micro_batch, *model.ran_out_at},
                   named_fact{fact::at_least, model.curve.span().high()})
        .about(fact::ran_out_at);
  if (model.ran_out_of)
    if (const failure why = detail::flaw_of_budget(*model.ran_out_of); detail::failed(why))
      return why.about(fact::ran_out_of);
  return model;
}

/// The plan where its micro-batch is not above the span, so that `check` explains itself. Errors:
/// `not_measured` with the span and the ends of the forecast.
[[nodiscard]] constexpr result<batch_plan> validate(const measured_memory& model,
                                                    const batch_plan& plan) {
  const range<std::int64_t> span = model.curve.span();
  if (plan.micro_batch <= span.high()) return plan;
  failure why = detail::not_measured(plan.micro_batch, span);
  const range<bytes> beyond = model.forecast_of(plan).value;
  why.add(fact::low_MB, detail::MB_at_most(beyond.low()));
  why.add(fact::high_MB, detail::MB_at_least(beyond.high()));
  return why;
}

/// A measured memory model that also answers above its span, with the upper end of the forecast.
struct extrapolated_memory {
  measured_memory model{};

  [[nodiscard]] constexpr bytes required(const batch_plan& plan) const {
    return model.forecast_of(plan).value.high();
  }
};

/// The model itself where the measured one is valid. Errors: as of that.
[[nodiscard]] constexpr result<extrapolated_memory> validate(const extrapolated_memory& model) {
  if (const auto valid = validate(model.model); !valid) return valid.why();
  return model;
}

/// The plan where the forecast has an upper end. Errors: `ran_out_when_measured`, with the smallest
/// micro-batch that did and what it ran out of.
[[nodiscard]] constexpr result<batch_plan> validate(const extrapolated_memory& model,
                                                    const batch_plan& plan) {
  const measured_memory& measured = model.model;
  if (detail::is_finite(model.required(plan).value())) return plan;
  if (!measured.ran_out_at || !measured.ran_out_of)
    return failure(errc::not_finite).about(fact::line);
  return failure(errc::ran_out_when_measured,
                 named_fact{fact::micro_batch, plan.micro_batch},
                 named_fact{fact::at_least, *measured.ran_out_at},
                 named_fact{fact::gpu_has_MB, detail::MB_at_most(*measured.ran_out_of)});
}

/// The model with its word beyond what was measured taken for good: `solve_batch(request,
/// extrapolated(measured))`.
[[nodiscard]] constexpr extrapolated_memory extrapolated(const measured_memory& model) {
  return {model};
}

/// The memory model of the rows that ran below the smallest that ran out; `gpu` is the memory that
/// it ran out of, where that is known. Errors: as `validate` of the rows; `too_few_rows` with fewer
/// than three; `measured_twice` with two of one micro-batch; `mixed_rows` where they differ in more
/// than the micro-batch; `does_not_rise` where the line does not; `out_of_bounds` with more rows
/// than a curve holds, or a tolerance outside 0 to 1; `not_positive` for a GPU without memory.
[[nodiscard]] constexpr result<measured_memory> measured_memory_of(
    sweep_rows rows, known<bytes> gpu = {}, double line_tolerance = usual_line_tolerance) {
  if (gpu)
    if (const failure why = detail::flaw_of_budget(*gpu); detail::failed(why)) return why;
  measured_memory model{.ran_out_of = gpu};
  for (const sweep_row& row : rows)
    if (!detail::ran(row) && (!model.ran_out_at || row.micro_batch < *model.ran_out_at))
      model.ran_out_at = row.micro_batch;
  if (!model.ran_out_at) model.ran_out_of = {};
  const auto curve = detail::curve_of<bytes>(
      rows, model.ran_out_at, line_tolerance, [](const sweep_row& row) { return row.memory; });
  if (!curve) return curve.why();
  model.curve = *curve;
  return model;
}

static_assert(memory_model<measured_memory> && memory_model<extrapolated_memory>);

}  // namespace gpuplan
