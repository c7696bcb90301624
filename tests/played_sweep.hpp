#pragma once

// A machine to sweep whose steps cost what a formula says, on a clock that they move themselves.

#include <gpuplan/measure/sweep.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <new>
#include <vector>

namespace played {

struct played_clock {
  using moment = double;
  double now_s = 0;
  [[nodiscard]] double now() const { return now_s; }
  [[nodiscard]] static double seconds_between(double from, double to) { return to - from; }
  void pass(double s) { now_s += s; }
};

struct cost {
  double data_s;
  double forward_s;
  double backward_s;
  double optimizer_s;
  double other_s;
  [[nodiscard]] double step_s() const {
    return data_s + forward_s + backward_s + optimizer_s + other_s;
  }
};

// Loading shrinks with workers that each cost something; computing grows with the batch, faster
// beyond 64, where a cache ends: so throughput has its maximum within the grid.
inline cost cost_of(const gpuplan::sweep_setting& s) {
  const auto b = static_cast<double>(s.micro_batch);
  const auto workers = static_cast<double>(s.workers);
  const double speed = s.mixed_precision ? 0.5 : 1;
  const double beyond = b > 64 ? (b - 64) * (b - 64) * 1e-5 : 0;
  return {.data_s = 2e-4 * b / (1 + workers) + 5e-4 * workers,
          .forward_s = 1e-3 + speed * (1e-4 * b + beyond),
          .backward_s = 1e-3 + 2 * speed * (1e-4 * b + beyond),
          .optimizer_s = 5e-4,
          .other_s = 1e-4};
}

// Uniform in a step's whole time, from 1 - share to 1 + share; some steps take five times as long.
struct noise {
  double share = 0;
  int every_nth_slow = 0;
};

struct machine {
  played_clock time{};
  double memory_limit = 1e18;
  double set_up_s = 0.125;
  played::noise noise{};
  int open = 0;  // set up and not torn down

  [[nodiscard]] static double memory_of(const gpuplan::sweep_setting& s) {
    return 1000 + (s.mixed_precision ? 20.0 : 37.5) * static_cast<double>(s.micro_batch);
  }

  gpuplan::measure::sweep_options options() {
    gpuplan::measure::sweep_options made;
    made.set_up = [this](const gpuplan::sweep_setting& s) {
      ++open;
      time.pass(set_up_s);
      in_use_ = memory_of(s);
    };
    made.tear_down = [this](const gpuplan::sweep_setting&) { --open; };
    made.memory = [this] { return in_use_; };
    made.utilisation = [] { return 0.5; };
    made.now_s = [this] { return time.now_s; };
    return made;
  }

  auto step() {
    return [this](const gpuplan::sweep_setting& s,
                  gpuplan::measure::phase_recorder<played_clock>& recorder) {
      using gpuplan::phase;
      if (memory_of(s) > memory_limit) throw std::bad_alloc();
      const cost c = cost_of(s);
      const double stretched = stretch();
      const auto spend = [&](phase which, double seconds) {
        const auto scope = recorder.phase(which);
        time.pass(seconds * stretched);
      };
      spend(phase::data, c.data_s);
      spend(phase::forward, c.forward_s);
      spend(phase::backward, c.backward_s);
      spend(phase::optimizer, c.optimizer_s);
      time.pass(c.other_s * stretched);
    };
  }

 private:
  double in_use_ = 0;
  std::uint64_t random_ = 88172645463325252U;
  int steps_ = 0;

  double stretch() {
    if (noise.every_nth_slow > 0 && ++steps_ % noise.every_nth_slow == 0) return 5;
    random_ ^= random_ << 13;  // xorshift, Marsaglia 2003
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    const double uniform = static_cast<double>(random_ >> 11) / 9007199254740992.0;
    return 1 + noise.share * (2 * uniform - 1);
  }
};

// What an observer sees of a sweep.
struct diary : gpuplan::measure::sweep_observer {
  std::vector<gpuplan::sweep_setting> begun{};
  std::vector<gpuplan::measure::trial> ended{};
  std::int64_t steps_told = 0;
  gpuplan::measure::sweep_progress last{};

  void begins(const gpuplan::sweep_setting& s, const gpuplan::measure::sweep_progress&) override {
    begun.push_back(s);
  }
  void stepped(const gpuplan::sweep_setting&, const gpuplan::measure::sweep_progress& p) override {
    ++steps_told;
    CHECK(p.share >= 0);
    CHECK(p.share <= 1);
  }
  void ends(const gpuplan::measure::trial& t, const gpuplan::measure::sweep_progress& p) override {
    ended.push_back(t);
    last = p;
    CHECK(p.index <= p.at_most);
  }
};

inline std::vector<gpuplan::measure::trial_outcome> outcomes(
    const gpuplan::measure::sweep_result& r) {
  std::vector<gpuplan::measure::trial_outcome> all;
  for (const gpuplan::measure::trial& t : r.trials) all.push_back(t.outcome);
  return all;
}

}  // namespace played
