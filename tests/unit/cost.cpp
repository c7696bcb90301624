#include <gpuplan/cost.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b) { return detail::abs(a - b) <= 1e-12 * detail::abs(b); }
constexpr bool near(range<double> a, range<double> b) {
  return near(a.low(), b.low()) && near(a.high(), b.high());
}

constexpr duration no_time = duration::from_value(detail::not_a_number);

// ---- what a run costs

// Hour by hour and device by device, in cents: what a bill adds up.
constexpr std::int64_t billed_cents(std::int64_t hours,
                                    std::int64_t devices,
                                    std::int64_t cents_per_hour) {
  std::int64_t cents = 0;
  for (std::int64_t hour = 0; hour < hours; ++hour)
    for (std::int64_t device = 0; device < devices; ++device) cents += cents_per_hour;
  return cents;
}

constexpr bool costs_are_those_billed() {
  for (std::int64_t hours : {1, 7, 100})
    for (std::int64_t devices : {1, 2, 8})
      for (std::int64_t cents : {0, 53, 300}) {
        const auto total = cost(hours * 1_h, devices, cents * 0.01_usd_per_hour);
        const auto billed = static_cast<double>(billed_cents(hours, devices, cents)) / 100;
        if (!near(in(total->low(), 1_usd), billed) || !total->is_point()) return false;
      }
  return true;
}

constexpr bool a_range_of_costs_holds_the_costs_of_its_points() {
  const auto spread = *cost({10_h, 12_h}, 4, {2_usd_per_hour, 3_usd_per_hour});
  if (!near(in(spread.low(), 1_usd), 80) || !near(in(spread.high(), 1_usd), 144)) return false;
  for (double hours : {10.0, 11.3, 12.0})
    for (double usd : {2.0, 2.9, 3.0})
      if (!spread.contains(cost(hours * 1_h, 4, usd * 1_usd_per_hour)->low())) return false;
  return true;
}

// ---- which run to take

constexpr priced_run whole(std::int64_t hours, std::int64_t usd) {
  return {.devices = 1, .time = hours * 1_h, .cost = usd * 1_usd};
}

constexpr std::size_t how_many = 9;

// Whole hours and dollars of a small grid, so that ties and duplicates are frequent and exact.
struct whole_runs {
  std::array<std::int64_t, how_many> hours{};
  std::array<std::int64_t, how_many> usd{};
  std::array<priced_run, how_many> runs{};

  constexpr explicit whole_runs(std::uint32_t seed) {
    for (std::size_t i = 0; i < how_many; ++i) {
      seed = seed * 1664525U + 1013904223U;  // Knuth and Lewis
      hours[i] = 1 + (seed >> 16) % 6;
      usd[i] = 1 + (seed >> 24) % 6;
      runs[i] = whole(hours[i], usd[i]);
    }
  }
};

constexpr bool choices_agree_with_the_definitions(std::uint32_t seed) {
  const whole_runs all(seed);
  std::int64_t least_cost = 99;
  std::int64_t time_of_cheapest = 99;
  std::int64_t least_time = 99;
  std::int64_t cost_of_fastest = 99;
  for (std::size_t i = 0; i < how_many; ++i) {
    if (all.usd[i] < least_cost || (all.usd[i] == least_cost && all.hours[i] < time_of_cheapest)) {
      least_cost = all.usd[i];
      time_of_cheapest = all.hours[i];
    }
    if (all.hours[i] < least_time || (all.hours[i] == least_time && all.usd[i] < cost_of_fastest)) {
      least_time = all.hours[i];
      cost_of_fastest = all.usd[i];
    }
    bool beaten = false;
    for (std::size_t j = 0; j < how_many; ++j)
      beaten = beaten || (all.hours[j] <= all.hours[i] && all.usd[j] <= all.usd[i] &&
                          all.hours[j] + all.usd[j] < all.hours[i] + all.usd[i]);
    if (on_pareto_front(all.runs, i) == beaten) return false;
  }
  const std::size_t cheap = *cheapest(all.runs);
  const std::size_t fast = *fastest(all.runs);
  for (std::size_t i = 0; i < how_many; ++i) {  // of equal runs the first
    if (i < cheap && all.usd[i] == least_cost && all.hours[i] == time_of_cheapest) return false;
    if (i < fast && all.hours[i] == least_time && all.usd[i] == cost_of_fastest) return false;
  }
  return all.usd[cheap] == least_cost && all.hours[cheap] == time_of_cheapest &&
         all.hours[fast] == least_time && all.usd[fast] == cost_of_fastest &&
         on_pareto_front(all.runs, cheap) && on_pareto_front(all.runs, fast);
}

constexpr bool choices_agree_with_the_definitions() {
  for (std::uint32_t seed = 1; seed <= 20; ++seed)
    if (!choices_agree_with_the_definitions(seed)) return false;
  return true;
}

// With perfect scaling any number of GPUs costs the same; that must not hang on the last bit.
constexpr bool rounding_is_no_price_difference() {
  std::array<priced_run, 64> runs{};
  for (std::size_t n = 1; n <= runs.size(); ++n) {
    const auto devices = static_cast<std::int64_t>(n);
    runs[n - 1] = *priced(400_h / 7 / devices, devices, 3_usd_per_hour);
  }
  for (std::size_t i = 0; i + 1 < runs.size(); ++i)
    if (on_pareto_front(runs, i) || !dominates(runs[63], runs[i])) return false;
  return *cheapest(runs) == 63 && *fastest(runs) == 63;
}

