#pragma once

// Lines through the memory and the times of a sweep.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/sweep/rows.hpp>
#include <gpuplan/time/affine.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gpuplan {

/// Which rows a line comes near to.
///
/// - `absolute`, plain least squares: every residual counts alike. The largest batches have the
///   largest memory and times, so they alone decide the line, and it may miss the value of a small
///   batch by most of that value. For what lies above the sweep, such as where memory ends.
/// - `relative`, weights `1 / value^2`: every residual counts as a share of its row's value, so
///   all sizes have their say. For what lies within the sweep, where its rows reach over decades.
///
/// Where the two disagree, the rows do not lie on a line.
enum class fit_weighting { absolute, relative };

/// How far the rows lie from a fitted line.
template <class Quantity>
struct fit_residuals {
  Quantity largest{};              // of |measured - line|
  std::size_t largest_row = 0;     // its index
  Quantity root_mean_square{};     // of measured - line, over the number of rows
  double largest_relative = 0;     // of |measured - line| / measured
  double r_squared = 0;            // 1 - sum w (measured - line)^2 / sum w (measured - mean)^2
  std::int64_t rows = 0;           // that ran
  range<std::int64_t> batches{1};  // what they span: beyond it the line extrapolates
};

/// A line through the memory of a sweep. Where its memory ends on a GPU: `max_micro_batch(gpu,
/// fit.model)`. `model.fixed` may come out negative where memory grows faster than the batch;
/// decisions reject such a model.
struct memory_fit {
  affine_memory model;
  fit_residuals<bytes> residuals;
};

/// A line through the step times of a sweep.
struct time_fit {
  affine_time model;
  fit_residuals<duration> residuals;
};

namespace detail {

struct fitted_line {
  double fixed = 0;
  double per_sample = 0;
  fit_residuals<double> residuals;

