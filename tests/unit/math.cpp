#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <gpuplan/detail/math.hpp>

#include "check.hpp"

namespace {

// Not a using-directive: the C library has functions of these names in the global namespace.
namespace math = gpuplan::detail;
using math::infinity;
using math::not_a_number;

constexpr double smallest = 0x1p-1074;
constexpr double largest = 0x1.fffffffffffffp1023;
constexpr double above_1 = 0x1.0000000000001p0;
constexpr double below_1 = 0x1.fffffffffffffp-1;

constexpr std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

// Tells -0 from 0.
constexpr bool same(double a, double b) { return bits(a) == bits(b); }

constexpr bool within_1_ulp(double a, double b) {
  return bits(a) - bits(b) + 1 <= 2;  // -1, 0 or 1, modulo 2^64
}

struct value {
  double x;
  double expected;
};

struct power {
  double x;
  double y;
  double expected;
};

// Computed with mpmath 1.3.0 at 600 bits and rounded to double.
constexpr value exponentials[] = {{1, 0x1.5bf0a8b145769p+1},
                                  {-1, 0x1.78b56362cef38p-2},
                                  {0.5, 0x1.a61298e1e069cp+0},
                                  {0.1, 0x1.1aec7b35a00d4p+0},
                                  {-0.3, 0x1.7b4c869c37c05p-1},
                                  {10, 0x1.5829dcf950560p+14},
                                  {100, 0x1.3494a9b171bf5p+144},
                                  {700, 0x1.d945df4f8ec8ep+1009},
                                  {-700, 0x1.14f2b0fb9307fp-1010},
                                  {1e-10, 0x1.000000006df38p+0},
                                  {-720, 0x0.0000993b4dc95p-1022},
                                  {-745.1, smallest},
                                  {709.78, 0x1.fe9ce5c4c52b4p+1023}};

constexpr value logarithms[] = {{3, 0x1.95c01a39fbd68p+0},
                                {10, 0x1.a934f0979a371p+1},
                                {0.1, -0x1.a934f0979a371p+1},
                                {0.7, -0x1.0776228967d13p-1},
                                {1.4142135623730951, 0x1.0000000000001p-1},
                                {1e6, 0x1.3ee7b471b3a95p+4},
                                {1e300, 0x1.f24a09f1a8b89p+9},
                                {1e-300, -0x1.f24a09f1a8b89p+9},
                                {3 * smallest, -0x1.0c1a8ff971811p+10},
                                {above_1, 0x1.71547652b82fdp-52},
                                {below_1, -0x1.71547652b82fep-53}};

constexpr power powers[] = {{10, 0.5, 0x1.94c583ada5b53p+1},
                            {2, 0.5, 0x1.6a09e667f3bcdp+0},
                            {2, 1.0 / 3, 0x1.428a2f98d728bp+0},
                            {1.1, 10, 0x1.4bffc0c03023ep+1},
                            {0.9, 100, 0x1.bda056ed49410p-16},
                            {1.0000001, 1e7, 0x1.5bf0a790ce6f2p+1},
                            {10, -300, 0x1.56e1fc2f8f359p-997},
                            {10, 308, 0x1.1ccf385ebc8a0p+1023},
                            {10, -320, 0x0.00000000007e8p-1022},
                            {0.5, 1073.5, smallest},
                            {above_1, 0x1p58, 0x1.425982cf597a5p+92},
                            {below_1, 0x1p62, 0x1.44109edb2088fp-739},
                            {-3, 5, -243},
                            {-1.7, -4, 0x1.ea6a63b849facp-4},
                            {6.62e-34, 9.5, 0x0.00000079460bcp-1022}};

constexpr bool exponentials_are_right() {
  for (const value& v : exponentials)
    if (!within_1_ulp(math::exp(v.x), v.expected)) return false;
  return true;
}

constexpr bool logarithms_are_right() {
  for (const value& v : logarithms)
    if (!within_1_ulp(math::log2(v.x), v.expected)) return false;
  return true;
}

constexpr bool powers_are_right() {
  for (const power& p : powers)
    if (!within_1_ulp(math::pow(p.x, p.y), p.expected)) return false;
  return true;
}

constexpr bool squares_have_exact_roots() {
  for (double root = 1; root < 0x1p26; root = root * 1.7 + 1) {
    const double whole = math::floor(root);
    if (math::sqrt(whole * whole) != whole) return false;
  }
  return true;
}

constexpr bool powers_of_two_have_exact_logarithms() {
  double x = smallest;
  for (int exponent = -1074; exponent < 1024; ++exponent) {
    if (exponent > -1074) x *= 2;
    if (exponent % 7 == 0 && (math::log2(x) != exponent || math::pow(2, exponent) != x))
      return false;
  }
  return true;
}

constexpr bool small_integer_powers_are_exact() {
  for (int base = 2; base <= 12; ++base) {
    double expected = 1;
    for (int exponent = 0; exponent <= 14; ++exponent, expected *= base)  // below 2^53
      if (math::pow(base, exponent) != expected) return false;
  }
  return true;
}

constexpr std::array arguments{
    0.0,     -0.0,     1.0,     -1.0,    0.5,      -0.5,      2.5,         -2.5,
    0.3,     -0.3,     3.7,     -3.7,    1e-9,     12345.678, -700.25,     -740.5,
    709.5,   1e16,     -1e16,   1e300,   -1e-300,  smallest,  -1e-310,     1e-315,
    largest, -largest, above_1, below_1, infinity, -infinity, not_a_number};

using argument_list = std::array<double, arguments.size()>;
using result_list = std::array<std::uint64_t, 8 * arguments.size()>;

// Every function at every argument, as bits.
constexpr result_list all_results(const argument_list& at) {
  result_list results{};
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double x = at[i];
    const double y = at[(i * 7 + 3) % at.size()];
    results[8 * i + 0] = bits(math::floor(x));
    results[8 * i + 1] = bits(math::ceil(x));
    results[8 * i + 2] = bits(math::round(x));
    results[8 * i + 3] = bits(math::sqrt(x));
    results[8 * i + 4] = bits(math::log2(x));
    results[8 * i + 5] = bits(math::exp(x));
    results[8 * i + 6] = bits(math::pow(x, y));
    results[8 * i + 7] = bits(math::pow(math::abs(x), 0.37 * static_cast<double>(i + 1)));
  }
  return results;
}

