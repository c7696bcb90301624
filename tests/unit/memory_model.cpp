#include <gpuplan/memory_model.hpp>

#include <limits>

#include "check.hpp"

using namespace gpuplan;

namespace {

constexpr affine_memory groot{.fixed = 5_GB + 2_GB, .per_sample = 1.2_GB};
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

constexpr bytes bytes_of(double value) { return bytes::from_value(value); }

// A model of a user's own: quadratic, and without `validate`.
struct attention_matrix {
  [[nodiscard]] constexpr bytes required(const batch_plan& plan) const {
    return plan.micro_batch * plan.micro_batch * 1_GB;
  }
};
struct answers_with {
  double value;
  [[nodiscard]] constexpr bytes required(const batch_plan&) const { return bytes_of(value); }
};
struct not_a_model {
  [[nodiscard]] constexpr double required(const batch_plan&) const { return 0; }
};

}  // namespace

TEST_CASE("anything that answers in bytes is a memory model") {
  STATIC_CHECK(memory_model<affine_memory>);
  STATIC_CHECK(memory_model<attention_matrix>);
  STATIC_CHECK(!memory_model<not_a_model>);
  STATIC_CHECK(!memory_model<int>);
}

TEST_CASE("the affine model is a fixed part and a part per sample of the micro-batch") {
  STATIC_CHECK(groot.required({}) == 8.2_GB);
  STATIC_CHECK(groot.required({12, 4, 3}) == 21.4_GB);
  STATIC_CHECK(groot.required({12, 400, 30}) == 21.4_GB);
}

TEST_CASE("affine models are the same where both parts are") {
  STATIC_CHECK(groot == affine_memory{.fixed = 7_GB, .per_sample = 1.2_GB});
  STATIC_CHECK(groot != affine_memory{.fixed = 7_GB, .per_sample = 1.3_GB});
  STATIC_CHECK(groot != affine_memory{.fixed = 8_GB, .per_sample = 1.2_GB});
}

TEST_CASE("a plan fits when what it needs is at most what there is") {
  STATIC_CHECK(fits({14, 4, 1}, 23.8_GB, groot));
  STATIC_CHECK(!fits({14, 4, 1}, 23.8_GB - 1_B, groot));
  STATIC_CHECK(check({14, 4, 1}, 23.8_GB, groot));
  STATIC_CHECK(*check({14, 4, 1}, 23.8_GB, groot) == batch_plan{14, 4, 1});
  STATIC_CHECK(fits({2, 1, 1}, 4_GB, attention_matrix{}));
  STATIC_CHECK(!check({3, 1, 1}, 4_GB, attention_matrix{}));
}

