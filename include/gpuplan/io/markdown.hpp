#pragma once

// Tables as Markdown (the pipe tables of GitHub Flavored Markdown).

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>

#include <string>
#include <string_view>

namespace gpuplan::io {
namespace detail {

// What would end a cell or its line, or be taken for markup, is escaped.
[[nodiscard]] inline std::string markdown_field(std::string_view text) {
  std::string out;
  for (const char c : printable(text, line_ends::are_kept)) {
    if (c == '\n') {
      out += "<br>";
    } else {
      if (std::string_view("\\|`*_~<[").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace detail

/// The table as Markdown, after its title as a heading; numbers align to the right. Throws as
/// `validate` says.
[[nodiscard]] inline std::string to_markdown(const table& t) {
  static_cast<void>(validate(t).value_or_throw());
  std::string out;
  if (!t.title.empty()) out += "### " + detail::markdown_field(t.title) + "\n\n";
  std::string rule;
  for (const column& c : t.columns) {
    out += "| " + detail::markdown_field(heading(c)) + " ";
    rule += c.align == alignment::left ? "| --- " : "| ---: ";
  }
  out += "|\n" + rule + "|\n";
  for (const auto& row : t.rows) {
    for (const cell& c : row) out += "| " + detail::markdown_field(to_text(c)) + " ";
    out += "|\n";
  }
  return out;
}

}  // namespace gpuplan::io
