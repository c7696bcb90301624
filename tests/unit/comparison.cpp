#include <string>

#include "check.hpp"
#include "guides/comparison.hpp"

using namespace guides;
using enum guides::verdict;

namespace {

constexpr gpuplan::range<double> between(double low, double high) { return {low, high}; }

// By the numbers alone, with the digits after the point that are documented.
constexpr verdict points(double documented, int digits, double computed) {
  return judge(number(documented, digits), number(computed, 9));
}
constexpr verdict ranges(double low, double high, double computed_low, double computed_high) {
  return judge(span_of(between(low, high), 0), span_of(between(computed_low, computed_high), 9));
}

}  // namespace

TEST_CASE("a number agrees within half a unit of the last printed digit") {
  STATIC_CHECK(points(1099, 0, 1099.2) == agrees);
  STATIC_CHECK(points(660, 0, 660.4) == agrees);
  STATIC_CHECK(points(1.67, 2, 1.6650001) == agrees);
  STATIC_CHECK(points(1.67, 2, 1.6649) == rounds);
  STATIC_CHECK(points(0.18, 2, 0.176) == agrees);
  STATIC_CHECK(points(0.18, 3, 0.176) == rounds);
  STATIC_CHECK(points(-12, 0, -12.4) == agrees);
  STATIC_CHECK(points(-12, 0, -12.6) == rounds);
}

TEST_CASE("a truncated number only rounds") {
  STATIC_CHECK(points(232, 0, 232.8) == rounds);
  STATIC_CHECK(points(660, 0, 660.8) == rounds);
}

TEST_CASE("a tie agrees with both neighbours, however binary rounds it") {
  STATIC_CHECK(points(0.6, 1, 0.65) == agrees);
  STATIC_CHECK(points(0.7, 1, 0.65) == agrees);
  STATIC_CHECK(points(2.67, 2, 2.675) == agrees);
  STATIC_CHECK(points(2.68, 2, 2.675) == agrees);
  STATIC_CHECK(points(12, 0, 12.5) == agrees);
  STATIC_CHECK(points(13, 0, 12.5) == agrees);
}

TEST_CASE("negative digits are zeros that the guide does not mean") {
  STATIC_CHECK(points(1800, -2, 1849) == agrees);
  STATIC_CHECK(points(1800, 0, 1849) == rounds);
  STATIC_CHECK(points(1800, -2, 1851) == rounds);
}

TEST_CASE("a number rounds within 5 % of the documented one") {
  STATIC_CHECK(points(1000, 0, 1050) == rounds);
  STATIC_CHECK(points(1000, 0, 950) == rounds);
  STATIC_CHECK(points(1000, 0, 1050.01) == differs);
  STATIC_CHECK(points(1000, 0, 949.99) == differs);
  STATIC_CHECK(points(-1000, 0, -1050) == rounds);
  STATIC_CHECK(points(-1000, 0, -1051) == differs);
  // The fewer digits are printed, the wider is what agrees.
  STATIC_CHECK(points(1, 0, 1.4) == agrees);
  STATIC_CHECK(points(1, 0, 1.6) == differs);
}

TEST_CASE("nothing is within 5 % of zero but what prints as zero") {
  STATIC_CHECK(points(0, 0, 0) == agrees);
  STATIC_CHECK(points(0, 1, 0.05) == agrees);
  STATIC_CHECK(points(0, 1, 0.06) == differs);
  STATIC_CHECK(points(0.1, 1, 0) == differs);
}

TEST_CASE("a number agrees with a documented range that it lies in") {
  STATIC_CHECK(judge(span_of({8, 12}), number(8)) == agrees);
  STATIC_CHECK(judge(span_of({8, 12}), number(12)) == agrees);
  STATIC_CHECK(judge(span_of({8, 12}), number(12.4, 1)) == agrees);
  STATIC_CHECK(judge(span_of({8, 12}), number(12.6, 1)) == rounds);
  STATIC_CHECK(judge(span_of({8, 12}), number(7.6, 1)) == agrees);
  STATIC_CHECK(judge(span_of({80, 120}), number(76)) == rounds);
  STATIC_CHECK(judge(span_of({80, 120}), number(75)) == differs);
  STATIC_CHECK(judge(span_of({80, 120}), number(126)) == rounds);
  STATIC_CHECK(judge(span_of({80, 120}), number(127)) == differs);
}

