#pragma once

// Closed intervals, for inputs and answers that people state as "10 to 12 hours".

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace gpuplan {

template <class T>
class range;

namespace detail {

template <class T>
inline constexpr bool is_range = false;
template <class T>
inline constexpr bool is_range<range<T>> = true;

// What the end of a range can be; never itself a range. The operators below constrain their point
// operand with it first: a constraint that asked for the product first would depend on itself.
template <class T>
concept range_end = (integer<T> || std::floating_point<T> || any_quantity<T>)&&!is_range<T>;

// Ends of one computed range are of one of three types: whole numbers, numbers, quantities. Boost
// gives a ratio of like quantities a type of its own: here it is a number.
template <class T>
using end_type =
    std::conditional_t<integer<T>,
                       std::int64_t,
                       std::conditional_t<std::is_convertible_v<T, double>, double, T>>;

template <range_end T>
constexpr auto as_end(T value) {
  return static_cast<end_type<T>>(value);
}

// Integers are checked; a quotient of integers is a number, not its whole part.
template <range_end A, range_end B>
constexpr auto sum(A a, B b) {
  if constexpr (integer<A> && integer<B>) {
    const checked_integer exact = checked_sum(a, b);
    if (!exact.ok) precondition_violated(failure(errc::overflow));
    return exact.value;
  } else {
    return as_end(a + b);
  }
}
template <range_end A, range_end B>
constexpr auto product(A a, B b) {
  if constexpr (integer<A> && integer<B>) {
    const checked_integer exact = checked_product(a, b);
    if (!exact.ok) precondition_violated(failure(errc::overflow));
    return exact.value;
  } else if constexpr (integer<A>) {
    return as_end(static_cast<double>(a) * b);
  } else if constexpr (integer<B>) {
    return as_end(a * static_cast<double>(b));
  } else {
    return as_end(a * b);
  }
}
template <range_end A, range_end B>
constexpr auto quotient(A a, B b) {
  if constexpr (integer<A>) {
    return quotient(static_cast<double>(a), b);
  } else if constexpr (integer<B>) {
    return quotient(a, static_cast<double>(b));
  } else {
    return as_end(a / b);
  }
}

template <class A, class B>
concept addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept multipliable = requires(A a, B b) {
  a* b;
};
template <class A, class B>
concept divisible = requires(A a, B b) {
  a / b;
};

// Not constexpr on purpose: the line that calls one of these is the compile error, and the comment
// on it the sentence.
template <class T>
[[noreturn]] void inverted_range(T low, T high) {
  if constexpr (integer<T>)
    precondition_violated(failure(errc::inverted_range,
                                  {{fact::low, static_cast<std::int64_t>(low)},
                                   {fact::high, static_cast<std::int64_t>(high)}}));
  else if constexpr (any_quantity<T>)
    inverted_range(low.value(), high.value());
  else
    precondition_violated(
        failure(errc::inverted_range,
                {{fact::low, static_cast<double>(low)}, {fact::high, static_cast<double>(high)}}));
}
[[noreturn]] inline void division_by_zero() {
  precondition_violated(failure(errc::division_by_range_with_zero));
}

}  // namespace detail

/// The closed interval from `low()` to `high()` of a number or quantity. It never ends below its
/// start, and no end is NaN: breaking that is a compile error in a constant expression and a
/// `plan_error` (`errc::inverted_range`, with quantities in base units) at run time. `{120, 144}`
/// and a bare `128` convert to it.
template <class T>
class range {
 public:
  constexpr range() = default;
  constexpr range(T point) : range(point, point) {}  // NOLINT(google-explicit-constructor)
  constexpr range(T low, T high) : low_(low), high_(high) {
    if (!(low <= high))
      detail::inverted_range(low, high);  // gpuplan: a range must not end below its start
  }

  [[nodiscard]] constexpr T low() const { return low_; }
  [[nodiscard]] constexpr T high() const { return high_; }
  [[nodiscard]] constexpr bool is_point() const { return low_ == high_; }

  [[nodiscard]] constexpr bool contains(T value) const { return low_ <= value && value <= high_; }
  [[nodiscard]] constexpr bool contains(range other) const {
    return low_ <= other.low_ && other.high_ <= high_;
  }
  [[nodiscard]] constexpr bool overlaps(range other) const {
    return low_ <= other.high_ && other.low_ <= high_;
  }

  friend constexpr bool operator==(range a, range b) {
    return a.low_ == b.low_ && a.high_ == b.high_;
  }

 private:
  T low_{};
  T high_{};
};

template <detail::integer T>
range(T) -> range<std::int64_t>;
template <detail::integer T>
range(T, T) -> range<std::int64_t>;
template <detail::range_end T>
requires(!detail::integer<T>) range(T)
->range<T>;
template <detail::range_end T>
requires(!detail::integer<T>) range(T, T)
->range<T>;

/// `high - low`.
template <class T>
[[nodiscard]] constexpr T width(range<T> r) {
  return detail::sum(r.high(), -r.low());
}

/// Half-way between the ends; a number for whole ends.
template <class T>
[[nodiscard]] constexpr auto midpoint(range<T> r) {
  return detail::quotient(r.low(), 2) + detail::quotient(r.high(), 2);
}

/// The smallest range that contains both.
template <class T>
[[nodiscard]] constexpr range<T> hull(range<T> a, std::type_identity_t<range<T>> b) {
  return {a.low() < b.low() ? a.low() : b.low(), a.high() < b.high() ? b.high() : a.high()};
}

/// The width of what two ranges share: zero where they only touch or do not meet.
template <class T>
[[nodiscard]] constexpr T overlap(range<T> a, std::type_identity_t<range<T>> b) {
  if (!a.overlaps(b)) return T{};
  return width(
      range<T>(a.low() < b.low() ? b.low() : a.low(), a.high() < b.high() ? a.high() : b.high()));
}

/// How far `value` lies from the nearest end, relative to that end: 0 inside, 0.05 for 5 % outside,
/// infinite where that end is zero.
template <class T>
[[nodiscard]] constexpr double relative_distance(range<T> r, std::type_identity_t<T> value) {
  if (r.contains(value)) return 0;
  const T end = value < r.low() ? r.low() : r.high();
  if (end == T{}) return __builtin_inf();
  const double distance = detail::quotient(value, end) - 1.0;
  return distance < 0 ? -distance : distance;
}

template <class T>
[[nodiscard]] constexpr range<T> operator-(range<T> r) {
  return {-r.high(), -r.low()};
}

// Interval arithmetic: the smallest range that contains the result for every pair of points.
// Rounding is to nearest at the ends, as for plain numbers.

template <class A, class B>
requires detail::addable<A, B>
[[nodiscard]] constexpr auto operator+(range<A> a, range<B> b) {
  return range{detail::sum(a.low(), b.low()), detail::sum(a.high(), b.high())};
}

template <class A, class B>
requires detail::addable<A, B>
[[nodiscard]] constexpr auto operator-(range<A> a, range<B> b) { return a + -b; }

template <class A, class B>
requires detail::multipliable<A, B>
[[nodiscard]] constexpr auto operator*(range<A> a, range<B> b) {
  const auto p = detail::product(a.low(), b.low());
  const auto q = detail::product(a.low(), b.high());
  const auto r = detail::product(a.high(), b.low());
  const auto s = detail::product(a.high(), b.high());
  return hull(p < q ? range{p, q} : range{q, p}, r < s ? range{r, s} : range{s, r});
}

/// Precondition: `b` does not contain zero; else `errc::division_by_range_with_zero`, as a compile
/// error or a `plan_error`. A quotient of whole numbers is a range of numbers.
template <class A, class B>
requires detail::divisible<A, B>
[[nodiscard]] constexpr auto operator/(range<A> a, range<B> b) {
  if (b.contains(B{}))
    detail::division_by_zero();  // gpuplan: a range that contains zero cannot divide
  const auto p = detail::quotient(a.low(), b.low());
  const auto q = detail::quotient(a.low(), b.high());
  const auto r = detail::quotient(a.high(), b.low());
  const auto s = detail::quotient(a.high(), b.high());
  return hull(p < q ? range{p, q} : range{q, p}, r < s ? range{r, s} : range{s, r});
}

// A point is the range from itself to itself.
#define GPUPLAN_POINT_OPERATOR(op, valid)                                                \
  template <detail::range_end A, class B>                                                \
  requires detail::valid<A, B>                                                           \
  [[nodiscard]] constexpr auto operator op(A a, range<B> b) { return range<A>(a) op b; } \
  template <class A, detail::range_end B>                                                \
  requires detail::valid<A, B>                                                           \
  [[nodiscard]] constexpr auto operator op(range<A> a, B b) { return a op range<B>(b); }
GPUPLAN_POINT_OPERATOR(+, addable)
GPUPLAN_POINT_OPERATOR(-, addable)
GPUPLAN_POINT_OPERATOR(*, multipliable)
GPUPLAN_POINT_OPERATOR(/, divisible)
#undef GPUPLAN_POINT_OPERATOR

}  // namespace gpuplan
