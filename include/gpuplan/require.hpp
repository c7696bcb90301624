#pragma once

// From a result to its value at compile time, or to a compile error that explains itself.

#include <gpuplan/result.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace gpuplan {
namespace detail {

// The compile error: the compiler prints the error and its facts where it names this template. A
// function template, since a class template brings follow-on errors; the facts alternate between
// name and value, since compilers print an enumerator by name only as a whole argument, and a
// subject goes in as single characters, since clang prints an array of them as numbers.
template <errc Error, auto... Facts>
constexpr void rejected() {
  constexpr bool accepted = Error == errc::none;
#define GPUPLAN_ERROR(name, sentence) \
  if constexpr (Error == errc::name) static_assert(accepted, "gpuplan: " sentence);
#include <gpuplan/detail/errors.inc>
}

// A failure's facts, and behind them the numbers that would have been taken.
struct known_facts {
  named_fact facts[failure::most_facts + numbers_taken::most]{};
  unsigned count = 0;
  bool has_field = false;  // which goes first

  constexpr explicit known_facts(const failure& why) : has_field(why.field != fact::none) {
    for (; count < why.count; ++count) facts[count] = why.facts[count];
    const numbers_taken taken(why);
    for (unsigned i = 0; i < taken.count; ++i)
      facts[count++] = named_fact{fact::takes, taken.numbers[i]};
  }
  [[nodiscard]] constexpr std::size_t size() const { return 2 * count + has_field; }
};

template <named_fact Known>
constexpr auto value_of() {
  if constexpr (Known.kind == fact_kind::yes_no)
    return Known.value != 0;
  else if constexpr (Known.kind == fact_kind::fraction)
    return millionths{Known.value};
  else if constexpr (Known.kind == fact_kind::code)
    return Known.code;
#define GPUPLAN_CAST(enumeration, ...) \
  else if constexpr (Known.kind ==     \
                     fact_kind::enumeration) return static_cast<enumeration>(Known.value);
  GPUPLAN_FACT_ENUMERATIONS(GPUPLAN_CAST)
#undef GPUPLAN_CAST
  else return Known.value;
}

template <failure Why, std::size_t Index>
constexpr auto fact_at() {
  constexpr known_facts known(Why);
  constexpr std::size_t place = Index - known.has_field;
  if constexpr (known.has_field && Index == 0) {
    return Why.field;
  } else if constexpr (place >= 2 * known.count) {
    return Why.subject[place - 2 * known.count];
  } else if constexpr (place % 2 == 0) {
    return known.facts[place / 2].name;
  } else {
    return value_of<known.facts[place / 2]>();
  }
}

template <int>
struct constant {};

// Whether the computation runs through: false where it breaks a precondition.
template <class Computation>
concept computable = requires {
  typename constant<(static_cast<void>(Computation{}()), 0)>;
};

template <failure Why, std::size_t... Index>
constexpr void explain(std::index_sequence<Index...>) {
  rejected<Why.code, fact_at<Why, Index>()...>();
}

}  // namespace detail

/// The value of the `result` that `computation` returns, at compile time; where it is a failure, a
/// compile error with the sentence of its `errc` and its facts. `computation` is a lambda without
/// captures, `require([] { return check(...); })`: its type carries the question to the compiler.
/// Clang warns of a namespace's `constexpr auto plan = require(...)` that nothing reads, as of
/// every such constant; not of an `inline constexpr` one.
///
/// `constexpr` and not `consteval`: clang 14 crashes on a second consteval call in one function,
/// and the answer is a constant either way.
template <class Computation>
[[nodiscard]] constexpr auto require(Computation computation) {
  if constexpr (detail::computable<Computation>) {
    constexpr auto answer = Computation{}();
    if constexpr (!answer) {
      constexpr failure why = answer.why();
      detail::explain<why>(
          std::make_index_sequence<detail::known_facts(why).size() + why.subject_size()>{});
    }
    return detail::value_or_default(answer);
  } else {
    return *computation();  // one error, which leads to the broken precondition
  }
}

}  // namespace gpuplan
