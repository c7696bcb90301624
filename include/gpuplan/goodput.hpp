#pragma once

// What failures, checkpoints and restarts add to a run: on average, by its spread, and run by run.

#include <gpuplan/checkpoint.hpp>
#include <gpuplan/detail/chance.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

/// A run that failures interrupt, and how it saves and goes on. What is 0 costs nothing.
struct interrupted_run {
  duration work{};                               // of training alone: steps x step
  known<duration> mean_time_between_failures{};  // of the whole job; not known: nothing fails
  known<duration> mean_time_between_reclaims{};  // until a cloud takes a node of it back, as stated
  duration interval{};           // of training from one checkpoint to the next; 0: one, at the end
  duration stall{};              // that a checkpoint holds training up
  duration write{};              // until it can be restarted from, while training goes on
  duration detection{};          // from a failure until somebody, or something, acts
  duration restart{};            // until training goes on: nodes, processes, compilation, loading
  double replaced = 1;           // share of the failures that take a node away; a reclaim does
  duration replacement{};        // until such a node is back, on average
  std::int64_t spare_nodes = 0;  // that take its place at once

  /// Of failures and reclaims together; not known where neither is.
  [[nodiscard]] constexpr known<duration> mean_time_between_interruptions() const {
    if (!mean_time_between_failures) return mean_time_between_reclaims;
    if (!mean_time_between_reclaims) return mean_time_between_failures;
    const duration a = *mean_time_between_failures;
    const duration b = *mean_time_between_reclaims;
    return a < b ? duration(a / (1 + a / b)) : duration(b / (1 + b / a));
  }
};

namespace detail {

// Of a run; between them nothing overflows.
inline constexpr duration shortest_time = duration::from_value(1e-9);
inline constexpr duration longest_time = duration::from_value(1e12);
inline constexpr std::int64_t most_spare_nodes = 100'000;
inline constexpr double most_intervals = 1e12;
// Lengths that run without failure once in 10^9 times are beyond every mean time between failures.
inline constexpr double most_of_mean_time = 20;

// Of a number that varies from one time to the next. In seconds.
struct moments {
  double mean = 0;
  double variance = 0;

  friend constexpr moments operator+(moments a, moments b) {
    return {a.mean + b.mean, a.variance + b.variance};
  }
  friend constexpr moments operator*(double count, moments each) {
    return {count * each.mean, count * each.variance};
  }
};

// How long it ran until it failed, given that it failed within `length`: an exponential
// distribution that is cut.
constexpr moments until_failure(double length, double rate) {
  const double u = rate * length;
  if (u < 1e-2) {  // the differences below would be lost
    const double mean = length * (0.5 - u / 12);
    return {mean, length * length * (1.0 / 12 - u * u / 240)};
  }
  const double odds = 1 / exp_minus_1(u);  // p / (1 - p), with p = exp(-u)
  return {length * (1 / u - odds), length * length * (1 / (u * u) - odds * (1 + odds))};
}

// Until it ran for `length` without failure, where each failure sends it back and costs `lost`.
constexpr moments until_uninterrupted(double length, double rate, moments lost) {
  const double failures = exp_minus_1(rate * length);
  const moments each = until_failure(length, rate) + lost;
  return {length + failures * each.mean,
          failures * each.variance + failures * (1 + failures) * each.mean * each.mean};
}

// From the checkpoint that could be restarted from to the next one, `length` later, where a failure
// sends it back to the former, which was taken `write` earlier.
constexpr moments until_next(double length, double write, double rate, moments lost) {
  const double fails = -exp_minus_1(-rate * length);
  const moments again =
      until_failure(length, rate) + lost + until_uninterrupted(length + write, rate, lost);
  const double longer = again.mean - length;
  return {length + fails * longer, fails * again.variance + fails * (1 - fails) * longer * longer};
}

// The intervals of a run: so many whole ones, and a last one.
struct intervals {
  double whole = 0;
  double last = 0;  // seconds
};
constexpr intervals intervals_of(const interrupted_run& run) {
  const double work = run.work.value();
  const double each = run.interval.value();
  if (!(each > 0) || !(each < work)) return {0, work};
  double whole = ceil(work / each) - 1;
  double last = work - whole * each;
  if (last <= 1e-9 * each) {  // a quotient that rounding put above a whole number
    whole -= 1;
    last += each;
  }
  return {whole, last};
}

// The part of failures that find no spare node, and how long they wait for one: of an Erlang loss
// system whose servers are the spare nodes' repairs.
struct node_wait {
  double share = 0;
  double mean = 0;

