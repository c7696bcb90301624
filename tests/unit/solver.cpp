#include "check.hpp"

#include <gpuplan/require.hpp>
#include <gpuplan/solver.hpp>

#include <cstdint>
#include <iterator>
#include <limits>

using namespace gpuplan;

namespace {

constexpr affine_memory groot{.fixed = 5_GB + 2_GB, .per_sample = 1.2_GB};

constexpr result<batch_plan> solve(range<std::int64_t> target, std::int64_t gpus, bytes memory) {
  return solve_batch({.effective_batch = target, .data_parallel = gpus, .gpu = memory}, groot);
}

// Needs more with accumulation, as a framework does that keeps a second gradient buffer.
struct dearer_accumulation {
  [[nodiscard]] constexpr bytes required(const batch_plan& plan) const {
    return plan.micro_batch * 1_GB + (plan.accumulation > 1 ? 4_GB : 0_GB);
  }
};

template <class Options>
constexpr int count(const Options& options) {
  int n = 0;
  for (const batch_plan& plan : options) n += plan.micro_batch > 0;
  return n;
}

}  // namespace

TEST_CASE("the largest micro-batch that fits, then the effective batch nearest the upper end") {
  STATIC_CHECK(*solve({120, 144}, 4, 24_GB) == batch_plan{12, 4, 3});
  STATIC_CHECK(*solve({120, 144}, 4, 24_GiB) == batch_plan{15, 4, 2});
  STATIC_CHECK(*solve({120, 144}, 6, 48_GB) == batch_plan{24, 6, 1});
  STATIC_CHECK(*solve({120, 144}, 4, 11_GB) == batch_plan{3, 4, 12});
  STATIC_CHECK(*solve(120, 4, 11_GB) == batch_plan{3, 4, 10});
  STATIC_CHECK(*solve({1, 1}, 1, 8.2_GB) == batch_plan{1, 1, 1});
}

TEST_CASE("the micro-batch is decided by the comparison itself") {
  STATIC_CHECK(*max_micro_batch(24_GB, groot) == 14);
  STATIC_CHECK(*max_micro_batch(23.8_GB, groot) == 14);
  STATIC_CHECK(*max_micro_batch(23.8_GB - 1_B, groot) == 13);
  STATIC_CHECK(*max_micro_batch(8.2_GB, groot) == 1);
  STATIC_CHECK(max_micro_batch(8.2_GB - 1_B, groot).why().code == errc::exceeds_gpu_memory);
  STATIC_CHECK(max_micro_batch(8_GB, affine_memory{.fixed = 7_GB}).why().code ==
               errc::out_of_bounds);
}

TEST_CASE("an impossible batch names the nearest that exist") {
  STATIC_CHECK(solve(120, 7, 24_GB).why() == failure(errc::no_such_batch,
                                                     named_fact{fact::effective_batch_low, 120},
                                                     named_fact{fact::effective_batch_high, 120},
                                                     named_fact{fact::data_parallel, 7},
                                                     named_fact{fact::nearest_below, 119},
                                                     named_fact{fact::nearest_above, 126}));
  CONSTEXPR auto few = solve({3, 5}, 8, 24_GB).why();
  STATIC_CHECK(few.count == 4);  // there is none below
  STATIC_CHECK(few[fact::nearest_above] == 8);
}

TEST_CASE("the nearest batch is solved for where the exact one does not exist") {
  CONSTEXPR batch_request seven{.effective_batch = 120, .data_parallel = 7, .gpu = 24_GB};
  STATIC_CHECK(*solve_nearest_batch(seven, groot) == batch_plan{1, 7, 17});
  CONSTEXPR batch_request halfway{.effective_batch = 12, .data_parallel = 8, .gpu = 24_GB};
  STATIC_CHECK(solve_nearest_batch(halfway, groot)->effective_batch() == 16);
  CONSTEXPR batch_request possible{.effective_batch = 120, .data_parallel = 4, .gpu = 24_GB};
  STATIC_CHECK(*solve_nearest_batch(possible, groot) == *solve(120, 4, 24_GB));
  CONSTEXPR batch_request small{.effective_batch = 120, .data_parallel = 7, .gpu = 8_GB};
  STATIC_CHECK(solve_nearest_batch(small, groot).why().code == errc::exceeds_gpu_memory);
}

TEST_CASE("bad requests are refused by name") {
  STATIC_CHECK(solve({0, 4}, 4, 24_GB).why() ==
               failure(errc::not_positive, named_fact{fact::effective_batch_low, 0}));
  STATIC_CHECK(solve(120, 0, 24_GB).why() ==
               failure(errc::not_positive, named_fact{fact::data_parallel, 0}));
  STATIC_CHECK(solve(120, 4, 0_GB).why().code == errc::not_positive);
  STATIC_CHECK(solve(120, 4, 8_GB).why() == failure(errc::exceeds_gpu_memory,
                                                    named_fact{fact::micro_batch, 1},
                                                    named_fact{fact::data_parallel, 4},
                                                    named_fact{fact::accumulation, 1},
                                                    named_fact{fact::needed_MB, 8200},
                                                    named_fact{fact::gpu_has_MB, 8000}));
  CONSTEXPR std::int64_t most = std::numeric_limits<std::int64_t>::max();
  STATIC_CHECK(solve(most, 2, 24_GB).why().count == 4);  // no room above in 64 bits
  STATIC_CHECK(solve(most - 1, 2, 24_GB));
}

