#include "check.hpp"

#include <gpuplan/require.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>
#include <limits>
#include <string_view>

using namespace gpuplan;

namespace {

constexpr result<int> half_of(int number) {
  if (number % 2 != 0) return failure(errc::out_of_bounds, named_fact{fact::micro_batch, number});
  return number / 2;
}

constexpr bool says(const failure& why, std::string_view expected) {
  return failure_text(why).c_str() == expected;
}

}  // namespace

TEST_CASE("a result holds a value or the reason why not") {
  CONSTEXPR auto good = half_of(8);
  CONSTEXPR auto bad = half_of(7);
  STATIC_CHECK(good);
  STATIC_CHECK(*good == 4);
  STATIC_CHECK(good.value_or_throw() == 4);
  STATIC_CHECK(good.why().code == errc::none);
  STATIC_CHECK(!bad);
  STATIC_CHECK(bad.why().code == errc::out_of_bounds);
  STATIC_CHECK(bad.why()[fact::micro_batch] == 7);
  STATIC_CHECK(bad.why()[fact::accumulation] == 0);
}

TEST_CASE("require unwraps") {
  STATIC_CHECK(require([] { return half_of(8); }) == 4);
}

TEST_CASE("failures read as one line") {
  STATIC_CHECK(says(failure(errc::negative), "this value must not be negative"));
  STATIC_CHECK(says(
      failure(errc::negative, named_fact{fact::micro_batch, -12}, named_fact{fact::at_least, 0}),
      "this value must not be negative: micro_batch -12, at_least 0"));
  STATIC_CHECK(
      says(failure(errc::not_finite).about("fixed"), "this value must be a finite number: fixed"));
  STATIC_CHECK(says(failure(errc::negative, named_fact{fact::needed_MB, 7}).about("per_sample"),
                    "this value must not be negative: per_sample, needed_MB 7"));
  STATIC_CHECK(
      says(failure(errc::overflow,
                   named_fact{fact::micro_batch, std::numeric_limits<std::int64_t>::min()},
                   named_fact{fact::accumulation, std::numeric_limits<std::int64_t>::max()}),
           "the product of these values does not fit into 64 bits: micro_batch "
           "-9223372036854775808, accumulation 9223372036854775807"));
}

TEST_CASE("a subject is cut to its room, and a fact can be added") {
  CONSTEXPR auto long_name =
      failure(errc::unknown_gpu).about("a name of more than thirty-one characters");
  STATIC_CHECK(long_name.subject_size() == 31);
  STATIC_CHECK(std::string_view(long_name.subject) == "a name of more than thirty-one ");
  STATIC_CHECK(long_name.about("short").subject_size() == 5);
  STATIC_CHECK([] {
    failure why(errc::negative);
    why.add(fact::accumulation, -3);
    return why == failure(errc::negative, named_fact{fact::accumulation, -3});
  }());
}

namespace {

constexpr bool every_error_has_a_sentence() {
#define GPUPLAN_ERROR(name, sentence)                               \
  if (text(errc::name) != std::string_view(sentence)) return false; \
  if (std::string_view(sentence).size() < 20) return false;         \
  if (std::string_view(sentence).find("  ") != std::string_view::npos) return false;
#include <gpuplan/detail/errors.inc>
  return true;
}

}  // namespace

TEST_CASE("every error has a sentence, every fact its name") {
  STATIC_CHECK(every_error_has_a_sentence());
  STATIC_CHECK(text(fact::gpu_has_MB) == std::string_view("gpu_has_MB"));
  STATIC_CHECK(text(errc::none) == std::string_view("no error"));
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
TEST_CASE("value_or_throw throws the reason") {
  try {
    static_cast<void>(half_of(7).value_or_throw());
    FAIL("did not throw");
  } catch (const plan_error& error) {
    CHECK(error.why() == half_of(7).why());
    CHECK(std::string_view(error.what()) ==
          "this value lies outside the bounds that are stated beside it: micro_batch 7");
  }
  CHECK_THROWS_AS(static_cast<void>(*half_of(7)), plan_error);
}

TEST_CASE("the longest failure fits into its text") {
  failure longest(errc::no_such_batch);
  for (unsigned i = 0; i < failure::most_facts; ++i)
    longest.add(fact::effective_batch_high, std::numeric_limits<std::int64_t>::min());
  longest = longest.about("a subject of thirty-one letters");
  const failure_text whole(longest);
  const std::string_view line = whole.c_str();
  CHECK(line.substr(line.size() - 20) == "-9223372036854775808");
}
#endif
