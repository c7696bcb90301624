// A sweep of steps whose cost is known, on a clock that is played: what its phases, its grid and
// its searches find, against the cost curve itself.

#include <gpuplan/measure/sweep.hpp>
#include <gpuplan/sweep.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <vector>

#include "played_sweep.hpp"

namespace {

using namespace gpuplan;
using namespace gpuplan::measure;
using played::cost_of;
using played::diary;
using played::machine;
using played::outcomes;
using played::played_clock;
using enum trial_outcome;

}  // namespace

TEST_CASE("phases last as long as their scopes, and what is in none is other") {
  played_clock c;
  phase_recorder<played_clock> recorder(c);
  for (int repeat = 0; repeat < 2; ++repeat) {
    recorder.begin_step();
    c.pass(1);
    {
      const auto scope = recorder.phase(phase::data);
      c.pass(2);
    }
    {
      const auto scope = recorder.phase(phase::forward);
      c.pass(4);
      {
        const auto inner = recorder.phase(phase::communication);
        c.pass(8);
      }
      c.pass(16);
    }
    {
      const auto scope = recorder.phase(phase::data);
      c.pass(32);
    }
    const step_times times = recorder.end_step();
    CHECK(times.step_s == 63);
    CHECK(times[phase::data] == 34);
    CHECK(times[phase::forward] == 20);
    CHECK(times[phase::communication] == 8);
    CHECK(times[phase::other] == 1);
    CHECK(times[phase::backward] == 0);
  }
}

TEST_CASE("the events of a device are read once they have happened") {
  struct events {
    using moment = int;
    std::vector<double> at_s{};
    bool done = false;
    int begun = 0;
    moment now() {
      at_s.push_back(static_cast<double>(at_s.size() * at_s.size()));
      return static_cast<int>(at_s.size()) - 1;
    }
    double seconds_between(moment from, moment to) const {
      CHECK(done);
      return at_s[static_cast<std::size_t>(to)] - at_s[static_cast<std::size_t>(from)];
    }
    void begin_step() {
      at_s.clear();
      done = false;
      ++begun;
    }
    void wait() { done = true; }
  };
  events device;
  phase_recorder<events> recorder(device);
  for (int step = 1; step <= 2; ++step) {
    recorder.begin_step();
    { const auto scope = recorder.phase(phase::forward); }
    const step_times times = recorder.end_step();  // marks at 0, 1, 4 and 9 s
    CHECK(times[phase::forward] == 3);
    CHECK(times[phase::other] == 6);
    CHECK(times.step_s == 9);
    CHECK(device.begun == step);
  }
}

