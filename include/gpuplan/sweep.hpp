#pragma once

// Reads a batch-size sweep: measured rows in; picks, fitted lines and diagnoses out.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/memory/affine.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace gpuplan {

// ---- rows

enum class sweep_status { ran, out_of_memory };

/// One setting of a sweep, measured on one GPU. The four times follow one another: their sum is the
/// time of a training step. Of a row that ran out of memory only the setting is read.
struct sweep_row {
  std::int64_t micro_batch = 1;
  std::int64_t workers = 0;  // data-loading processes
  bool mixed_precision = false;
  duration data{};  // what the step waits for its samples
  duration forward{};
  duration backward{};
  duration optimizer{};        // zero where the measurement has it in another part
  double gpu_utilisation = 0;  // 0 to 1
  bytes memory{};              // the peak
  sweep_status status = sweep_status::ran;
};

using sweep_rows = std::span<const sweep_row>;

/// `data + forward + backward + optimizer`.
[[nodiscard]] constexpr duration step_time(const sweep_row& row) {
  return row.data + row.forward + row.backward + row.optimizer;
}

/// The samples per second of one GPU, `micro_batch / step_time`. Precondition: the row ran.
[[nodiscard]] constexpr sample_rate throughput(const sweep_row& row) {
  return samples_per(row.micro_batch, step_time(row));
}

/// Samples per second and GB (10^9 bytes) of memory: `throughput / memory`. It favours small
/// batches, whose memory is small, and says nothing about speed. Precondition: the row ran.
[[nodiscard]] constexpr double samples_per_s_per_GB(const sweep_row& row) {
  return throughput(row).value() / in(row.memory, 1_GB);
}

namespace detail {

// Away from zero, so that a value outside its bounds shows outside them; cut to 64 bits. Not NaN.
constexpr std::int64_t as_fact(double value) {
  const double away = value < 0 ? floor(value) : ceil(value);
  return static_cast<std::int64_t>(away > 9e18 ? 9e18 : away < -9e18 ? -9e18 : away);
}

constexpr failure flaw_of_time(std::int64_t index, duration time, const char* name) {
  if (!is_finite(time.value()))
    return failure(errc::not_finite, named_fact{fact::row, index}).about(name);
  if (time < duration{})
    return failure(errc::negative,
                   named_fact{fact::row, index},
                   named_fact{fact::time_us, as_fact(in(time, 1_us))})
        .about(name);
  return {};
}

// What is wrong with a row, or no failure.
constexpr failure flaw_of(const sweep_row& row, std::int64_t index) {
  const named_fact where{fact::row, index};
  if (row.micro_batch < 1)
    return failure(errc::not_positive, where, named_fact{fact::micro_batch, row.micro_batch});
  if (row.workers < 0)
    return failure(errc::negative, where, named_fact{fact::workers, row.workers});
  if (row.status == sweep_status::out_of_memory) return {};
  if (const failure why = flaw_of_time(index, row.data, "data"); failed(why)) return why;
  if (const failure why = flaw_of_time(index, row.forward, "forward"); failed(why)) return why;
  if (const failure why = flaw_of_time(index, row.backward, "backward"); failed(why)) return why;
  if (const failure why = flaw_of_time(index, row.optimizer, "optimizer"); failed(why)) return why;
  if (const failure why = flaw_of_time(index, step_time(row), "step time"); failed(why)) return why;
  if (step_time(row) == duration{})
    return failure(errc::not_positive, where, named_fact{fact::time_us, 0}).about("step time");
  if (!is_finite(row.gpu_utilisation))
    return failure(errc::not_finite, where).about("gpu_utilisation");
  if (row.gpu_utilisation < 0 || row.gpu_utilisation > 1)
    return failure(errc::out_of_bounds,
                   where,
                   named_fact{fact::percent, as_fact(row.gpu_utilisation * 100)},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, 100})
        .about("gpu_utilisation");
  if (!is_finite(row.memory.value())) return failure(errc::not_finite, where).about("memory");
  if (!(row.memory > bytes{}))
    return failure(errc::not_positive,
                   where,
                   named_fact{fact::needed_MB, as_fact(in(row.memory, 1_MB))})
        .about("memory");
  return {};
}

constexpr failure flaw_of(sweep_rows rows) {
  std::int64_t index = 0;
  for (const sweep_row& row : rows)
    if (const failure why = flaw_of(row, index++); failed(why)) return why;
  return {};
}

constexpr bool ran(const sweep_row& row) { return row.status == sweep_status::ran; }

}  // namespace detail

/// The rows themselves where every micro-batch is at least 1, no time is negative and their sum is
/// positive, memory is positive and the utilisation is from 0 to 1, all of them finite; else the
/// first flaw with the index of its row and the name of the field.
[[nodiscard]] constexpr result<sweep_rows> validate(sweep_rows rows) {
  if (const failure why = detail::flaw_of(rows); detail::failed(why)) return why;
  return rows;
}

