#pragma once

// Trials of random numbers, for tests of the files that hold them.

#include <gpuplan/io/sweep/trials.hpp>
#include <gpuplan/measure/sweep/trial.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace made_trials {

using namespace gpuplan;
using measure::trial;
using measure::trial_outcome;

// A trial of some numbers that no format may round.
inline trial made_trial(std::mt19937_64& random, std::int64_t batch) {
  const auto number = [&] {
    return std::uniform_real_distribution(0.0, 1.0)(random) *
           std::pow(10.0, std::uniform_real_distribution(-9.0, 3.0)(random));
  };
  trial t{.setting = {.micro_batch = batch,
                      .workers = static_cast<std::int64_t>(random() % 9),
                      .mixed_precision = random() % 2 == 0,
                      .pinned_memory = random() % 2 == 0},
          .outcome = static_cast<trial_outcome>(random() % 5),
          .set_up_s = number(),
          .warm_up_steps = static_cast<std::int64_t>(random() % 10)};
  if (t.outcome != trial_outcome::ran) {
    t.message = "a, \"quoted\" message of batch " + std::to_string(batch);
    return t;
  }
  t.steps = 1 + static_cast<std::int64_t>(random() % 100);
  t.outliers = static_cast<std::int64_t>(random() % 7);
  t.discarded = static_cast<std::int64_t>(random() % 3);
  t.why_ended = static_cast<measure::stop_reason>(random() % 4);
  for (measure::quartiles* one :
       {&t.data, &t.forward, &t.backward, &t.optimizer, &t.communication, &t.other, &t.step})
    *one = {number(), number(), number()};
  if (random() % 2 == 0) t.utilisation = number() / 1000;
  t.memory_bytes = 1 + std::floor(number() * 1e9);
  return t;
}

inline bool same(const measure::quartiles& a, const measure::quartiles& b) {
  return a.lower == b.lower && a.median == b.median && a.upper == b.upper;
}
inline bool same(const trial& a, const trial& b) {
  return a.setting == b.setting && a.outcome == b.outcome && a.message == b.message &&
         a.set_up_s == b.set_up_s && a.warm_up_steps == b.warm_up_steps && a.steps == b.steps &&
         a.outliers == b.outliers && a.discarded == b.discarded && a.why_ended == b.why_ended &&
         same(a.data, b.data) && same(a.forward, b.forward) && same(a.backward, b.backward) &&
         same(a.optimizer, b.optimizer) && same(a.communication, b.communication) &&
         same(a.other, b.other) && same(a.step, b.step) && a.utilisation == b.utilisation &&
         a.memory_bytes == b.memory_bytes;
}

inline std::vector<trial> some_trials(int count) {
  std::mt19937_64 random(20261122);
  std::vector<trial> trials;
  for (int i = 0; i < count; ++i) trials.push_back(made_trial(random, std::int64_t{1} << i));
  return trials;
}

inline std::string lines_of(const std::vector<trial>& trials, io::sweep_format format) {
  std::string text = format == io::sweep_format::csv ? io::csv_head_of_trials() : "";
  for (const trial& t : trials) text += io::line_of(t, format);
  return text;
}

inline constexpr io::sweep_format both[] = {io::sweep_format::csv, io::sweep_format::json_lines};

}  // namespace made_trials