TEST_CASE("a grid finds the optimum of a known cost curve, and where memory ends") {
  machine m;
  diary told;
  sweep_options options = m.options();
  options.micro_batches = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  options.workers = {0, 2, 8};
  options.mixed_precision = {false, true};
  options.pinned_memory = {true};
  options.observers = {&told};
  m.memory_limit = 5000;
  const sweep_result r = run_sweep(m.step(), options, m.time);
  REQUIRE(r.trials.size() == 54);
  CHECK(r.trials_bound == 54);
  CHECK_FALSE(r.interrupted);
  CHECK(told.begun.size() + static_cast<std::size_t>(std::count_if(
                                r.trials.begin(),
                                r.trials.end(),
                                [](const trial& t) { return t.outcome == skipped; })) ==
        54);
  CHECK(told.ended.size() == 54);
  CHECK(told.steps_told > 0);
  CHECK(told.last.index == 54);
  CHECK(told.last.at_most == 54);
  CHECK(told.last.remaining_s == 0.0);
  std::optional<sweep_setting> best;
  double best_rate = 0;
  std::size_t i = 0;
  for (const bool mixed : {false, true})
    for (const std::int64_t workers : {0, 2, 8}) {
      bool ran_out = false;
      for (const std::int64_t batch : options.micro_batches) {
        const trial& t = r.trials[i++];
        const sweep_setting s{batch, workers, mixed, true};
        CAPTURE(batch);
        CHECK(t.setting == s);
        if (m.memory_of(s) > m.memory_limit) {
          CHECK(t.outcome == (ran_out ? skipped : out_of_memory));
          CHECK(t.message == (ran_out ? "" : std::bad_alloc().what()));
          ran_out = true;
          continue;
        }
        const played::cost cost = cost_of(s);
        REQUIRE(t.outcome == ran);
        CHECK(t.step.median == doctest::Approx(cost.step_s()));
        CHECK(t.data.median == doctest::Approx(cost.data_s));
        CHECK(t.forward.median == doctest::Approx(cost.forward_s));
        CHECK(t.backward.median == doctest::Approx(cost.backward_s));
        CHECK(t.optimizer.median == doctest::Approx(cost.optimizer_s));
        CHECK(t.communication.median == 0);
        CHECK(t.other.median == doctest::Approx(cost.other_s));
        CHECK(t.set_up_s == doctest::Approx(m.set_up_s));
        CHECK(t.memory_bytes == m.memory_of(s));
        CHECK(t.utilisation == 0.5);
        CHECK(t.warm_up_steps == 3);
        // Equal steps: the median is known as soon as ten are measured.
        CHECK(t.why_ended == stop_reason::median_known);
        CHECK(t.steps == 10);
        CHECK(t.outliers == 0);
        const double rate = static_cast<double>(batch) / cost.step_s();
        if (rate > best_rate) {
          best_rate = rate;
          best = s;
        }
      }
    }
  const std::vector<sweep_row> rows = rows_of(r.trials);
  const auto picked = pick_highest_throughput(rows);
  REQUIRE(picked);
  REQUIRE(best);
  CHECK(setting_of(rows[picked->row]) == *best);
  CHECK(picked->value == doctest::Approx(best_rate));
  CHECK(m.open == 0);
}

TEST_CASE("a row lasts as long as its trial's step, whose median is not that of its phases") {
  struct parts {
    double data_s;
    double forward_s;
    double backward_s;
    double other_s;
  };
  // Rows of three kinds of steps that take turns.
  const auto row_from = [](const parts(&kinds)[3]) {
    played_clock time;
    sweep_options options{.micro_batches = {6}, .warm_up_steps = 0};
    options.stop = {.least_samples = 30, .most_samples = 30, .cap_s = 1e6};
    options.now_s = [&] { return time.now_s; };
    int steps = 0;
    const sweep_result r = run_sweep(
        [&](const sweep_setting&, phase_recorder<played_clock>& recorder) {
          const parts& of = kinds[steps++ % 3];
          const auto spend = [&](phase which, double s) {
            const auto scope = recorder.phase(which);
            time.pass(s);
          };
          spend(phase::data, of.data_s);
          spend(phase::forward, of.forward_s);
          spend(phase::backward, of.backward_s);
          time.pass(of.other_s);
        },
        options,
        time);
    REQUIRE(outcomes(r) == std::vector{ran});
    return row_of(r.trials[0]);
  };
  // Steps of 5, 10 and 11 s; medians of 2, 1, 1 and 1 s.
  const sweep_row shared = row_from({{2, 1, 1, 1}, {2, 6, 1, 1}, {8, 1, 1, 1}});
  CHECK(step_time(shared).value() == doctest::Approx(10));
  CHECK(throughput(shared).value() == doctest::Approx(0.6));
  CHECK(shared.data.value() == doctest::Approx(4));
  CHECK(shared.forward.value() == doctest::Approx(4));
  CHECK(shared.backward.value() == doctest::Approx(2));
  // Of phases that most steps do not have.
  const sweep_row apart = row_from({{1, 0, 0, 0}, {0, 2, 0, 0}, {0, 0, 3, 0}});
  CHECK(apart.forward == 2_s);
  CHECK(step_time(apart) == 2_s);
}

