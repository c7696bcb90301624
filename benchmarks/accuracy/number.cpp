#include "number.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

namespace accuracy {
namespace {

// Room for the longest fixed double.
std::string fixed(double value, int digits) {
  std::array<char, 1100> text{};
  char* const end = text.data() + text.size();
  const auto [last, error] =
      digits < 0 ? std::to_chars(text.data(), end, value, std::chars_format::fixed)
                 : std::to_chars(text.data(), end, value, std::chars_format::fixed, digits);
  return error == std::errc{} ? std::string(text.data(), last) : std::string();
}

}  // namespace

std::string to_text(number value) {
  if (const auto whole = value.whole()) return std::to_string(*whole);
  return fixed(value.value(), -1);
}

std::string percent_text(double percent, int digits) {
  if (percent == 0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(percent))));
  std::string text = fixed(percent, std::max(digits - 1 - magnitude, 0));
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

double error_percent(number measured, number predicted) {
  double difference = predicted.value() - measured.value();
  const auto whole = measured.whole();
  const auto other = predicted.whole();
  // Neighbours beyond 2^53 are one double: their difference is taken of integers.
  if (whole && other && (*whole < 0) == (*other < 0))
    difference = static_cast<double>(*other - *whole);
  if (difference == 0) return 0;
  const double base = measured.value() != 0 ? measured.value() : predicted.value();
  return 100 * difference / std::abs(base);
}

}  // namespace accuracy
