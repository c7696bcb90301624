#include "check.hpp"

#include <gpuplan/range.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

using namespace gpuplan;

namespace {

struct request {
  range<std::int64_t> effective_batch;
  range<duration> time{};
};

}  // namespace

TEST_CASE("a range is written as two ends or one point") {
  CONSTEXPR request two{.effective_batch = {120, 144}, .time = {10_h, 12_h}};
  CONSTEXPR request one{.effective_batch = 128, .time = 3_h};
  STATIC_CHECK(two.effective_batch.low() == 120);
  STATIC_CHECK(two.effective_batch.high() == 144);
  STATIC_CHECK(!two.effective_batch.is_point());
  STATIC_CHECK(one.effective_batch.is_point());
  STATIC_CHECK(one.time == range{3_h, 3_h});
  STATIC_CHECK(std::is_same_v<decltype(range{1, 2}), range<std::int64_t>>);
  STATIC_CHECK(std::is_same_v<decltype(range{1.0, 2.0}), range<double>>);
  STATIC_CHECK(std::is_same_v<decltype(range{1_GB, 2_GB}), range<bytes>>);
}

TEST_CASE("membership") {
  CONSTEXPR range hours{10_h, 12_h};
  STATIC_CHECK(hours.contains(10_h));
  STATIC_CHECK(hours.contains(12_h));
  STATIC_CHECK(!hours.contains(9_h));
  STATIC_CHECK(!hours.contains(12.5_h));
  STATIC_CHECK(hours.contains(range{11_h, 12_h}));
  STATIC_CHECK(!hours.contains(range{11_h, 13_h}));
  STATIC_CHECK(hours.overlaps(range{12_h, 13_h}));
  STATIC_CHECK(hours.overlaps(range{1_h, 20_h}));
  STATIC_CHECK(!hours.overlaps(range{12.5_h, 13_h}));
}

TEST_CASE("measures") {
  STATIC_CHECK(width(range{10_h, 12_h}) == 2_h);
  STATIC_CHECK(midpoint(range{10_h, 12_h}) == 11_h);
  STATIC_CHECK(midpoint(range{1, 4}) == 2.5);
  STATIC_CHECK(hull(range{1.0, 2.0}, {4.0, 5.0}) == range{1.0, 5.0});
  STATIC_CHECK(hull(range{1.0, 9.0}, {4.0, 5.0}) == range{1.0, 9.0});
  STATIC_CHECK(overlap(range{1.0, 4.0}, {3.0, 9.0}) == 1.0);
  STATIC_CHECK(overlap(range{1.0, 4.0}, {5.0, 9.0}) == 0.0);
  STATIC_CHECK(overlap(range{1.0, 4.0}, {4.0, 9.0}) == 0.0);
  STATIC_CHECK(relative_distance(range{10_h, 12_h}, 11_h) == 0);
  STATIC_CHECK(relative_distance(range{10.0, 12.0}, 15.0) == 0.25);
  STATIC_CHECK(relative_distance(range{10.0, 12.0}, 5.0) == 0.5);
  STATIC_CHECK(relative_distance(range{-4.0, -2.0}, -1.0) == 0.5);
  STATIC_CHECK(relative_distance(range{-1.0, 0.0}, 1.0) == std::numeric_limits<double>::infinity());
}

TEST_CASE("arithmetic of signed ranges") {
  STATIC_CHECK(range{1.0, 2.0} + range{10.0, 20.0} == range{11.0, 22.0});
  STATIC_CHECK(range{1.0, 2.0} - range{10.0, 20.0} == range{-19.0, -8.0});
  STATIC_CHECK(-range{1.0, 2.0} == range{-2.0, -1.0});
  STATIC_CHECK(range{-1.0, 2.0} * range{-3.0, 4.0} == range{-6.0, 8.0});
  STATIC_CHECK(range{-2.0, -1.0} * range{-4.0, -3.0} == range{3.0, 8.0});
  STATIC_CHECK(range{-2.0, 3.0} * range{4.0, 5.0} == range{-10.0, 15.0});
  STATIC_CHECK(range{0.0, 3.0} * range{-1.0, 5.0} == range{-3.0, 15.0});
  STATIC_CHECK(range{-6.0, 8.0} / range{2.0, 4.0} == range{-3.0, 4.0});
  STATIC_CHECK(range{6.0, 8.0} / range{-4.0, -2.0} == range{-4.0, -1.5});
  STATIC_CHECK(range{-8.0, -6.0} / range{-4.0, -2.0} == range{1.5, 4.0});
}

