#pragma once

// The pieces of a step's time in words and numbers.

#include <gpuplan/time/explanation.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>

namespace gpuplan::io {

/// A value with five figures and a prefix of its unit: "582.76 TFLOP/s", "216.04 us".
[[nodiscard]] inline std::string with_prefix(double value, const char* unit) {
  constexpr const char* prefixes[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
  const double size = std::fabs(value);
  const int thousands =
      size > 0 && std::isfinite(size) ? static_cast<int>(std::floor(std::log10(size) / 3)) : 0;
  const int at = std::clamp(thousands, -3, std::string(unit) == "s" ? 0 : 6);
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.5g ", value / std::pow(1000.0, at));
  return digits + std::string(prefixes[static_cast<std::size_t>(at + 3)]) + unit;
}

/// "8 micro-batches x (61.705 GB / 366.16 GB/s + 99 x 216.04 us - 158.63 ms beside other work)":
/// its value is `piece.time()`, within what the figures leave.
[[nodiscard]] inline std::string formula(const time_piece& piece) {
  const auto plain = [](double value) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.6g", value);
    return std::string(digits);
  };
  std::string text;
  int terms = 0;
  if (piece.amount != 0) {
    ++terms;
    const char* const unit = piece.unit == amount_unit::flop   ? "FLOP"
                             : piece.unit == amount_unit::byte ? "B"
                                                               : "s";
    text = with_prefix(piece.amount, unit);
    if (piece.unit != amount_unit::second)
      text += " / " + with_prefix(piece.rate, (unit + std::string("/s")).c_str());
    else if (piece.rate != 1)
      text += " x " + plain(1 / piece.rate);
  }
  if (piece.calls != 0) {
    ++terms;
    text +=
        (text.empty() ? "" : " + ") + plain(piece.calls) + " x " + with_prefix(piece.latency, "s");
  }
  if (piece.hidden > 0) {
    ++terms;
    text += " - " + with_prefix(piece.hidden, "s") + " beside other work";
  }
  if (piece.times == 1) return text;
  if (terms > 1) text = "(" + text + ")";
  return plain(piece.times) + " micro-batches x " + text;
}

}  // namespace gpuplan::io
