// What a series of timings says, and when it may end. Expected values by hand, from closed forms,
// and of the recorded series from NumPy 2.4 (quantile) and the statistics module of Python 3.11.

#include "check.hpp"

#include <gpuplan/measure/statistics.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace {

using namespace gpuplan::measure;

constexpr bool near(double a, double b, double within = 1e-12) {
  return gpuplan::detail::abs(a - b) <= within * gpuplan::detail::abs(b);
}

constexpr quartiles quartiles_of(auto values) { return sort_into_quartiles(values); }

// Microseconds of 80 turns of one loop on a CPU under a quota: every ten turns or fewer it is
// stopped for 4 ms.
constexpr std::array recorded_us{
    682.9,  664.2,  664.0,  663.3,  663.9, 4713.0, 673.5,  705.1,  674.4,  673.4,  674.0, 4711.0,
    673.1,  673.6,  674.0,  674.5,  690.4, 724.4,  600.1,  675.6,  587.3,  614.4,  589.3, 622.3,
    700.1,  597.1,  594.1,  589.0,  591.5, 595.5,  4665.2, 695.4,  598.3,  598.2,  597.1, 594.6,
    4650.5, 598.9,  677.8,  594.4,  594.2, 593.2,  594.8,  4669.3, 642.2,  589.5,  591.6, 594.9,
    589.7,  4662.7, 591.5,  588.9,  589.8, 597.7,  616.7,  658.0,  4681.2, 619.9,  583.7, 584.9,
    586.9,  587.8,  4702.8, 586.3,  622.7, 586.0,  690.1,  587.3,  585.2,  4699.8, 586.2, 724.6,
    577.9,  577.5,  575.9,  4634.2, 584.1, 623.6,  598.4,  581.2};

// How many samples of a series are taken until it may end, and why; each lasts what it says, and
// nothing else takes time.
struct ending {
  std::size_t samples;
  stop_reason why;
};
constexpr ending taken_until_the_end(const stop_rule& rule, std::span<const double> samples_s) {
  double measured_s = 0;
  for (std::size_t n = 1; n <= samples_s.size(); ++n) {
    measured_s += samples_s[n - 1];
    if (const auto why =
            stop_now(rule, samples_s.first(n), {.measured_s = measured_s, .passed_s = measured_s}))
      return {n, *why};
  }
  return {0, stop_reason::out_of_time};
}

constexpr auto recorded_s = [] {
  auto seconds = recorded_us;
  for (double& s : seconds) s /= 1e6;
  return seconds;
}();

// 1 + 0.1 * 0.8^n
constexpr auto settling = [] {
  std::array<double, 64> samples{};
  double above = 0.1;
  for (double& sample : samples) {
    sample = 1 + above;
    above *= 0.8;
  }
  return samples;
}();

}  // namespace

TEST_CASE("mean, deviation and spread of series that can be summed by hand") {
  CONSTEXPR std::array two{1.0, 3.0};
  STATIC_CHECK(mean(two) == 2);
  STATIC_CHECK(standard_deviation(two) == gpuplan::detail::sqrt(2));
  STATIC_CHECK(relative_spread(two) == gpuplan::detail::sqrt(2) / 2);
  CONSTEXPR std::array one{7.0};
  STATIC_CHECK(mean(one) == 7);
  STATIC_CHECK(standard_deviation(one) == 0);
  CONSTEXPR std::array same{0.25, 0.25, 0.25};
  STATIC_CHECK(relative_spread(same) == 0);
  // of 1 to n the mean is (n + 1) / 2 and the variance n (n + 1) / 12
  CONSTEXPR std::array five{4.0, 2.0, 5.0, 1.0, 3.0};
  STATIC_CHECK(mean(five) == 3);
  STATIC_CHECK(standard_deviation(five) == gpuplan::detail::sqrt(2.5));
}

TEST_CASE("quantiles lie on the line between the two nearest values") {
  CONSTEXPR std::array ascending{1.0, 2.0, 4.0, 8.0, 16.0};
  STATIC_CHECK(quantile(ascending, 0) == 1);
  STATIC_CHECK(quantile(ascending, 1) == 16);
  STATIC_CHECK(quantile(ascending, 0.5) == 4);
  STATIC_CHECK(quantile(ascending, 0.25) == 2);
  STATIC_CHECK(quantile(ascending, 0.125) == 1.5);
  CONSTEXPR std::array one{3.0};
  STATIC_CHECK(quantile(one, 0.25) == 3);
  CONSTEXPR quartiles q = quartiles_of(std::array{4.0, 1.0, 3.0, 2.0});
  STATIC_CHECK(q.lower == 1.75 && q.median == 2.5 && q.upper == 3.25);
}

TEST_CASE("a recorded series says what NumPy says of it") {
  CONSTEXPR quartiles q = quartiles_of(recorded_us);
  STATIC_CHECK(near(q.lower, 589.775) && near(q.median, 607.25) && near(q.upper, 674.775));
  STATIC_CHECK(near(mean(recorded_us), 1130.40375));
  STATIC_CHECK(near(standard_deviation(recorded_us), 1350.335833187738));
  STATIC_CHECK(near(relative_spread(recorded_us), 1.1945606454222555));
  STATIC_CHECK(count_outliers(recorded_us, q) == 10);  // the stops
}

TEST_CASE("values agree within a share of the smallest") {
  CONSTEXPR std::array clocks{1000.0, 1009.0, 1005.0};
  STATIC_CHECK(agree(clocks, 0.01));
  STATIC_CHECK(!agree(clocks, 0.009));  // the bound itself is too far
  CONSTEXPR std::array one{1000.0};
  STATIC_CHECK(agree(one, 1e-9));
}