  template <class Quantity>
  constexpr fit_residuals<Quantity> residuals_of() const {
    return {.largest = Quantity::from_value(residuals.largest),
            .largest_row = residuals.largest_row,
            .root_mean_square = Quantity::from_value(residuals.root_mean_square),
            .largest_relative = residuals.largest_relative,
            .r_squared = residuals.r_squared,
            .rows = residuals.rows,
            .batches = residuals.batches};
  }
};

// A line belongs to one setting: what else it depends on must not change along it.
constexpr failure flaw_of_setting(sweep_rows rows,
                                  const sweep_row& first,
                                  bool with_those_that_ran_out = false) {
  std::int64_t index = 0;
  for (const sweep_row& row : rows) {
    if ((ran(row) || with_those_that_ran_out) &&
        !differ_in_batch_alone(setting_of(row), setting_of(first)))
      return failure(errc::mixed_rows,
                     named_fact{fact::row, index},
                     named_fact{fact::workers, row.workers})
          .about(row.workers != first.workers                   ? fact::workers
                 : row.mixed_precision != first.mixed_precision ? fact::mixed_precision
                                                                : fact::pinned_memory);
    ++index;
  }
  return {};
}

constexpr failure does_not_rise(std::int64_t rows) {
  return failure(errc::does_not_rise, named_fact{fact::rows_that_ran, rows});
}

using value_of_row = double (*)(const sweep_row&);

// Least squares on differences from the first row, so that equal values have no slope at all.
constexpr result<fitted_line> fit_line(sweep_rows rows,
                                       fit_weighting weighting,
                                       value_of_row value_of) {
  if (const failure why = flaw_of(rows); failed(why)) return why;
  const sweep_row* first = nullptr;
  fitted_line line;
  fit_residuals<double>& found = line.residuals;
  for (const sweep_row& row : rows) {
    if (!ran(row)) continue;
    if (found.rows == 0) {
      first = &row;
      found.batches = row.micro_batch;
    }
    found.batches = hull(found.batches, row.micro_batch);
    ++found.rows;
  }
  if (found.batches.is_point()) return too_few_rows(found.rows, found.rows > 0 ? 1 : 0);
  if (const failure why = flaw_of_setting(rows, *first); failed(why)) return why;

  const double x_0 = static_cast<double>(first->micro_batch);
  const double y_0 = value_of(*first);
  const auto x_of = [&](const sweep_row& row) {
    return static_cast<double>(row.micro_batch) - x_0;
  };
  const auto y_of = [&](const sweep_row& row) { return value_of(row) - y_0; };
  const auto weight_of = [&](const sweep_row& row) {
    const double ratio = y_0 / value_of(row);
    return weighting == fit_weighting::absolute ? 1.0 : ratio * ratio;
  };

  double sum_w = 0, sum_x = 0, sum_y = 0;
  for (const sweep_row& row : rows) {
    if (!ran(row)) continue;
    const double w = weight_of(row);
    sum_w += w;
    sum_x += w * x_of(row);
    sum_y += w * y_of(row);
  }
  const double mean_x = sum_x / sum_w;
  const double mean_y = sum_y / sum_w;
  double sum_xx = 0, sum_xy = 0, sum_yy = 0;
  for (const sweep_row& row : rows) {
    if (!ran(row)) continue;
    const double w = weight_of(row);
    const double x = x_of(row) - mean_x;
    const double y = y_of(row) - mean_y;
    sum_xx += w * x * x;
    sum_xy += w * x * y;
    sum_yy += w * y * y;
  }
  if (!(sum_xx > 0 && sum_yy > 0)) return does_not_rise(found.rows);
  line.per_sample = sum_xy / sum_xx;
  line.fixed = y_0 + mean_y - line.per_sample * (x_0 + mean_x);

  double squares = 0, weighted_squares = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!ran(rows[i])) continue;
    const double residual = y_of(rows[i]) - mean_y - line.per_sample * (x_of(rows[i]) - mean_x);
    const double distance = abs(residual);
    squares += residual * residual;
    weighted_squares += weight_of(rows[i]) * residual * residual;
    if (distance > found.largest) {
      found.largest = distance;
      found.largest_row = i;
    }
    const double relative = distance / value_of(rows[i]);
    if (relative > found.largest_relative) found.largest_relative = relative;
  }
  found.root_mean_square = sqrt(squares / static_cast<double>(found.rows));
  found.r_squared = 1 - weighted_squares / sum_yy;
  for (const double each : {line.fixed,
                            line.per_sample,
                            found.root_mean_square,
                            found.largest_relative,
                            found.r_squared})
    if (!is_finite(each)) return failure(errc::not_finite, named_fact{fact::line, each});
  if (!(line.per_sample > 0)) return does_not_rise(found.rows);
  return line;
}

}  // namespace detail

/// The line through the memory of the rows that ran, by least squares. Errors: as `validate`;
/// `too_few_rows` with fewer than two different micro-batches; `mixed_rows` where workers,
/// precision or pinned memory are not the same in all rows; `does_not_rise` where the line does
/// not; `not_finite` where values are too large for sums of their squares.
[[nodiscard]] constexpr result<memory_fit> fit_memory(sweep_rows rows, fit_weighting weighting) {
  const auto line =
      detail::fit_line(rows, weighting, [](const sweep_row& row) { return row.memory.value(); });
  if (!line) return line.why();
  return memory_fit{.model = {.fixed = bytes::from_value(line->fixed),
                              .per_sample = bytes::from_value(line->per_sample)},
                    .residuals = line->residuals_of<bytes>()};
}

/// The line through the step times of the rows that ran, by least squares. Errors as `fit_memory`.
[[nodiscard]] constexpr result<time_fit> fit_time(sweep_rows rows, fit_weighting weighting) {
  const auto line = detail::fit_line(
      rows, weighting, [](const sweep_row& row) { return step_time(row).value(); });
  if (!line) return line.why();
  return time_fit{.model = {.fixed = duration::from_value(line->fixed),
                            .per_sample = duration::from_value(line->per_sample)},
                  .residuals = line->residuals_of<duration>()};
}

}  // namespace gpuplan
