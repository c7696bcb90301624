#include <gpuplan/checkpoint.hpp>

#include <cstdint>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b) { return detail::abs(a - b) <= 1e-12 * detail::abs(b); }

// ---- a quota, in whole gigabytes

// Writes checkpoints until the disk is full.
constexpr std::int64_t written(std::int64_t quota, std::int64_t other, std::int64_t each) {
  std::int64_t count = 0;
  for (std::int64_t full = other + each; full <= quota; full += each) ++count;
  return count;
}

constexpr checkpoint_storage whole(std::int64_t quota, std::int64_t other, std::int64_t each) {
  return {.quota = quota * 1_GB, .used = other * 1_GB, .checkpoint = each * 1_GB};
}

constexpr bool counts_are_those_written() {
  for (std::int64_t quota = 1; quota <= 30; ++quota)
    for (std::int64_t other : {0, 1, 9, 31})
      for (std::int64_t each : {1, 3, 8}) {
        const auto fitting = checkpoints_that_fit(whole(quota, other, each));
        const std::int64_t expected = written(quota, other, each);
        if (expected == 0 ? fitting.why().code != errc::exceeds_quota : *fitting != range(expected))
          return false;
      }
  return true;
}

// The shortest interval, found by trying them all on a run step by step.
constexpr std::int64_t shortest_interval(const checkpoint_storage& storage, std::int64_t steps) {
  for (std::int64_t interval = 1;; ++interval) {
    std::int64_t saved = 0;
    for (std::int64_t step = interval; step <= steps; step += interval) ++saved;
    if (storage_needed(storage, saved)->high() <= storage.quota) return interval;
  }
}

constexpr bool intervals_are_the_shortest() {
  for (std::int64_t quota : {10, 17, 24})
    for (std::int64_t steps = 1; steps <= 40; ++steps) {
      const auto storage = whole(quota, 1, 4);
      const std::int64_t interval = *save_interval_within(storage, steps);
      if (interval != shortest_interval(storage, steps)) return false;
      if (*checkpoints_saved(steps, interval) > checkpoints_that_fit(storage)->low()) return false;
    }
  return true;
}

// Sizes that are no whole bytes, so that rounding puts quotients on either side of a whole number.
constexpr bool a_full_quota_is_full() {
  for (std::int64_t sevenths = 1; sevenths <= 40; ++sevenths)
    for (std::int64_t count = 1; count <= 40; count += 3) {
      const bytes each = sevenths * 1_GB / 7;
      const checkpoint_storage storage{
          .quota = 1_GB / 3 + count * each, .used = 1_GB / 3, .checkpoint = each};
      if (*checkpoints_that_fit(storage) != range(count)) return false;
      checkpoint_storage short_of_it = storage;
      short_of_it.quota = storage.quota * (1 - 0x1p-52);
      if (count > 1 && *checkpoints_that_fit(short_of_it) != range(count - 1)) return false;
    }
  return true;
}

constexpr checkpoint_storage home{
    .quota = 23.8_GB, .used = 1_GB, .final_model = {5_GB, 8_GB}, .checkpoint = {5_GB, 8_GB}};

constexpr checkpoint_storage home_with(range<bytes> used,
                                       range<bytes> final_model,
                                       range<bytes> each) {
  return {home.quota, used, final_model, each};
}

// ---- failures

// The expected time that a second of training takes, in units of M, where failures strike at a
// constant rate 1/M: exp(t + d) - 1 over t (Daly 2006), less a factor that does not depend on t.
constexpr double expected_time(double t, double d) { return (detail::exp(t + d) - 1) / t; }

// The t that makes it least, by bisection of its slope: t exp(t + d) - exp(t + d) + 1 rises.
constexpr double best_interval(double d) {
  double low = 0;
  double high = 1;
  for (int i = 0; i < 50; ++i) {
    const double t = (low + high) / 2;
    ((t - 1) * detail::exp(t + d) + 1 < 0 ? low : high) = t;
  }
  return low;
}

