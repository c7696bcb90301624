#pragma once

// What a sweep measured as a function of the micro-batch: its rows, the line on which the larger
// ones lie, and how far that line may be off beyond them.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/sweep/fit.hpp>
#include <gpuplan/sweep/rows.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace gpuplan {

/// What a measured model says of a plan: a point within what was measured, else a range.
template <any_quantity Quantity>
struct forecast {
  range<Quantity> value{};
  bool extrapolates = false;
};

/// `fixed + per_sample * micro_batch`.
template <any_quantity Quantity>
struct straight_line {
  Quantity fixed{};
  Quantity per_sample{};

  [[nodiscard]] constexpr Quantity at(std::int64_t micro_batch) const {
    return fixed + per_sample * micro_batch;
  }

  friend constexpr bool operator==(const straight_line& a, const straight_line& b) {
    return a.fixed == b.fixed && a.per_sample == b.per_sample;
  }
};

/// The rows that one model is made of, at most.
inline constexpr std::int64_t most_curve_rows = 32;

/// How far a row may lie from a line and still be on it, as a share of the line's value.
inline constexpr double usual_line_tolerance = 0.05;

/// The measured values of one quantity, and the line through those from `line_from` on.
///
/// The line is Theil's and Sen's: its slope is the median of the slopes of all pairs of rows, its
/// fixed part the median of `value - slope * micro_batch` (Theil, Indagationes Mathematicae 12,
/// 1950; Sen, JASA 63, 1968), so that up to 29 % of the rows may be far off without bending it.
/// `line_from` is the smallest micro-batch from which on rows are `straight`: the first and the
/// last of at least five (all of three or four) lie within the tolerance of their line, and more
/// than three quarters of them do; those that do not are outliers. Where nothing is straight, the
/// line goes through the last five rows, and there are no outliers.
///
/// Within the span, a value is that of its row, or on a straight line between the rows next to it,
/// outliers left out. Beyond the span, the line speaks: the true slope lies from `lower` to
/// `upper`, order statistics of the same slopes, with at least the probability `confidence`: 0.95
/// or more from seven rows on, 0.875 of five, 0.5 of three. The order is that of Wilcoxon's signed
/// ranks: errors must be independent and symmetric, and may be alike in all rows or grow with the
/// micro-batch. A sweep of an A100 over 13 micro-batches, each twice the one before, foretells each
/// row from the sixth on by those before it, and without an inner row finds its time within 5 %,
/// its memory within 7 %.
template <any_quantity Quantity>
struct measured_curve {   // NOLINT(readability-identifier-naming): of the loop that copies `values`
  std::int64_t rows = 0;  // in use of the arrays
  std::int64_t micro_batches[most_curve_rows]{};  // ascending
  Quantity values[most_curve_rows]{};
  bool outliers[most_curve_rows]{};
  std::int64_t line_from = 0;
  bool straight = false;
  straight_line<Quantity> line{};
  straight_line<Quantity> lower{};
  straight_line<Quantity> upper{};
  double confidence = 0;
  range<double> scatter{0.0};  // of (row - line) / line, over the rows that the line is through

  /// The micro-batches that were measured, from the smallest to the largest.
  [[nodiscard]] constexpr range<std::int64_t> span() const {
    return {micro_batches[0], micro_batches[rows - 1]};
  }
};

