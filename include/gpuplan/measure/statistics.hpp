#pragma once

// What a series of timings says, and when it has said enough.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace gpuplan::measure {

namespace detail {

constexpr void require_one(std::span<const double> values) {
  if (values.empty())
    gpuplan::detail::precondition_violated(failure(errc::not_positive).about("samples"));
}

}  // namespace detail

/// The arithmetic mean. Precondition: at least one value.
[[nodiscard]] constexpr double mean(std::span<const double> values) {
  detail::require_one(values);
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// The standard deviation of the population that the values are a sample of:
/// `sqrt(sum((x - mean)^2) / (n - 1))`, and 0 of one value. Precondition: at least one value.
[[nodiscard]] constexpr double standard_deviation(std::span<const double> values) {
  const double centre = mean(values);
  if (values.size() == 1) return 0;
  double sum = 0;
  for (const double value : values) sum += (value - centre) * (value - centre);
  return gpuplan::detail::sqrt(sum / static_cast<double>(values.size() - 1));
}

/// `standard_deviation / mean`, of positive values. Precondition: at least one value.
[[nodiscard]] constexpr double relative_spread(std::span<const double> values) {
  return standard_deviation(values) / mean(values);
}

/// The values below which a quarter, half and three quarters of a series lie.
struct quartiles {
  double lower = 0;
  double median = 0;
  double upper = 0;
};

/// The value below which the share `p` of sorted values lies, on the line between the two nearest:
/// at position `p (n - 1)`, as NumPy has it. Precondition: at least one value, ascending;
/// 0 <= p <= 1.
[[nodiscard]] constexpr double quantile(std::span<const double> ascending, double p) {
  detail::require_one(ascending);
  const double position = p * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  const double share = position - static_cast<double>(below);
  return ascending[below] + share * (ascending[above] - ascending[below]);
}

/// The quartiles of a series, which it sorts. Precondition: at least one value, no NaN.
[[nodiscard]] constexpr quartiles sort_into_quartiles(std::span<double> values) {
  std::sort(values.begin(), values.end());
  return {.lower = quantile(values, 0.25),
          .median = quantile(values, 0.5),
          .upper = quantile(values, 0.75)};
}

/// How many values lie further outside the quartiles than one and a half times their distance
/// (Tukey's fences).
[[nodiscard]] constexpr std::int64_t count_outliers(std::span<const double> values,
                                                    quartiles middle) {
  const double reach = 1.5 * (middle.upper - middle.lower);
  std::int64_t count = 0;
  for (const double value : values)
    if (value < middle.lower - reach || value > middle.upper + reach) ++count;
  return count;
}

/// Two values of a series, between which the median of what it is a sample of lies.
struct median_bounds {
  double low = 0;
  double high = 0;
};

/// The bounds of the median with a confidence of at least 95 %, whatever the distribution: the
/// values at the ranks `floor(n / 2 - 0.98 sqrt(n))` from either end, since of `n` independent
/// samples those below the median are binomial. Neighbouring steps are not quite independent, which
/// makes it somewhat less. Nothing of fewer than 8 values. Precondition: ascending.
[[nodiscard]] constexpr std::optional<median_bounds> bounds_of_median(
    std::span<const double> ascending) {
  const auto n = static_cast<double>(ascending.size());
  const double rank = n / 2 - 0.98 * gpuplan::detail::sqrt(n);
  if (rank < 1) return std::nullopt;
  const auto from_end = static_cast<std::size_t>(rank);
  return median_bounds{.low = ascending[from_end - 1],
                       .high = ascending[ascending.size() - from_end]};
}

/// Whether values lie so close together that the largest exceeds the smallest by less than the
/// share `within` of it. Precondition: at least one value, all positive.
[[nodiscard]] constexpr bool agree(std::span<const double> values, double within) {
  detail::require_one(values);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most - *least < within * *least;
}

/// When a series of timings ends. A series is steady when its last `window` samples spread by less
/// than `spread` (standard deviation over mean), there are `least_samples` of them, and together
/// they lasted `least_s`. The defaults are those of a GPU; a CPU shared with others is rarely so
/// steady. Precondition of its use: a window of at least 2, since one sample alone spreads by
/// nothing.
struct stop_rule {
  double spread = 0.005;
  std::int64_t window = 64;
  std::int64_t least_samples = 64;
  std::int64_t most_samples = std::numeric_limits<std::int64_t>::max();
  double least_s = 0.5;  // measured
  double cap_s = 15;     // passed, measured or not
};

/// Why a series ended.
enum class stop_reason { steady, median_known, most_samples, out_of_time };

/// The reason in lower-case words, as files and reports have it.
[[nodiscard]] constexpr const char* name(stop_reason why) {
  switch (why) {
    case stop_reason::steady:
      return "steady";
    case stop_reason::median_known:
      return "median known";
    case stop_reason::most_samples:
      return "most samples";
    case stop_reason::out_of_time:
      return "out of time";
  }
  return "";
}

/// What a series has taken so far, in seconds: its samples together, and all that passed since its
/// start.
struct time_taken {
  double measured_s = 0;
  double passed_s = 0;
};

/// Whether a series may end now, and why; nothing while it must go on. Looks at the last `window`
/// samples alone, so its cost does not grow with the series. Steady comes first of the reasons.
[[nodiscard]] constexpr std::optional<stop_reason> stop_now(const stop_rule& rule,
                                                            std::span<const double> samples,
                                                            time_taken taken) {
  const auto count = static_cast<std::int64_t>(samples.size());
  if (count >= std::max<std::int64_t>(rule.window, rule.least_samples) &&
      taken.measured_s >= rule.least_s &&
      relative_spread(samples.last(static_cast<std::size_t>(rule.window))) < rule.spread)
    return stop_reason::steady;
  if (count >= rule.most_samples) return stop_reason::most_samples;
  if (taken.passed_s >= rule.cap_s) return stop_reason::out_of_time;
  return std::nullopt;
}

/// When a series of steps ends whose median is wanted and whose outliers are not: once there are
/// `least_samples`, lasting `least_s` together, and the bounds of the median lie within the share
/// `within` of it. That comes true on machines that others use too, where a series is never steady.
struct median_rule {
  double within = 0.02;
  std::int64_t least_samples = 10;
  std::int64_t most_samples = 1000;
  double least_s = 0;  // measured
  double cap_s = 10;   // passed, measured or not
};

/// Whether a series may end now, and why; nothing while it must go on. Precondition: samples ascend
/// and are positive.
[[nodiscard]] constexpr std::optional<stop_reason> stop_now(const median_rule& rule,
                                                            std::span<const double> ascending,
                                                            time_taken taken) {
  const auto count = static_cast<std::int64_t>(ascending.size());
  if (count >= rule.least_samples && taken.measured_s >= rule.least_s) {
    const std::optional<median_bounds> bounds = bounds_of_median(ascending);
    if (bounds) {
      const double median = quantile(ascending, 0.5);
      const double reach = rule.within * median;
      if (bounds->high - median <= reach && median - bounds->low <= reach)
        return stop_reason::median_known;
    }
  }
  if (count >= rule.most_samples) return stop_reason::most_samples;
  if (taken.passed_s >= rule.cap_s) return stop_reason::out_of_time;
  return std::nullopt;
}

}  // namespace gpuplan::measure
