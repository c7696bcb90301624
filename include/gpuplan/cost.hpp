#pragma once

// What a run costs, and which of several runs to take.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

namespace detail {

constexpr failure flaw_of_run(range<duration> time, std::int64_t devices) {
  if (const failure why = check_positive(time, fact::time); failed(why)) return why;
  return check_at_least(devices, 1, fact::devices);
}

}  // namespace detail

// ---- what a run costs

/// The time that all devices together are held, `devices x time`: GPU-hours, where it is counted in
/// hours. Errors: a time that is not positive and finite, also once multiplied; fewer than 1
/// device.
[[nodiscard]] constexpr result<range<duration>> gpu_time(range<duration> time,
                                                         std::int64_t devices) {
  if (const failure why = detail::flaw_of_run(time, devices); detail::failed(why)) return why;
  return detail::finite_answer(static_cast<double>(devices) * time, fact::time);
}

/// The money for all devices, `devices x time x price`, at a price per device: `3_usd_per_hour`.
/// Whatever is billed besides, storage and idle hours, is left out. Errors: as `gpu_time`; a price
/// that is negative or not finite; a cost that is not finite.
[[nodiscard]] constexpr result<range<money>> cost(range<duration> time,
                                                  std::int64_t devices,
                                                  range<price> each) {
  const auto held = gpu_time(time, devices);
  if (!held) return held.why();
  if (each.low() < price{})
    return failure(errc::negative,
                   named_fact{fact::cents_per_hour,
                              detail::thousandths(in(each.low(), 10_usd_per_hour))})
        .about(fact::price_per_hour);
  if (!detail::is_finite(each.high().value()))
    return failure(errc::not_finite, named_fact{fact::price_per_hour, each.high().value()});
  return detail::finite_answer(*held * each, fact::cost);
}

/// The energy of all devices, `devices x time x draw`, at a power per device. At its TDP that is an
/// upper bound for a device, without its host and the cooling. Errors: as `gpu_time`; a power that
/// is not positive and finite; an energy that is not.
[[nodiscard]] constexpr result<range<energy>> energy_used(range<duration> time,
                                                          std::int64_t devices,
                                                          range<power> draw) {
  const auto held = gpu_time(time, devices);
  if (!held) return held.why();
  if (const failure why = detail::check_positive(draw, 1_W, fact::milliwatts, fact::power_draw);
      detail::failed(why))
    return why;
  return detail::positive_answer(*held * draw, fact::energy_used);
}

/// What one cost is as a multiple of another: `cost / reference`. Where both depend on the same
/// uncertain input, call it at each end of that input: a quotient of ranges is wider than that.
/// Errors: a cost, or a quotient, that is not positive and finite.
[[nodiscard]] constexpr result<range<double>> relative_cost(range<money> cost,
                                                            range<money> reference) {
  if (const failure why = detail::check_positive(cost, 10_usd, fact::cents, fact::cost);
      detail::failed(why))
    return why;
  if (const failure why = detail::check_positive(reference, 10_usd, fact::cents, fact::reference);
      detail::failed(why))
    return why;
  return detail::positive_answer(cost / reference, fact::cost_over_reference);
}

// ---- which run to take

/// A run to choose. Points and not ranges: runs share their uncertain inputs (a speed-up, a price),
/// and ranges of the answers would hide an order that holds for every value of the input. Choose at
/// each end of it.
struct priced_run {
  std::int64_t devices = 1;
  duration time{};
  money cost{};
};

/// The run itself where it has a device, its time is positive and finite, and its cost finite and
/// not negative. Errors: `not_positive`, `negative`, `not_finite`.
[[nodiscard]] constexpr result<priced_run> validate(const priced_run& run) {
  if (run.devices < 1) return failure(errc::not_positive, named_fact{fact::devices, run.devices});
  if (const failure why = detail::check_positive(run.time, fact::time); detail::failed(why))
    return why;
  if (!detail::is_finite(run.cost.value()))
    return failure(errc::not_finite, named_fact{fact::cost, run.cost.value()});
  if (run.cost < money{})
    return failure(errc::negative,
                   named_fact{fact::cents, detail::thousandths(in(run.cost, 10_usd))})
        .about(fact::cost);
  return run;
}

