#include "guides/quantities.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "check.hpp"

namespace {

// What a validator makes of a text, or "refused: " and why.
std::string made(const CLI::Validator& by, std::string text) {
  const std::string why = by(text);
  return why.empty() ? text : "refused: " + why;
}

}  // namespace

TEST_CASE("counts take exponents and suffixes of powers of ten") {
  const CLI::Validator count = guides::whole_number(0, std::int64_t{1} << 62);
  CHECK(made(count, "1e3") == "1000");
  CHECK(made(count, "64k") == "64000");
  CHECK(made(count, "1.1M") == "1100000");
  CHECK(made(count, "100B") == "100000000000");
  CHECK(made(count, "1T") == "1000000000000");
  CHECK(made(count, "2.5g") == "2500000000");
  CHECK(made(count, "007") == "7");
  CHECK(made(count, "9007199254740993") == "9007199254740993");  // 2^53 + 1
  for (const char* wrong :
       {"", "k", "1.5", "1e-3", "1e3k", "0x10", "1kk", "1 k", "nan", "inf", "-1", "1e30", "12a"})
    CHECK_MESSAGE(made(count, wrong).starts_with("refused: "), wrong);
  CHECK(made(guides::whole_number(1, 64), "1k") == "refused: 1k is no whole number from 1 to 64");
}

TEST_CASE("numbers take the same, with parts") {
  const CLI::Validator number = guides::finite_number(-1, 1e18);
  CHECK(made(number, "0.25") == "0.25");
  CHECK(made(number, "-0.5") == "-0.5");
  CHECK(made(number, "1.5k") == "1500");
  CHECK(made(number, "1e10") == "1e+10");
  for (const char* wrong : {"", "nan", "inf", "-2", "1e19", "1,5", "x"})
    CHECK_MESSAGE(made(number, wrong).starts_with("refused: "), wrong);
  CHECK(made(guides::positive_number(), "2k") == "2000");
  CHECK(made(guides::positive_number(), "0").starts_with("refused: "));
}

TEST_CASE("memory has a unit") {
  const CLI::Validator bytes = guides::byte_count(1, std::int64_t{1} << 50);
  CHECK(made(bytes, "80GiB") == "85899345920");
  CHECK(made(bytes, "24GB") == "24000000000");
  CHECK(made(bytes, "1.5 GiB") == "1610612736");
  CHECK(made(bytes, "512MiB") == "536870912");
  CHECK(made(bytes, "8kb") == "8000");
  CHECK(made(bytes, "100B") == "100");
  for (const char* wrong : {"80", "80G", "GiB", "-1GB", "0GB", "2PB", "1e3GB", "80 GiB x"})
    CHECK_MESSAGE(made(bytes, wrong).starts_with("refused: "), wrong);
  CHECK(made(bytes, "80").find("80GiB") != std::string::npos);
}

TEST_CASE("durations are in the option's unit where they have none") {
  const CLI::Validator days = guides::time_span(guides::time_unit::days, 0, 1e6);
  CHECK(made(days, "45") == "45");
  CHECK(made(days, "3d12h") == "3.5");
  CHECK(made(days, "36h") == "1.5");
  CHECK(made(days, "2w") == "14");
  const CLI::Validator hours = guides::time_span(guides::time_unit::hours, 0, 1000);
  CHECK(made(hours, "90m") == "1.5");
  CHECK(made(hours, "2.5h") == "2.5");
  CHECK(made(hours, "1h 30min") == "1.5");
  CHECK(made(guides::time_span(guides::time_unit::seconds, 0, 1000), "1m30s") == "90");
  const CLI::Validator brief = guides::time_span(guides::time_unit::milliseconds, 1e-6, 1e9);
  CHECK(made(brief, "20") == "20");
  CHECK(made(brief, "2500ms") == "2500");
  CHECK(made(brief, "1m0.5s") == "60500");
  CHECK(made(brief, "0") == "refused: 0 is no duration from 1e-06 to 1e+09 milliseconds");
  for (const char* wrong : {"", "h", "3x", "d3", "-1h", "1001", "1d2", "nan"})
    CHECK_MESSAGE(made(hours, wrong).starts_with("refused: "), wrong);
}

TEST_CASE("dollars are written as people do") {
  const CLI::Validator money = guides::sum_of_dollars(0.01, 1e9);
  CHECK(made(money, "2.50") == "2.5");
  CHECK(made(money, "$1.5k") == "1500");
  CHECK(made(money, "300 USD") == "300");
  CHECK(made(money, "1e6") == "1e+06");
  for (const char* wrong : {"", "$", "free", "-1", "0", "1e10"})
    CHECK_MESSAGE(made(money, wrong).starts_with("refused: "), wrong);
}
