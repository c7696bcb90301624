#pragma once

// What is measured or predicted: a whole number, exact to 64 bits, or a real one.

#include <cstdint>
#include <optional>
#include <string>

namespace accuracy {

class number {
 public:
  // Conversions on purpose: a count is whole, a time or a share is not.
  number(std::int64_t count) : whole_(count), real_(static_cast<double>(count)), is_whole_(true) {}
  number(double value) : real_(value) {}

  [[nodiscard]] double value() const { return real_; }
  /// The value, where it is whole and no rounding came before.
  [[nodiscard]] std::optional<std::int64_t> whole() const {
    return is_whole_ ? std::optional(whole_) : std::nullopt;
  }

 private:
  std::int64_t whole_ = 0;
  double real_ = 0;
  bool is_whole_ = false;
};

/// All digits, never in scientific notation: "1026470731056", "51.78".
std::string to_text(number value);

/// A share in percent to so many digits that count, never in scientific notation; "0" for 0 alone.
std::string percent_text(double percent, int digits = 6);

/// By how much the prediction lies above what was measured, in percent of that; of the prediction
/// where nothing was measured. 0 for numbers that are equal, and for no others.
double error_percent(number measured, number predicted);

}  // namespace accuracy