namespace detail {

constexpr failure flaw_of_tolerance(double tolerance) {
  return check_between(tolerance, 0, 1, fact::line_tolerance);
}

// Within the span. The first and the last row are no outliers.
template <any_quantity Quantity>
constexpr Quantity value_of_curve(const measured_curve<Quantity>& curve, std::int64_t micro_batch) {
  std::int64_t right = 0;
  while (curve.outliers[right] || curve.micro_batches[right] < micro_batch) ++right;
  const Quantity high = curve.values[right];
  if (curve.micro_batches[right] == micro_batch) return high;
  std::int64_t left = right - 1;
  while (curve.outliers[left]) --left;
  const Quantity low = curve.values[left];
  const std::int64_t from = curve.micro_batches[left];
  const Quantity between =
      low + (high - low) * (static_cast<double>(micro_batch - from) /
                            static_cast<double>(curve.micro_batches[right] - from));
  // Rounding must not lead beyond the next row: what rises with the micro-batch would fall there.
  return between > high && high > low ? high : between;
}

// Above the span: between the outer lines, widened by the scatter. The lower one may fall; what is
// measured does not take less for more samples.
template <any_quantity Quantity>
constexpr range<Quantity> beyond_curve(const measured_curve<Quantity>& curve,
                                       std::int64_t micro_batch) {
  const std::int64_t last = curve.span().high();
  const Quantity rise = curve.lower.per_sample * (micro_batch - last);
  const Quantity end = curve.lower.at(last);
  const Quantity low =
      (end > Quantity{} ? end : Quantity{}) + (rise > Quantity{} ? rise : Quantity{});
  const Quantity high = curve.upper.at(micro_batch);
  return {low * (1 + curve.scatter.low()), (high > low ? high : low) * (1 + curve.scatter.high())};
}

// Below the span: a fixed part is not negative, so a share of the samples takes at least its share.
template <any_quantity Quantity>
constexpr range<Quantity> below_curve(Quantity first,
                                      std::int64_t first_batch,
                                      std::int64_t micro_batch) {
  return {first * (static_cast<double>(micro_batch) / static_cast<double>(first_batch)), first};
}

// The slopes of all pairs of rows, ascending, each with the first row of its pair: the slopes of
// the rows from any row on are those of a later pair, in order.
class pair_slopes {
 public:
  template <any_quantity Quantity>
  constexpr explicit pair_slopes(const measured_curve<Quantity>& curve) : rows_(curve.rows) {
    for (std::int64_t i = 0; i < rows_; ++i)
      for (std::int64_t j = i + 1; j < rows_; ++j)
        all_[count_++] = {(curve.values[j] - curve.values[i]).value() /
                              static_cast<double>(curve.micro_batches[j] - curve.micro_batches[i]),
                          i};
    sort();
  }

  // Those with which the line through the rows from `first` on is made.
  struct middle {
    double low = 0;
    double median = 0;
    double high = 0;
    double confidence = 0;
  };
  [[nodiscard]] constexpr middle of_rows_from(std::int64_t first) const {
    const std::int64_t rows = rows_ - first;
    const std::int64_t pairs = rows * (rows - 1) / 2;
    const rank_bound outer = rank_of_low_slope(rows);
    middle found{.confidence = outer.confidence};
    std::int64_t rank = 0;
    double of_median = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      if (all_[i].first < first) continue;
      const double slope = all_[i].slope;
      if (rank == outer.rank) found.low = slope;
      if (rank == (pairs - 1) / 2) of_median = slope;
      if (rank == pairs / 2) found.median = of_median + (slope - of_median) / 2;
      if (rank == pairs - 1 - outer.rank) found.high = slope;
      ++rank;
    }
    return found;
  }

 private:
  static constexpr std::int64_t most_pairs = most_curve_rows * (most_curve_rows - 1) / 2;
  struct pair {
    double slope;
    std::int64_t first;
  };

  std::int64_t rows_ = 0;
  std::int64_t count_ = 0;
  pair all_[most_pairs]{};

  // Shell's, with Ciura's gaps.
  constexpr void sort() {
    for (const std::int64_t gap : {132, 57, 23, 10, 4, 1})
      for (std::int64_t i = gap; i < count_; ++i) {
        const pair moved = all_[i];
        std::int64_t to = i;
        for (; to >= gap && all_[to - gap].slope > moved.slope; to -= gap)
          all_[to] = all_[to - gap];
        all_[to] = moved;
      }
  }