// ---- picks

/// What a row is judged by. There is no standard for these numbers: by default nothing is asked.
struct sweep_thresholds {
  duration data_time = duration::from_value(detail::infinity);  // waiting longer: loading bound
  double data_share = 1;                                        // the same, as a share of the step
  range<double> utilisation{0, 1};                              // where the GPU is well used
  range<double> memory_share{0, 1};  // of the GPU's memory, where it is well filled
};

/// The thresholds themselves where the shares are from 0 to 1 and the time is a positive number.
[[nodiscard]] constexpr result<sweep_thresholds> validate(const sweep_thresholds& thresholds) {
  if (!(thresholds.data_time > duration{})) return failure(errc::not_positive).about("data_time");
  if (detail::is_nan(thresholds.data_share)) return failure(errc::not_finite).about("data_share");
  if (const failure why = detail::check_between(thresholds.data_share, 0, 1, "data_share");
      detail::failed(why))
    return why;
  if (const failure why = detail::check_between(thresholds.utilisation, 0, 1, "utilisation");
      detail::failed(why))
    return why;
  if (const failure why = detail::check_between(thresholds.memory_share, 0, 1, "memory_share");
      detail::failed(why))
    return why;
  return thresholds;
}

/// Why a row was picked.
enum class pick_rule { highest_throughput, best_efficiency, highest_throughput_in_bands };

[[nodiscard]] constexpr const char* text(pick_rule rule) {
  switch (rule) {
    case pick_rule::highest_throughput:
      return "highest throughput of the rows that ran";
    case pick_rule::best_efficiency:
      return "most samples per second and GB of the rows that ran";
    case pick_rule::highest_throughput_in_bands:
      return "highest throughput of the rows whose memory and utilisation lie in the bands";
  }
  return "";
}

/// A row and its reason: by `rule` it is the best of `candidates` rows, with `value` samples per
/// second, or per second and GB.
struct sweep_pick {
  std::size_t row = 0;  // index
  pick_rule rule{};
  double value = 0;
  std::int64_t candidates = 0;
};

namespace detail {

constexpr failure too_few_rows(std::int64_t rows, std::int64_t different_batches) {
  return failure(errc::too_few_rows,
                 named_fact{fact::rows_that_ran, rows},
                 named_fact{fact::different_batches, different_batches});
}

constexpr double value_by(pick_rule rule, const sweep_row& row) {
  return rule == pick_rule::best_efficiency ? samples_per_s_per_GB(row) : throughput(row).value();
}

// Does not depend on the order of the rows, except between rows that are equal in all of this.
constexpr bool better(pick_rule rule, const sweep_row& a, const sweep_row& b) {
  const double value_a = value_by(rule, a);
  const double value_b = value_by(rule, b);
  if (value_a != value_b) return value_a > value_b;
  if (a.memory != b.memory) return a.memory < b.memory;
  if (a.micro_batch != b.micro_batch) return a.micro_batch < b.micro_batch;
  return a.workers < b.workers;
}

// Without candidates where no row qualifies.
template <class Predicate>
constexpr sweep_pick pick(sweep_rows rows, pick_rule rule, Predicate qualifies) {
  sweep_pick best{.rule = rule};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!ran(rows[i]) || !qualifies(rows[i])) continue;
    if (best.candidates++ == 0 || better(rule, rows[i], rows[best.row])) best.row = i;
  }
  if (best.candidates > 0) best.value = value_by(rule, rows[best.row]);
  return best;
}

constexpr result<sweep_pick> pick_any(sweep_rows rows, pick_rule rule) {
  if (const failure why = flaw_of(rows); failed(why)) return why;
  const sweep_pick best = pick(rows, rule, ran);
  if (best.candidates == 0) return too_few_rows(0, 0);
  return best;
}

}  // namespace detail

/// The row with the highest throughput; of equals that with less memory, then the smaller
/// micro-batch, then fewer workers. Errors: as `validate`; `too_few_rows` where none ran.
[[nodiscard]] constexpr result<sweep_pick> pick_highest_throughput(sweep_rows rows) {
  return detail::pick_any(rows, pick_rule::highest_throughput);
}

/// The row with the most samples per second and GB; equals and errors as for the throughput.
[[nodiscard]] constexpr result<sweep_pick> pick_best_efficiency(sweep_rows rows) {
  return detail::pick_any(rows, pick_rule::best_efficiency);
}

