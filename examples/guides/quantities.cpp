#include "guides/quantities.hpp"

#include <gpuplan/io/table.hpp>
#include <gpuplan/known.hpp>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

namespace guides {
namespace {

using gpuplan::known;

// Whether a text is a number and nothing else.
template <class Number>
bool reads_as(std::string_view text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stopped == end;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

int power_of(char suffix) {
  switch (suffix) {
    case 'k':
    case 'K':
      return 3;
    case 'm':
    case 'M':
      return 6;
    case 'b':
    case 'B':
    case 'g':
    case 'G':
      return 9;
    case 't':
    case 'T':
      return 12;
    default:
      return 0;
  }
}

// A number with a suffix, read at once so that 1.1M is 1100000 and nothing beside it.
known<double> number_of(std::string_view text) {
  double value = 0;
  if (reads_as(text, value)) return std::isfinite(value) ? known<double>(value) : known<double>{};
  const int power = text.empty() ? 0 : power_of(text.back());
  if (power == 0) return {};
  text.remove_suffix(1);
  for (const char c : text)
    if (!is_digit(c) && c != '.' && c != '-') return {};  // no suffix behind an exponent
  if (!reads_as(std::string(text) + "e" + std::to_string(power), value)) return {};
  return value;
}

known<std::int64_t> whole_number_of(std::string_view text) {
  std::int64_t whole = 0;
  if (reads_as(text, whole)) return whole;
  const known<double> value = number_of(text);
  if (!value || std::trunc(*value) != *value || !(std::abs(*value) < 0x1p63)) return {};
  return static_cast<std::int64_t>(*value);
}

// As many digits as bring it back.
std::string digits_of(double value) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  return {text, written.ptr};
}

std::string readable(double value) { return gpuplan::io::decimal(value, -1); }

// Bytes of a unit; 0: there is no such.
double bytes_of(std::string_view unit) {
  std::string plain;
  for (const char c : unit) plain += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  double size = 1;
  for (const char* prefix : {"", "K", "M", "G", "T"}) {
    const std::string start = prefix;
    if (plain == start + "B") return size;
    size *= 1000;
  }
  size = 1024;
  for (const char* prefix : {"K", "M", "G", "T"}) {
    if (plain == std::string(prefix) + "IB") return size;
    size *= 1024;
  }
  return 0;
}

double seconds_of(std::string_view unit) {
  struct word {
    std::string_view name;
    double seconds;
  };
  for (const word& one : {word{"w", 604'800},
                          word{"d", 86'400},
                          word{"h", 3'600},
                          word{"m", 60},
                          word{"min", 60},
                          word{"s", 1},
                          word{"ms", 1e-3}})
    if (unit == one.name) return one.seconds;
  return 0;
}

struct unit_alone {
  const char* name;
  double seconds;
};
unit_alone of(time_unit unit) {
  constexpr unit_alone units[] = {
      {"milliseconds", 1e-3}, {"seconds", 1}, {"hours", 3'600}, {"days", 86'400}};
  return units[static_cast<int>(unit)];
}

std::size_t end_of_number(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
  return end;
}

// Of numbers with units, one behind the other: "3d12h".
known<double> seconds_in(std::string_view text) {
  if (text.empty()) return {};
  double sum = 0;
  while (!text.empty()) {
    const std::size_t digits = end_of_number(text);
    double value = 0;
    if (!reads_as(text.substr(0, digits), value)) return {};
    text = trimmed(text.substr(digits));
    std::size_t letters = 0;
    while (letters < text.size() && !is_digit(text[letters]) && text[letters] != ' ') ++letters;
    const double unit = seconds_of(text.substr(0, letters));
    if (unit == 0) return {};
    sum += value * unit;
    text = trimmed(text.substr(letters));
  }
  return sum;
}

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const std::string ends = std::to_string(least) + " to " + std::to_string(most);
  return {[=](std::string& text) -> std::string {
            const known<std::int64_t> value = whole_number_of(text);
            if (!value || *value < least || *value > most)
              return text + " is no whole number from " + ends;
            text = std::to_string(*value);
            return {};
          },
          "INT in [" + ends + "]"};
}

CLI::Validator finite_number(double least, double most) {
  const std::string ends = readable(least) + " to " + readable(most);
  return {[=](std::string& text) -> std::string {
            const known<double> value = number_of(text);
            if (!value || *value < least || *value > most)
              return text + " is no number from " + ends;
            text = digits_of(*value);
            return {};
          },
          "FLOAT in [" + ends + "]"};
}

CLI::Validator positive_number() {
  return {[](std::string& text) -> std::string {
            const known<double> value = number_of(text);
            if (!value || !(*value > 0)) return text + " is no finite number above 0";
            text = digits_of(*value);
            return {};
          },
          ""};
}

CLI::Validator byte_count(std::int64_t least, std::int64_t most) {
  return {[=](std::string& text) -> std::string {
            const std::string_view given = trimmed(text);
            const std::size_t digits = end_of_number(given);
            const double unit = bytes_of(trimmed(given.substr(digits)));
            double value = 0;
            if (!reads_as(given.substr(0, digits), value) || unit == 0)
              return text + " is no memory with a unit, such as 80GiB (2^30 bytes) or 24GB (10^9)";
            const double bytes = std::floor(value * unit);
            if (!(bytes >= static_cast<double>(least) && bytes <= static_cast<double>(most)))
              return text + " is no memory from " + std::to_string(least) + " to " +
                     std::to_string(most) + " bytes";
            text = std::to_string(static_cast<std::int64_t>(bytes));
            return {};
          },
          ""};
}

CLI::Validator time_span(time_unit unit, double least, double most) {
  return {[=](std::string& text) -> std::string {
            known<double> value;
            double alone = 0;
            if (reads_as(text, alone)) {
              value = alone;
            } else if (const known<double> seconds = seconds_in(text)) {
              value = *seconds / of(unit).seconds;
            }
            if (!value)
              return text + " is no duration, such as 3d12h, 90m, or " + of(unit).name + " alone";
            if (!(*value >= least && *value <= most))
              return text + " is no duration from " + readable(least) + " to " + readable(most) +
                     " " + of(unit).name;
            text = digits_of(*value);
            return {};
          },
          ""};
}

CLI::Validator sum_of_dollars(double least, double most) {
  return {[=](std::string& text) -> std::string {
            std::string_view given = trimmed(text);
            if (given.starts_with('$')) given = trimmed(given.substr(1));
            for (const std::string_view unit : {"USD", "usd", "dollars", "$"})
              if (given.ends_with(unit))
                given = trimmed(given.substr(0, given.size() - unit.size()));
            const known<double> value = number_of(given);
            if (!value || *value < least || *value > most)
              return text + " is no sum of dollars from " + readable(least) + " to " +
                     readable(most) + ", such as 2.50 or $1.5k";
            text = digits_of(*value);
            return {};
          },
          ""};
}

}  // namespace guides
