#pragma once

// Mutants that are chosen while a program runs. tests/mutation/run writes copies of headers in
// which each token that it would change asks here whether it is the one; so all mutants of all
// headers are compiled once.

#include <concepts>
#include <type_traits>
#include <utility>

namespace mutation {

inline constexpr int most = 1 << 14;
inline int chosen = -1;
inline unsigned char reached[most]{};
inline bool asked[most]{};  // of this test case
inline bool is_reached(int which) {
  asked[which] = true;
  return which == chosen;
}
/// Whether mutant `which` is the chosen one; none is in a constant expression.
template <int Which>
constexpr bool is_on() {
  return std::is_constant_evaluated() ? false : is_reached(Which);
}
// Such a mutant would have another type: its source must be changed to know.
template <int Which>
constexpr void has_no_switch() {
  if (!std::is_constant_evaluated()) reached[Which] = 2;
}

// What is left of a changed operator: `a < b` is written `a < lt_le<7>{} < b`, which keeps
// precedence and associativity.
template <typename Left, int Which, int Kind>
struct left_of {
  Left&& left;
};

#define GPUPLAN_SWITCH(kind, from, to)                                                           \
  template <int Which>                                                                           \
  struct kind {};                                                                                \
  template <typename Left, int Which>                                                            \
  constexpr left_of<Left, Which, __LINE__> operator from(Left&& left, kind<Which>) {             \
    return {std::forward<Left>(left)};                                                           \
  }                                                                                              \
  template <typename Left, int Which, typename Right>                                            \
  constexpr decltype(auto) operator from(left_of<Left, Which, __LINE__> is, Right&& right) {     \
    using original = decltype(std::forward<Left>(is.left) from std::forward<Right>(right));      \
    if constexpr (requires {                                                                     \
                    {                                                                            \
                      std::forward<Left>(is.left) to std::forward<Right>(right)                  \
                      } -> std::convertible_to<original>;                                        \
                  }) {                                                                           \
      if (is_on<Which>())                                                                        \
        return static_cast<original>(std::forward<Left>(is.left) to std::forward<Right>(right)); \
    } else {                                                                                     \
      has_no_switch<Which>();                                                                    \
    }                                                                                            \
    return static_cast<original>(std::forward<Left>(is.left) from std::forward<Right>(right));   \
  }

// clang-format off
GPUPLAN_SWITCH(lt_le, <, <=)
GPUPLAN_SWITCH(le_lt, <=, <)
GPUPLAN_SWITCH(gt_ge, >, >=)
GPUPLAN_SWITCH(ge_gt, >=, >)
GPUPLAN_SWITCH(eq_ne, ==, !=)
GPUPLAN_SWITCH(ne_eq, !=, ==)
GPUPLAN_SWITCH(add_sub, +, -)
GPUPLAN_SWITCH(sub_add, -, +)
GPUPLAN_SWITCH(mul_div, *, /)
GPUPLAN_SWITCH(div_mul, /, *)
GPUPLAN_SWITCH(mod_div, %, /)
// clang-format on
#undef GPUPLAN_SWITCH

// `a += b` is written `a += add_to<7>{} = b`.
template <typename Right, int Which>
struct right_of {
  Right&& right;
};
template <int Which>
struct add_to {
  template <typename Right>
  constexpr right_of<Right, Which> operator=(Right&& right) const {
    return {std::forward<Right>(right)};
  }
};
template <typename Left, typename Right, int Which>
constexpr Left& operator+=(Left& left, right_of<Right, Which> is) {
  if (is_on<Which>())
    left -= std::forward<Right>(is.right);
  else
    left += std::forward<Right>(is.right);
  return left;
}

// `++a`, `a++` and `!a` are written `next<7>{} ->* a`, `a ->* next_after<7>{}`, `inverse<7>{} ->*
// a`.
template <int Which>
struct next {};
template <int Which, typename T>
constexpr T& operator->*(next<Which>, T& value) {
  return is_on<Which>() ? --value : ++value;
}
template <int Which>
struct next_after {};
template <int Which, typename T>
constexpr T operator->*(T& value, next_after<Which>) {
  return is_on<Which>() ? value-- : value++;
}
template <int Which>
struct inverse {};
template <int Which, typename T>
constexpr bool operator->*(inverse<Which>, T&& value) {
  return is_on<Which>() ? static_cast<bool>(value) : !static_cast<bool>(value);
}

template <int Which, typename T>
constexpr T either(T original, T other) {
  return is_on<Which>() ? other : original;
}

// `a && b` is written `(goes_on<7, true>(a) ? bool(b) : ends<7, true>())`; `||` has false.
template <int Which, bool IsAnd>
constexpr bool goes_on(bool left) {
  return left == (is_on<Which>() ? !IsAnd : IsAnd);
}
template <int Which, bool IsAnd>
constexpr bool ends() {
  return is_on<Which>() ? IsAnd : !IsAnd;
}

}  // namespace mutation