/// The row to train with on `gpu`: the highest throughput of those whose utilisation and whose
/// share of the GPU's memory lie in the bands, ends included. Equals as for the throughput. Errors:
/// as `validate`; `too_few_rows` where none ran; `no_row_in_bands` with how many rows lie in each
/// band, the memory band and the largest memory of a row. `batches_in` then says what to measure.
[[nodiscard]] constexpr result<sweep_pick> pick_recommended(sweep_rows rows,
                                                            memory_budget gpu,
                                                            const sweep_thresholds& thresholds) {
  if (const auto valid = validate(rows); !valid) return valid.why();
  if (const auto valid = validate(thresholds); !valid) return valid.why();
  if (const failure why = detail::flaw_of_budget(gpu); detail::failed(why)) return why;

  const bytes least = gpu.size() * thresholds.memory_share.low();
  const bytes most = gpu.size() * thresholds.memory_share.high();
  const auto in_memory_band = [&](const sweep_row& row) {
    return least <= row.memory && row.memory <= most;
  };
  const auto in_utilisation_band = [&](const sweep_row& row) {
    return thresholds.utilisation.contains(row.gpu_utilisation);
  };
  const sweep_pick best =
      detail::pick(rows, pick_rule::highest_throughput_in_bands, [&](const sweep_row& row) {
        return in_memory_band(row) && in_utilisation_band(row);
      });
  if (best.candidates > 0) return best;

  std::int64_t count = 0;
  std::int64_t well_filled = 0;
  std::int64_t well_used = 0;
  bytes largest{};
  for (const sweep_row& row : rows) {
    if (!detail::ran(row)) continue;
    ++count;
    if (in_memory_band(row)) ++well_filled;
    if (in_utilisation_band(row)) ++well_used;
    if (largest < row.memory) largest = row.memory;
  }
  if (count == 0) return detail::too_few_rows(0, 0);
  return failure(errc::no_row_in_bands,
                 named_fact{fact::rows_that_ran, count},
                 named_fact{fact::rows_in_memory_band, well_filled},
                 named_fact{fact::rows_in_utilisation_band, well_used},
                 named_fact{fact::band_low_MB, detail::MB_at_least(least)},
                 named_fact{fact::band_high_MB, detail::MB_at_most(most)},
                 named_fact{fact::largest_row_MB, detail::MB_at_most(largest)});
}

// ---- lines

/// `step = accumulation * (fixed + per_sample * micro_batch)`. `fixed` holds what a micro-batch
/// takes whatever its size: launches, synchronisation, the optimizer. Since it is counted once per
/// micro-batch, the time of an accumulated step is an upper bound.
struct affine_time {
  duration fixed{};
  duration per_sample{};

  [[nodiscard]] constexpr duration step(const batch_plan& plan) const {
    return (fixed + per_sample * plan.micro_batch) * plan.accumulation;
  }
};

/// The model itself where both parts are finite, `fixed` is not negative and `per_sample` positive.
[[nodiscard]] constexpr result<affine_time> validate(const affine_time& model) {
  if (!detail::is_finite(model.fixed.value())) return failure(errc::not_finite).about("fixed");
  if (model.fixed < duration{})
    return failure(errc::negative,
                   named_fact{fact::time_us, detail::as_fact(in(model.fixed, 1_us))})
        .about("fixed");
  if (const failure why = detail::check_positive(model.per_sample, "per_sample");
      detail::failed(why))
    return why;
  return model;
}

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
constexpr failure flaw_of_setting(sweep_rows rows, const sweep_row& first) {
  std::int64_t index = 0;
  for (const sweep_row& row : rows) {
    if (ran(row) && (row.workers != first.workers || row.mixed_precision != first.mixed_precision))
      return failure(errc::mixed_rows,
                     named_fact{fact::row, index},
                     named_fact{fact::workers, row.workers})
          .about(row.workers != first.workers ? "workers" : "mixed_precision");
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
    if (first == nullptr) {
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
  if (!(line.per_sample > 0 && is_finite(line.per_sample) && is_finite(line.fixed)))
    return does_not_rise(found.rows);
  return line;
}

}  // namespace detail

/// The line through the memory of the rows that ran, by least squares. Errors: as `validate`;
/// `too_few_rows` with fewer than two different micro-batches; `mixed_rows` where workers or
/// precision are not the same in all rows; `does_not_rise` where the line does not.
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

// ---- what follows from a line

/// The limit of `batch / time(batch)` for large batches: `1 / per_sample`. Precondition:
/// `per_sample` is positive, as it is in every fit.
[[nodiscard]] constexpr sample_rate saturation_throughput(const affine_time& model) {
  return samples_per(1, model.per_sample);
}

namespace detail {

// The smallest count from 1 to 2^40 for which `holds`, which stays true once it is; 0 for none.
template <class Predicate>
constexpr std::int64_t smallest_count(Predicate holds) {
  const std::int64_t most = std::int64_t{1} << 40;
  std::int64_t below = 0;
  std::int64_t candidate = 1;
  while (!holds(candidate)) {
    if (candidate == most) return 0;
    below = candidate;
    candidate *= 2;
  }
  while (candidate - below > 1) {
    const std::int64_t middle = below + (candidate - below) / 2;
    (holds(middle) ? candidate : below) = middle;
  }
  return candidate;
}

}  // namespace detail

/// The smallest micro-batch whose throughput is at least `share` of the saturation throughput:
/// `per_sample * batch >= share * time(batch)`. With a share of 0.5 it is the knee, n_1/2 of
/// Hockney and Jesshope, "Parallel Computers 2", 1988: from there on the samples take at least as
/// long as what is fixed, and twice the batch gains at most a third. Errors: as `validate(model)`;
/// `out_of_bounds` for a share outside 0 to 1, or one that no batch up to 2^40 reaches: so it is of
/// 1 where something is fixed.
[[nodiscard]] constexpr result<std::int64_t> batch_at_saturation(const affine_time& model,
                                                                 double share) {
  if (const auto valid = validate(model); !valid) return valid.why();
  if (detail::is_nan(share)) return failure(errc::not_finite).about("share");
  const auto reaches = [&](std::int64_t n) {
    if (share == 1) return model.fixed == duration{};  // the sum below may round to its larger part
    return model.per_sample * n >= share * model.step({.micro_batch = n});
  };
  const std::int64_t batch = share >= 0 && share <= 1 ? detail::smallest_count(reaches) : 0;
  if (batch == 0)
    return failure(errc::out_of_bounds,
                   named_fact{fact::percent, detail::as_fact(share * 100)},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, share <= 1 ? 99 : 100})
        .about("share");
  return batch;
}

