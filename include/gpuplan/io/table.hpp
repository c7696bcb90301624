#pragma once

// The one table type of the library. Its writers are text.hpp, markdown.hpp, csv.hpp, json.hpp and
// html.hpp.

#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// A number as text with `digits` after the point, or the fewest that read back as the same number
/// where `digits` is negative. Every locale gets the same; what rounds to zero has no sign.
[[nodiscard]] inline std::string decimal(double value, int digits) {
  const auto size = static_cast<std::size_t>(digits < 0 ? 0 : digits) + 330;
  std::string out(size, '\0');
  char* const end = out.data() + size;
  out.resize(static_cast<std::size_t>(
      (digits < 0 ? std::to_chars(out.data(), end, value)
                  : std::to_chars(out.data(), end, value, std::chars_format::fixed, digits))
          .ptr -
      out.data()));
  const bool zero = out.find_first_not_of("-0.") == std::string::npos;
  return zero && out.front() == '-' ? out.substr(1) : out;
}

/// What a cell means, which a terminal shows as colour.
enum class tone { plain, good, fair, bad, alarm, faint };

/// One value of a table: a number, a range, a text, or nothing.
class cell {
 public:
  enum class kind { nothing, number, range, text };

  /// As many digits after the point as the number needs.
  static constexpr int shortest = -1;

  // Conversions on purpose: a row is written as {"RTX 4090", 4, {82.6, 1}}.
  cell() = default;
  cell(std::string text) : kind_(kind::text), text_(std::move(text)) {}
  cell(const char* text) : cell(std::string(text)) {}
  cell(std::string_view text) : cell(std::string(text)) {}
  /// Exact below 2^53.
  template <gpuplan::detail::integer Integer>
  cell(Integer count) : cell(static_cast<double>(count), 0) {}
  cell(double value, int digits = shortest) : cell(gpuplan::range<double>(value), digits) {
    kind_ = kind::number;
  }
  cell(gpuplan::range<double> value, int digits = shortest)
      : kind_(kind::range), digits_(digits), value_(value) {}

  /// The same cell in another tone.
  [[nodiscard]] cell in(tone t) const {
    cell toned = *this;
    toned.tone_ = t;
    return toned;
  }

  [[nodiscard]] kind what() const { return kind_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] gpuplan::range<double> value() const { return value_; }
  [[nodiscard]] int digits() const { return digits_; }
  [[nodiscard]] tone shade() const { return tone_; }

 private:
  kind kind_ = kind::nothing;
  tone tone_ = tone::plain;
  int digits_ = shortest;
  gpuplan::range<double> value_ = 0.0;
  std::string text_;
};

/// A cell as people read it: `12.5`, `8–12` (`-3 to 5` where an end is negative), its text, or
/// nothing.
[[nodiscard]] inline std::string to_text(const cell& c) {
  const double low = c.value().low();
  const double high = c.value().high();
  switch (c.what()) {
    case cell::kind::nothing:
      break;
    case cell::kind::number:
      return decimal(low, c.digits());
    case cell::kind::range:
      return decimal(low, c.digits()) + (low < 0 ? " to " : "–") + decimal(high, c.digits());
    case cell::kind::text:
      return c.text();
  }
  return {};
}

enum class alignment { left, right, point };  // point: decimal points stand below one another

struct column {
  std::string name;
  std::string unit{};  // shown in the head, in brackets
  alignment align = alignment::left;
  int at_least = 0;  // characters, in text only
};

/// Rows of cells under named columns, with a title that may be empty.
struct table {
  std::string title{};
  std::vector<column> columns{};
  std::vector<std::vector<cell>> rows{};
};

/// The name of a column with its unit.
[[nodiscard]] inline std::string heading(const column& c) {
  return c.unit.empty() ? c.name : c.name + " (" + c.unit + ")";
}

/// Whether every row has one cell for each column; else `errc::malformed_table`. Writers call it,
/// and throw `plan_error` before the first character.
[[nodiscard]] inline result<bool> validate(const table& t) {
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    if (t.rows[i].size() == t.columns.size()) continue;
    return failure(errc::malformed_table,
                   named_fact{fact::row, static_cast<std::int64_t>(i)},
                   named_fact{fact::cells, static_cast<std::int64_t>(t.rows[i].size())},
                   named_fact{fact::columns, static_cast<std::int64_t>(t.columns.size())});
  }
  return true;
}

}  // namespace gpuplan::io
