#pragma once

// What descriptions of ranges and of numbers of devices are checked for: each gives the failure, or
// `errc::none`. Private.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <type_traits>

namespace gpuplan::detail {

// A number as a fact: thousandths, cut to what a fact can hold.
[[nodiscard]] constexpr std::int64_t thousandths(double value) {
  constexpr double most = 9e18;
  const double scaled = round(value < most / 1e3 && value > -most / 1e3 ? value * 1e3
                              : value > 0                               ? most
                                                                        : -most);
  return static_cast<std::int64_t>(scaled);
}

// A number as a fact: away from zero, so that a value outside its bounds shows outside them; cut to
// 64 bits. Not NaN.
[[nodiscard]] constexpr std::int64_t as_fact(double value) {
  const double away = value < 0 ? floor(value) : ceil(value);
  return static_cast<std::int64_t>(away > 9e18 ? 9e18 : away < -9e18 ? -9e18 : away);
}

[[nodiscard]] constexpr failure about_range(errc code, range<double> value, fact name) {
  return failure(code,
                 named_fact{fact::low_thousandths, thousandths(value.low())},
                 named_fact{fact::high_thousandths, thousandths(value.high())})
      .about(name);
}

// No end of a range is NaN: `range` sees to that.
[[nodiscard]] constexpr failure check_positive(range<double> value, fact name) {
  if (!(value.low() > 0)) return about_range(errc::not_positive, value, name);
  if (!is_finite(value.high())) return about_range(errc::not_finite, value, name);
  return {};
}

// A point may be NaN.
[[nodiscard]] constexpr failure check_positive(double value, fact name) {
  if (is_nan(value)) return failure(errc::not_finite, named_fact{name, value});
  return check_positive(range<double>(value), name);
}

// The same of a quantity; `thousand` is a thousand of the unit that the fact is counted in.
template <any_quantity Quantity>
[[nodiscard]] constexpr failure check_positive(range<Quantity> value,
                                               std::type_identity_t<Quantity> thousand,
                                               fact counted,
                                               fact name) {
  if (!(value.low() > Quantity{}))
    return failure(errc::not_positive, named_fact{counted, thousandths(in(value.low(), thousand))})
        .about(name);
  if (!is_finite(value.high().value()))
    return failure(errc::not_finite, named_fact{name, value.high().value()});
  return {};
}
// A point may be NaN.
template <any_quantity Quantity>
[[nodiscard]] constexpr failure check_positive(Quantity value,
                                               std::type_identity_t<Quantity> thousand,
                                               fact counted,
                                               fact name) {
  if (is_nan(value.value())) return failure(errc::not_finite, named_fact{name, value.value()});
  return check_positive(range<Quantity>(value), thousand, counted, name);
}
[[nodiscard]] constexpr failure check_positive(duration value, fact name) {
  return check_positive(value, 1_ms, fact::time_us, name);
}
[[nodiscard]] constexpr failure check_positive(range<duration> value, fact name) {
  return check_positive(value, 1_ms, fact::time_us, name);
}

[[nodiscard]] constexpr failure check_between(range<double> value,
                                              std::int64_t least,
                                              std::int64_t most,
                                              fact name) {
  if (range(static_cast<double>(least), static_cast<double>(most)).contains(value)) return {};
  return failure(errc::out_of_bounds,
                 named_fact{fact::low_thousandths, thousandths(value.low())},
                 named_fact{fact::high_thousandths, thousandths(value.high())},
                 named_fact{fact::at_least, least},
                 named_fact{fact::at_most, most})
      .about(name);
}

// A point may be no finite number.
[[nodiscard]] constexpr failure check_between(double value,
                                              std::int64_t least,
                                              std::int64_t most,
                                              fact name) {
  if (!is_finite(value)) return failure(errc::not_finite, named_fact{name, value});
  return check_between(range<double>(value), least, most, name);
}

// An answer's ends as plain numbers.
[[nodiscard]] constexpr range<double> ends_of(range<double> answer) { return answer; }
[[nodiscard]] constexpr range<double> ends_of(double answer) {
  return is_nan(answer) ? range<double>(infinity) : range<double>(answer);
}
template <any_quantity Quantity>
[[nodiscard]] constexpr range<double> ends_of(Quantity answer) {
  return ends_of(answer.value());
}
template <any_quantity Quantity>
[[nodiscard]] constexpr range<double> ends_of(range<Quantity> answer) {
  return {answer.low().value(), answer.high().value()};
}

// The answer itself where it is a finite number, or two; else `not_finite` with its name: inputs
// that are finite each may be too large together.
template <class Answer>
[[nodiscard]] constexpr result<Answer> finite_answer(Answer answer, fact name) {
  const range<double> ends = ends_of(answer);
  if (!is_finite(ends.low()) || !is_finite(ends.high()))
    return failure(errc::not_finite).about(name);
  return answer;
}

// Likewise, and above zero: too small together they round to it.
template <class Answer>
[[nodiscard]] constexpr result<Answer> positive_answer(Answer answer, fact name) {
  if (const failure why = check_positive(ends_of(answer), name); failed(why)) return why;
  return answer;
}

[[nodiscard]] constexpr failure check_at_least(std::int64_t value, std::int64_t least, fact name) {
  if (value >= least) return {};
  return failure(errc::out_of_bounds, named_fact{name, value}, named_fact{fact::at_least, least});
}

}  // namespace gpuplan::detail