TEST_CASE("points take part as ranges, and dimensions follow") {
  STATIC_CHECK(2 * range{10_h, 12_h} == range{20_h, 24_h});
  STATIC_CHECK(range{10_h, 12_h} * 2 == range{20_h, 24_h});
  STATIC_CHECK(range{10_h, 12_h} / 2 == range{5_h, 6_h});
  STATIC_CHECK(1.0 - range{0.25, 0.5} == range{0.5, 0.75});
  STATIC_CHECK(3_GB + range{1_GB, 2_GB} == range{4_GB, 5_GB});
  STATIC_CHECK(300_usd / range{50_h, 100_h} == range{3_usd_per_hour, 6_usd_per_hour});
  STATIC_CHECK(3_usd_per_hour * range{50_h, 100_h} == range{150_usd, 300_usd});
  STATIC_CHECK(range{10_h, 20_h} / 5_h == range{2.0, 4.0});
  STATIC_CHECK(std::is_same_v<decltype(range{10_h, 20_h} / 5_h), range<double>>);
}

TEST_CASE("whole numbers stay whole but for quotients") {
  STATIC_CHECK(range{10, 12} * range{4, 4} * 3 == range{120, 144});
  STATIC_CHECK(std::is_same_v<decltype(range{1, 2} * 3), range<std::int64_t>>);
  STATIC_CHECK(range{10, 13} / 4 == range{2.5, 3.25});
  STATIC_CHECK(range{1, 2} + 1 == range{2, 3});
  STATIC_CHECK(1.5 * range{2, 4} == range{3.0, 6.0});
}

namespace {

template <class A, class B>
concept addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept multipliable = requires(A a, B b) {
  a* b;
};

}  // namespace

TEST_CASE("wrong dimensions are seen by requires") {
  STATIC_CHECK(addable<range<bytes>, bytes>);
  STATIC_CHECK(!addable<range<bytes>, duration>);
  STATIC_CHECK(!addable<duration, range<bytes>>);
  STATIC_CHECK(!addable<range<bytes>, range<duration>>);
  STATIC_CHECK(!multipliable<range<bytes>, const char*>);
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
namespace {

template <class Action>
errc error_of(Action action) {
  try {
    static_cast<void>(action());
  } catch (const plan_error& error) {
    return error.why().code;
  }
  return errc::none;
}

}  // namespace

TEST_CASE("broken preconditions are exceptions at run time") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(error_of([] { return range{144, 120}; }) == errc::inverted_range);
  CHECK(error_of([] { return range{1.0, nan}; }) == errc::inverted_range);
  CHECK(error_of([] { return range{nan, 1.0}; }) == errc::inverted_range);
  CHECK(error_of([] { return range(nan); }) == errc::inverted_range);
  CHECK(error_of([] {
          return range{1.0, 2.0} / range{-1.0, 1.0};
        }) == errc::division_by_range_with_zero);
  CHECK(error_of([] { return 1 / range{0, 4}; }) == errc::division_by_range_with_zero);
  CHECK(error_of([] { return range{0.0, 1.0} * range{1.0, inf}; }) == errc::inverted_range);
  CHECK(error_of([] { return range{std::int64_t{1}, most} * 2; }) == errc::overflow);
  CHECK(error_of([] { return range{std::int64_t{1}, most} + 1; }) == errc::overflow);
  CHECK(error_of([] { return range{1.0, 2.0} / 4; }) == errc::none);
}
#endif