  constexpr moments each() const {
    const double first = share * mean;
    return {first, 2 * share * mean * mean - first * first};
  }
};
constexpr double share_that_takes_a_node(const interrupted_run& run) {
  if (!run.mean_time_between_reclaims) return run.replaced;
  if (!run.mean_time_between_failures) return 1;
  const double of_reclaims =
      *run.mean_time_between_interruptions() / *run.mean_time_between_reclaims;
  return of_reclaims + (1 - of_reclaims) * run.replaced;
}
constexpr node_wait wait_of(const interrupted_run& run, double rate) {
  const double taken = share_that_takes_a_node(run);
  const double busy = rate * taken * run.replacement.value();
  if (!(busy > 0)) return {};
  double blocked = 1;
  for (std::int64_t n = 1; n <= run.spare_nodes && blocked > 1e-18; ++n)
    blocked = busy * blocked / (static_cast<double>(n) + busy * blocked);
  return {taken * blocked, run.replacement.value() / (static_cast<double>(run.spare_nodes) + 1)};
}

constexpr double rate_of(const interrupted_run& run) {
  const known<duration> between = run.mean_time_between_interruptions();
  return between ? 1 / between->value() : 0;
}

// Of the whole run, by the independent pieces that it is made of.
constexpr moments moments_of(const interrupted_run& run) {
  const double rate = rate_of(run);
  const auto [whole, last] = intervals_of(run);
  const double stall = run.stall.value();
  const double write = run.write.value();
  if (rate == 0) return {run.work.value() + (whole + 1) * stall + write, 0};
  const moments dead = moments{run.detection.value(), 0} + wait_of(run, rate).each();
  const moments lost = dead + until_uninterrupted(run.restart.value(), rate, dead);
  if (whole == 0) return until_uninterrupted(last + stall + write, rate, lost);
  const double length = run.interval.value() + stall;
  return until_uninterrupted(length + write, rate, lost) +
         (whole - 1) * until_next(length, write, rate, lost) +
         until_next(last + stall, write, rate, lost);
}

}  // namespace detail

/// The run itself where its times are 0 or from a nanosecond to 10^12 seconds, work and the mean
/// times between failures and between reclaims not 0; `replaced` is a share; there are at most
/// 100,000 spare nodes; it has at most 10^12 intervals; a checkpoint is written before the next one
/// is taken; and neither a restart nor an interval with its checkpoint is longer than 20 times the
/// mean time between interruptions. Errors: `not_positive`, `negative`, `not_finite`,
/// `out_of_bounds`.
[[nodiscard]] constexpr result<interrupted_run> validate(const interrupted_run& run) {
  const struct {
    duration time;
    fact name;
    bool may_be_zero;
  } times[] = {{run.work, fact::work, false},
               {run.mean_time_between_failures ? *run.mean_time_between_failures : 1_s,
                fact::mean_time_between_failures,
                false},
               {run.mean_time_between_reclaims ? *run.mean_time_between_reclaims : 1_s,
                fact::mean_time_between_reclaims,
                false},
               {run.interval, fact::interval, true},
               {run.stall, fact::stall, true},
               {run.write, fact::write, true},
               {run.detection, fact::detection, true},
               {run.restart, fact::restart, true},
               {run.replacement, fact::replacement, true}};
  for (const auto& [time, name, may_be_zero] : times) {
    if (time == duration{} && may_be_zero) continue;
    if (time < duration{} && may_be_zero)
      return failure(errc::negative, named_fact{name, time.value()});
    if (const failure why = detail::check_positive(time, name); detail::failed(why)) return why;
    if (time < detail::shortest_time || time > detail::longest_time)
      return failure(
          errc::out_of_bounds,
          named_fact{name, time.value()},
          named_fact{fact::at_most, static_cast<std::int64_t>(detail::longest_time.value())});
  }
  if (const failure why = detail::check_between(run.replaced, 0, 1, fact::replaced);
      detail::failed(why))
    return why;
  if (run.spare_nodes < 0 || run.spare_nodes > detail::most_spare_nodes)
    return failure(errc::out_of_bounds,
                   named_fact{fact::spare_nodes, run.spare_nodes},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, detail::most_spare_nodes});
  const auto too_short = [](duration time, duration least, fact name) {
    return failure(errc::out_of_bounds,
                   named_fact{fact::time_us, detail::thousandths(in(time, 1_ms))},
                   named_fact{fact::at_least, detail::thousandths(in(least, 1_ms))})
        .about(name);
  };
  const bool has_intervals = run.interval > duration{} && run.interval < run.work;
  if (has_intervals) {
    const duration least = run.work / detail::most_intervals;
    if (run.interval < least) return too_short(run.interval, least, fact::interval);
    if (run.write > run.interval + run.stall)
      return too_short(run.interval, run.write - run.stall, fact::interval);
  }
  if (const known<duration> between = run.mean_time_between_interruptions()) {
    const duration& mean = *between;
    const duration longest = (has_intervals ? run.interval : run.work) + run.stall + run.write;
    const duration least =
        (longest < run.restart ? run.restart : longest) / detail::most_of_mean_time;
    if (!(mean > least)) return too_short(mean, least, fact::mean_time_between_failures);
  }
  return run;
}

