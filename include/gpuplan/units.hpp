#pragma once

// Quantities and literals. The only header that names Boost.Units: everything else uses the types
// and literals below.

#include <boost/units/base_dimension.hpp>
#include <boost/units/base_unit.hpp>
#include <boost/units/base_units/information/byte.hpp>
#include <boost/units/base_units/si/second.hpp>
#include <boost/units/derived_dimension.hpp>
#include <boost/units/make_system.hpp>
#include <boost/units/quantity.hpp>
#include <boost/units/unit.hpp>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace gpuplan {

// The base dimensions that Boost does not have. An ordinal must be unique in a program: gpuplan
// owns 0x67500001 to 0x6750000f. The tags live in this namespace, and not in a nested one, so that
// argument-dependent lookup finds the operators below for every quantity.
struct flop_dimension : boost::units::base_dimension<flop_dimension, 0x67500001> {};
struct money_dimension : boost::units::base_dimension<money_dimension, 0x67500002> {};
struct energy_dimension : boost::units::base_dimension<energy_dimension, 0x67500003> {};
struct sample_dimension : boost::units::base_dimension<sample_dimension, 0x67500004> {};
struct token_dimension : boost::units::base_dimension<token_dimension, 0x67500005> {};

struct flop_base_unit
    : boost::units::base_unit<flop_base_unit, flop_dimension::dimension_type, 0x67500006> {};
struct dollar_base_unit
    : boost::units::base_unit<dollar_base_unit, money_dimension::dimension_type, 0x67500007> {};
struct joule_base_unit
    : boost::units::base_unit<joule_base_unit, energy_dimension::dimension_type, 0x67500008> {};
struct sample_base_unit
    : boost::units::base_unit<sample_base_unit, sample_dimension::dimension_type, 0x67500009> {};
struct token_base_unit
    : boost::units::base_unit<token_base_unit, token_dimension::dimension_type, 0x6750000a> {};

// One homogeneous system: mixing Boost's information and SI systems would give heterogeneous units,
// whose ratios silently lose their scale factor. A type of its own, since a list of its units would
// fill the half of every compile error; and here, for argument-dependent lookup.
struct base_units : boost::units::make_system<boost::units::information::byte_base_unit,
                                              boost::units::si::second_base_unit,
                                              flop_base_unit,
                                              dollar_base_unit,
                                              joule_base_unit,
                                              sample_base_unit,
                                              token_base_unit>::type::type {};

namespace detail {

using unit_system = boost::units::homogeneous_system<base_units>;

template <class Dimension>
using quantity_of =
    boost::units::quantity<boost::units::unit<typename Dimension::dimension_type, unit_system>>;

template <class Numerator, class Denominator>
using per = typename boost::units::divide_typeof_helper<Numerator, Denominator>::type;

}  // namespace detail

/// The quantities of this library, a closed list: each a `double` in the unit named here.
using bytes = detail::quantity_of<boost::units::information_base_dimension>;  // byte
using duration = detail::quantity_of<boost::units::time_base_dimension>;      // second
using flop_count = detail::quantity_of<flop_dimension>;                       // FLOP
using money = detail::quantity_of<money_dimension>;                           // US dollar
using energy = detail::quantity_of<energy_dimension>;                         // joule
using power = detail::per<energy, duration>;                                  // watt
using bandwidth = detail::per<bytes, duration>;                               // byte / second
using compute_rate = detail::per<flop_count, duration>;                       // FLOP / second
using price = detail::per<money, duration>;                                   // US dollar / second
using sample_rate = detail::per<detail::quantity_of<sample_dimension>, duration>;  // sample / s
using token_rate = detail::per<detail::quantity_of<token_dimension>, duration>;    // token / s
using arithmetic_intensity = detail::per<flop_count, bytes>;                       // FLOP / byte