// FNV-1a, by words.
constexpr std::uint64_t checksum(const result_list& words) {
  std::uint64_t sum = 0xcbf29ce484222325;
  for (const std::uint64_t word : words) sum = (sum ^ word) * 0x100000001b3;
  return sum;
}

}  // namespace

TEST_CASE("abs, is_nan and is_finite") {
  STATIC_CHECK(same(math::abs(-2.5), 2.5) && same(math::abs(2.5), 2.5));
  STATIC_CHECK(same(math::abs(-0.0), 0.0) && same(math::abs(-infinity), infinity));
  STATIC_CHECK(math::is_nan(math::abs(-not_a_number)));
  STATIC_CHECK(math::is_nan(not_a_number) && math::is_nan(-not_a_number));
  STATIC_CHECK(!math::is_nan(infinity) && !math::is_nan(-infinity) && !math::is_nan(0));
  STATIC_CHECK(math::is_finite(largest) && math::is_finite(-smallest) && math::is_finite(0));
  STATIC_CHECK(!math::is_finite(infinity) && !math::is_finite(-infinity));
  STATIC_CHECK(!math::is_finite(not_a_number));
}

TEST_CASE("floor, ceil and round") {
  STATIC_CHECK(math::floor(2.5) == 2 && math::floor(-2.5) == -3 && math::floor(-3) == -3);
  STATIC_CHECK(math::ceil(2.5) == 3 && math::ceil(-2.5) == -2 && math::ceil(3) == 3);
  STATIC_CHECK(math::round(2.5) == 3 && math::round(-2.5) == -3 && math::round(2.25) == 2);
  STATIC_CHECK(math::round(0.49999999999999994) == 0 && math::round(4503599627370495.5) == 0x1p52);
  STATIC_CHECK(math::floor(4503599627370495.5) == 4503599627370495);
  STATIC_CHECK(math::floor(smallest) == 0 && math::ceil(smallest) == 1);
  STATIC_CHECK(math::floor(0x1p53 + 2) == 0x1p53 + 2 && math::floor(-largest) == -largest);
}