/// Where the time of a run goes, on average. The parts add up to the run.
struct run_time_parts {
  duration training{};   // the work that is kept
  duration saving{};     // stalls, and the last write
  duration lost{};       // work and stalls that were done again
  duration detection{};  // nothing runs, and nobody knows
  duration restart{};    // also those that failed themselves
  duration waiting{};    // for a node
  double failures = 0;   // expected, reclaims among them

  [[nodiscard]] constexpr duration total() const {
    return training + saving + lost + detection + restart + waiting;
  }
  /// The share of the time that is training: what Meta and others call effective training time.
  [[nodiscard]] constexpr double goodput() const { return training / total(); }
};

/// The expected time of a run. With M the mean time between interruptions, which are failures and
/// reclaims and cost alike, D detection and the wait for nodes, R restart, d stall, w write, and N
/// intervals t, it is `(M + D) exp(R / M) (exp(w / M) N (exp((t + d) / M) - 1) + exp(w / M) - 1)`:
/// for D = w = 0 that of J. T. Daly, Future Generation Computer Systems 22(3), 2006. Failures
/// strike at a constant rate while anything runs, restarts included; a failure goes back to the
/// last checkpoint that was written. Nodes come back after an exponentially distributed time; the
/// share of failures that find no spare one is Erlang's loss formula, exact where detection is
/// short beside M. Errors: `validate`.
[[nodiscard]] constexpr result<run_time_parts> expected_time(const interrupted_run& run) {
  if (const auto valid = validate(run); !valid) return valid.why();
  const double rate = detail::rate_of(run);
  const double total = detail::moments_of(run).mean;
  const auto [whole, last] = detail::intervals_of(run);
  run_time_parts parts;
  parts.training = run.work;
  parts.saving = (whole + 1) * run.stall + run.write;
  if (rate == 0) return parts;
  const double wait = detail::wait_of(run, rate).each().mean;
  const double dead = run.detection.value() + wait;
  parts.failures = rate * total / (1 + rate * dead);
  parts.detection = parts.failures * run.detection;
  parts.waiting = duration::from_value(parts.failures * wait);
  parts.restart = duration::from_value(parts.failures *
                                       -detail::exp_minus_1(-rate * run.restart.value()) / rate);
  const duration rest = duration::from_value(total) - parts.training - parts.saving -
                        parts.detection - parts.waiting - parts.restart;
  parts.lost = rest > duration{} ? rest : duration{};  // rounding
  return parts;
}

/// The standard deviation of the run's time over all ways in which failures may strike. Exact but
/// for waits, which are taken as independent: where spare nodes are short it is up to a fifth too
/// small. Errors: `validate`.
[[nodiscard]] constexpr result<duration> deviation_of_time(const interrupted_run& run) {
  if (const auto valid = validate(run); !valid) return valid.why();
  return duration::from_value(detail::sqrt(detail::moments_of(run).variance));
}

namespace detail {

// In which the checkpoint before is written, whatever a sum rounds off.
constexpr duration shortest_interval(const interrupted_run& run) {
  return (1 + 1e-12) * run.write - run.stall;
}

}  // namespace detail

/// The interval between checkpoints whose run takes least time on average: `best_save_interval`,
/// but no shorter than the write of a checkpoint takes, and no longer than the run. `run.interval`
/// is not read. Errors: `not_known` where nothing interrupts the run; `validate`, as of a run
/// with one interval of that length; a stall of 0 (`not_positive`), which no interval is best for.
[[nodiscard]] constexpr result<duration> best_interval(interrupted_run run) {
  const known<duration> between = run.mean_time_between_interruptions();
  if (!between) return failure(errc::not_known).about(fact::mean_time_between_failures);
  const auto best = best_save_interval(run.stall, *between);
  if (!best) return best;
  const duration least = detail::shortest_interval(run);
  run.interval = *best < least ? least : *best;
  if (run.work < run.interval) run.interval = run.work;
  if (const auto valid = validate(run); !valid) return valid.why();
  return run.interval;
}

