#pragma once

// A number that a guide prints beside the number that follows from the guide's inputs, and the
// verdict on the two.

#include <gpuplan/range.hpp>

#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace guides {

enum class verdict {
  agrees,
  rounds,
  differs,
  breaks_its_own_formula,
  not_computable,
  not_compared  // the guide prints nothing here
};

[[nodiscard]] constexpr const char* text(verdict v) {
  switch (v) {
    case verdict::agrees:
      return "agrees";
    case verdict::rounds:
      return "rounds";
    case verdict::differs:
      return "differs";
    case verdict::breaks_its_own_formula:
      return "breaks its own formula";
    case verdict::not_computable:
      return "not computable";
    case verdict::not_compared:
      break;
  }
  return "";
}

/// One side of a comparison: a number, a range, a word, or nothing. Made by the functions below.
struct shown {
  enum class kind { nothing, number, span, word };

  kind what = kind::nothing;
  int digits = 0;  // after the point, as printed
  gpuplan::range<double> value = 0.0;
  char characters[256]{};  // of a word

  [[nodiscard]] constexpr std::string_view word() const { return characters; }

  friend constexpr bool operator==(const shown&, const shown&) = default;
};

/// A number with the digits after the point that the guide prints, or that are to be printed;
/// -2 where only the hundreds are meant. NaN is a `plan_error`: say `nothing()` instead.
[[nodiscard]] constexpr shown number(double value, int digits) {
  shown s;
  s.what = shown::kind::number;
  s.digits = digits;
  s.value = value;
  return s;
}

/// A whole number.
template <gpuplan::detail::integer Integer>
[[nodiscard]] constexpr shown number(Integer value, int digits = 0) {
  return number(static_cast<double>(value), digits);
}

/// A range of numbers; one of whole numbers needs no digits: `span_of({8, 12})`.
[[nodiscard]] constexpr shown span_of(gpuplan::range<double> value, int digits) {
  shown s;
  s.what = shown::kind::span;
  s.digits = digits;
  s.value = value;
  return s;
}
[[nodiscard]] constexpr shown span_of(gpuplan::range<std::int64_t> value) {
  return span_of({static_cast<double>(value.low()), static_cast<double>(value.high())}, 0);
}

/// A text of up to 255 bytes, copied; a longer one is a `std::length_error`.
[[nodiscard]] constexpr shown word(std::string_view characters) {
  shown s;
  if (characters.size() >= sizeof(s.characters)) throw std::length_error("guides::word");
  s.what = shown::kind::word;
  char* to = s.characters;
  for (const char c : characters) *to++ = c;
  return s;
}

[[nodiscard]] constexpr shown nothing() { return {}; }

namespace detail {

// Decimals are seldom exact in binary: 0.65 is a tie between 0.6 and 0.7 all the same.
inline constexpr double binary_noise = 1e-12;

[[nodiscard]] constexpr double magnitude(double x) { return x < 0 ? -x : x; }

// Half a unit of the last of `digits` after the point.
[[nodiscard]] constexpr double half_a_unit(int digits) {
  double half = 0.5;
  for (; digits > 0; --digits) half /= 10;
  for (; digits < 0; ++digits) half *= 10;
  return half;
}

// `r` with each end moved outwards by `absolute` and by a part of itself.
[[nodiscard]] constexpr gpuplan::range<double> widened(gpuplan::range<double> r,
                                                       double absolute,
                                                       double part) {
  return {r.low() - absolute - (part + binary_noise) * magnitude(r.low()),
          r.high() + absolute + (part + binary_noise) * magnitude(r.high())};
}

// Whether two numbers, or the like ends of two ranges, are at most 5 % of the documented one apart.
[[nodiscard]] constexpr bool within_five_percent(double documented, double computed) {
  return magnitude(computed - documented) <= (0.05 + binary_noise) * magnitude(documented);
}

}  // namespace detail

/// The verdict on a computed value; `breaks_its_own_formula` is never found here but said.
///
/// - Two numbers agree where the difference is at most half a unit of the documented one's last
///   printed digit: 1099.2 agrees with 1099 and 0.65 with both 0.6 and 0.7, but 232.8 does not
///   agree with 232.
/// - A computed number agrees with a documented range that it lies in, and a computed range with a
///   documented number that it contains, to the digits printed.
/// - Two ranges agree where they share at least half of the narrower, or where the computed one
///   lies inside the documented one to the digits printed. Ranges that only touch do not agree.
/// - What does not agree rounds within 5 %: of the documented number, of the nearest end of a
/// range,
///   or, of two ranges, each end of its like. All else differs.
/// - Words agree or differ; a word and a number differ.
/// - Nothing documented is `not_compared`; else nothing computed is `not_computable`.
[[nodiscard]] constexpr verdict judge(const shown& documented, const shown& computed) {
  using kind = shown::kind;
  if (documented.what == kind::nothing) return verdict::not_compared;
  if (computed.what == kind::nothing) return verdict::not_computable;
  if (documented.what == kind::word || computed.what == kind::word) {
    const bool equal = documented.what == computed.what && documented.word() == computed.word();
    return equal ? verdict::agrees : verdict::differs;
  }
  const gpuplan::range<double> d = documented.value;
  const gpuplan::range<double> c = computed.value;
  const auto as_printed = detail::widened(d, detail::half_a_unit(documented.digits), 0);
  if (d.is_point() || c.is_point()) {
    if (as_printed.overlaps(c)) return verdict::agrees;
    return detail::widened(d, 0, 0.05).overlaps(c) ? verdict::rounds : verdict::differs;
  }
  const double narrower = width(d) < width(c) ? width(d) : width(c);
  if (as_printed.contains(c) || 2 * overlap(detail::widened(d, 0, 0), c) >= narrower)
    return verdict::agrees;
  const bool close = detail::within_five_percent(d.low(), c.low()) &&
                     detail::within_five_percent(d.high(), c.high());
  return close ? verdict::rounds : verdict::differs;
}

/// Whether two computed values are the same but for rounding, for static_asserts.
[[nodiscard]] constexpr bool near(double a, double b, double tolerance = 1e-9) {
  return a - b <= tolerance && b - a <= tolerance;
}

}  // namespace guides
