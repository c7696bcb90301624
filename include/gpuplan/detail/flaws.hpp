#pragma once

// How refusals of a description are put: the field, what it stands beside, and what would be taken.

#include <gpuplan/result.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpuplan::detail {

// The value there is no code for, what it stands beside, and what would be taken.
constexpr failure without_code(std::initializer_list<named_fact> known) {
  return failure(errc::no_such_code, known);
}
// The first of these that is there (not 0, `false` or `none`), where there is code for none.
constexpr failure flaw_if_any(std::initializer_list<named_fact> fields, named_fact beside) {
  for (const named_fact& field : fields) {
    named_fact taken = field;
    taken.name = fact::takes;
    taken.value = 0;
    if (field.value != 0) return without_code({field, beside, taken});
  }
  return {};
}
// The first of these that is not what alone is taken.
struct taken_alone {
  named_fact field{};
  std::int64_t takes = 1;
};
constexpr failure flaw_unless(std::initializer_list<taken_alone> fields, named_fact beside) {
  for (const taken_alone& one : fields) {
    named_fact taken = one.field;
    taken.name = fact::takes;
    taken.value = one.takes;
    if (one.field.value != one.takes) return without_code({one.field, beside, taken});
  }
  return {};
}
// Likewise where a number must divide others, or be a multiple of one.
constexpr failure flaw_if_indivisible(named_fact number, std::initializer_list<named_fact> wholes) {
  for (const named_fact& whole : wholes)
    if (whole.value % number.value != 0) return failure(errc::does_not_divide, {number, whole});
  return {};
}
constexpr failure flaw_if_no_multiple(std::initializer_list<named_fact> numbers, named_fact of) {
  for (const named_fact& number : numbers)
    if (number.value % of.value != 0) return failure(errc::not_a_multiple, {number, of});
  return {};
}

}  // namespace gpuplan::detail