namespace detail {

template <class T>
inline constexpr bool is_quantity = false;
template <class Unit>
inline constexpr bool is_quantity<boost::units::quantity<Unit, double>> = true;

// Boost's own operators take exactly the value type, `double`; `bool` is no count.
template <class T>
concept integer = std::integral<T> && !std::same_as<T, bool>;
template <class T>
concept other_scalar = integer<T> || std::same_as<T, float>;

}  // namespace detail

/// A quantity of any dimension, also one that has no name in the list above.
template <class T>
concept any_quantity = detail::is_quantity<T>;

/// Integers and `float` scale quantities as `double` does: `3 * 24_GiB`, `24_GiB * 3`, `1_h / 4`.
/// Exact while the integer and the result are below 2^53.
template <detail::other_scalar Scalar, class Unit>
[[nodiscard]] constexpr auto operator*(Scalar count, boost::units::quantity<Unit, double> each) {
  return static_cast<double>(count) * each;
}
template <class Unit, detail::other_scalar Scalar>
[[nodiscard]] constexpr auto operator*(boost::units::quantity<Unit, double> each, Scalar count) {
  return each * static_cast<double>(count);
}
template <class Unit, detail::other_scalar Scalar>
[[nodiscard]] constexpr auto operator/(boost::units::quantity<Unit, double> whole, Scalar parts) {
  return whole / static_cast<double>(parts);
}

// Quantities of different kinds have no sum. Clang lists every other candidate beside a deleted
// one, and not beside one that is unavailable.
#if defined(__clang__)
#define GPUPLAN_NO_OPERATOR(op, sentence) \
  __attribute__((unavailable(sentence))) constexpr A operator op(A left, B) { return left; }
#else
#define GPUPLAN_NO_OPERATOR(op, sentence) void operator op(A, B) = delete;
#endif
template <any_quantity A, any_quantity B>
requires(!std::same_as<A, B>) GPUPLAN_NO_OPERATOR(+, "gpuplan: only quantities of one kind add up")
template <any_quantity A, any_quantity B>
requires(!std::same_as<A, B>)
    GPUPLAN_NO_OPERATOR(-, "gpuplan: only quantities of one kind have a difference")
#undef GPUPLAN_NO_OPERATOR

/// How many `unit` make up `value`, as a plain number: `in(21.4_GB, 1_MB) == 21400`.
template <any_quantity Quantity>
[[nodiscard]] constexpr double in(Quantity value, std::type_identity_t<Quantity> unit) {
  return value.value() / unit.value();
}

/// The average rate of `samples` in `time`.
[[nodiscard]] constexpr sample_rate samples_per(std::int64_t samples, duration time) {
  return sample_rate::from_value(static_cast<double>(samples) / time.value());
}

/// The average rate of `tokens` in `time`.
[[nodiscard]] constexpr token_rate tokens_per(std::int64_t tokens, duration time) {
  return token_rate::from_value(static_cast<double>(tokens) / time.value());
}

/// The time that `samples` take at `rate`.
[[nodiscard]] constexpr duration time_for(std::int64_t samples, sample_rate rate) {
  return duration::from_value(static_cast<double>(samples) / rate.value());
}

/// The time that `tokens` take at `rate`.
[[nodiscard]] constexpr duration time_for(std::int64_t tokens, token_rate rate) {
  return duration::from_value(static_cast<double>(tokens) / rate.value());
}

namespace detail {

[[nodiscard]] constexpr bytes whole_bytes(long double x) {
  const bool fits = x < 9.2e18L;  // what is larger has no fraction as a `double`
  return bytes::from_value(fits ? static_cast<double>(static_cast<std::int64_t>(x + 0.5L))
                                : static_cast<double>(x));
}

}  // namespace detail

