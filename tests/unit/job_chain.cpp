#include <gpuplan/job_chain.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b, double by = 1e-12) {
  return detail::abs(a - b) <= by * detail::abs(b);
}

// Job by job.
constexpr std::int64_t jobs_of(double work, double limit, double start, double lost) {
  for (std::int64_t jobs = 1;; ++jobs) {
    if (work <= limit - start) return jobs;
    work -= limit - start - lost;
  }
}

constexpr bool chains_are_those_of_jobs() {
  for (std::int64_t work = 1; work <= 200; work += 3)
    for (const int limit : {8, 24}) {
      const job_chain chain = *chain_of(
          work * 1_h, {.time_limit = limit * 1_h, .queue = 5_h, .start = 1_h, .lost = 2_h});
      const std::int64_t jobs = jobs_of(static_cast<double>(work), limit, 1, 2);
      if (chain.jobs != jobs || chain.queue != jobs * 5_h || chain.lost != (jobs - 1) * 2_h ||
          !near(in(chain.time(), 1_h), static_cast<double>(work + jobs * 8 - 2)))
        return false;
    }
  return true;
}

constexpr std::array nights{week_window{0_h, 7_h},
                            week_window{20_h, 31_h},
                            week_window{44_h, 55_h},
                            week_window{68_h, 79_h},
                            week_window{92_h, 103_h},
                            week_window{114_h, 168_h}};

// Hour by hour.
constexpr int first_hours[] = {0, 20, 44, 68, 92, 114};
constexpr int last_hours[] = {7, 31, 55, 79, 103, 168};
constexpr int hours_of(int work, int now, int start, int lost) {
  for (int hour = now;;) {
    int end = 0;
    for (int at = 0; at < 6; ++at)
      if (first_hours[at] <= hour % 168 && hour % 168 < last_hours[at])
        end = hour / 168 * 168 + last_hours[at];
    if (end == 0) {
      ++hour;
      continue;
    }
    if (hour + start + work <= end) return hour + start + work - now;
    const int done = end - lost - hour - start;
    if (done > 0) work -= done;
    hour = end;
  }
}

// All hours of the windows that it works in, up to its end.
constexpr int held_hours_of(int work, int now, int start, int lost) {
  int held = 0;
  for (int monday = 0;; monday += 168)
    for (int at = 0; at < 6; ++at) {
      const int end = monday + last_hours[at];
      const int begin = std::max(now, monday + first_hours[at]);
      if (end - begin >= start + work) return held + start + work;
      if (end - begin <= start + lost) continue;  // not begun
      held += end - begin;
      work -= end - begin - start - lost;
    }
}

constexpr bool calendars_are_those_of_hours() {
  for (const int work : {1, 5, 7, 50, 101, 700})
    for (const int now : {0, 6, 15, 100, 167})
      for (const int start : {0, 1})
        for (const int lost : {0, 2}) {
          const auto found = calendar_time(
              work * 1_h, nights, now * 1_h, {.start = start * 1_h, .lost = lost * 1_h});
          if (!near(in(*found, 1_h), hours_of(work, now, start, lost))) return false;
          const job_chain chain =
              *chain_of(work * 1_h, nights, now * 1_h, {.start = start * 1_h, .lost = lost * 1_h});
          if (!near(in(chain.time(), 1_h), hours_of(work, now, start, lost)) ||
              !near(in(chain.held(), 1_h), held_hours_of(work, now, start, lost)))
            return false;
        }
  return true;
}

}  // namespace

TEST_CASE("a run in jobs of limited time") {
  STATIC_CHECK(chains_are_those_of_jobs());
  CONSTEXPR job_chain one = *chain_of(100_h, {.queue = 3_h, .start = 10_min});
  STATIC_CHECK(one.jobs == 1 && one.held() == 100_h + 10_min);
  STATIC_CHECK(chain_of(1_h, {.time_limit = 1_h, .start = 40_min, .lost = 20_min}).why() ==
               failure(errc::out_of_bounds,
                       named_fact{fact::time_us, 3'600'000'000},
                       named_fact{fact::at_least, 3'600'000'001})
                   .about(fact::wall_time));
  STATIC_CHECK(chain_of(0_h, {}).why().at_fault() == fact::work);
  STATIC_CHECK(chain_of(1_h, {.queue = -1_s}).why().at_fault() == fact::time_in_queue);
  STATIC_CHECK(chain_of(1e9 * 1_d, {.time_limit = 1_min}).why().at_fault() == fact::jobs);
}

TEST_CASE("a run at certain hours") {
  STATIC_CHECK(calendars_are_those_of_hours());
  CONSTEXPR std::array week_ends{week_window{114_h, 168_h}};
  STATIC_CHECK(*calendar_time(54_h, week_ends, 0_h) == 168_h);
  STATIC_CHECK(near(in(*calendar_time(55_h, week_ends, 0_h), 1_h), 168 + 114 + 1));
  STATIC_CHECK(*calendar_time(1_h, week_ends, 150_h) == 1_h);
  // The window that is open is too short to start in.
  STATIC_CHECK(*calendar_time(1_h, week_ends, 167_h, {.start = 2_h}) == 1_h + 117_h);
  CONSTEXPR job_chain two = *chain_of(55_h, week_ends, 0_h, {.queue = 1_h, .start = 2_h});
  STATIC_CHECK(two.jobs == 2 && two.queue == 2_h && two.starting == 4_h && two.lost == 0_h);
  STATIC_CHECK(near(in(two.closed, 1_h), 2 * 114) && near(in(two.held(), 1_h), 59));
  STATIC_CHECK(chain_of(1e12 * 1_h, week_ends, 0_h).why().at_fault() == fact::jobs);
  STATIC_CHECK(calendar_time(1_h, {}, 0_h).why().at_fault() == fact::windows);
  STATIC_CHECK(calendar_time(60_h, week_ends, 0_h, {.lost = 54_h}).why().code ==
               errc::out_of_bounds);
  STATIC_CHECK(calendar_time(1_h, week_ends, 168_h).why().at_fault() == fact::time);
  CONSTEXPR std::array bad{week_window{1_h, 3_h}, week_window{2_h, 4_h}};
  STATIC_CHECK(calendar_time(1_h, bad, 0_h).why() ==
               failure(errc::not_rising, named_fact{fact::position, 1}).about(fact::windows));
}
