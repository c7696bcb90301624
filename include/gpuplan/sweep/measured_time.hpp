#pragma once

// The time model that a sweep measured, and where its throughput saturates.

#include <gpuplan/sweep/curve.hpp>
#include <gpuplan/sweep/rows.hpp>
#include <gpuplan/time_model.hpp>

#include <cstdint>

namespace gpuplan {

/// The time of a step as a sweep measured it: of its setting, on as many GPUs as it ran on.
/// `accumulation * micro_batch + once`.
struct measured_time {
  measured_curve<duration> micro_batch{};  // data, forward and backward of one
  duration once{};  // optimizer and communication of a step: the median over the rows

  /// Precondition: a micro-batch within the span of those that were measured, else `not_measured`.
  [[nodiscard]] constexpr duration step(const batch_plan& plan) const;

  /// Within the span `step`. Below it, from the share of its smallest row's time that the samples
  /// have to all of it. Above it, from the lower line to the upper one, widened by
  /// the scatter.
  [[nodiscard]] constexpr forecast<duration> forecast_of(const batch_plan& plan) const;
};

constexpr forecast<duration> measured_time::forecast_of(const batch_plan& plan) const {
  const std::int64_t n = plan.micro_batch;
  const range<std::int64_t> span = micro_batch.span();
  const auto of_step = [&](range<duration> one) { return one * plan.accumulation + once; };
  if (span.contains(n)) return {of_step(detail::value_of_curve(micro_batch, n)), false};
  if (n > span.high()) return {of_step(detail::beyond_curve(micro_batch, n)), true};
  return {of_step(detail::below_curve(micro_batch.values[0], span.low(), n)), true};
}

constexpr duration measured_time::step(const batch_plan& plan) const {
  if (!micro_batch.span().contains(plan.micro_batch))
    detail::precondition_violated(detail::not_measured(plan.micro_batch, micro_batch.span()));
  return forecast_of(plan).value.high();
}

/// The model itself where its rows ascend and are positive, its line rises and its numbers are
/// finite. Errors: `out_of_bounds`, `not_positive`, `not_rising`, `not_finite`, `negative`,
/// `inverted_range`, with the row or the name of the field.
[[nodiscard]] constexpr result<measured_time> validate(const measured_time& model) {
  if (const failure why = detail::flaw_of(model.micro_batch); detail::failed(why)) return why;
  if (!detail::is_finite(model.once.value()))
    return failure(errc::not_finite, named_fact{fact::once, model.once.value()});
  if (model.once < duration{})
    return failure(errc::negative, named_fact{fact::time_us, detail::as_fact(in(model.once, 1_us))})
        .about(fact::once);
  return model;
}

/// The plan where its micro-batch lies within the span. Errors: `not_measured` with the span.
[[nodiscard]] constexpr result<batch_plan> validate(const measured_time& model,
                                                    const batch_plan& plan) {
  const range<std::int64_t> span = model.micro_batch.span();
  if (!span.contains(plan.micro_batch)) return detail::not_measured(plan.micro_batch, span);
  return plan;
}

/// A measured time model that also answers outside its span, with the upper end of the forecast.
struct extrapolated_time {
  measured_time model{};