constexpr bool of_equal_runs_the_first_is_taken() {
  const priced_run twice[]{whole(2, 3), whole(2, 3)};
  return *cheapest(twice) == 0 && *fastest(twice) == 0;
}

// Going there in two steps costs what going there at once does.
constexpr bool marginal_prices_add_up() {
  const priced_run a = whole(100, 300);
  const priced_run b = whole(53, 316);
  const priced_run c = whole(28, 333);
  const auto part = [](const priced_run& from, const priced_run& to) {
    return *price_of_time_saved(from, to) * (from.time - to.time);
  };
  return near((part(a, b) + part(b, c)).value(), part(a, c).value());
}

}  // namespace

TEST_CASE("GPU-hours, money and energy") {
  STATIC_CHECK(costs_are_those_billed());
  STATIC_CHECK(a_range_of_costs_holds_the_costs_of_its_points());
  STATIC_CHECK(*gpu_time({10_h, 12_h}, 4) == range(40_h, 48_h));
  STATIC_CHECK(*energy_used(2_h, 8, {300_W, 350_W}) == range(4.8_kWh, 5.6_kWh));
  STATIC_CHECK(near(*relative_cost({300_usd, 330_usd}, 1200_usd), {0.25, 0.275}));
}

TEST_CASE("cheapest, fastest, and the front between them") {
  STATIC_CHECK(choices_agree_with_the_definitions());
  STATIC_CHECK(rounding_is_no_price_difference());
  STATIC_CHECK(of_equal_runs_the_first_is_taken());
  STATIC_CHECK(!dominates(whole(1, 1), whole(1, 1)));
  STATIC_CHECK(dominates(whole(1, 1), whole(1, 2)));
  STATIC_CHECK(dominates(whole(1, 1), whole(2, 1)));
  STATIC_CHECK(!dominates(whole(1, 2), whole(2, 1)));
}

TEST_CASE("the price of an hour saved") {
  STATIC_CHECK(
      near(in(*price_of_time_saved(whole(100, 300), whole(60, 320)), 1_usd_per_hour), 0.5));
  STATIC_CHECK(*price_of_time_saved(whole(100, 300), whole(60, 300)) == 0_usd_per_hour);
  STATIC_CHECK(*price_of_time_saved(whole(598, 1794), whole(100, 300)) == -3_usd_per_hour);
  STATIC_CHECK(marginal_prices_add_up());
}

TEST_CASE("a run at its price") {
  CONSTEXPR auto run = *priced(50_h, 2, 3_usd_per_hour);
  STATIC_CHECK(run.devices == 2 && run.time == 50_h && run.cost == 300_usd);
}

TEST_CASE("bad costs are named") {
  STATIC_CHECK(gpu_time(0_h, 1).why() ==
               failure(errc::not_positive, named_fact{fact::time_us, 0}).about(fact::time));
  STATIC_CHECK(gpu_time(1_h, 0).why() == failure(errc::out_of_bounds,
                                                 named_fact{fact::devices, 0},
                                                 named_fact{fact::at_least, 1}));
  STATIC_CHECK(
      cost(1_h, 1, {-0.5_usd_per_hour, 1_usd_per_hour}).why() ==
      failure(errc::negative, named_fact{fact::cents_per_hour, -50}).about(fact::price_per_hour));
  STATIC_CHECK(cost(1_h, 1, price::from_value(detail::infinity)).why() ==
               failure(errc::not_finite, named_fact{fact::price_per_hour, detail::infinity}));
  STATIC_CHECK(cost(1_h, -1, 1_usd_per_hour).why()[fact::devices] == -1);
  STATIC_CHECK(
      energy_used(1_h, 1, 0_W).why() ==
      failure(errc::not_positive, named_fact{fact::milliwatts, 0}).about(fact::power_draw));
  STATIC_CHECK(energy_used(1_h, 0, 1_W).why().code == errc::out_of_bounds);
  STATIC_CHECK(relative_cost(-1_usd, 1_usd).why() ==
               failure(errc::not_positive, named_fact{fact::cents, -100}).about(fact::cost));
  STATIC_CHECK(relative_cost(1_usd, 0_usd).why().at_fault() == fact::reference);
  STATIC_CHECK(priced(no_time, 1, 1_usd_per_hour).why() ==
               failure(errc::not_finite, named_fact{fact::time, detail::not_a_number}));
  STATIC_CHECK(priced(1_h, 1, price::from_value(detail::not_a_number)).why() ==
               failure(errc::not_finite, named_fact{fact::price_per_hour, detail::not_a_number}));
  STATIC_CHECK(priced(1_h, 0, 1_usd_per_hour).why().code == errc::out_of_bounds);
  STATIC_CHECK(cheapest({}).why().code == errc::no_runs);
  STATIC_CHECK(fastest({}).why().code == errc::no_runs);
  STATIC_CHECK(
      price_of_time_saved({1, 10_h, 30_usd}, {2, 10_h, 60_usd}).why() ==
      failure(errc::no_time_saved, named_fact{fact::devices, 1}, named_fact{fact::devices, 2}));
  STATIC_CHECK(!price_of_time_saved(whole(1, 1), whole(2, 1)));
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
// A compile error in a constant expression.
TEST_CASE("GPU-hours that overflow are refused, also at no price") {
  CHECK(gpu_time(1e300 * 1_s, 1'000'000'000).why() == failure(errc::not_finite).about(fact::time));
  CHECK(cost(1e300 * 1_s, 1'000'000'000, 0_usd_per_hour).why().code == errc::not_finite);
}
#endif
