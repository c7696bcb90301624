#include <cstdint>
#include <limits>

#include "check.hpp"
#include "number.hpp"

using namespace accuracy;

TEST_CASE("whole numbers are printed with all digits, others with as many as they need") {
  CHECK(to_text(number(std::int64_t{1'026'470'731'056})) == "1026470731056");
  CHECK(to_text(number(std::int64_t{9'007'199'254'740'993})) == "9007199254740993");
  CHECK(to_text(number(std::int64_t{-1})) == "-1");
  CHECK(to_text(number(51.78)) == "51.78");
  CHECK(to_text(number(1e22)) == "10000000000000000000000");
  CHECK(to_text(number(1e-7)) == "0.0000001");
}

TEST_CASE("percents have so many digits that count, and are 0 only where they are") {
  CHECK(percent_text(0) == "0");
  CHECK(percent_text(12.3456789) == "12.3457");
  CHECK(percent_text(-0.5) == "-0.5");
  CHECK(percent_text(1e-9) == "0.000000001");
  CHECK(percent_text(1234567.8) == "1234568");
  CHECK(percent_text(100) == "100");
  CHECK(percent_text(0.0123456, 2) == "0.012");
}

TEST_CASE("errors are of what was measured") {
  CHECK(error_percent(std::int64_t{200}, std::int64_t{201}) == 0.5);
  CHECK(error_percent(200.0, 198.0) == -1);
  CHECK(error_percent(std::int64_t{0}, std::int64_t{0}) == 0);
  CHECK(error_percent(std::int64_t{0}, std::int64_t{5}) == 100);
  CHECK(error_percent(std::int64_t{5}, std::int64_t{0}) == -100);
  CHECK(error_percent(-2.0, -1.0) == 50);
}

TEST_CASE("neighbours that are one double differ") {
  const std::int64_t large = std::int64_t{1} << 60;
  CHECK(static_cast<double>(large) == static_cast<double>(large + 1));
  CHECK(error_percent(large, large + 1) > 0);
  CHECK(error_percent(large + 1, large) < 0);
  CHECK(error_percent(large, large) == 0);
  CHECK(error_percent(std::numeric_limits<std::int64_t>::min(),
                      std::numeric_limits<std::int64_t>::max()) > 0);
}