/// The micro-batches that fill a band of the GPU's memory by a fitted line, from the smallest that
/// needs at least its lower end to the largest that needs at most its upper end: what to measure
/// where `pick_recommended` finds no row. Errors: as `max_micro_batch`; `out_of_bounds` for a band
/// outside 0 to 1; `no_batch_in_band` with the batches next to the band where it holds none.
[[nodiscard]] constexpr result<range<std::int64_t>> batches_in(range<double> memory_share,
                                                               memory_budget gpu,
                                                               const affine_memory& model) {
  if (const failure why = detail::check_between(memory_share, 0, 1, "memory_share");
      detail::failed(why))
    return why;
  const auto largest = max_micro_batch(gpu.size() * memory_share.high(), model);
  if (!largest) return largest.why();
  const bytes least = gpu.size() * memory_share.low();
  const std::int64_t smallest = detail::smallest_count(
      [&](std::int64_t n) { return model.required({.micro_batch = n}) >= least; });
  if (smallest > *largest)
    return failure(errc::no_batch_in_band,
                   named_fact{fact::nearest_below, *largest},
                   named_fact{fact::nearest_above, smallest});
  return range(smallest, *largest);
}

// ---- diagnosis

/// What a row says about its setting: any of these may hold at once.
struct sweep_diagnosis {
  double data_share = 0;    // of the step
  double memory_share = 0;  // of the GPU's memory

  bool loading_bound = false;     // waits for data longer than either threshold allows
  bool under_utilised = false;    // utilisation below its band
  bool compute_bound = false;     // not under-utilised, and computes longer than it waits for data
  bool memory_head_room = false;  // memory below its band: the batch can grow
  bool memory_tight = false;      // memory above its band: near running out
};

/// Reads one row on `gpu`. Errors: as `validate`; `row_ran_out` for a row without measurements.
[[nodiscard]] constexpr result<sweep_diagnosis> diagnose(const sweep_row& row,
                                                         memory_budget gpu,
                                                         const sweep_thresholds& thresholds) {
  if (const failure why = detail::flaw_of(row, 0); detail::failed(why)) return why;
  if (const auto valid = validate(thresholds); !valid) return valid.why();
  if (const failure why = detail::flaw_of_budget(gpu); detail::failed(why)) return why;
  if (!detail::ran(row))
    return failure(errc::row_ran_out, named_fact{fact::micro_batch, row.micro_batch});

  sweep_diagnosis found{.data_share = row.data.value() / step_time(row).value(),
                        .memory_share = in(row.memory, gpu.size())};
  found.loading_bound = row.data > thresholds.data_time || found.data_share > thresholds.data_share;
  found.under_utilised = row.gpu_utilisation < thresholds.utilisation.low();
  found.compute_bound =
      !found.under_utilised && row.forward + row.backward + row.optimizer > row.data;
  found.memory_head_room = row.memory < gpu.size() * thresholds.memory_share.low();
  found.memory_tight = row.memory > gpu.size() * thresholds.memory_share.high();
  return found;
}

}  // namespace gpuplan