  // How many slopes may lie below the true one. The error of the larger micro-batch decides the
  // sign of a pair's where errors grow: then the count is that of Wilcoxon's signed ranks of all
  // rows but the first. Where errors are alike it spreads less (Kendall's), so this is the bound.
  struct rank_bound {
    std::int64_t rank = 0;  // of the low slope, from 0
    double confidence = 0;
  };
  [[nodiscard]] static constexpr rank_bound rank_of_low_slope(std::int64_t rows) {
    double probability[most_pairs + 1]{1};  // of each count
    for (std::int64_t k = 1; k < rows; ++k)
      for (std::int64_t count = k * (k + 1) / 2; count >= 0; --count)
        probability[count] = (probability[count] + (count >= k ? probability[count - k] : 0.0)) / 2;
    rank_bound bound{.confidence = 1 - 2 * probability[0]};
    double tails = 2 * (probability[0] + probability[1]);
    while (tails <= 0.05) {
      ++bound.rank;
      bound.confidence = 1 - tails;
      tails += 2 * probability[bound.rank + 1];
    }
    return bound;
  }
};

template <any_quantity Quantity>
constexpr Quantity median_of_rest(const measured_curve<Quantity>& curve,
                                  std::int64_t first,
                                  double slope) {
  double rest[most_curve_rows]{};
  std::int64_t count = 0;
  for (std::int64_t i = first; i < curve.rows; ++i) {
    const double value =
        curve.values[i].value() - slope * static_cast<double>(curve.micro_batches[i]);
    std::int64_t to = count++;
    for (; to > 0 && rest[to - 1] > value; --to) rest[to] = rest[to - 1];
    rest[to] = value;
  }
  const double lower = rest[(count - 1) / 2];
  return Quantity::from_value(lower + (rest[count / 2] - lower) / 2);
}

// Puts the line through the rows from `first` on.
template <any_quantity Quantity>
constexpr void put_line(measured_curve<Quantity>& curve,
                        const pair_slopes& slopes,
                        std::int64_t first) {
  const auto found = slopes.of_rows_from(first);
  const auto with_slope = [&](double slope) {
    return straight_line<Quantity>{.fixed = median_of_rest(curve, first, slope),
                                   .per_sample = Quantity::from_value(slope)};
  };
  curve.line_from = curve.micro_batches[first];
  curve.line = with_slope(found.median);
  curve.lower = with_slope(found.low);
  curve.upper = with_slope(found.high);
  curve.confidence = found.confidence;
}

// Where rows lie beside the line, as a share of it; where it has no positive value, it says
// nothing of them.
template <any_quantity Quantity>
constexpr double off_line(const measured_curve<Quantity>& curve, std::int64_t i) {
  const Quantity on_line = curve.line.at(curve.micro_batches[i]);
  return on_line > Quantity{} ? (curve.values[i] - on_line).value() / on_line.value() : infinity;
}

// Reads how far the rows from `first` on lie from the line, and whether they are straight.
template <any_quantity Quantity>
constexpr void judge_line(measured_curve<Quantity>& curve, std::int64_t first, double tolerance) {
  const auto is_on = [&](std::int64_t i) { return abs(off_line(curve, i)) <= tolerance; };
  std::int64_t off_it = 0;
  for (std::int64_t i = first; i < curve.rows; ++i)
    if (!is_on(i)) ++off_it;
  // Of the first or the last row nobody can tell whether it is an outlier or where the line bends.
  curve.straight = is_on(first) && is_on(curve.rows - 1) && 4 * off_it < curve.rows - first;
  curve.scatter = 0.0;
  for (std::int64_t i = first; i < curve.rows; ++i) {
    const double off = off_line(curve, i);
    curve.outliers[i] = curve.straight && !is_on(i);
    if (!curve.outliers[i] && is_finite(off)) curve.scatter = hull(curve.scatter, off);
  }
}