/// The run at the price per device. Errors as `cost`.
[[nodiscard]] constexpr result<priced_run> priced(duration time, std::int64_t devices, price each) {
  if (detail::is_nan(time.value()))
    return failure(errc::not_finite, named_fact{fact::time, time.value()});
  if (detail::is_nan(each.value()))
    return failure(errc::not_finite, named_fact{fact::price_per_hour, each.value()});
  const auto total = cost(range<duration>(time), devices, range<price>(each));
  if (!total) return total.why();
  return priced_run{devices, time, total->low()};
}

namespace detail {

// Less by more than rounding: runs that take the same money on paper do so here.
constexpr bool clearly_less(double a, double b) { return a < b * (1 - 1e-9); }
constexpr bool clearly_less(duration a, duration b) { return clearly_less(a.value(), b.value()); }
constexpr bool clearly_less(money a, money b) { return clearly_less(a.value(), b.value()); }

// What is wrong with the first run that is not valid, with its position from 0.
constexpr failure flaw_of_runs(std::span<const priced_run> runs) {
  std::int64_t position = 0;
  for (const priced_run& run : runs) {
    if (failure why = validate(run).why(); failed(why)) {
      why.add(fact::position, position);
      return why;
    }
    ++position;
  }
  return {};
}

// The run with the least `first` member; of those with as little, the one with the least `second`;
// of those, the first.
template <class First, class Second>
constexpr result<std::size_t> least(std::span<const priced_run> runs,
                                    First priced_run::*first,
                                    Second priced_run::*second) {
  if (runs.empty()) return failure(errc::no_runs);
  if (const failure why = flaw_of_runs(runs); failed(why)) return why;
  std::size_t lowest = 0;
  for (std::size_t i = 1; i < runs.size(); ++i)
    if (runs[i].*first < runs[lowest].*first) lowest = i;
  std::size_t best = lowest;
  for (std::size_t i = runs.size(); i-- > 0;)
    if (!clearly_less(runs[lowest].*first, runs[i].*first) &&
        !clearly_less(runs[best].*second, runs[i].*second))
      best = i;
  return best;
}

}  // namespace detail

// Differences below one part in 10^9 are taken for rounding in all of these.

/// The position of the run that costs least; of equally cheap ones the fastest. Errors:
/// `no_runs`; `validate` of a run, with its position.
[[nodiscard]] constexpr result<std::size_t> cheapest(std::span<const priced_run> runs) {
  return detail::least(runs, &priced_run::cost, &priced_run::time);
}

/// The position of the run that takes least time; of equally fast ones the cheapest. Errors as
/// `cheapest`.
[[nodiscard]] constexpr result<std::size_t> fastest(std::span<const priced_run> runs) {
  return detail::least(runs, &priced_run::time, &priced_run::cost);
}

/// Whether `better` is no worse than `other` in time and money, and better in one of them.
/// Precondition: `validate` accepts both.
[[nodiscard]] constexpr bool dominates(const priced_run& better, const priced_run& other) {
  for (const priced_run* run : {&better, &other})
    if (const auto valid = validate(*run); !valid) detail::precondition_violated(valid.why());
  if (detail::clearly_less(other.time, better.time)) return false;
  if (detail::clearly_less(other.cost, better.cost)) return false;
  return detail::clearly_less(better.time, other.time) ||
         detail::clearly_less(better.cost, other.cost);
}

/// Whether no run dominates the one at this position, so that some trade of time against money
/// would choose it: the Pareto front. Preconditions: a position in the span, and `validate` accepts
/// each run.
[[nodiscard]] constexpr bool on_pareto_front(std::span<const priced_run> runs, std::size_t which) {
  for (const priced_run& run : runs)
    if (dominates(run, runs[which])) return false;
  return true;
}

/// What an hour saved costs in going from a slower run to a faster one: the money added by the time
/// saved. Negative where the faster run is also cheaper. Errors: `validate` of a run;
/// `no_time_saved`; a price that is not finite.
[[nodiscard]] constexpr result<price> price_of_time_saved(const priced_run& slower,
                                                          const priced_run& faster) {
  for (const priced_run* run : {&slower, &faster})
    if (const auto valid = validate(*run); !valid) return valid.why();
  if (!detail::clearly_less(faster.time, slower.time))
    return failure(errc::no_time_saved,
                   named_fact{fact::devices, slower.devices},
                   named_fact{fact::devices, faster.devices});
  return detail::finite_answer(price((faster.cost - slower.cost) / (slower.time - faster.time)),
                               fact::price_per_hour);
}

}  // namespace gpuplan