inline namespace literals {

// A literal is computed in `long double` and rounded once, so that 1.2_GB is 1'200'000'000 bytes
// and 3_usd_per_hour * 100_h is 300_usd. `constexpr` and not `consteval`: code that clang 14 makes
// of a consteval literal in a function template does not link.
#define GPUPLAN_LITERAL(suffix, type, ...)                                 \
  [[nodiscard]] constexpr type operator""_##suffix(long double x) {        \
    return type::from_value(static_cast<double>(x __VA_ARGS__));           \
  }                                                                        \
  [[nodiscard]] constexpr type operator""_##suffix(unsigned long long n) { \
    return operator""_##suffix(static_cast<long double>(n));               \
  }

// Memory is whole bytes: sums and integer multiples are then exact below 2^53.
#define GPUPLAN_MEMORY_LITERAL(suffix, factor)                              \
  [[nodiscard]] constexpr bytes operator""_##suffix(long double x) {        \
    return detail::whole_bytes(x * (factor));                               \
  }                                                                         \
  [[nodiscard]] constexpr bytes operator""_##suffix(unsigned long long n) { \
    return operator""_##suffix(static_cast<long double>(n));                \
  }

GPUPLAN_MEMORY_LITERAL(B, 1.0L)
GPUPLAN_MEMORY_LITERAL(KB, 1e3L)
GPUPLAN_MEMORY_LITERAL(MB, 1e6L)
GPUPLAN_MEMORY_LITERAL(GB, 1e9L)
GPUPLAN_MEMORY_LITERAL(TB, 1e12L)
GPUPLAN_MEMORY_LITERAL(KiB, 1024.0L)
GPUPLAN_MEMORY_LITERAL(MiB, 1048576.0L)
GPUPLAN_MEMORY_LITERAL(GiB, 1073741824.0L)
GPUPLAN_MEMORY_LITERAL(TiB, 1099511627776.0L)

GPUPLAN_LITERAL(Bps, bandwidth, )
GPUPLAN_LITERAL(MBps, bandwidth, *1e6L)
GPUPLAN_LITERAL(GBps, bandwidth, *1e9L)
GPUPLAN_LITERAL(TBps, bandwidth, *1e12L)
GPUPLAN_LITERAL(GiBps, bandwidth, *1073741824.0L)
GPUPLAN_LITERAL(Gbps, bandwidth, *125e6L)  // network links are sold in bits

GPUPLAN_LITERAL(FLOP, flop_count, )
GPUPLAN_LITERAL(GFLOP, flop_count, *1e9L)
GPUPLAN_LITERAL(TFLOP, flop_count, *1e12L)
GPUPLAN_LITERAL(PFLOP, flop_count, *1e15L)
GPUPLAN_LITERAL(EFLOP, flop_count, *1e18L)

GPUPLAN_LITERAL(FLOPS, compute_rate, )
GPUPLAN_LITERAL(GFLOPS, compute_rate, *1e9L)
GPUPLAN_LITERAL(TFLOPS, compute_rate, *1e12L)
GPUPLAN_LITERAL(PFLOPS, compute_rate, *1e15L)

GPUPLAN_LITERAL(us, duration, / 1e6L)
GPUPLAN_LITERAL(ms, duration, / 1e3L)
GPUPLAN_LITERAL(s, duration, )
GPUPLAN_LITERAL(min, duration, *60)
GPUPLAN_LITERAL(h, duration, *3600)
GPUPLAN_LITERAL(d, duration, *86400)

GPUPLAN_LITERAL(usd, money, )
GPUPLAN_LITERAL(usd_per_hour, price, / 3600)

GPUPLAN_LITERAL(J, energy, )
GPUPLAN_LITERAL(kWh, energy, *3.6e6L)
GPUPLAN_LITERAL(W, power, )
GPUPLAN_LITERAL(kW, power, *1e3L)

GPUPLAN_LITERAL(samples_per_s, sample_rate, )
GPUPLAN_LITERAL(tokens_per_s, token_rate, )
GPUPLAN_LITERAL(FLOP_per_B, arithmetic_intensity, )

#undef GPUPLAN_LITERAL
#undef GPUPLAN_MEMORY_LITERAL

}  // namespace literals
}  // namespace gpuplan
