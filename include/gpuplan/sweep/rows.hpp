#pragma once

// The rows of a batch-size sweep, and what to judge them by.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

/// What became of a row: it was measured, or memory ran out.
enum class sweep_status { ran, out_of_memory };

/// What a sweep varies.
struct sweep_setting {
  std::int64_t micro_batch = 1;
  std::int64_t workers = 0;  // threads or processes that load data beside the training
  bool mixed_precision = false;
  bool pinned_memory = false;  // the host's, from which samples are copied to the GPU

  friend constexpr bool operator==(const sweep_setting&, const sweep_setting&) = default;
};

/// One setting of a sweep, measured on one GPU. The times follow one another: their sum is the time
/// of a training step. Of a row that ran out of memory only the setting is read.
struct sweep_row {
  std::int64_t micro_batch = 1;
  std::int64_t workers = 0;  // as in sweep_setting
  bool mixed_precision = false;
  bool pinned_memory = false;
  duration data{};  // what the step waits for its samples
  duration forward{};
  duration backward{};
  duration optimizer{};        // zero where the measurement has it in another part
  duration communication{};    // among several ranks, beside nothing else
  double gpu_utilisation = 0;  // 0 to 1
  bytes memory{};              // the peak
  sweep_status status = sweep_status::ran;
};

using sweep_rows = std::span<const sweep_row>;

/// The setting that a row measured.
[[nodiscard]] constexpr sweep_setting setting_of(const sweep_row& row) {
  return {.micro_batch = row.micro_batch,
          .workers = row.workers,
          .mixed_precision = row.mixed_precision,
          .pinned_memory = row.pinned_memory};
}

/// Whether two settings differ in nothing but the micro-batch: those a line goes through.
[[nodiscard]] constexpr bool differ_in_batch_alone(sweep_setting a, const sweep_setting& b) {
  a.micro_batch = b.micro_batch;
  return a == b;
}

/// `data + forward + backward + optimizer + communication`.
[[nodiscard]] constexpr duration step_time(const sweep_row& row) {
  return row.data + row.forward + row.backward + row.optimizer + row.communication;
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

constexpr failure flaw_of_time(std::int64_t index, duration time, fact name) {
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
  if (const failure why = flaw_of_time(index, row.data, fact::data); failed(why)) return why;
  if (const failure why = flaw_of_time(index, row.forward, fact::forward); failed(why)) return why;
  if (const failure why = flaw_of_time(index, row.backward, fact::backward); failed(why))
    return why;
  if (const failure why = flaw_of_time(index, row.optimizer, fact::optimizer); failed(why))
    return why;
  if (const failure why = flaw_of_time(index, row.communication, fact::communication); failed(why))
    return why;
  if (const failure why = flaw_of_time(index, step_time(row), fact::step_time); failed(why))
    return why;
  if (step_time(row) == duration{})
    return failure(errc::not_positive, where, named_fact{fact::time_us, 0}).about(fact::step_time);
  if (!is_finite(row.gpu_utilisation))
    return failure(errc::not_finite, where).about(fact::gpu_utilisation);
  if (row.gpu_utilisation < 0 || row.gpu_utilisation > 1)
    return failure(errc::out_of_bounds,
                   where,
                   named_fact{fact::percent, as_fact(row.gpu_utilisation * 100)},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, 100})
        .about(fact::gpu_utilisation);
  if (!is_finite(row.memory.value())) return failure(errc::not_finite, where).about(fact::memory);
  if (!(row.memory > bytes{}))
    return failure(errc::not_positive,
                   where,
                   named_fact{fact::needed_MB, as_fact(in(row.memory, 1_MB))})
        .about(fact::memory);
  if (!is_finite(throughput(row).value()))
    return failure(errc::not_finite, where).about(fact::throughput);
  if (!is_finite(samples_per_s_per_GB(row)))
    return failure(errc::not_finite, where).about(fact::throughput_per_memory);
  return {};
}

constexpr failure flaw_of(sweep_rows rows) {
  std::int64_t index = 0;
  for (const sweep_row& row : rows)
    if (const failure why = flaw_of(row, index++); failed(why)) return why;
  return {};
}

// The row with every time multiplied by what makes its step last `step`, since medians of phases do
// not add up to the median of the step; without a time in any phase, all of it is forward.
constexpr sweep_row scaled_to(duration step, sweep_row row) {
  const duration sum = step_time(row);
  if (sum == duration{}) {
    row.forward = step;
    return row;
  }
  const double factor = step.value() / sum.value();
  row.data = row.data * factor;
  row.forward = row.forward * factor;
  row.backward = row.backward * factor;
  row.optimizer = row.optimizer * factor;
  row.communication = row.communication * factor;
  return row;
}

constexpr bool ran(const sweep_row& row) { return row.status == sweep_status::ran; }

constexpr failure too_few_rows(std::int64_t rows, std::int64_t different_batches) {
  return failure(errc::too_few_rows,
                 named_fact{fact::rows_that_ran, rows},
                 named_fact{fact::different_batches, different_batches});
}

}  // namespace detail

/// The rows themselves where every micro-batch is at least 1, no time is negative and their sum is
/// positive, memory is positive and the utilisation is from 0 to 1, all of them finite; else the
/// first flaw with the index of its row and the name of the field.
[[nodiscard]] constexpr result<sweep_rows> validate(sweep_rows rows) {
  if (const failure why = detail::flaw_of(rows); detail::failed(why)) return why;
  return rows;
}

/// What a row is judged by. There is no standard for these numbers: by default nothing is asked.
struct sweep_thresholds {
  duration data_time = duration::from_value(detail::infinity);  // waiting longer: loading bound
  double data_share = 1;                                        // the same, as a share of the step
  range<double> utilisation{0, 1};                              // where the GPU is well used
  range<double> memory_share{0, 1};  // of the GPU's memory, where it is well filled
};

/// The thresholds themselves where the shares are from 0 to 1 and the time is a positive number.
[[nodiscard]] constexpr result<sweep_thresholds> validate(const sweep_thresholds& thresholds) {
  if (!(thresholds.data_time > duration{}))
    return failure(errc::not_positive).about(fact::data_time);
  if (const failure why = detail::check_between(thresholds.data_share, 0, 1, fact::data_share);
      detail::failed(why))
    return why;
  if (const failure why = detail::check_between(thresholds.utilisation, 0, 1, fact::utilisation);
      detail::failed(why))
    return why;
  if (const failure why = detail::check_between(thresholds.memory_share, 0, 1, fact::memory_share);
      detail::failed(why))
    return why;
  return thresholds;
}

}  // namespace gpuplan