TEST_CASE("rounding keeps signed zeros, infinities and NaN") {
  STATIC_CHECK(same(math::floor(-0.0), -0.0) && same(math::floor(0.5), 0.0));
  STATIC_CHECK(same(math::ceil(-0.0), -0.0) && same(math::ceil(-0.5), -0.0));
  STATIC_CHECK(same(math::ceil(0.0), 0.0) && same(math::round(0.0), 0.0));
  STATIC_CHECK(same(math::round(-0.0), -0.0) && same(math::round(-0.4), -0.0));
  STATIC_CHECK(math::floor(infinity) == infinity && math::floor(-infinity) == -infinity);
  STATIC_CHECK(math::ceil(infinity) == infinity && math::round(-infinity) == -infinity);
  STATIC_CHECK(math::is_nan(math::floor(not_a_number)) && math::is_nan(math::ceil(not_a_number)));
  STATIC_CHECK(math::is_nan(math::round(not_a_number)));
}

TEST_CASE("sqrt") {
  STATIC_CHECK(squares_have_exact_roots());
  STATIC_CHECK(math::sqrt(2) == 1.4142135623730951 && math::sqrt(0.25) == 0.5);
  STATIC_CHECK(math::sqrt(smallest) == 0x1p-537);
  STATIC_CHECK(math::sqrt(largest) == 0x1.fffffffffffffp511);
  STATIC_CHECK(math::sqrt(below_1) == below_1 && math::sqrt(above_1) == 1);
  STATIC_CHECK(same(math::sqrt(0.0), 0.0) && same(math::sqrt(-0.0), -0.0));
  STATIC_CHECK(math::sqrt(infinity) == infinity && math::is_nan(math::sqrt(-infinity)));
  STATIC_CHECK(math::is_nan(math::sqrt(-smallest)) && math::is_nan(math::sqrt(not_a_number)));
}

TEST_CASE("log2") {
  STATIC_CHECK(logarithms_are_right());
  STATIC_CHECK(powers_of_two_have_exact_logarithms());
  STATIC_CHECK(same(math::log2(1), 0.0));
  STATIC_CHECK(math::log2(0.0) == -infinity && math::log2(-0.0) == -infinity);
  STATIC_CHECK(math::log2(infinity) == infinity && math::is_nan(math::log2(-infinity)));
  STATIC_CHECK(math::is_nan(math::log2(-1)) && math::is_nan(math::log2(not_a_number)));
}

TEST_CASE("exp") {
  STATIC_CHECK(exponentials_are_right());
  STATIC_CHECK(math::exp(0.0) == 1 && math::exp(-0.0) == 1 && math::exp(smallest) == 1);
  STATIC_CHECK(math::exp(709.782712893384) < infinity);
  STATIC_CHECK(math::exp(709.7827128933841) == infinity && math::exp(largest) == infinity);
  STATIC_CHECK(same(math::exp(-745.2), 0.0) && same(math::exp(-largest), 0.0));
  STATIC_CHECK(math::exp(infinity) == infinity && same(math::exp(-infinity), 0.0));
  STATIC_CHECK(math::is_nan(math::exp(not_a_number)));
}

