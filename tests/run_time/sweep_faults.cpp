// What a sweep makes of steps that throw or hang, of clocks, probes and observers that go wrong,
// and of an end before its time.

#include <gpuplan/measure/sweep.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <cstddef>
#include <exception>
#include <functional>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "played_sweep.hpp"

namespace {

using namespace gpuplan;
using namespace gpuplan::measure;
using played::diary;
using played::machine;
using played::outcomes;
using played::played_clock;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

struct limited_device : std::exception {};

using enum trial_outcome;

}  // namespace

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
  SUBCASE("an exception that says nothing, on no other rank") {
    const sweep_result r = thrown_by([](const sweep_setting& s) {
      if (s.micro_batch == 2) throw std::runtime_error("");
    });
    CHECK(outcomes(r) == std::vector{ran, failed, ran, ran});
    CHECK(r.trials[1].message.empty());
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
    CHECK(twelve.trials[0].message == "the first steps took 12 s, and the cap is 10 s");
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
    CHECK(r.trials[1].message == "a step was stopped after 5 s");
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
  // Also where time is up before there are as many steps as are asked for. There is one rank.
  for (const double step_s : {20.0, 4.0}) {
    sweep_options slow = options;
    slow.warm_up_steps = 0;
    slow.stop.cap_s = 10;
    slow.now_s = [&] { return host_s; };
    const sweep_result r = run_sweep(
        [&](const sweep_setting&, phase_recorder<played_clock>&) {
          host_s += step_s;
          m.time.pass(-1);
        },
        slow,
        m.time);
    CHECK(outcomes(r) == std::vector{failed});
    CHECK(r.trials[0].message == (step_s > 10 ? "the clock gave no positive time in 1 step"
                                              : "the clock gave no positive time in 3 steps"));
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
  CHECK(flaw([](auto& o) { o.micro_batches = {16, 4, 16}; }) == "micro_batches");
  CHECK(flaw([](auto& o) { o.workers = {0, 2, 2}; }) == "workers");
  CHECK(flaw([](auto& o) { o.mixed_precision = {true, true}; }) == "mixed_precision");
  CHECK(flaw([](auto& o) { o.pinned_memory = {false, true, false}; }) == "pinned_memory");
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
  CHECK(flaw([](auto& o) { o.set_up_cap_s = 0; }) == "set_up_cap_s");
}