namespace detail {

// One run, failure by failure.
constexpr double simulated_seconds(const interrupted_run& run, random_stream& random) {
  const double rate = rate_of(run);
  const double interval = run.interval.value();
  const double stall = run.stall.value();
  const double write = run.write.value();
  const double length = interval + stall;
  double whole = intervals_of(run).whole;  // that are left
  const double last = intervals_of(run).last;
  const double taken = share_that_takes_a_node(run);
  double time = 0;
  double lead = 0;
  std::int64_t broken = 0;
  for (;;) {
    const double until_done = lead + whole * length + last + stall + write;
    const double runs = rate == 0 ? infinity : random.exponential() / rate;
    if (runs >= until_done) return time + until_done;
    const double trained = runs - lead - write;
    if (trained > 0 && whole > 0) whole -= smaller_of(whole, floor(trained / length));
    const double dead = run.detection.value();
    time += runs + dead;
    lead = run.restart.value();
    if (!(run.replacement > duration{})) continue;
    const double repair = run.replacement.value();
    const double comes_back = -exp_minus_1(-(runs + dead) / repair);
    for (std::int64_t node = broken; node > 0; --node) broken -= random.share() < comes_back;
    broken += random.share() < taken;
    if (broken > run.spare_nodes) {
      time += random.exponential() * repair / static_cast<double>(broken);
      --broken;
    }
  }
}

}  // namespace detail

/// What is not known of a run: 80 % of the cases lie between these factors of what it states, one
/// tenth on either side, and half of them above 1.
struct run_uncertainty {
  range<double> work = 1.0;                        // a step takes so much longer
  range<double> mean_time_between_failures = 1.0;  // of a cluster that nobody has watched; reclaims
                                                   // are as stated
};

/// The uncertainty itself where each range is positive and finite and holds 1; else
/// `not_positive`, `not_finite`, `out_of_bounds`.
[[nodiscard]] constexpr result<run_uncertainty> validate(const run_uncertainty& given) {
  const struct {
    range<double> factor;
    fact name;
  } factors[] = {{given.work, fact::work},
                 {given.mean_time_between_failures, fact::mean_time_between_failures}};
  for (const auto& [factor, name] : factors) {
    if (const failure why = detail::check_positive(factor, name); detail::failed(why)) return why;
    if (!factor.contains(1.0)) return detail::about_range(errc::out_of_bounds, factor, name);
  }
  return given;
}

/// The times that 10, 50 and 90 % of runs take at most.
struct run_times {
  duration low{};
  duration median{};
  duration high{};
};

namespace detail {

// Beyond the ninth of ten the normal distribution has so many deviations.
inline constexpr double deviations_of_tenth = normal_quantile(0.9);

// A factor of a distribution whose logarithm is normal on either side of 1.
constexpr double factor_at(range<double> factor, double deviations) {
  if (factor.is_point()) return factor.low();
  return deviations < 0 ? pow(factor.low(), -deviations / deviations_of_tenth)
                        : pow(factor.high(), deviations / deviations_of_tenth);
}

constexpr interrupted_run scaled(interrupted_run run, double work, double between_failures) {
  run.work *= work;
  run.interval *= work;  // checkpoints are counted in steps
  // Faster steps wait for what the checkpoint before still writes.
  const duration least = shortest_interval(run);
  if (run.interval > duration{} && run.interval < least) run.interval = least;
  if (run.mean_time_between_failures)
    run.mean_time_between_failures = *run.mean_time_between_failures * between_failures;
  return run;
}

// From so many failures on a run's time is drawn from the normal distribution of its moments.
inline constexpr double many_failures = 32;

}  // namespace detail

/// The time that a part `share` of runs takes at most, by a closed form: the spreads of work, of
/// the rate of failures and of when they strike add up as squares of logarithms. Within a tenth of
/// the spread where tens of failures are expected, or none; else `simulate`. Errors:
/// `validate` of both, also of the run at the factors' ends; a share that is not between 0 and 1.
[[nodiscard]] constexpr result<duration> time_within(const interrupted_run& run,
                                                     const run_uncertainty& unknown,
                                                     double share) {
  if (const auto valid = validate(run); !valid) return valid.why();
  if (const auto valid = validate(unknown); !valid) return valid.why();
  if (!(share > 0 && share < 1))
    return failure(errc::out_of_bounds,
                   named_fact{fact::share, share},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, 1});
  const double deviations = detail::normal_quantile(share);
  const detail::moments middle = detail::moments_of(run);
  const interrupted_run by_work =
      detail::scaled(run, detail::factor_at(unknown.work, deviations), 1);
  const interrupted_run by_rate =
      detail::scaled(run, 1, detail::factor_at(unknown.mean_time_between_failures, -deviations));
  double squares = deviations * deviations * middle.variance / (middle.mean * middle.mean);
  for (const interrupted_run& end : {by_work, by_rate}) {
    if (const auto valid = validate(end); !valid) return valid.why();
    const double moved = detail::natural_log(detail::moments_of(end).mean / middle.mean);
    squares += moved * moved;
  }
  const double by = detail::sqrt(squares);
  return detail::positive_answer(
      duration::from_value(middle.mean * detail::exp(deviations < 0 ? -by : by)), fact::time);
}