TEST_CASE("noise and outliers leave the median within its bound") {
  machine m;
  sweep_options options = m.options();
  options.micro_batches = {1, 4, 16, 64};
  options.workers = {4};
  options.stop.within = 0.01;
  int far = 0;
  for (int seed = 0; seed < 50; ++seed) {
    m.noise = played::noise{.share = 0.05, .every_nth_slow = 13};
    const sweep_result r = run_sweep(m.step(), options, m.time);
    for (const trial& t : r.trials) {
      REQUIRE(t.outcome == ran);
      CHECK(t.why_ended == stop_reason::median_known);
      CHECK(t.steps < 1000);
      CHECK(t.outliers >= t.steps / 13);
      CHECK(t.step.lower < t.step.upper);
      // Of uniform noise the median is the step without noise, of 12 in 13; the slow ones move it
      // to the share 6.5 / 12.
      const double median = cost_of(t.setting).step_s() * (1 + 0.05 * (2 * 6.5 / 12 - 1));
      if (std::fabs(t.step.median / median - 1) > 0.01) ++far;
    }
  }
  CHECK(far <= 10);  // 5 % of 200
}

TEST_CASE("a search finds the largest that fits for every limit, in no more trials than it says") {
  for (const std::int64_t first : {1, 3, 8})
    for (const std::int64_t limit : {8, 100, 256})
      for (const std::int64_t resolution : {1, 5}) {
        sweep_options options{.micro_batches = {first},
                              .order = search_order::largest_that_fits,
                              .largest_micro_batch = limit,
                              .resolution = resolution};
        const std::int64_t bound = batch_search::most_trials(options);
        std::int64_t most = 0;
        for (std::int64_t fitting = 0; fitting <= limit + 1; ++fitting) {
          batch_search search(options);
          std::int64_t trials = 0;
          while (const auto batch = search.next()) {
            REQUIRE(*batch >= 1);
            REQUIRE(*batch <= limit);
            search.ended(*batch <= fitting ? ran : out_of_memory);
            REQUIRE(++trials <= bound);
          }
          const std::int64_t truth = std::min(fitting, limit);
          REQUIRE(search.largest() <= truth);
          REQUIRE(search.largest() > truth - resolution);
          most = std::max(most, trials);
        }
        CAPTURE(first);
        CAPTURE(limit);
        CAPTURE(resolution);
        CHECK(most == bound);
      }
  sweep_options far{.order = search_order::largest_that_fits,
                    .largest_micro_batch = std::numeric_limits<std::int64_t>::max()};
  CHECK(batch_search::most_trials(far) == 64 + 62);
}

TEST_CASE("what runs out of time or fails ends a search, and is no bound of what fits") {
  const sweep_options options{.order = search_order::largest_that_fits};
  const auto tried = [&](const auto& outcome_of) {
    batch_search search(options);
    std::vector<std::int64_t> all;
    while (const auto batch = search.next()) {
      all.push_back(*batch);
      search.ended(outcome_of(*batch));
    }
    return all;
  };
  for (const trial_outcome end : {out_of_time, failed}) {
    CHECK(tried([&](std::int64_t batch) { return batch > 5 ? end : ran; }) ==
          std::vector<std::int64_t>{1, 2, 4, 8});
    CHECK(tried([&](std::int64_t batch) {
            return batch > 10 ? out_of_memory : batch > 5 ? end : ran;
          }) == std::vector<std::int64_t>{1, 2, 4, 8});
    CHECK(tried([&](std::int64_t batch) {
            return batch > 15 ? out_of_memory : batch > 10 ? end : ran;
          }) == std::vector<std::int64_t>{1, 2, 4, 8, 16, 12});
  }
}

