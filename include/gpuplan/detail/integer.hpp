#pragma once

// Integer arithmetic that notices overflow. Private.

#include <cstdint>

namespace gpuplan::detail {

/// A 64-bit integer, or the news that a calculation left its range: read `value` only where `ok`.
/// Any integer converts, so results nest: checked_sum(a, checked_product(b, c)). Plain `b * c` as
/// an argument is not checked.
struct checked_integer {
  std::int64_t value;
  bool ok = true;

  // Not explicit: integers are what checked_product and checked_sum are called with.
  constexpr checked_integer(std::int64_t v) : value(v) {}
  constexpr checked_integer(std::int64_t v, bool is_ok) : value(v), ok(is_ok) {}
};

/// a * b; not ok where it, a or b is not.
[[nodiscard]] constexpr checked_integer checked_product(checked_integer a, checked_integer b) {
  std::int64_t product = 0;
  const bool overflow = __builtin_mul_overflow(a.value, b.value, &product);
  return {product, a.ok && b.ok && !overflow};
}

/// (a * b) * c; not ok where a step is not, even if a later factor is zero.
[[nodiscard]] constexpr checked_integer checked_product(checked_integer a,
                                                        checked_integer b,
                                                        checked_integer c) {
  return checked_product(checked_product(a, b), c);
}

/// a + b; not ok where it, a or b is not.
[[nodiscard]] constexpr checked_integer checked_sum(checked_integer a, checked_integer b) {
  std::int64_t sum = 0;
  const bool overflow = __builtin_add_overflow(a.value, b.value, &sum);
  return {sum, a.ok && b.ok && !overflow};
}

/// (a + b) + c; not ok where a step is not.
[[nodiscard]] constexpr checked_integer checked_sum(checked_integer a,
                                                    checked_integer b,
                                                    checked_integer c) {
  return checked_sum(checked_sum(a, b), c);
}

/// a / b rounded down, for b > 0.
[[nodiscard]] constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

/// a / b rounded up, for b > 0. Unlike (a + b - 1) / b it cannot overflow.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

/// x without its fraction; not ok for NaN, infinities and what 64 bits do not hold.
[[nodiscard]] constexpr checked_integer to_int64(double x) {
  const bool fits = x >= -0x1p63 && x < 0x1p63;  // false for NaN
  return {fits ? static_cast<std::int64_t>(x) : 0, fits};
}

// The smallest count from 1 to 2^40 for which `holds`, which stays true once it is; 0 for none.
template <class Predicate>
constexpr std::int64_t smallest_count(Predicate holds) {
  const std::int64_t most = std::int64_t{1} << 40;
  std::int64_t below = 0;
  std::int64_t candidate = 1;
  while (!holds(candidate)) {
    if (candidate == most) return 0;
    below = candidate;
    candidate *= 2;
  }
  while (candidate - below > 1) {
    const std::int64_t middle = below + (candidate - below) / 2;
    (holds(middle) ? candidate : below) = middle;
  }
  return candidate;
}

}  // namespace gpuplan::detail
