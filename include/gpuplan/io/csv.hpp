#pragma once

// Tables as comma-separated values.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace gpuplan::io {
namespace detail {

[[nodiscard]] inline std::string csv_field(std::string_view field) {
  // The format has tabs and line ends as they are.
  std::string text;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = field.find_first_of("\t\r\n");
    text += printable(field.substr(0, end));
    if (end != std::string_view::npos) text += field[end];
    field.remove_prefix(end == std::string_view::npos ? field.size() : end + 1);
  }
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace detail

/// The table as RFC 4180 has it, in UTF-8: one line of column names, one per row, each ended by CR
/// LF; numbers and ranges as people read them, without the title; texts are `printable`
/// but for tabs and line ends. Throws as `validate` says.
[[nodiscard]] inline std::string to_csv(const table& t) {
  static_cast<void>(validate(t).value_or_throw());
  std::string out;
  const char* separator = "";
  for (const column& c : t.columns) {
    out += separator + detail::csv_field(heading(c));
    separator = ",";
  }
  out += "\r\n";
  for (const auto& row : t.rows) {
    separator = "";
    for (const cell& c : row) {
      out += separator + detail::csv_field(to_text(c));
      separator = ",";
    }
    out += "\r\n";
  }
  return out;
}

}  // namespace gpuplan::io
