#include "guides/report.hpp"

#include <charconv>

namespace guides {

std::string decimal(double value, int digits) {
  char buffer[400];  // the largest double has 309 digits before the point
  const auto end = std::to_chars(
      buffer, buffer + sizeof(buffer), value, std::chars_format::fixed, digits < 0 ? 0 : digits);
  return {buffer, end.ptr};
}

std::string text(const shown& side) {
  const double low = side.value.low();
  const double high = side.value.high();
  switch (side.what) {
    case shown::kind::nothing:
      break;
    case shown::kind::number:
      return decimal(low, side.digits);
    case shown::kind::span:
      return decimal(low, side.digits) + (low < 0 ? " to " : "–") + decimal(high, side.digits);
    case shown::kind::word:
      return std::string(side.word());
  }
  return {};
}

}  // namespace guides
