#pragma once

// A run in a scheduler's jobs: one after another behind a time limit, each behind a queue, or only
// at certain hours of the week; and GPUs that somebody may take back.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

/// What each job of a run costs beside its work.
struct job_limits {
  duration time_limit{};  // after which the scheduler ends it; 0: none
  duration queue{};       // before it starts
  duration start{};       // until training goes on
  duration lost{};        // at its end: its last checkpoint's stall, or the work since the last one
};

/// A run as a chain of jobs, or of windows. The parts add up to the time.
struct job_chain {
  std::int64_t jobs = 0;
  duration work{};
  duration queue{};
  duration starting{};
  duration lost{};
  duration closed{};  // between windows, or in one that is too short

  [[nodiscard]] constexpr duration time() const { return work + queue + starting + lost + closed; }
  /// What is paid for, or counted against an account: all but the queue and what is closed.
  [[nodiscard]] constexpr duration held() const { return work + starting + lost; }
};

namespace detail {

constexpr failure flaw_of_part(duration time, fact name) {
  if (!is_finite(time.value())) return failure(errc::not_finite, named_fact{name, time.value()});
  if (time < duration{}) return failure(errc::negative, named_fact{name, time.value()});
  return {};
}

inline constexpr double most_jobs = 1e9;

}  // namespace detail

/// The limits themselves where no time is negative or infinite, and a job has time for work: its
/// limit is longer than its start and what is lost. Errors: `negative`, `not_finite`,
/// `out_of_bounds`.
[[nodiscard]] constexpr result<job_limits> validate(const job_limits& limits) {
  const struct {
    duration time;
    fact name;
  } times[] = {{limits.time_limit, fact::wall_time},
               {limits.queue, fact::time_in_queue},
               {limits.start, fact::restart},
               {limits.lost, fact::work}};
  for (const auto& [time, name] : times)
    if (const failure why = detail::flaw_of_part(time, name); detail::failed(why)) return why;
  const duration least = limits.start + limits.lost;
  if (limits.time_limit > duration{} && limits.time_limit <= least)
    return failure(errc::out_of_bounds,
                   named_fact{fact::time_us, detail::thousandths(in(limits.time_limit, 1_ms))},
                   named_fact{fact::at_least, detail::thousandths(in(least, 1_ms)) + 1})
        .about(fact::wall_time);
  return limits;
}

namespace detail {

constexpr result<job_chain> chain_in(double jobs, duration work, const job_limits& limits) {
  if (!(jobs <= most_jobs))
    return failure(errc::out_of_bounds,
                   named_fact{fact::jobs, jobs},
                   named_fact{fact::at_most, static_cast<std::int64_t>(most_jobs)});
  return job_chain{.jobs = static_cast<std::int64_t>(jobs),
                   .work = work,
                   .queue = jobs * limits.queue,
                   .starting = jobs * limits.start,
                   .lost = (jobs - 1) * limits.lost};
}

}  // namespace detail

/// A run of so much work, failures included, as jobs that each queue, start, and do `time_limit -
/// start - lost` of it, but the last one what is left. Errors: work that is not positive and
/// finite, `validate`, more than 10^9 jobs.
[[nodiscard]] constexpr result<job_chain> chain_of(duration work, const job_limits& limits) {
  if (const failure why = detail::check_positive(work, fact::work); detail::failed(why)) return why;
  if (const auto valid = validate(limits); !valid) return valid.why();
  double jobs = 1;
  // The last job need not save for the next: what it does is one start less than its limit.
  const duration each = limits.time_limit - limits.start - limits.lost;
  if (limits.time_limit > duration{} && work > each + limits.lost)
    jobs += detail::ceil((work - each - limits.lost) / each * (1 - 1e-12));
  const auto chain = detail::chain_in(jobs, work, limits);
  if (chain && !detail::is_finite(chain->time().value()))
    return failure(errc::not_finite).about(fact::time);
  return chain;
}

/// Hours of the week in which a run may have the GPUs, since Monday at 0:00: nights are five or
/// seven of them, a week-end is {114_h, 168_h} from Friday at 18:00.
struct week_window {
  duration begin{};
  duration end{};
};

