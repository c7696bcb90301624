#pragma once

// Which setting of a sweep to take, and why.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/sweep/rows.hpp>

#include <cstddef>
#include <cstdint>

namespace gpuplan {

/// Why a row was picked.
enum class pick_rule { highest_throughput, best_efficiency, highest_throughput_in_bands };

/// The reason in words, without a full stop.
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

/// The micro-batches that fill a band of the GPU's memory by a fitted line, from the smallest that
/// needs at least its lower end to the largest that needs at most its upper end: what to measure
/// where `pick_recommended` finds no row. Errors: as `max_micro_batch`; `out_of_bounds` for a band
/// outside 0 to 1; `no_batch_in_band` with the batches next to the band where it holds none.
[[nodiscard]] constexpr result<range<std::int64_t>> batches_in(range<double> memory_share,
                                                               memory_budget gpu,
                                                               const affine_memory& model) {
  if (const failure why = detail::check_between(memory_share, 0, 1, fact::memory_share);
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

}  // namespace gpuplan