TEST_CASE("a series ends when its last samples are steady") {
  CONSTEXPR stop_rule four{.spread = 0.005, .window = 4, .least_samples = 4, .least_s = 0};
  CONSTEXPR ending at_once = taken_until_the_end(four, recorded_s);
  STATIC_CHECK(at_once.samples == 5 && at_once.why == stop_reason::steady);

  // the same, but no earlier than after 20 ms
  CONSTEXPR stop_rule late{.spread = 0.005, .window = 4, .least_samples = 4, .least_s = 0.02};
  STATIC_CHECK(taken_until_the_end(late, recorded_s).samples == 30);
  // the same, but with no fewer than 27 samples
  CONSTEXPR stop_rule many{.spread = 0.005, .window = 4, .least_samples = 27, .least_s = 0};
  STATIC_CHECK(taken_until_the_end(many, recorded_s).samples == 30);
}

TEST_CASE("a series that never is steady ends by its other bounds") {
  CONSTEXPR stop_rule eight{
      .spread = 0.005, .window = 8, .least_samples = 8, .most_samples = 60, .least_s = 0};
  CONSTEXPR ending counted = taken_until_the_end(eight, recorded_s);
  STATIC_CHECK(counted.samples == 60 && counted.why == stop_reason::most_samples);

  CONSTEXPR stop_rule timed{.window = 8, .least_samples = 8, .least_s = 0, .cap_s = 0.02};
  CONSTEXPR ending late = taken_until_the_end(timed, recorded_s);
  STATIC_CHECK(late.samples == 18 && late.why == stop_reason::out_of_time);

  // no sample at all, as where every one was discarded
  STATIC_CHECK(!stop_now(timed, {}, {.measured_s = 0.01, .passed_s = 0.019}).has_value());
  STATIC_CHECK(stop_now(timed, {}, {.measured_s = 0.01, .passed_s = 0.02}) ==
               stop_reason::out_of_time);
}

TEST_CASE("a series that settles ends once its window has left the start behind") {
  CONSTEXPR stop_rule rule{.window = 16, .least_samples = 16, .least_s = 0, .cap_s = 1e9};
  CONSTEXPR ending end = taken_until_the_end(rule, settling);
  STATIC_CHECK(end.samples == 24 && end.why == stop_reason::steady);  // as Python counts
}

namespace {

// The probability that the median lies between the values at `rank` from either end of n samples:
// 1 - 2 P(X < rank), where X, those below the median, is binomial.
constexpr double confidence(int n, int rank) {
  double probability = 1;  // of X = i
  for (int i = 0; i < n; ++i) probability /= 2;
  double below = 0;
  for (int i = 0; i < rank; ++i) {
    below += probability;
    probability *= static_cast<double>(n - i) / (i + 1);
  }
  return 1 - 2 * below;
}

// Of the values 1 to n the bounds are ranks themselves. Two ranks further in would be too few.
constexpr bool bounds_hold_95_percent_until(int most) {
  std::array<double, 400> ascending{};
  for (std::size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<double>(i + 1);
  for (int n = 8; n <= most; ++n) {
    const auto bounds =
        bounds_of_median(std::span<const double>(ascending).first(static_cast<std::size_t>(n)));
    if (!bounds || bounds->low + bounds->high != n + 1) return false;
    const int rank = static_cast<int>(bounds->low);
    if (confidence(n, rank) < 0.95 || confidence(n, rank + 2) >= 0.95) return false;
  }
  return true;
}

// As taken_until_the_end, of a median that is wanted.
constexpr ending taken_until_known(const median_rule& rule) {
  auto ascending = recorded_s;
  double measured_s = 0;
  for (std::size_t n = 1; n <= ascending.size(); ++n) {
    measured_s += recorded_s[n - 1];
    std::sort(ascending.begin(), ascending.begin() + static_cast<std::ptrdiff_t>(n));
    if (const auto why = stop_now(rule,
                                  std::span<const double>(ascending).first(n),
                                  {.measured_s = measured_s, .passed_s = measured_s}))
      return {n, *why};
  }
  return {0, stop_reason::out_of_time};
}

}  // namespace

TEST_CASE("the bounds of a median hold it in 95 of 100 series") {
  STATIC_CHECK(bounds_hold_95_percent_until(250));
  CONSTEXPR std::array seven{1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0};
  STATIC_CHECK(!bounds_of_median(seven).has_value());
  CONSTEXPR auto recorded = [] {
    auto sorted = recorded_us;
    std::sort(sorted.begin(), sorted.end());
    return *bounds_of_median(sorted);
  }();
  STATIC_CHECK(recorded.low == 594.9 && recorded.high == 663.9);
}

TEST_CASE("a series ends when its median is known, whatever its outliers") {
  CONSTEXPR ending two_percent = taken_until_known({.within = 0.02});
  STATIC_CHECK(two_percent.samples == 16 && two_percent.why == stop_reason::median_known);
  STATIC_CHECK(taken_until_known({.within = 0.05}).samples == 11);
  STATIC_CHECK(taken_until_known({.within = 0.05, .least_samples = 20}).samples == 20);
  STATIC_CHECK(taken_until_known({.within = 0.05, .least_s = 0.02}).samples == 18);
  CONSTEXPR ending counted = taken_until_known({.within = 0.01, .most_samples = 60});
  STATIC_CHECK(counted.samples == 60 && counted.why == stop_reason::most_samples);
  CONSTEXPR ending late = taken_until_known({.within = 0.01, .cap_s = 0.02});
  STATIC_CHECK(late.samples == 18 && late.why == stop_reason::out_of_time);
  STATIC_CHECK(!stop_now(median_rule{}, {}, {}).has_value());
}
