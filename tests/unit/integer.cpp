#include <cstdint>
#include <gpuplan/detail/integer.hpp>
#include <limits>

#include "check.hpp"

using namespace gpuplan::detail;

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();

constexpr bool is(checked_integer x, std::int64_t value) { return x.ok && x.value == value; }

// The same arithmetic in 8 bits has an oracle: 64 bits. Scaled by 2^56, 8-bit values leave the
// 64-bit range exactly where they leave the 8-bit range.
constexpr bool overflow_is_found_as_in_8_bits() {
  constexpr std::int64_t scale = std::int64_t{1} << 56;
  for (int a = -128; a < 128; a += 3) {
    for (int b = -128; b < 128; b += 5) {
      const bool product_fits = a * b >= -128 && a * b < 128;
      const bool sum_fits = a + b >= -128 && a + b < 128;
      const checked_integer product = checked_product(a * scale, b);
      const checked_integer sum = checked_sum(a * scale, b * scale);
      if (product.ok != product_fits || sum.ok != sum_fits) return false;
      if (product_fits && product.value != a * b * scale) return false;
      if (sum_fits && sum.value != (a + b) * scale) return false;
    }
  }
  return true;
}

// By the definition: q = floor(a / b) is the integer with q b <= a < (q + 1) b.
constexpr bool divisions_meet_their_definition() {
  for (std::int64_t a = -50; a <= 50; ++a) {
    for (std::int64_t b = 1; b <= 12; ++b) {
      const std::int64_t down = floor_div(a, b);
      const std::int64_t up = ceil_div(a, b);
      if (down * b > a || a >= (down + 1) * b) return false;
      if (up * b < a || a <= (up - 1) * b) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("a checked product is exact or not ok") {
  STATIC_CHECK(is(checked_product(6, 7), 42));
  STATIC_CHECK(is(checked_product(-6, 7, 2), -84));
  STATIC_CHECK(is(checked_product(0, largest), 0));
  STATIC_CHECK(is(checked_product(3037000499, 3037000499), 9223372030926249001));
  STATIC_CHECK(!checked_product(3037000500, 3037000500).ok);
  STATIC_CHECK(is(checked_product(smallest, 1), smallest));
  STATIC_CHECK(!checked_product(smallest, -1).ok);
  STATIC_CHECK(!checked_product(largest, 2).ok);
}

TEST_CASE("a checked sum is exact or not ok") {
  STATIC_CHECK(is(checked_sum(2, 3), 5));
  STATIC_CHECK(is(checked_sum(2, 3, -9), -4));
  STATIC_CHECK(is(checked_sum(largest, 0), largest));
  STATIC_CHECK(is(checked_sum(largest, smallest), -1));
  STATIC_CHECK(!checked_sum(largest, 1).ok);
  STATIC_CHECK(!checked_sum(smallest, -1).ok);
}

TEST_CASE("overflow is found exactly where it happens") {
  STATIC_CHECK(overflow_is_found_as_in_8_bits());
}

TEST_CASE("an overflow is not forgotten by later steps") {
  STATIC_CHECK(!checked_product(largest, 2, 0).ok);
  STATIC_CHECK(!checked_product(checked_product(largest, 2), 0).ok);
  STATIC_CHECK(!checked_product(0, checked_product(largest, 2)).ok);
  STATIC_CHECK(!checked_sum(largest, 1, -1).ok);
  STATIC_CHECK(!checked_sum(1, checked_product(largest, largest)).ok);
  STATIC_CHECK(is(checked_sum(1, checked_product(2, 3, 4)), 25));
}

TEST_CASE("layout rounds down and up") {
  STATIC_CHECK(divisions_meet_their_definition());
  STATIC_CHECK(floor_div(-7, 2) == -4 && ceil_div(-7, 2) == -3);
  STATIC_CHECK(ceil_div(largest, largest) == 1 && ceil_div(largest, largest - 1) == 2);
  STATIC_CHECK(floor_div(smallest, 1) == smallest && floor_div(smallest, largest) == -2);
}

TEST_CASE("a double becomes an integer or is not ok") {
  STATIC_CHECK(is(to_int64(2.9), 2));
  STATIC_CHECK(is(to_int64(-2.9), -2));
  STATIC_CHECK(is(to_int64(0x1.fffffffffffffp62), largest - 1023));
  STATIC_CHECK(is(to_int64(-0x1p63), smallest));
  STATIC_CHECK(!to_int64(0x1p63).ok);
  STATIC_CHECK(!to_int64(-0x1.0000000000001p63).ok);
  STATIC_CHECK(!to_int64(std::numeric_limits<double>::infinity()).ok);
  STATIC_CHECK(!to_int64(-std::numeric_limits<double>::infinity()).ok);
  STATIC_CHECK(!to_int64(std::numeric_limits<double>::quiet_NaN()).ok);
}