namespace detail {

// The time of a run with so many failures that only their moments count, `deviations` from the
// middle. Attempts that fail one after the other are a geometric number: sums of those are gamma
// distributed, here by E. B. Wilson and M. M. Hilferty, "The distribution of chi-square", PNAS 17
// (1931); near a normal distribution where there are many.
constexpr double seconds_of_many(const moments& all, double work, double deviations) {
  const double spread = sqrt(all.variance);
  if (6 * spread < all.mean) return all.mean + spread * deviations;
  const double inverse = spread / all.mean / 3;
  const double root = 1 - inverse * inverse + inverse * deviations;
  const double seconds = all.mean * root * root * root;
  return seconds > work ? seconds : work;
}

}  // namespace detail

/// Simulates as many runs as `times` has room for, sorts their times, and returns the tenths. Each
/// draws its factors, and then its failures one by one; where more than 32 are expected, the sum of
/// what they cost, from a normal distribution with the exact mean and variance, or where that
/// spreads by more than a sixth, as of a run that rarely gets from one checkpoint to the next, from
/// a gamma distribution; no run takes less than its work. A run whose factors are beyond what
/// `validate` takes, with failures so often that it would hardly reach a checkpoint, never ends:
/// its time is infinite. Equal seeds give equal times. 10^5 runs take less than a second; a hundred
/// are a constant expression. Of 10^5 runs that spread by 10 %, chance moves a tenth by 0.05 %.
/// Errors: `validate` of both; what it says of a run drawn where more than a tenth of them never
/// end; no room for one (`not_positive`).
[[nodiscard]] constexpr result<run_times> simulate(const interrupted_run& run,
                                                   const run_uncertainty& unknown,
                                                   std::span<duration> times,
                                                   std::uint64_t seed = 1) {
  if (const auto valid = validate(run); !valid) return valid.why();
  if (const auto valid = validate(unknown); !valid) return valid.why();
  if (times.empty()) return failure(errc::not_positive, named_fact{fact::runs, 0});
  const bool varies = !unknown.work.is_point() || !unknown.mean_time_between_failures.is_point();
  interrupted_run drawn = run;
  detail::moments all = detail::moments_of(run);
  detail::random_stream random(seed);
  failure endless{};
  for (duration& time : times) {
    if (varies) {
      // One after the other: of the arguments of a call compilers draw either first.
      const double between = detail::factor_at(unknown.mean_time_between_failures, random.normal());
      const double work = detail::factor_at(unknown.work, random.normal());
      drawn = detail::scaled(run, work, between);
      if (const auto valid = validate(drawn); !valid) {
        endless = valid.why();
        time = duration::from_value(detail::infinity);
        continue;
      }
      all = detail::moments_of(drawn);
    }
    const double failures = detail::rate_of(drawn) * all.mean;
    const double seconds = failures > detail::many_failures
                               ? detail::seconds_of_many(all, drawn.work.value(), random.normal())
                               : detail::simulated_seconds(drawn, random);
    time = duration::from_value(seconds);
  }
  // Not std::sort: Boost's swap of quantities is no constant expression.
  const auto earlier = [](duration a, duration b) { return a < b; };
  std::make_heap(times.begin(), times.end(), earlier);
  std::sort_heap(times.begin(), times.end(), earlier);
  const auto at = [&](double share) {
    const double position = share * static_cast<double>(times.size() - 1);
    return times[static_cast<std::size_t>(detail::round(position))];
  };
  if (!detail::is_finite(at(0.9).value())) return endless;
  return run_times{at(0.1), at(0.5), at(0.9)};
}

/// The share of simulated runs that end within a deadline: of the sorted times of `simulate`.
[[nodiscard]] constexpr double share_within(std::span<const duration> times, duration deadline) {
  const auto end = std::upper_bound(
      times.begin(), times.end(), deadline, [](duration a, duration b) { return a < b; });
  return times.empty()
             ? 0
             : static_cast<double>(end - times.begin()) / static_cast<double>(times.size());
}

}  // namespace gpuplan
