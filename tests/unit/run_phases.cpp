#include <gpuplan/run_phases.hpp>

#include <array>
#include <cstdint>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b, double by = 1e-12) {
  return detail::abs(a - b) <= by * detail::abs(b);
}

// Llama 3 405B in short: a small batch, the full one, long context at the end.
constexpr std::array phases{
    run_phase{.steps = 100,
              .effective_batch = 1024,
              .sequence_length = 4096,
              .step = 10_s,
              .off = {0.9, 1.3}},
    run_phase{.steps = 1000,
              .effective_batch = 2048,
              .sequence_length = 8192,
              .step = 40_s,
              .off = {0.95, 1.1}},
    run_phase{.steps = 50, .effective_batch = 128, .sequence_length = 131'072, .step = 50_s}};

// Megatron-LM's rule, step by step, in whole numbers: samples divide by stages here.
constexpr bool stages_are_those_of_steps(const batch_ramp& ramp) {
  std::int64_t consumed = 0;
  for (std::int64_t stage = 0; stage < ramp.stages(); ++stage) {
    const std::int64_t batch = ramp.start + stage * ramp.increment;
    std::int64_t steps = 0;
    while (*batch_after(ramp, consumed) == batch) {
      const std::int64_t expected = consumed * ramp.stages() / ramp.samples;
      if (expected != stage) return false;
      consumed += batch;
      ++steps;
    }
    const ramp_stage found = *stage_of(ramp, stage);
    if (found.steps != steps || found.effective_batch != batch) return false;
  }
  return *batch_after(ramp, consumed) == ramp.full;
}

constexpr bool all_ramps() {
  for (const std::int64_t samples : {60, 600, 6000})
    for (const std::int64_t increment : {1, 2, 4, 6})
      if (!stages_are_those_of_steps(
              {.start = 3, .increment = increment, .full = 15, .samples = samples}))
        return false;
  return true;
}

}  // namespace

TEST_CASE("a run is the sum of its phases") {
  CONSTEXPR phases_total all = *total_of(phases, {.every = 100, .time = 5_min});
  STATIC_CHECK(all.steps == 1150);
  STATIC_CHECK(all.sequences == 102'400 + 2'048'000 + 6400);
  STATIC_CHECK(all.tokens == 102'400LL * 4096 + 2'048'000LL * 8192 + 6400LL * 131'072);
  STATIC_CHECK(near(in(all.training, 1_s), 1000 + 40'000 + 2500));
  STATIC_CHECK(near(in(all.evaluating, 1_min), 55));
  // 300 s and 4,000 s above, 100 s and 2,000 s below, as squares.
  STATIC_CHECK(near(all.off.high(), 1 + detail::sqrt(300.0 * 300 + 4000.0 * 4000) / 46'800));
  STATIC_CHECK(near(all.off.low(), 1 - detail::sqrt(100.0 * 100 + 2000.0 * 2000) / 46'800));
  STATIC_CHECK(total_of(phases)->evaluating == 0_s);
}

TEST_CASE("the steps for tokens") {
  STATIC_CHECK(*steps_for_tokens(1'000'000'000'000, 2048, 4096) == 119'210);
  STATIC_CHECK(*steps_for_tokens(1, 2048, 4096) == 1);
  STATIC_CHECK(steps_for_tokens(0, 1, 1).why() ==
               failure(errc::not_positive, named_fact{fact::tokens, 0}));
  STATIC_CHECK(steps_for_tokens(1, INT64_MAX, 2).why().code == errc::overflow);
}

TEST_CASE("a batch that grows") {
  STATIC_CHECK(all_ramps());
  // BLOOM's: from 192 by 16 to 2,048 over 9,765,625 samples, 116 stages.
  CONSTEXPR batch_ramp bloom{.start = 192, .increment = 16, .full = 2048, .samples = 9'765'625};
  STATIC_CHECK(bloom.stages() == 116);
  STATIC_CHECK(*batch_after(bloom, 0) == 192);
  STATIC_CHECK(*batch_after(bloom, 84'186) == 192);  // 9,765,625 / 116 = 84,186.4...
  STATIC_CHECK(*batch_after(bloom, 84'187) == 208);
  STATIC_CHECK(*batch_after(bloom, 9'765'626) == 2048);
  STATIC_CHECK(stage_of(bloom, 116).why().at_fault() == fact::stage);
  STATIC_CHECK(*batch_after({.start = 8, .full = 8}, 0) == 8);
  STATIC_CHECK(validate(batch_ramp{.start = 8, .increment = 3, .full = 16, .samples = 100}).why() ==
               failure(errc::not_a_multiple,
                       named_fact{fact::effective_batch, 8},
                       named_fact{fact::factor, 3}));
  STATIC_CHECK(validate(batch_ramp{.start = 8, .full = 4}).why().code == errc::out_of_bounds);
  STATIC_CHECK(validate(batch_ramp{.start = 0, .full = 4}).why().code == errc::not_positive);
  STATIC_CHECK(validate(batch_ramp{.start = 1, .full = 4, .samples = 2}).why().at_fault() ==
               fact::samples);
}

TEST_CASE("bad phases are named with their position") {
  CONSTEXPR std::array bad{phases[0], run_phase{.steps = 0}};
  STATIC_CHECK(total_of(bad).why() == failure(errc::not_positive,
                                              named_fact{fact::steps, 0},
                                              named_fact{fact::position, 1}));
  STATIC_CHECK(total_of({}).why().at_fault() == fact::stages);
  STATIC_CHECK(total_of(phases, {.every = -1}).why().code == errc::negative);
  STATIC_CHECK(validate(run_phase{.steps = 1, .step = 1_s, .off = {1.1, 1.2}}).why().at_fault() ==
               fact::factor);
}