TEST_CASE("a plan that does not fit says what it needs and what there is") {
  STATIC_CHECK(check({5, 4, 6}, 11_GB, groot).why() ==
               failure(errc::exceeds_gpu_memory,
                       named_fact{fact::micro_batch, 5},
                       named_fact{fact::data_parallel, 4},
                       named_fact{fact::accumulation, 6},
                       named_fact{fact::needed_MB, 13'000},
                       named_fact{fact::gpu_has_MB, 11'000}));
  // One byte too many is still one MB more than there is.
  CONSTEXPR auto close = check({}, 8.2_GB - 1_B, groot).why();
  STATIC_CHECK(close[fact::needed_MB] == 8200);
  STATIC_CHECK(close[fact::gpu_has_MB] == 8199);
}

TEST_CASE("a range of needs fits, does not, or perhaps") {
  STATIC_CHECK(fits(range{20_GB, 24_GB}, 24_GB) == fit::yes);
  STATIC_CHECK(fits(range{20_GB, 25_GB}, 24_GB) == fit::perhaps);
  STATIC_CHECK(fits(range{24_GB, 25_GB}, 24_GB) == fit::perhaps);
  STATIC_CHECK(fits(range{25_GB, 26_GB}, 24_GB) == fit::no);
}

TEST_CASE("bad plans, budgets and models are refused by name") {
  STATIC_CHECK(check({0, 4, 1}, 24_GB, groot).why().code == errc::not_positive);
  STATIC_CHECK(check({}, memory_budget{}, groot).why() ==
               failure(errc::not_positive, named_fact{fact::gpu_has_MB, 0}));
  STATIC_CHECK(check({}, -24_GB, groot).why() ==
               failure(errc::not_positive, named_fact{fact::gpu_has_MB, -24'000}));
  STATIC_CHECK(check({}, bytes_of(not_a_number), groot).why() ==
               failure(errc::not_finite).about(fact::gpu));
  STATIC_CHECK(check({}, bytes_of(infinity), groot).why().code == errc::not_finite);
  STATIC_CHECK(check({}, mig_slice{.memory = bytes_of(1e300)}, groot));
  STATIC_CHECK(check({}, gpu_spec{}, groot).why() ==  // its memory is not stated
               failure(errc::not_positive, named_fact{fact::gpu_has_MB, -645}));
  STATIC_CHECK(check({}, 24_GB, affine_memory{.fixed = 7_GB, .per_sample = -1.2_GB}).why() ==
               failure(errc::negative, named_fact{fact::needed_MB, -1200}).about(fact::per_sample));
  STATIC_CHECK(check({}, 24_GB, affine_memory{.fixed = bytes_of(not_a_number)}).why() ==
               failure(errc::not_finite).about(fact::fixed));
  STATIC_CHECK(check({}, 24_GB, affine_memory{.per_sample = bytes_of(infinity)}).why() ==
               failure(errc::not_finite).about(fact::per_sample));
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
// clang calculates with NaN at run time only.
TEST_CASE("a device whose memory is no number is refused") {
  CHECK(check({}, gpu_spec{.memory = bytes_of(not_a_number)}, groot).why() ==
        failure(errc::not_finite).about(fact::gpu));
}
#endif

TEST_CASE("answers that are no memory are refused") {
  STATIC_CHECK(check({}, 24_GB, answers_with{not_a_number}).why() ==
               failure(errc::not_finite).about(fact::required));
  STATIC_CHECK(check({}, 24_GB, answers_with{infinity}).why().code == errc::not_finite);
  STATIC_CHECK(check({}, 24_GB, answers_with{-5e9}).why() ==
               failure(errc::negative, named_fact{fact::needed_MB, -5000}).about(fact::required));
  STATIC_CHECK(check({}, 24_GB, answers_with{0}));
}

TEST_CASE("head-room keeps a share of the memory free") {
  STATIC_CHECK(keep_free(recommended, 100_GB).size() == 85_GB);
  STATIC_CHECK(keep_free(conservative, 100_GB).size() == 70_GB);
  STATIC_CHECK(keep_free(aggressive, 100_GB).size() == 100_GB);
  STATIC_CHECK(keep_free({.share = 0.5}, 24_GB).size() == 12_GB);
  STATIC_CHECK(keep_free({.share = 1}, 24_GB).size() == bytes{});
  STATIC_CHECK(keep_free({}, 24_GB).size() == 24_GB);
}

TEST_CASE("savings touch the part that they are about") {
  STATIC_CHECK(with(groot, checkpointing(0.5)) ==
               affine_memory{.fixed = 7_GB, .per_sample = 0.6_GB});
  STATIC_CHECK(with(groot, mixed_precision(0.25)).fixed == 7_GB);
  STATIC_CHECK(with(with(groot, checkpointing(0.5)), mixed_precision(0.5)).per_sample == 0.3_GB);
  STATIC_CHECK(with(groot, {.fixed = 1, .per_sample = 1}) == affine_memory{});
  STATIC_CHECK(with(groot, {}) == groot);
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
TEST_CASE("shares outside 0 to 1 are refused") {
  for (const double share : {-0.1, 1.1, not_a_number, infinity}) {
    CHECK_THROWS_AS(static_cast<void>(keep_free({.share = share}, 24_GB)), plan_error);
    CHECK_THROWS_AS(static_cast<void>(with(groot, checkpointing(share))), plan_error);
    CHECK_THROWS_AS(static_cast<void>(with(groot, memory_saving{.fixed = share})), plan_error);
  }
  try {
    static_cast<void>(keep_free({.share = 2}, 24_GB));
  } catch (const plan_error& refused) {
    CHECK(refused.why()[fact::at_least] == 0);
    CHECK(refused.why()[fact::at_most] == 1);
  }
}
#endif
