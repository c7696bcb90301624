// Sweeps beside other threads: ranks that decide together, a watchdog, an interrupt. Built once
// more with ThreadSanitizer where the compiler has it.

#include <gpuplan/measure/sweep.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "played_sweep.hpp"

namespace {

using namespace gpuplan;
using namespace gpuplan::measure;
using namespace std::chrono_literals;
using played::machine;
using played::outcomes;
using played::played_clock;
using enum trial_outcome;

constexpr std::size_t rank_count = 3;

// What MPI_Allreduce does among processes, among threads.
class all_reduce {
 public:
  int largest(std::size_t rank, int own) {
    votes_[rank] = own;
    together_.arrive_and_wait();
    const int most = *std::max_element(votes_.begin(), votes_.end());
    together_.arrive_and_wait();  // before anyone votes again
    return most;
  }

 private:
  std::array<int, rank_count> votes_{};
  std::barrier<> together_{static_cast<std::ptrdiff_t>(rank_count)};
};

// Every rank sweeps on its own thread and machine; `fault` is what a rank's step does before the
// ranks exchange their gradients, where one that is missing would block the others for good.
std::array<sweep_result, rank_count> run_ranks(
    sweep_options given,
    const std::function<void(std::size_t rank, const sweep_setting&, machine&)>& fault,
    const std::function<void(std::size_t rank, sweep_options&)>& change = {}) {
  all_reduce votes;
  all_reduce exchange;
  std::array<sweep_result, rank_count> results;
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < rank_count; ++rank)
      threads.emplace_back([&, rank] {
        machine m;
        sweep_options options = given;
        const sweep_options own = m.options();
        options.set_up = own.set_up;
        options.tear_down = own.tear_down;
        options.memory = own.memory;
        options.now_s = own.now_s;
        options.agree = [&, rank](int vote) { return votes.largest(rank, vote); };
        if (change) change(rank, options);
        const auto plain = m.step();
        results[rank] = run_sweep(
            [&](const sweep_setting& s, phase_recorder<played_clock>& recorder) {
              together(options.agree, [&] {
                fault(rank, s, m);
                plain(s, recorder);
              });
              const auto scope = recorder.phase(phase::communication);
              CHECK(exchange.largest(rank, static_cast<int>(rank)) == rank_count - 1);
              m.time.pass(1e-3 * static_cast<double>(rank + 1));
            },
            options,
            m.time);
      });
  }
  return results;
}

void nothing(std::size_t, const sweep_setting&, machine&) {}

}  // namespace

TEST_CASE("where one rank runs out of memory, all do, and none waits for it") {
  sweep_options options{.micro_batches = {1, 2, 4, 8, 16, 32}, .workers = {0, 2}};
  const auto results = run_ranks(options, [](std::size_t rank, const sweep_setting& s, machine&) {
    if (rank == 1 && s.micro_batch >= 8) throw std::bad_alloc();
    if (rank == 2 && s.micro_batch == 2) throw std::runtime_error("two");
  });
  const std::vector half{ran, failed, ran, out_of_memory, skipped, skipped};
  std::vector all = half;
  all.insert(all.end(), half.begin(), half.end());
  for (const sweep_result& r : results) CHECK(outcomes(r) == all);
  CHECK(results[1].trials[3].message == std::bad_alloc().what());
  CHECK(results[0].trials[3].message == other_rank_failed().what());
  CHECK(results[2].trials[1].message == "two");
  // The times are each rank's own; how many steps were measured is not.
  for (std::size_t rank = 0; rank < rank_count; ++rank) {
    CHECK(results[rank].trials[0].communication.median ==
          doctest::Approx(1e-3 * static_cast<double>(rank + 1)));
    CHECK(results[rank].trials[0].steps == results[0].trials[0].steps);
  }
}

TEST_CASE("ranks search together for what fits on the fullest of them") {
  sweep_options options{.order = search_order::largest_that_fits, .largest_micro_batch = 1000};
  const auto results = run_ranks(options, [](std::size_t rank, const sweep_setting& s, machine&) {
    if (s.micro_batch > 300 - 50 * static_cast<std::int64_t>(rank)) throw std::bad_alloc();
  });
  for (const sweep_result& r : results) {
    REQUIRE(r.largest_that_fits.size() == 1);
    CHECK(r.largest_that_fits[0].micro_batch == 200);
    CHECK(outcomes(r) == outcomes(results[0]));
    CHECK(static_cast<std::int64_t>(r.trials.size()) <= r.trials_bound);
  }
}