TEST_CASE("pow") {
  STATIC_CHECK(powers_are_right());
  STATIC_CHECK(small_integer_powers_are_exact());
  STATIC_CHECK(math::pow(9, 0.5) == 3 && math::pow(8, -1) == 0.125 && math::pow(-2, 3) == -8);
  STATIC_CHECK(math::pow(2, 1023) == 0x1p1023 && math::pow(2, 1024) == infinity);
  STATIC_CHECK(math::pow(-2, 1025) == -infinity && math::pow(-2, 1026) == infinity);
  STATIC_CHECK(same(math::pow(-2, -1081), -0.0) && same(math::pow(-2, -1082), 0.0));
  STATIC_CHECK(math::pow(above_1, largest) == infinity && math::pow(below_1, largest) == 0);
  STATIC_CHECK(math::pow(above_1, smallest) == 1 && math::pow(largest, -smallest) == 1);
}

// IEEE 754-2019, 9.2.1; C17, F.10.4.4.
TEST_CASE("pow has the special values of IEEE 754") {
  STATIC_CHECK(math::pow(0, 0) == 1 && math::pow(not_a_number, 0) == 1);
  STATIC_CHECK(math::pow(infinity, -0.0) == 1 && math::pow(1, not_a_number) == 1);
  STATIC_CHECK(math::pow(1, infinity) == 1 && math::pow(-1, infinity) == 1);
  STATIC_CHECK(math::pow(-1, -infinity) == 1 && math::pow(-1, largest) == 1);
  STATIC_CHECK(math::pow(-1, 0x1p53 - 1) == -1 && math::pow(-1, 0x1p53) == 1);
  STATIC_CHECK(math::is_nan(math::pow(not_a_number, 1)) &&
               math::is_nan(math::pow(2, not_a_number)));
  STATIC_CHECK(math::is_nan(math::pow(-2, 0.5)) && math::is_nan(math::pow(-1, 1.5)));

  STATIC_CHECK(math::pow(0.0, -3) == infinity && math::pow(-0.0, -3) == -infinity);
  STATIC_CHECK(math::pow(-0.0, -2) == infinity && math::pow(-0.0, -0.5) == infinity);
  STATIC_CHECK(math::pow(-0.0, -infinity) == infinity);
  STATIC_CHECK(same(math::pow(0.0, 3), 0.0) && same(math::pow(-0.0, 3), -0.0));
  STATIC_CHECK(same(math::pow(-0.0, 2), 0.0) && same(math::pow(-0.0, 0.5), 0.0));

  STATIC_CHECK(math::pow(2, infinity) == infinity && same(math::pow(2, -infinity), 0.0));
  STATIC_CHECK(same(math::pow(0.5, infinity), 0.0) && math::pow(-0.5, -infinity) == infinity);
  STATIC_CHECK(math::pow(-2, infinity) == infinity && same(math::pow(-2, -infinity), 0.0));

  STATIC_CHECK(math::pow(infinity, 0.5) == infinity && same(math::pow(infinity, -0.5), 0.0));
  STATIC_CHECK(math::pow(-infinity, 3) == -infinity && math::pow(-infinity, 2) == infinity);
  STATIC_CHECK(math::pow(-infinity, 0.5) == infinity);
  STATIC_CHECK(same(math::pow(-infinity, -3), -0.0) && same(math::pow(-infinity, -2), 0.0));
}

// Every compiler must come to this sum.
TEST_CASE("the results have the same bits on every compiler") {
  STATIC_CHECK(checksum(all_results(arguments)) == 0x4c4fcfa7b2d46598);
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
// Under -ffp-contract=off.
TEST_CASE("compile time and run time come to the same bits") {
  constexpr result_list at_compile_time = all_results(arguments);
  argument_list hidden{};
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    const volatile double x = arguments[i];  // keeps the compiler from calculating ahead
    hidden[i] = x;
  }
  CHECK((all_results(hidden) == at_compile_time));
}
#endif