// The estimate loses less than 0.1 % of the time against the best interval up to d = M, and the
// interval itself is within 1 % up to d = M / 5.
constexpr bool the_estimate_is_close_to_the_best() {
  for (const double d : {0.0001, 0.001, 0.01, 0.05, 0.2, 0.5, 1.0}) {
    const double estimate = in(*save_interval_for_failures(d * 1_h, 1_h), 1_h);
    const double best = best_interval(d);
    if (expected_time(estimate, d) > 1.001 * expected_time(best, d)) return false;
    if (d <= 0.2 && detail::abs(estimate - best) > 0.01 * best) return false;
    if (detail::abs(in(*best_save_interval(d * 1_h, 1_h), 1_h) - best) > 1e-9 * best) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the size of a checkpoint") {
  // 7 billion parameters: 14 GB of bf16 weights, 98 GB to resume mixed-precision Adam.
  STATIC_CHECK(*checkpoint_size(7'000'000'000, 2_B) == 14_GB);
  STATIC_CHECK(*checkpoint_size(7'000'000'000, 14_B) == 98_GB);
  STATIC_CHECK(checkpoint_size(0, 2_B).why() ==
               failure(errc::not_positive, named_fact{fact::parameters, 0}));
  STATIC_CHECK(
      checkpoint_size(1, 0_B).why() ==
      failure(errc::not_positive, named_fact{fact::checkpoint_MB, 0}).about(fact::per_parameter));
}

TEST_CASE("the size of files has what each tensor has besides") {
  STATIC_CHECK(near(file_size(1_GB, 100, checkpoint_format::safetensors)->value(), 1e9 + 11'000));
  STATIC_CHECK(near(file_size(1_GB, 1, checkpoint_format::torch_save)->value(), 1e9 + 225));
  STATIC_CHECK(near(file_size(1_GB, 10, checkpoint_format::distributed)->value(), 1e9 + 19'500));
  STATIC_CHECK(file_size(bytes{}, 1, checkpoint_format::safetensors).why().code ==
               errc::not_positive);
  STATIC_CHECK(file_size(1_GB, 0, checkpoint_format::safetensors).why().code ==
               errc::out_of_bounds);
}

TEST_CASE("how many checkpoints a run writes") {
  STATIC_CHECK(*checkpoints_saved(10'000, 2'000) == 5);
  STATIC_CHECK(*checkpoints_saved(9'999, 2'000) == 4);
  STATIC_CHECK(*checkpoints_saved(1, 2) == 0);
  STATIC_CHECK(checkpoints_saved(0, 1).why() ==
               failure(errc::not_positive, named_fact{fact::steps, 0}));
  STATIC_CHECK(checkpoints_saved(1, 0).why() ==
               failure(errc::not_positive, named_fact{fact::steps, 0}).about(fact::save_every));
}

TEST_CASE("how many checkpoints a quota holds") {
  STATIC_CHECK(counts_are_those_written());
  STATIC_CHECK(a_full_quota_is_full());
  // 23.8 - 1 - 8 holds one of 8; 23.8 - 1 - 5 holds three of 5.
  STATIC_CHECK(*checkpoints_that_fit(home) == range(1, 3));
  STATIC_CHECK(*storage_needed(home, 5) == range(31_GB, 49_GB));
  STATIC_CHECK(*storage_needed(home, 0) == range(6_GB, 9_GB));
}

TEST_CASE("the save interval that keeps within a quota") {
  STATIC_CHECK(intervals_are_the_shortest());
  STATIC_CHECK(*save_interval_within(home, 10'000) == 5'001);
}

TEST_CASE("the save interval against failures") {
  STATIC_CHECK(the_estimate_is_close_to_the_best());
  // Rare failures: Young's square root, less the stall.
  STATIC_CHECK(near(in(*save_interval_for_failures(2_s, 1_h), 1_s),
                    120 * (1 + 1.0 / 180 + 1.0 / 32400) - 2));
  STATIC_CHECK(near(in(*save_interval_of_young(2_s, 1_h), 1_s), 120));
  // Rarer ones: the best comes down to it, to the last digits of what can be said.
  STATIC_CHECK(near(in(*best_save_interval(1_us, 1'000'000_h), 1_s) /
                        in(*save_interval_for_failures(1_us, 1'000'000_h), 1_s),
                    1));
  // A stall that failures hardly ever let pass.
  STATIC_CHECK(near(in(*best_save_interval(10'000_h, 1_h), 1_h), 1));
  STATIC_CHECK(*save_interval_for_failures(2_h, 1_h) == 1_h);
  STATIC_CHECK(*save_interval_for_failures(5_h, 1_h) == 1_h);
  STATIC_CHECK(save_interval_for_failures(0_s, 1_h).why() ==
               failure(errc::not_positive, named_fact{fact::time_us, 0}).about(fact::stall));
  STATIC_CHECK(save_interval_for_failures(1_s, -1_s).why() ==
               failure(errc::not_positive, named_fact{fact::time_us, -1'000'000})
                   .about(fact::mean_time_between_failures));
  STATIC_CHECK(!save_interval_for_failures(1_s, duration::from_value(detail::not_a_number)));
  STATIC_CHECK(!save_interval_of_young(0_s, 1_h));
  STATIC_CHECK(!best_save_interval(1_s, 0_s));
}

TEST_CASE("bad storage is named") {
  STATIC_CHECK(!validate(checkpoint_storage{}));
  STATIC_CHECK(checkpoints_that_fit({}).why() ==
               failure(errc::not_positive, named_fact{fact::free_MB, 0}).about(fact::quota));
  STATIC_CHECK(
      checkpoints_that_fit(home_with(1_GB, 0_GB, {0_GB, 1_GB})).why() ==
      failure(errc::not_positive, named_fact{fact::checkpoint_MB, 0}).about(fact::checkpoint));
  STATIC_CHECK(checkpoints_that_fit(home_with(-1_GB, 0_GB, 1_GB)).why() ==
               failure(errc::negative, named_fact{fact::needed_MB, -1000}).about(fact::used));
  STATIC_CHECK(
      storage_needed(home_with(0_GB, bytes::from_value(detail::infinity), 1_GB), 1).why() ==
      failure(errc::not_finite).about(fact::final_model));
  STATIC_CHECK(storage_needed(home, -1).why() ==
               failure(errc::negative, named_fact{fact::checkpoints, -1}));
  STATIC_CHECK(checkpoints_that_fit(home_with(20_GB, {1_GB, 2_GB}, {3_GB, 4_GB})).why() ==
               failure(errc::exceeds_quota,
                       named_fact{fact::checkpoint_MB, 3000},
                       named_fact{fact::free_MB, 2800}));
  STATIC_CHECK(save_interval_within(home_with(20_GB, 0_GB, {3_GB, 4_GB}), 100).why() ==
               failure(errc::exceeds_quota,
                       named_fact{fact::checkpoint_MB, 4000},
                       named_fact{fact::free_MB, 3800}));
  STATIC_CHECK(save_interval_within(home, 0).why() ==
               failure(errc::not_positive, named_fact{fact::steps, 0}));
  STATIC_CHECK(checkpoints_that_fit({.quota = 10_TB, .checkpoint = 1_B}).why() ==
               failure(errc::out_of_bounds, named_fact{fact::at_most, std::int64_t{1} << 40})
                   .about(fact::checkpoints));
}