TEST_CASE("ranks end a series together, whatever each has seen") {
  sweep_options options{.micro_batches = {1, 2}, .stop = {.within = 0.02, .cap_s = 10}};
  SUBCASE("as late as the slowest to know its median") {
    const auto results = run_ranks(options, [](std::size_t rank, const sweep_setting&, machine& m) {
      m.noise = {.share = rank == 2 ? 0.3 : 0.0};
    });
    CHECK(results[2].trials[0].steps > 10);
    for (const sweep_result& r : results) {
      CHECK(outcomes(r) == std::vector{ran, ran});
      CHECK(r.trials[0].steps == results[2].trials[0].steps);
      CHECK(r.trials[0].why_ended == stop_reason::median_known);
    }
  }
  SUBCASE("once the time of one is up") {
    const auto results = run_ranks(options, [](std::size_t rank, const sweep_setting&, machine& m) {
      if (rank == 0) m.time.pass(4);
    });
    for (const sweep_result& r : results) {
      CHECK(outcomes(r) == std::vector{ran, ran});
      CHECK(r.trials[1].warm_up_steps == 2);
      CHECK(r.trials[1].steps == 1);
      CHECK(r.trials[1].why_ended == stop_reason::out_of_time);
    }
  }
  SUBCASE("where the clock of one has stopped") {
    const auto results =
        run_ranks(options, [](std::size_t rank, const sweep_setting& s, machine& m) {
          if (rank == 1 && s.micro_batch == 1) m.time.pass(-100);
        });
    for (const sweep_result& r : results) CHECK(outcomes(r) == std::vector{failed, ran});
    CHECK(results[0].trials[0].message == "on another rank");
    CHECK(results[1].trials[0].message == "the clock gave no positive time in 10 steps");
  }
  SUBCASE("in set-up and tear-down too") {
    const auto results = run_ranks(options, nothing, [](std::size_t rank, sweep_options& o) {
      if (rank == 1)
        o.set_up = [](const sweep_setting& s) {
          if (s.micro_batch == 1) throw std::bad_alloc();
        };
      if (rank == 2) o.tear_down = [](const sweep_setting&) { throw std::runtime_error("busy"); };
    });
    for (const sweep_result& r : results) CHECK(outcomes(r) == std::vector{out_of_memory, skipped});
  }
  SUBCASE("where one cannot tear down") {
    const auto results = run_ranks(options, nothing, [](std::size_t rank, sweep_options& o) {
      if (rank == 2)
        o.tear_down = [](const sweep_setting& s) {
          if (s.micro_batch == 1) throw std::runtime_error("busy");
        };
    });
    for (const sweep_result& r : results) CHECK(outcomes(r) == std::vector{failed, ran});
  }
  SUBCASE("interrupted on one, on all") {
    std::atomic<int> asked{0};
    const auto results = run_ranks(options, nothing, [&](std::size_t rank, sweep_options& o) {
      if (rank == 2) o.interrupted = [&] { return ++asked > 20; };
    });
    for (const sweep_result& r : results) {
      CHECK(r.interrupted);
      CHECK(outcomes(r) == outcomes(results[0]));
      CHECK(r.trials.size() < 2);
    }
  }
}

TEST_CASE("a step that hangs and does not ask is told from another thread") {
  std::mutex mutex;
  std::condition_variable_any told;
  std::vector<sweep_setting> hung;
  sweep_options options{.micro_batches = {1, 2, 4}, .warm_up_steps = 1};
  options.stop = {.least_samples = 2, .most_samples = 2};
  options.step_cap_s = 0.1;
  // No cap is on set-up.
  options.set_up = [](const sweep_setting& s) {
    if (s.micro_batch == 4) std::this_thread::sleep_for(300ms);
  };
  options.hangs = [&](const sweep_setting& s) {
    const std::lock_guard lock(mutex);
    hung.push_back(s);
    told.notify_all();
  };
  const sweep_result r = run_sweep(
      [&](const sweep_setting& s, auto&) {
        if (s.micro_batch != 2) return;
        std::unique_lock lock(mutex);
        const std::size_t before = hung.size();
        told.wait_for(lock, 20s, [&] { return hung.size() > before; });
        lock.unlock();
        std::this_thread::sleep_for(100ms);
      },
      options);
  REQUIRE(hung.size() == 3);  // once for each of its steps
  for (const sweep_setting& s : hung) CHECK(s == sweep_setting{.micro_batch = 2});
  CHECK(outcomes(r) == std::vector{ran, ran, ran});
  CHECK(r.trials[1].step.lower >= 0.3);
}

TEST_CASE("a set-up and a tear-down that hang are told from another thread") {
  std::mutex mutex;
  std::condition_variable_any told;
  std::vector<sweep_setting> hung;
  const auto hang = [&] {
    std::unique_lock lock(mutex);
    const std::size_t before = hung.size();
    told.wait_for(lock, 20s, [&] { return hung.size() > before; });
  };
  sweep_options options{.micro_batches = {1, 2, 4}, .warm_up_steps = 0};
  options.stop = {.least_samples = 1, .most_samples = 1};
  options.set_up_cap_s = 0.1;
  options.set_up = [&](const sweep_setting& s) {
    if (s.micro_batch == 2) hang();
  };
  options.tear_down = [&](const sweep_setting& s) {
    if (s.micro_batch == 4) hang();
  };
  options.hangs = [&](const sweep_setting& s) {
    const std::lock_guard lock(mutex);
    hung.push_back(s);
    told.notify_all();
  };
  // No cap is on steps.
  const sweep_result r = run_sweep(
      [&](const sweep_setting& s, auto&) {
        if (s.micro_batch == 1) std::this_thread::sleep_for(250ms);
      },
      options);
  CHECK(hung == std::vector<sweep_setting>{{.micro_batch = 2}, {.micro_batch = 4}});
  CHECK(outcomes(r) == std::vector{ran, ran, ran});
  CHECK(r.trials[1].set_up_s >= 0.1);
}

TEST_CASE("a sweep is interrupted from another thread") {
  std::atomic<bool> pressed{false};
  std::atomic<int> steps{0};
  sweep_options options{.micro_batches = {1, 2}};
  options.stop = {.least_samples = 1'000'000'000, .most_samples = 1'000'000'000, .cap_s = 3600};
  options.interrupted = [&] { return pressed.load(); };
  const std::jthread other([&] {
    while (steps.load() < 100) std::this_thread::yield();
    pressed = true;
  });
  const sweep_result r = run_sweep(
      [&](const sweep_setting&, auto& recorder) {
        const auto scope = recorder.phase(phase::forward);
        ++steps;
      },
      options);
  CHECK(r.interrupted);
  CHECK(r.trials.empty());
}