TEST_CASE("what would take too long to search is refused") {
  CONSTEXPR std::int64_t prime = (std::int64_t{1} << 61) - 1;
  CONSTEXPR affine_memory tiny{.per_sample = 1_B};
  CONSTEXPR auto slow =
      solve_batch({.effective_batch = prime, .data_parallel = 1, .gpu = 80_GB}, tiny).why();
  STATIC_CHECK(slow == failure(errc::out_of_bounds,
                               named_fact{fact::samples, prime},
                               named_fact{fact::at_most, std::int64_t{1} << 40})
                           .about(fact::samples_of_gpu));
  CONSTEXPR batch_request small{.effective_batch = prime, .data_parallel = 1, .gpu = 1024_B};
  STATIC_CHECK(*solve_batch(small, tiny) == batch_plan{1, 1, prime});
  CONSTEXPR batch_request wide{
      .effective_batch = {1, std::int64_t{1} << 40}, .data_parallel = 1, .gpu = 16_GB};
  STATIC_CHECK(*solve_batch(wide, dearer_accumulation{}) == batch_plan{16, 1, 1});
}

namespace {

constexpr batch_plan expected[] = {
    {12, 4, 3}, {11, 4, 3}, {10, 4, 3}, {9, 4, 4},  {8, 4, 4},  {7, 4, 5},  {6, 4, 6},
    {6, 4, 5},  {5, 4, 7},  {5, 4, 6},  {4, 4, 9},  {4, 4, 8},  {3, 4, 12}, {3, 4, 11},
    {3, 4, 10}, {2, 4, 18}, {2, 4, 17}, {2, 4, 16}, {2, 4, 15}, {1, 4, 36}, {1, 4, 35},
    {1, 4, 34}, {1, 4, 33}, {1, 4, 32}, {1, 4, 31}, {1, 4, 30}};

constexpr bool options_are_as_expected(const batch_request& request) {
  unsigned i = 0;
  for (const batch_plan& plan : batch_options(request, groot))
    if (i == std::size(expected) || !(plan == expected[i++])) return false;
  return i == std::size(expected);
}

}  // namespace

TEST_CASE("options come best first and none is missing") {
  CONSTEXPR batch_request request{.effective_batch = {120, 144}, .data_parallel = 4, .gpu = 24_GB};
  STATIC_CHECK(options_are_as_expected(request));
  CONSTEXPR batch_options none(
      batch_request{.effective_batch = 120, .data_parallel = 7, .gpu = 24_GB}, groot);
  STATIC_CHECK(count(none) == 0);
  STATIC_CHECK(none.why().code == errc::no_such_batch);
}

TEST_CASE("a model may charge for accumulation") {
  CONSTEXPR dearer_accumulation model;
  CONSTEXPR batch_request request{.effective_batch = 32, .data_parallel = 1, .gpu = 16_GB};
  STATIC_CHECK(*solve_batch(request, model) == batch_plan{8, 1, 4});  // 16 x 2 needs 20 GB
  CONSTEXPR batch_request whole{.effective_batch = 16, .data_parallel = 1, .gpu = 16_GB};
  STATIC_CHECK(*solve_batch(whole, model) == batch_plan{16, 1, 1});
  CONSTEXPR batch_request tight{.effective_batch = 32, .data_parallel = 1, .gpu = 4_GB};
  STATIC_CHECK(solve_batch(tight, model).why()[fact::needed_MB] == 5000);
}

TEST_CASE("the effective batch is kept when the number of GPUs changes") {
  CONSTEXPR batch_plan plan{10, 4, 3};
  STATIC_CHECK(*keep_effective_batch(plan, 6, 48_GB, groot) == batch_plan{20, 6, 1});
  STATIC_CHECK(*keep_effective_batch(plan, 1, 24_GB, groot) == batch_plan{12, 1, 10});
  STATIC_CHECK(keep_effective_batch(plan, 7, 24_GB, groot).why().code == errc::no_such_batch);
  STATIC_CHECK(keep_effective_batch({0, 4, 3}, 4, 24_GB, groot).why().code == errc::not_positive);
}

TEST_CASE("an uneven batch gives some GPUs one sample more") {
  CONSTEXPR auto seven = require([] { return solve_uneven_batch(120, 7, 24_GB, groot); });
  STATIC_CHECK(seven.larger_share == 18);
  STATIC_CHECK(seven.smaller_share == 17);
  STATIC_CHECK(seven.gpus_with_larger_share == 1);
  STATIC_CHECK(1 * 18 + 6 * 17 == 120);
  STATIC_CHECK(seven.accumulation == 2);
  STATIC_CHECK(seven.micro_batch == 9);
  STATIC_CHECK(seven.idle_share() > 0.0476);
  STATIC_CHECK(seven.idle_share() < 0.0477);  // 6 of 126 slots
  CONSTEXPR auto even = require([] { return solve_uneven_batch(120, 4, 24_GB, groot); });
  STATIC_CHECK(even.gpus_with_larger_share == 4);
  STATIC_CHECK(even.idle_share() == 0);
  STATIC_CHECK(solve_uneven_batch(3, 7, 24_GB, groot).why().code == errc::no_such_batch);
  STATIC_CHECK(solve_uneven_batch(0, 7, 24_GB, groot).why().code == errc::not_positive);
  STATIC_CHECK(solve_uneven_batch(7, 0, 24_GB, groot).why().code == errc::not_positive);
  STATIC_CHECK(solve_uneven_batch(9, 7, 8_GB, groot).why().code == errc::exceeds_gpu_memory);
  STATIC_CHECK(solve_uneven_batch(9, 2, 8_GB, affine_memory{.fixed = 7_GB})->micro_batch == 5);
}