TEST_CASE("searches of steps that run out of memory") {
  machine m;
  m.memory_limit = m.memory_of({.micro_batch = 77});
  sweep_options options = m.options();
  options.mixed_precision = {false, true};
  diary told;
  options.observers = {&told};
  SUBCASE("the largest that fits, of each combination") {
    options.order = search_order::largest_that_fits;
    const sweep_result r = run_sweep(m.step(), options, m.time);
    REQUIRE(r.largest_that_fits.size() == 2);
    CHECK(r.largest_that_fits[0] == sweep_setting{.micro_batch = 77});
    const sweep_setting mixed{.micro_batch = 77, .mixed_precision = true};
    CHECK(m.memory_of(mixed) < m.memory_limit);
    CHECK(r.largest_that_fits[1].mixed_precision);
    const auto of_first = std::count_if(r.trials.begin(), r.trials.end(), [](const trial& t) {
      return !t.setting.mixed_precision;
    });
    CHECK(m.memory_of(r.largest_that_fits[1]) <= m.memory_limit);
    sweep_setting next = r.largest_that_fits[1];
    ++next.micro_batch;
    CHECK(m.memory_of(next) > m.memory_limit);
    CHECK(static_cast<std::int64_t>(r.trials.size()) < r.trials_bound);
    // What is left is known better with each search that was quicker than it might have been.
    CHECK(told.last.at_most == r.trials_bound / 2 + static_cast<std::int64_t>(of_first));
  }
  SUBCASE("doubling ends where memory does") {
    options.order = search_order::doubling;
    const sweep_result r = run_sweep(m.step(), options, m.time);
    CHECK(r.largest_that_fits[0].micro_batch == 64);
    REQUIRE(r.trials.size() >= 8);
    CHECK(r.trials[6].outcome == ran);
    CHECK(r.trials[7].outcome == out_of_memory);
    CHECK(r.trials[7].setting.micro_batch == 128);
    CHECK(r.trials[8].setting == sweep_setting{.micro_batch = 1, .mixed_precision = true});
  }
  SUBCASE("up to the limit, which need not be a power of two") {
    options.order = search_order::doubling;
    options.largest_micro_batch = 48;
    const sweep_result r = run_sweep(m.step(), options, m.time);
    CHECK(r.trials.size() == 14);
    CHECK(r.largest_that_fits[1].micro_batch == 48);
  }
  SUBCASE("nothing fits") {
    options.order = search_order::largest_that_fits;
    m.memory_limit = 1;
    const sweep_result r = run_sweep(m.step(), options, m.time);
    CHECK(r.largest_that_fits.empty());
    CHECK(outcomes(r) == std::vector{out_of_memory, out_of_memory});
  }
}

TEST_CASE("larger batches of the same setting alone are skipped") {
  machine m;
  m.memory_limit = m.memory_of({.micro_batch = 8});
  sweep_options options = m.options();
  options.micro_batches = {16, 4, 12, 64, 8};
  options.workers = {0, 2};
  const std::vector half{out_of_memory, ran, out_of_memory, skipped, ran};
  std::vector all = half;
  all.insert(all.end(), half.begin(), half.end());
  CHECK(outcomes(run_sweep(m.step(), options, m.time)) == all);
}

TEST_CASE("one step without warm-up is a sweep") {
  machine m;
  sweep_options options = m.options();
  options.warm_up_steps = 0;
  options.stop = {.least_samples = 1, .most_samples = 1};
  const sweep_result r = run_sweep(m.step(), options, m.time);
  REQUIRE(outcomes(r) == std::vector{ran});
  CHECK(r.trials[0].steps == 1);
  CHECK(r.trials[0].why_ended == stop_reason::most_samples);
  CHECK(r.trials[0].step.median == doctest::Approx(cost_of({}).step_s()));
}

TEST_CASE("the steady clock says what it costs") {
  sweep_options options;
  options.stop = {.least_samples = 1, .most_samples = 1};
  const sweep_result r = run_sweep([](const sweep_setting&, auto&) {}, options);
  CHECK(r.clock_cost_s > 0);
  CHECK(r.clock_cost_s < 1e-3);
}
