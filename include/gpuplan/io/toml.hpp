#pragma once

// Settings in TOML. Needs toml++ (Debian's libtomlplusplus-dev; headers alone), which nothing else
// does.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/value.hpp>

#include <toml++/toml.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gpuplan::io {
namespace detail {

[[nodiscard]] inline value value_of(const toml::node& node, int depth) {
  if (depth > most_depth_of_settings)
    throw std::length_error("it nests deeper than " + std::to_string(most_depth_of_settings) +
                            " levels");
  if (const auto* const table = node.as_table()) {
    value::object members;
    for (const auto& [name, member] : *table)
      members.emplace_back(std::string(name.str()), value_of(member, depth + 1));
    return members;
  }
  if (const auto* const array = node.as_array()) {
    value::list items;
    for (const toml::node& item : *array) items.push_back(value_of(item, depth + 1));
    return items;
  }
  if (const auto* const flag = node.as_boolean()) return flag->get();
  if (const auto* const integer = node.as_integer()) return integer->get();
  if (const auto* const number = node.as_floating_point()) return number->get();
  if (const auto* const text = node.as_string()) return text->get();
  const auto line = std::to_string(node.source().begin.line);
  throw std::length_error("line " + line +
                          ": dates and times are no settings; write them in quotes");
}

// The line of the first head of a table, [a.b], that begins with no name, or of a character beyond
// ASCII outside of strings and comments: toml++ takes for granted that there are none, and is
// undefined on them. 0 where there is none. Brackets inside values and strings are no heads.
[[nodiscard]] inline int line_of_wrong_name(std::string_view text) {
  const auto starts = [&](std::size_t at, std::string_view with) {
    return text.substr(at, with.size()) == with;
  };
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  const auto begins_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '"' || c == '\'' || c == ']';
  };
  int line = 1;
  int open = 0;  // brackets of a value
  bool at_begin = true;
  std::string_view quote;  // that ends the string which this is in
  const std::string_view byte_order_mark = "\xef\xbb\xbf";
  for (std::size_t at = starts(0, byte_order_mark) ? 3 : 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') {
      ++line;
      at_begin = open == 0 && quote.empty();
      if (quote.size() == 1) quote = {};  // wrong, and said by the parser
      continue;
    }
    if (!quote.empty()) {
      if (c == '\\' && quote[0] == '"' && !starts(at + 1, "\n")) ++at;
      if (starts(at, quote)) {
        at += quote.size() - 1;
        quote = {};
      }
      continue;
    }
    if (is_blank(c)) continue;
    if (static_cast<unsigned char>(c) >= 0x80) return line;
    if (at_begin && c == '[') {
      std::size_t name = at + 1;
      if (name < text.size() && text[name] == '[') ++name;
      while (name < text.size() && is_blank(text[name])) ++name;
      if (name < text.size() && !begins_name(text[name])) return line;
      at = name - 1;
      open = 0;
    } else if (c == '#') {
      while (at + 1 < text.size() && text[at + 1] != '\n') ++at;
    } else if (c == '"' || c == '\'') {
      quote = text.substr(at, starts(at, c == '"' ? "\"\"\"" : "'''") ? 3 : 1);
      at += quote.size() - 1;
    } else if (!at_begin && (c == '[' || c == '{')) {
      ++open;
    } else if (c == ']' || c == '}') {
      open = open > 0 ? open - 1 : 0;
    }
    at_begin = false;
  }
  return 0;
}

}  // namespace detail

/// What a text in TOML 1.0 holds; members of a table in the order of their names. Refused: what is
/// no TOML, dates and times, and what exceeds `most_of_settings` or `most_depth_of_settings`.
[[nodiscard]] inline parsed_value parse_toml(std::string_view text) {
  if (text.size() > most_of_settings)
    return {{}, "it has more than " + std::to_string(most_of_settings >> 20) + " MiB"};
  if (const int line = detail::line_of_wrong_name(text); line != 0)
    return {{},
            "line " + std::to_string(line) +
                ": a name is letters from a to z, digits, - and _, or in quotes"};
  try {
    const toml::parse_result parsed = toml::parse(text);
    return {detail::value_of(parsed, 1), ""};
  } catch (const toml::parse_error& wrong) {
    return {{},
            "line " + std::to_string(wrong.source().begin.line) + ": " +
                printable(wrong.description())};
  } catch (const std::length_error& wrong) {
    return {{}, wrong.what()};
  }
}

}  // namespace gpuplan::io