namespace detail {

// By the calendar, and in how many windows.
struct windows_used {
  duration time{};
  double count = 0;
};
constexpr result<windows_used> windows_used_by(duration work,
                                               std::span<const week_window> windows,
                                               duration now,
                                               job_limits limits) {
  limits.time_limit = duration{};
  if (const failure why = check_positive(work, fact::work); failed(why)) return why;
  if (const auto valid = validate(limits); !valid) return valid.why();
  if (windows.empty()) return failure(errc::not_positive).about(fact::windows);
  if (!(now >= duration{} && now < 7_d))
    return failure(errc::out_of_bounds,
                   named_fact{fact::time, now.value()},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, 7 * 86'400});
  duration before{};
  std::int64_t position = 0;
  double in_week = 0;  // seconds of work
  double used_in_week = 0;
  const double before_work = (limits.queue + limits.start).value();
  for (const week_window& each : windows) {
    if (!(each.begin >= before && each.end > each.begin && each.end <= 7_d))
      return failure(errc::not_rising, named_fact{fact::position, position}).about(fact::windows);
    before = each.end;
    ++position;
    const double worked = (each.end - each.begin - limits.lost).value() - before_work;
    in_week += larger_of(0, worked);
    used_in_week += worked > 0;
  }
  // To the end, in seconds since the Monday before `now`.
  const double first = now.value();
  double left = work.value();
  double week = 0;
  double used = 1;  // the last one
  for (bool is_first = true;; is_first = false) {
    for (const week_window& each : windows) {
      double begin = each.begin.value();
      const double end = each.end.value();
      if (is_first && begin < first) begin = first;
      const double work_begins = begin + before_work;
      if (work_begins >= end) continue;
      if (left <= end - work_begins) {
        const auto time =
            positive_answer(duration::from_value(week + work_begins + left - first), fact::time);
        if (!time) return time.why();
        return windows_used{*time, used};
      }
      const double worked = end - limits.lost.value() - work_begins;
      left -= larger_of(0, worked);
      used += worked > 0;
    }
    if (!(in_week > 0)) return failure(errc::out_of_bounds).about(fact::windows);
    // Whole weeks at once, but one that may be the last.
    const double weeks = larger_of(0, floor(left / in_week) - 1);
    left -= weeks * in_week;
    used += weeks * used_in_week;
    week += (1 + weeks) * 7 * 86'400;
  }
}

}  // namespace detail

/// How long a run takes by the calendar, from `now` (since Monday at 0:00) to its end, where it
/// runs only in windows: in each it starts again, and loses at its end what `limits` says. Windows
/// lie within a week, in order, and do not overlap; `limits.queue` counts against each, and its
/// time limit is not read. Errors: work that is not positive and finite, `validate(limits)`; no
/// window, or one that is out of order or longer than a week (`not_rising`, with its position); a
/// `now` outside the week; windows that leave no time for work (`out_of_bounds`); a time that is
/// not finite.
[[nodiscard]] constexpr result<duration> calendar_time(duration work,
                                                       std::span<const week_window> windows,
                                                       duration now,
                                                       job_limits limits = {}) {
  const auto used = detail::windows_used_by(work, windows, now, limits);
  if (!used) return used.why();
  return used->time;
}

/// The same run with what its time is made of: a job in each window that has time for work. Errors:
/// `calendar_time`, more than 10^9 windows.
[[nodiscard]] constexpr result<job_chain> chain_of(duration work,
                                                   std::span<const week_window> windows,
                                                   duration now,
                                                   job_limits limits = {}) {
  const auto used = detail::windows_used_by(work, windows, now, limits);
  if (!used) return used.why();
  const auto in_windows = detail::chain_in(used->count, work, limits);
  if (!in_windows) return in_windows;
  job_chain chain = *in_windows;
  const duration rest = used->time - chain.time();
  chain.closed = rest > duration{} ? rest : duration{};  // rounding
  return chain;
}

}  // namespace gpuplan