TEST_CASE("a computed range agrees with a documented number that it contains") {
  STATIC_CHECK(judge(number(30), span_of({20, 40})) == agrees);
  STATIC_CHECK(judge(number(30), span_of({30, 40})) == agrees);
  STATIC_CHECK(judge(number(30), span_of(between(30.4, 40), 1)) == agrees);
  STATIC_CHECK(judge(number(30), span_of({31, 40})) == rounds);
  STATIC_CHECK(judge(number(30), span_of({32, 40})) == differs);
}

TEST_CASE("a range of no width is a number") {
  STATIC_CHECK(ranges(12, 12, 12, 12) == agrees);
  STATIC_CHECK(ranges(12, 12, 12.4, 12.4) == agrees);
  STATIC_CHECK(ranges(100, 100, 104, 104) == rounds);
  STATIC_CHECK(ranges(8, 12, 10, 10) == agrees);
  STATIC_CHECK(ranges(10, 10, 8, 12) == agrees);
  STATIC_CHECK(ranges(8, 12, 20, 20) == differs);
}

TEST_CASE("two ranges agree where they share half of the narrower") {
  STATIC_CHECK(ranges(10, 20, 15, 30) == agrees);
  STATIC_CHECK(ranges(10, 20, 0, 15) == agrees);
  STATIC_CHECK(ranges(10, 20, 19, 21) == agrees);
  STATIC_CHECK(ranges(10, 20, 12, 13) == agrees);
  STATIC_CHECK(ranges(10, 20, 0, 100) == agrees);
  STATIC_CHECK(ranges(0.1, 0.3, 0.2, 0.4) == agrees);  // half, but not in binary
  STATIC_CHECK(ranges(-20, -10, -15, 0) == agrees);
}

TEST_CASE("two ranges round where each end is within 5 % of its like") {
  STATIC_CHECK(ranges(100, 102, 104.9, 107.1) == rounds);
  STATIC_CHECK(ranges(100, 102, 105, 107.2) == differs);  // 107.1 is 5 % above 102
  STATIC_CHECK(ranges(100, 102, 95, 98) == rounds);
  STATIC_CHECK(ranges(100, 102, 94.9, 98) == differs);
  STATIC_CHECK(ranges(-102, -100, -98, -96) == rounds);
  STATIC_CHECK(ranges(100, 200, 161, 300) == differs);
  STATIC_CHECK(ranges(100, 200, 202, 209) == differs);
}

TEST_CASE("ranges that touch share nothing") {
  STATIC_CHECK(ranges(8, 12, 12, 15) == differs);
  STATIC_CHECK(ranges(8, 12, 4, 8) == differs);
}

TEST_CASE("a range inside the documented one to the digits printed agrees") {
  STATIC_CHECK(ranges(10, 12, 12.1, 12.4) == agrees);
  STATIC_CHECK(ranges(10, 12, 12.1, 12.6) == differs);
}

TEST_CASE("words are equal or differ") {
  STATIC_CHECK(judge(word("gpu:gpu4090:4"), word("gpu:gpu4090:4")) == agrees);
  STATIC_CHECK(judge(word("gpu:gpu4090:4"), word("gpu:gpu4090:2")) == differs);
  STATIC_CHECK(judge(word("a"), word("ab")) == differs);
  STATIC_CHECK(judge(word("12"), number(12)) == differs);
  STATIC_CHECK(judge(number(12), word("12")) == differs);
  STATIC_CHECK(word("a").word() == "a");
}

TEST_CASE("nothing is no number") {
  STATIC_CHECK(judge(nothing(), number(1)) == not_compared);
  STATIC_CHECK(judge(nothing(), nothing()) == not_compared);
  STATIC_CHECK(judge(number(1), nothing()) == not_computable);
  STATIC_CHECK(judge(word("a"), nothing()) == not_computable);
  STATIC_CHECK(judge(number(0), nothing()) == not_computable);
}

TEST_CASE("sides are values") {
  STATIC_CHECK(number(12) == number(12.0, 0));
  STATIC_CHECK(number(12) != number(12.0, 1));
  STATIC_CHECK(number(12) != span_of({12, 12}));
  STATIC_CHECK(word("a") != word("b"));
  STATIC_CHECK(nothing() == shown{});
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
TEST_CASE("NaN and endless words are not taken") {
  const double nan = __builtin_nan("");
  CHECK_THROWS_AS(static_cast<void>(number(nan, 1)), gpuplan::plan_error);
  CHECK_THROWS_AS(static_cast<void>(word(std::string(256, 'x'))), std::length_error);
}
#endif
