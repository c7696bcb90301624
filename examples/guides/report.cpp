#include "guides/report.hpp"

namespace guides {

std::string decimal(double value, int digits) {
  return gpuplan::io::decimal(value, digits < 0 ? 0 : digits);
}

gpuplan::io::cell as_cell(const shown& side) {
  const int digits = side.digits < 0 ? 0 : side.digits;
  switch (side.what) {
    case shown::kind::nothing:
      break;
    case shown::kind::number:
      return {side.value.low(), digits};
    case shown::kind::span:
      return {side.value, digits};
    case shown::kind::word:
      return side.word();
  }
  return {};
}

std::string text(const shown& side) { return to_text(as_cell(side)); }

}  // namespace guides