// What is wrong with a curve, or no failure.
template <any_quantity Quantity>
constexpr failure flaw_of(const measured_curve<Quantity>& curve) {
  if (curve.rows < 1 || curve.rows > most_curve_rows)
    return failure(errc::out_of_bounds,
                   named_fact{fact::rows_that_ran, curve.rows},
                   named_fact{fact::at_least, 1},
                   named_fact{fact::at_most, most_curve_rows});
  for (std::int64_t i = 0; i < curve.rows; ++i) {
    const named_fact where{fact::row, i};
    if (curve.micro_batches[i] < 1)
      return failure(
          errc::not_positive, where, named_fact{fact::micro_batch, curve.micro_batches[i]});
    if (i > 0 && curve.micro_batches[i] <= curve.micro_batches[i - 1])
      return failure(
          errc::not_rising, where, named_fact{fact::micro_batch, curve.micro_batches[i]});
    if (!is_finite(curve.values[i].value()))
      return failure(errc::not_finite, where).about(fact::value);
    if (!(curve.values[i] > Quantity{}))
      return failure(errc::not_positive, where).about(fact::value);
  }
  for (const straight_line<Quantity>& each : {curve.lower, curve.line, curve.upper})
    if (!is_finite(each.fixed.value()) || !is_finite(each.per_sample.value()))
      return failure(errc::not_finite, named_fact{fact::line, each.per_sample.value()});
  if (!(curve.line.per_sample > Quantity{}))
    return failure(errc::not_positive).about(fact::per_sample);
  if (!(curve.lower.per_sample <= curve.line.per_sample &&
        curve.line.per_sample <= curve.upper.per_sample))
    return failure(errc::inverted_range).about(fact::per_sample);
  if (curve.outliers[0] || curve.outliers[curve.rows - 1])
    return failure(errc::out_of_bounds).about(fact::outliers);
  if (!(curve.scatter.low() > -1 && is_finite(curve.scatter.high())))
    return about_range(errc::out_of_bounds, curve.scatter, fact::scatter);
  // No batch that a plan can have leads beyond what doubles hold.
  for (const straight_line<Quantity>& each : {curve.lower, curve.upper})
    if (!is_finite(each.at(std::numeric_limits<std::int64_t>::max()).value() *
                   (1 + curve.scatter.high())))
      return failure(errc::not_finite).about(fact::line);
  return {};
}

// The curve of the rows that ran, where `below` is known those below it.
template <any_quantity Quantity>
constexpr result<measured_curve<Quantity>> curve_of(sweep_rows rows,
                                                    const known<std::int64_t>& below,
                                                    double tolerance,
                                                    Quantity (*value_of)(const sweep_row&)) {
  if (const failure why = flaw_of(rows); failed(why)) return why;
  if (const failure why = flaw_of_tolerance(tolerance); failed(why)) return why;
  measured_curve<Quantity> curve;
  const sweep_row* one = nullptr;
  std::int64_t count = 0;
  const auto counts = [&](const sweep_row& row) {
    return ran(row) && (!below || row.micro_batch < *below);
  };
  for (const sweep_row& row : rows)
    if (counts(row)) ++count;
  if (count > most_curve_rows)
    return failure(errc::out_of_bounds,
                   named_fact{fact::rows_that_ran, count},
                   named_fact{fact::at_most, most_curve_rows});
  for (const sweep_row& row : rows) {
    if (!counts(row)) continue;
    if (curve.rows == 0) one = &row;
    std::int64_t to = curve.rows++;
    for (; to > 0 && curve.micro_batches[to - 1] > row.micro_batch; --to) {
      curve.micro_batches[to] = curve.micro_batches[to - 1];
      curve.values[to] = curve.values[to - 1];
    }
    if (to > 0 && curve.micro_batches[to - 1] == row.micro_batch)
      return failure(errc::measured_twice, named_fact{fact::micro_batch, row.micro_batch});
    curve.micro_batches[to] = row.micro_batch;
    curve.values[to] = value_of(row);
  }
  if (count < 3) return too_few_rows(count, count);
  if (const failure why = flaw_of_setting(rows, *one, true); failed(why)) return why;

  const pair_slopes slopes(curve);
  const std::int64_t fewest = count < 5 ? count : 5;
  for (std::int64_t first = 0; first <= count - fewest; ++first) {
    put_line(curve, slopes, first);
    judge_line(curve, first, tolerance);
    if (curve.straight) break;
  }
  if (!(curve.line.per_sample > Quantity{})) return does_not_rise(count);
  if (const failure why = flaw_of(curve); failed(why)) return why;
  return curve;
}

constexpr failure not_measured(std::int64_t micro_batch, range<std::int64_t> span) {
  return failure(errc::not_measured,
                 named_fact{fact::micro_batch, micro_batch},
                 named_fact{fact::at_least, span.low()},
                 named_fact{fact::at_most, span.high()});
}

}  // namespace detail
}  // namespace gpuplan
