#include "check.hpp"

#include <gpuplan/precision.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstddef>
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

TEST_CASE("a value that is not taken reads as a sentence, with what is") {
  STATIC_CHECK(
      says(failure(errc::no_such_code, {{fact::zero_stage, 7}, {fact::takes, 2}, {fact::takes, 3}}),
           "zero_stage 7 is not taken; 2 or 3 is"));
  STATIC_CHECK(says(failure(errc::no_such_code,
                            {{fact::precision_compute, number_format::fp32},
                             {fact::fp8_linears, true},
                             {fact::head_dim, 512},
                             {fact::takes, number_format::bf16}}),
                    "precision_compute fp32 is not taken beside fp8_linears true, head_dim 512; "
                    "bf16 is"));
  STATIC_CHECK(says(
      failure(errc::no_such_code,
              {{fact::head_dim, 0}, {fact::takes, 8}, {fact::at_least, 16}, {fact::at_most, 256}}),
      "head_dim 0 is not taken; 8, at least 16 or at most 256 is"));
}

namespace {

constexpr bool names_divisors(std::int64_t number, std::int64_t whole, std::string_view expected) {
  return says(failure(errc::does_not_divide,
                      {{fact::tensor_parallel, number}, {fact::num_attention_heads, whole}}),
              expected);
}
constexpr bool names_multiples(std::int64_t number, std::int64_t of, std::string_view expected) {
  return says(
      failure(errc::not_a_multiple, {{fact::accumulation, number}, {fact::pipeline_parallel, of}}),
      expected);
}

}  // namespace

TEST_CASE("a number that does not divide is refused with the nearest that do") {
  STATIC_CHECK(names_divisors(6,
                              32,
                              "tensor_parallel 6 does not divide num_attention_heads 32; 1, 2, 4, "
                              "8, 16 or 32 do"));
  STATIC_CHECK(names_divisors(
      12,
      14336,
      "tensor_parallel 12 does not divide num_attention_heads 14336; 2, 4, 7, 8, 14, 16, 28 or 32 "
      "do"));
  STATIC_CHECK(
      names_divisors(2, 1, "tensor_parallel 2 does not divide num_attention_heads 1; 1 does"));
  STATIC_CHECK(names_divisors(100,
                              36,
                              "tensor_parallel 100 does not divide num_attention_heads 36; 9, 12, "
                              "18 or 36 do"));
  STATIC_CHECK(
      names_multiples(7, 4, "accumulation 7 is no multiple of pipeline_parallel 4; 4 or 8 are"));
  STATIC_CHECK(names_multiples(3, 4, "accumulation 3 is no multiple of pipeline_parallel 4; 4 is"));
  // What has no such numbers is left at its sentence.
  STATIC_CHECK(names_multiples(3, 0, "accumulation 3 is no multiple of pipeline_parallel 0"));
  STATIC_CHECK(says(failure(errc::does_not_divide),
                    "the first number does not divide the second; those that would do are named "
                    "last"));
}

TEST_CASE("numbers with a fraction, and those that are none") {
  struct number {
    double value = 0;
    std::string_view text;
  };
  CONSTEXPR bool are_told = [] {
    const double infinity = std::numeric_limits<double>::infinity();
    for (const number& each : {number{1.5, "1.5"},
                               number{-0.25, "-0.25"},
                               number{-2.000001, "-2.000001"},
                               number{3, "3"},
                               number{0.1, "0.1"},
                               number{1e12, "1000000000000"},
                               number{-1e300, "-9000000000000000000"},
                               number{infinity, "infinity"},
                               number{-infinity, "minus_infinity"},
                               number{std::numeric_limits<double>::quiet_NaN(), "nan"}})
      if (!std::string_view(
               failure_text(failure(errc::negative, named_fact{fact::dropout, each.value})).c_str())
               .ends_with(each.text))
        return false;
    return true;
  }();
  STATIC_CHECK(are_told);
}

namespace {

// The enumerator of a value as the compiler spells it; a number in parentheses where there is none.
template <auto Value>
constexpr std::string_view spelled() {
  const std::string_view name = __PRETTY_FUNCTION__;
  const std::size_t begin = name.find("Value = ") + 8;
  const std::string_view value = name.substr(begin, name.find_first_of(";]", begin) - begin);
  return value[0] == '(' ? value : value.substr(value.rfind(':') + 1);
}

template <class Enumeration, int Index = 0>
constexpr bool is_spelled_alike() {
  constexpr Enumeration value = static_cast<Enumeration>(Index);
  const std::string_view word = word_of(named_fact{fact::takes, value});
  if constexpr (spelled<value>()[0] == '(')
    return Index > 0 && word.empty();
  else
    return word == spelled<value>() && is_spelled_alike<Enumeration, Index + 1>();
}

}  // namespace

TEST_CASE("the words of facts are the enumerators of the descriptions, all of them") {
#define GPUPLAN_CHECK(enumeration, ...) STATIC_CHECK(is_spelled_alike<enumeration>());
  GPUPLAN_FACT_ENUMERATIONS(GPUPLAN_CHECK)
#undef GPUPLAN_CHECK
  STATIC_CHECK(says(failure(errc::negative, named_fact{fact::takes, true}),
                    "this value must not be negative: takes true"));
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