  [[nodiscard]] constexpr duration step(const batch_plan& plan) const {
    return model.forecast_of(plan).value.high();
  }
};

/// The model itself where the measured one is valid. Errors: as of that.
[[nodiscard]] constexpr result<extrapolated_time> validate(const extrapolated_time& model) {
  if (const auto valid = validate(model.model); !valid) return valid.why();
  return model;
}

/// The model with its word beyond what was measured taken for good.
[[nodiscard]] constexpr extrapolated_time extrapolated(const measured_time& model) {
  return {model};
}

/// The time model of the rows that ran. Errors: as `measured_memory_of`, but for those of the GPU.
[[nodiscard]] constexpr result<measured_time> measured_time_of(
    sweep_rows rows, double line_tolerance = usual_line_tolerance) {
  const auto curve = detail::curve_of<duration>(rows, {}, line_tolerance, [](const sweep_row& row) {
    return row.data + row.forward + row.backward;
  });
  if (!curve) return curve.why();
  double once[most_curve_rows]{};
  std::int64_t count = 0;
  for (const sweep_row& row : rows) {
    if (!detail::ran(row)) continue;
    const double value = (row.optimizer + row.communication).value();
    std::int64_t to = count++;
    for (; to > 0 && once[to - 1] > value; --to) once[to] = once[to - 1];
    once[to] = value;
  }
  const double lower = once[(count - 1) / 2];
  return measured_time{.micro_batch = *curve,
                       .once = duration::from_value(lower + (once[count / 2] - lower) / 2)};
}

static_assert(time_model<measured_time> && time_model<extrapolated_time>);

/// What the throughput of one GPU comes near to with ever larger micro-batches: one sample in
/// `per_sample`, from the upper line to the lower one; without end where the lower one does not
/// rise. Throughput is `n / (time(n) + once)`, by a line `n / (fixed + once + per_sample * n)`.
/// Precondition: `validate` accepts the model.
[[nodiscard]] constexpr range<sample_rate> saturation_throughput(const measured_time& model) {
  const duration least = model.micro_batch.lower.per_sample;
  return {samples_per(1, model.micro_batch.upper.per_sample),
          least > duration{} ? samples_per(1, least) : sample_rate::from_value(detail::infinity)};
}

/// The smallest micro-batch that reaches a share of the saturation throughput, as a range since
/// saturation is one; it extrapolates where the answer is not within the measured span.
struct saturation_batch {
  range<std::int64_t> micro_batch{1};
  bool extrapolates = false;
};

namespace detail {

// For one of the lines: from the measured rows where one of these is large enough, else by the
// line. 0 where no batch up to 2^40 is.
constexpr std::int64_t batch_at_saturation_of(const measured_time& model,
                                              const straight_line<duration>& line,
                                              double share) {
  const measured_curve<duration>& curve = model.micro_batch;
  const range<std::int64_t> span = curve.span();
  const auto reaches = [&](std::int64_t n) {
    const duration time = span.contains(n) ? value_of_curve(curve, n) : line.at(n);
    return line.per_sample * n >= share * (time + model.once);
  };
  for (std::int64_t i = 0; i < curve.rows; ++i) {
    if (!reaches(curve.micro_batches[i])) continue;
    if (i == 0) return span.low();
    // Between two rows time is straight, so that what holds at the second holds from one batch on.
    std::int64_t below = curve.micro_batches[i - 1];
    std::int64_t found = curve.micro_batches[i];
    while (found - below > 1) {
      const std::int64_t middle = below + (found - below) / 2;
      (reaches(middle) ? found : below) = middle;
    }
    return found;
  }
  return smallest_count([&](std::int64_t n) { return n > span.high() && reaches(n); });
}

}  // namespace detail

/// The smallest micro-batch whose throughput is at least `share` of the saturation throughput. With
/// a share of 0.5 it is the knee, as for `affine_time`. Errors: as `validate(model)`;
/// `out_of_bounds` for a share outside 0 to 1, or one that no batch up to 2^40 reaches;
/// `does_not_rise` where the lower line does not, so that saturation has no upper end.
[[nodiscard]] constexpr result<saturation_batch> batch_at_saturation(const measured_time& model,
                                                                     double share) {
  if (const auto valid = validate(model); !valid) return valid.why();
  if (const failure why = detail::check_between(share, 0, 1, fact::share); detail::failed(why))
    return why;
  const measured_curve<duration>& curve = model.micro_batch;
  if (!(curve.lower.per_sample > duration{})) return detail::does_not_rise(curve.rows);
  range<std::int64_t> batches = curve.span();
  bool is_first = true;
  for (const straight_line<duration>& line : {curve.upper, curve.line, curve.lower}) {
    const std::int64_t batch = detail::batch_at_saturation_of(model, line, share);
    if (batch == 0)
      return failure(errc::out_of_bounds,
                     named_fact{fact::percent, detail::as_fact(share * 100)},
                     named_fact{fact::at_least, 0},
                     named_fact{fact::at_most, 99})
          .about(fact::share);
    batches = is_first ? range<std::int64_t>(batch) : hull(batches, batch);
    is_first = false;
  }
  // Smaller batches than the first row's were not measured, and may reach it too.
  if (batches.low() == curve.span().low()) batches = hull(batches, 1);
  return saturation_batch{batches, !curve.span().contains(batches)};
}

}  // namespace gpuplan
