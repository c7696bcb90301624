// A sweep of steps whose cost is known, on a clock that is played: what the harness finds against
// the cost curve itself, and what it makes of steps, clocks, probes and observers that go wrong.

#include <gpuplan/measure/sweep.hpp>
#include <gpuplan/sweep.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "played_sweep.hpp"

namespace {

using namespace gpuplan;
using namespace gpuplan::measure;
using played::cost_of;
using played::machine;
using played::played_clock;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

struct limited_device : std::exception {};

// The trials of a grid with what an observer saw of it.
struct diary : sweep_observer {
  std::vector<sweep_setting> begun{};
  std::vector<trial> ended{};
  std::int64_t steps_told = 0;
  sweep_progress last{};

  void begins(const sweep_setting& s, const sweep_progress&) override { begun.push_back(s); }
  void stepped(const sweep_setting&, const sweep_progress& p) override {
    ++steps_told;
    CHECK(p.share >= 0);
    CHECK(p.share <= 1);
  }
  void ends(const trial& t, const sweep_progress& p) override {
    ended.push_back(t);
    last = p;
    CHECK(p.index <= p.of);
  }
};

std::vector<trial_outcome> outcomes(const sweep_result& r) {
  std::vector<trial_outcome> all;
  for (const trial& t : r.trials) all.push_back(t.outcome);
  return all;
}

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
  CHECK(told.last.of == 54);
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
  CHECK(far <= 20);  // of 200: a bound that holds for 95 %, looked at more than once
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
    CHECK(told.last.of == r.trials_bound / 2 + static_cast<std::int64_t>(of_first));
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

TEST_CASE("what throws is reported with its setting, and the rest still runs") {
  machine m;
  diary told;
  sweep_options options = m.options();
  options.micro_batches = {1, 2, 4, 8};
  options.observers = {&told};
  const auto thrown_by = [&](const std::function<void(const sweep_setting&)>& fault) {
    const auto plain = m.step();
    return run_sweep(
        [&](const sweep_setting& s, phase_recorder<played_clock>& recorder) {
          const auto scope = recorder.phase(phase::forward);
          fault(s);
          plain(s, recorder);
        },
        options,
        m.time);
  };
  const auto throws_at_two = [](const sweep_setting& s) {
    if (s.micro_batch == 2) throw std::runtime_error("a layer is 2 wide");
  };
  SUBCASE("a step") {
    const sweep_result r = thrown_by(throws_at_two);
    CHECK(outcomes(r) == std::vector{ran, failed, ran, ran});
    CHECK(r.trials[1].message == "a layer is 2 wide");
    CHECK(r.trials[1].steps == 0);
    CHECK(told.ended.size() == 4);
  }
  SUBCASE("a step, late") {
    int steps = 0;
    const sweep_result r = thrown_by([&](const sweep_setting& s) {
      if (s.micro_batch == 2 && ++steps == 9) throw std::runtime_error("the ninth");
    });
    CHECK(outcomes(r) == std::vector{ran, failed, ran, ran});
    CHECK(r.trials[1].warm_up_steps == 3);
  }
  SUBCASE("something that is no exception") {
    const sweep_result r = thrown_by([](const sweep_setting& s) {
      if (s.micro_batch == 4) throw 17;
    });
    CHECK(outcomes(r) == std::vector{ran, ran, failed, ran});
    CHECK(r.trials[2].message == "an exception that is no std::exception");
  }
  SUBCASE("types that mean that memory ran out") {
    options.is_out_of_memory = out_of_memory_if::thrown<limited_device, int>();
    const sweep_result r = thrown_by([](const sweep_setting& s) {
      if (s.micro_batch == 4) throw 17;
    });
    CHECK(outcomes(r) == std::vector{ran, ran, out_of_memory, skipped});
    CHECK(outcomes(thrown_by([](const sweep_setting& s) {
            if (s.micro_batch == 2) throw limited_device();
          })) == std::vector{ran, out_of_memory, skipped, skipped});
    CHECK(outcomes(thrown_by(throws_at_two)) == std::vector{ran, failed, ran, ran});
  }
  SUBCASE("a predicate that says that memory ran out") {
    options.is_out_of_memory = [](const std::exception& e) {
      return std::string(e.what()) == "a layer is 2 wide";
    };
    CHECK(outcomes(thrown_by(throws_at_two)) == std::vector{ran, out_of_memory, skipped, skipped});
    CHECK(outcomes(thrown_by([](const sweep_setting& s) {
            if (s.micro_batch == 4) throw std::bad_alloc();
          })) == std::vector{ran, ran, out_of_memory, skipped});
    CHECK(outcomes(thrown_by([](const sweep_setting& s) {
            if (s.micro_batch == 4) throw 17;
          })) == std::vector{ran, ran, failed, ran});
  }
  SUBCASE("set-up, of memory") {
    options.set_up = [&](const sweep_setting& s) {
      ++m.open;
      if (s.micro_batch == 4) throw std::bad_alloc();
    };
    const sweep_result r = run_sweep(m.step(), options, m.time);
    CHECK(outcomes(r) == std::vector{ran, ran, out_of_memory, skipped});
  }
  SUBCASE("memory that had run out before, of several batches") {
    options.micro_batches = {2, 8, 4, 1};
    options.already_measured = {{.setting = {.micro_batch = 2}, .outcome = out_of_memory},
                                {.setting = {.micro_batch = 8}, .outcome = out_of_memory}};
    CHECK(outcomes(run_sweep(m.step(), options, m.time)) ==
          std::vector{out_of_memory, out_of_memory, skipped, ran});
  }
  SUBCASE("tear-down") {
    options.tear_down = [&](const sweep_setting& s) {
      --m.open;
      if (s.micro_batch == 2) throw std::runtime_error("busy");
    };
    const sweep_result r = run_sweep(m.step(), options, m.time);
    CHECK(outcomes(r) == std::vector{ran, failed, ran, ran});
    CHECK(r.trials[1].message == "tear-down: busy");
  }
  CHECK(m.open == 0);
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

TEST_CASE("time caps") {
  machine m;
  sweep_options options = m.options();
  options.micro_batches = {1, 2};
  options.stop.cap_s = 10;
  SUBCASE("of slow steps few are measured, but one") {
    const auto every_step = [&](double s) {
      return [&m, s](const sweep_setting&, phase_recorder<played_clock>&) { m.time.pass(s); };
    };
    const sweep_result three = run_sweep(every_step(3), options, m.time);
    CHECK(outcomes(three) == std::vector{ran, ran});
    CHECK(three.trials[0].warm_up_steps == 2);  // more than half the time
    CHECK(three.trials[0].steps == 2);
    CHECK(three.trials[0].why_ended == stop_reason::out_of_time);
    CHECK(three.trials[0].other.median == 3);
    CHECK(row_of(three.trials[0]).forward == 3_s);
    const sweep_result nine = run_sweep(every_step(9), options, m.time);
    CHECK(nine.trials[0].outcome == ran);
    CHECK(nine.trials[0].steps == 1);
    const sweep_result twelve = run_sweep(every_step(12), options, m.time);
    CHECK(outcomes(twelve) == std::vector{out_of_time, out_of_time});
    CHECK(twelve.trials[0].message == "the first steps took 12.000000 s");
  }
  SUBCASE("a step that hangs is stopped where its next phase begins") {
    options.step_cap_s = 5;
    const sweep_result r = run_sweep(
        [&](const sweep_setting& s, phase_recorder<played_clock>& recorder) {
          for (int i = 0; i < (s.micro_batch == 2 ? 1'000'000 : 4); ++i) {
            const auto scope = recorder.phase(phase::data);
            m.time.pass(0.25);
          }
        },
        options,
        m.time);
    CHECK(outcomes(r) == std::vector{ran, out_of_time});
    CHECK(r.trials[1].message == "a step was stopped after 5.000000 s");
  }
  SUBCASE("or where it asks") {
    options.step_cap_s = 5;
    const sweep_result r = run_sweep(
        [&](const sweep_setting&, phase_recorder<played_clock>& recorder) {
          while (!recorder.asked_to_stop()) m.time.pass(1);
          throw step_stopped();
        },
        options,
        m.time);
    CHECK(outcomes(r) == std::vector{out_of_time, out_of_time});
  }
  SUBCASE("stopped late, a step leaves those before it") {
    options.step_cap_s = 1;
    int steps = 0;
    const sweep_result r = run_sweep(
        [&](const sweep_setting&, phase_recorder<played_clock>& recorder) {
          m.time.pass(++steps == 8 ? 2 : 0.1);
          const auto scope = recorder.phase(phase::data);
        },
        options,
        m.time);
    CHECK(outcomes(r) == std::vector{ran, ran});
    CHECK(r.trials[0].steps == 4);
    CHECK(r.trials[0].why_ended == stop_reason::out_of_time);
    CHECK(r.trials[1].steps == 10);
  }
}

TEST_CASE("clocks that go back, stand still or say nonsense") {
  machine m;
  sweep_options options = m.options();
  int steps = 0;
  const auto with = [&](double wrong, int every_nth) {
    return run_sweep(
        [&, wrong, every_nth](const sweep_setting&, phase_recorder<played_clock>& recorder) {
          const auto scope = recorder.phase(phase::forward);
          m.time.pass(++steps % every_nth == 0 ? wrong : 0.5);
        },
        options,
        m.time);
  };
  // The host's own clock is right: what is wrong is the recorder's.
  double host_s = 0;
  options.now_s = [&] { return host_s += 1e-6; };
  for (const double wrong : {-3.0, 0.0, not_a_number}) {
    CAPTURE(wrong);
    const sweep_result always = with(wrong, 1);
    CHECK(outcomes(always) == std::vector{failed});
    CHECK(always.trials[0].message == "the clock gave no positive time in 10 steps");
    CHECK(always.trials[0].discarded == 10);
    m.time.now_s = 0;
  }
  steps = 0;
  const sweep_result sometimes = with(-3, 4);
  REQUIRE(outcomes(sometimes) == std::vector{ran});
  CHECK(sometimes.trials[0].steps == 10);
  CHECK(sometimes.trials[0].discarded == 4);  // of the steps 4 to 16
  CHECK(sometimes.trials[0].step.lower == 0.5);
  CHECK(sometimes.trials[0].step.upper == 0.5);
  // Most steps are discarded: their number ends the trial, not that of those that are left.
  options.stop = {.least_samples = 20, .most_samples = 30};
  steps = 0;
  const sweep_result mostly = with(-3, 2);
  REQUIRE(outcomes(mostly) == std::vector{ran});
  CHECK(mostly.trials[0].steps + mostly.trials[0].discarded == 30);
  CHECK(mostly.trials[0].why_ended == stop_reason::most_samples);
  // Also where the last of them is discarded.
  options.warm_up_steps = 2;
  steps = 0;
  const sweep_result all = with(-3, 2);
  CHECK(all.trials[0].steps == 15);
  CHECK(all.trials[0].discarded == 15);
  options.warm_up_steps = 3;
  // A host's clock that stands still ends nothing, and a bad phase spoils its step.
  options.now_s = [] { return 7.0; };
  CHECK(outcomes(with(0.5, 1)) == std::vector{ran});
  steps = 0;
  const sweep_result phases = run_sweep(
      [&](const sweep_setting&, phase_recorder<played_clock>& recorder) {
        m.time.pass(2);
        const auto scope = recorder.phase(phase::data);
        m.time.pass(++steps % 3 == 0 ? -1 : 1);
      },
      options,
      m.time);
  CHECK(phases.trials[0].discarded == 9);  // of the steps 4 to 32
  CHECK(phases.trials[0].step.lower == 3);
}

TEST_CASE("probes that say nonsense leave their number out") {
  machine m;
  sweep_options options = m.options();
  for (const double wrong : {not_a_number, -1.0, std::numeric_limits<double>::infinity()}) {
    options.memory = options.utilisation = [=] { return wrong; };
    const sweep_result r = run_sweep(m.step(), options, m.time);
    REQUIRE(outcomes(r) == std::vector{ran});
    CHECK_FALSE(r.trials[0].memory_bytes.has_value());
    CHECK_FALSE(r.trials[0].utilisation.has_value());
    CHECK(r.trials[0].message.find("the probe of memory said ") == 0);
    CHECK(r.trials[0].message.find("; the probe of utilisation said ") != std::string::npos);
    CHECK(validate(rows_of(r.trials)).why().code == errc::not_positive);
  }
  options.memory = []() -> double { throw std::runtime_error("no such file"); };
  options.utilisation = [] { return 1.0; };
  const sweep_result r = run_sweep(m.step(), options, m.time);
  CHECK(r.trials[0].message == "no such file");
  CHECK(r.trials[0].utilisation == 1.0);
}

TEST_CASE("an observer that throws ends the sweep, and costs nothing that was measured") {
  machine m;
  struct full_disk : sweep_observer {
    int written = 0;
    void ends(const trial&, const sweep_progress&) override {
      if (++written == 2) throw std::runtime_error("no space left on the device");
    }
  } file;
  diary told;
  sweep_options options = m.options();
  options.micro_batches = {1, 2, 4, 8};
  options.observers = {&file, &told};
  const sweep_result r = run_sweep(m.step(), options, m.time);
  CHECK(r.stopped_by == "no space left on the device");
  CHECK(r.interrupted);
  CHECK(r.trials.size() == 2);
  CHECK(told.ended.size() == 2);
  CHECK(m.open == 0);
}

TEST_CASE("an interrupted sweep keeps what it has, and another goes on from there") {
  machine m;
  m.memory_limit = m.memory_of({.micro_batch = 40});
  sweep_options options = m.options();
  options.micro_batches = {1, 2, 4, 8, 16, 32, 64, 128};
  for (const search_order order :
       {search_order::grid, search_order::doubling, search_order::largest_that_fits}) {
    options.order = order;
    const sweep_result whole = run_sweep(m.step(), options, m.time);
    // Killed within any of its trials; the step after a signal is the last.
    for (std::size_t killed_in = 0; killed_in < whole.trials.size(); ++killed_in) {
      std::size_t begun = 0;
      sweep_options killed = options;
      killed.set_up = [&](const sweep_setting&) {
        ++m.open;
        if (begun++ == killed_in) REQUIRE(std::raise(SIGINT) == 0);
      };
      const interrupt_signal ctrl_c;
      CHECK_FALSE(ctrl_c.received());
      killed.interrupted = [&] { return ctrl_c.received(); };
      const sweep_result half = run_sweep(m.step(), killed, m.time);
      // What had run out of memory by then is known, and with it that larger ones need not be
      // tried.
      const bool done = half.trials.size() == whole.trials.size();
      CHECK(half.interrupted != done);
      if (whole.trials[killed_in].outcome == ran) CHECK(half.trials.size() == killed_in);
      sweep_options resumed = options;
      resumed.already_measured = half.trials;
      diary told;
      resumed.observers = {&told};
      const sweep_result rest = run_sweep(m.step(), resumed, m.time);
      CHECK(told.ended.size() == whole.trials.size() - half.trials.size());
      CHECK(outcomes(rest) == outcomes(whole));
      CHECK(rest.largest_that_fits == whole.largest_that_fits);
      for (std::size_t i = 0; i < rest.trials.size(); ++i)
        CHECK(rest.trials[i].setting == whole.trials[i].setting);
    }
  }
  CHECK(m.open == 0);
  // What failed is tried again.
  options.already_measured = {{.setting = {.micro_batch = 1}, .outcome = failed},
                              {.setting = {.micro_batch = 2}, .outcome = out_of_time}};
  options.order = search_order::grid;
  options.micro_batches = {1, 2};
  CHECK(outcomes(run_sweep(m.step(), options, m.time)) == std::vector{ran, out_of_time});
}

TEST_CASE("a step is interrupted where its next phase begins") {
  machine m;
  sweep_options options = m.options();
  bool pressed = false;
  options.interrupted = [&] { return pressed; };
  bool went_on = false;
  const sweep_result r = run_sweep(
      [&](const sweep_setting&, phase_recorder<played_clock>& recorder) {
        pressed = true;
        const auto scope = recorder.phase(phase::data);
        went_on = true;
      },
      options,
      m.time);
  CHECK(r.interrupted);
  CHECK(r.trials.empty());
  CHECK_FALSE(went_on);
}

TEST_CASE("options that allow no step are refused by name") {
  machine m;
  const sweep_options good = m.options();
  const auto flaw = [&](const std::function<void(sweep_options&)>& change) {
    sweep_options options = good;
    change(options);
    const failure why = validate(options).why();
    CHECK_THROWS_AS(static_cast<void>(run_sweep(m.step(), options, m.time)), plan_error);
    return std::string(why.subject);
  };
  CHECK(validate(good));
  CHECK(flaw([](auto& o) { o.micro_batches.clear(); }) == "micro_batches");
  CHECK(flaw([](auto& o) { o.micro_batches = {4, 0}; }) == "micro_batches");
  CHECK(flaw([](auto& o) { o.workers = {-1}; }) == "workers");
  CHECK(flaw([](auto& o) { o.workers.clear(); }) == "workers");
  CHECK(flaw([](auto& o) { o.mixed_precision.clear(); }) == "mixed_precision");
  CHECK(flaw([](auto& o) { o.pinned_memory.clear(); }) == "pinned_memory");
  CHECK(flaw([](auto& o) {
          o.order = search_order::doubling;
          o.micro_batches = {8};
          o.largest_micro_batch = 7;
        }) == "largest_micro_batch");
  CHECK(flaw([](auto& o) { o.resolution = 0; }) == "resolution");
  CHECK(flaw([](auto& o) { o.warm_up_steps = -1; }) == "warm_up_steps");
  CHECK(flaw([](auto& o) { o.stop.within = 0; }) == "stop.within");
  CHECK(flaw([](auto& o) { o.stop.least_samples = 0; }) == "stop.least_samples");
  CHECK(flaw([](auto& o) { o.stop.most_samples = 9; }) == "stop.most_samples");
  CHECK(flaw([](auto& o) { o.stop.least_s = -1; }) == "stop.least_s");
  CHECK(flaw([](auto& o) { o.stop.cap_s = not_a_number; }) == "stop.cap_s");
  CHECK(flaw([](auto& o) { o.step_cap_s = 0; }) == "step_cap_s");
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
