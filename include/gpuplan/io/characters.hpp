#pragma once

// Characters of texts that come from elsewhere: files, options, drivers.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpuplan::io {

namespace detail {

// One character of UTF-8 text; a byte that starts none stands for itself.
struct utf8_character {
  std::uint32_t code;
  std::size_t size;
};

[[nodiscard]] inline utf8_character first_character(std::string_view text) {
  const auto byte = [text](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const std::uint32_t lead = byte(0);
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  std::uint32_t code = size == 1 ? lead : lead & (0xffU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return {0xfffd, 1};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  return {code, size};
}

// What a terminal obeys, what turns the direction of text, and what neither UTF-8 nor XML may have.
[[nodiscard]] inline bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200e && code < 0x2010) ||
         (code >= 0x2028 && code < 0x202f) || (code >= 0x2066 && code < 0x206a) ||
         (code >= 0xd800 && code < 0xe000) || code == 0xfffe || code == 0xffff;
}

}  // namespace detail

/// What of a text's line ends is left as it is.
enum class line_ends { become_spaces, are_kept };

/// A text that is safe to print and to keep: tabs and line ends become spaces, or line feeds are
/// kept; any other control character is written as `\u001b`, and a byte that is no UTF-8 as `\x9b`.
[[nodiscard]] inline std::string printable(std::string_view text,
                                           line_ends ends = line_ends::become_spaces) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [code, size] = detail::first_character(text);
    const bool is_byte = size == 1 && static_cast<unsigned char>(text.front()) >= 0x80;
    const bool is_too_long = code < (size == 2 ? 0x80U : size == 3 ? 0x800U : 0x10000U) && size > 1;
    if (is_byte || is_too_long || code > 0x10ffff) {
      const auto byte = static_cast<unsigned char>(text.front());
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
      text.remove_prefix(1);
      continue;
    }
    if (code == '\n' && ends == line_ends::are_kept)
      out += '\n';
    else if (code >= '\t' && code <= '\r')
      out += ' ';
    else if (detail::is_control(code))
      out += {'\\',
              'u',
              digits[code >> 12],
              digits[code >> 8 & 15],
              digits[code >> 4 & 15],
              digits[code & 15]};
    else
      out += text.substr(0, size);
    text.remove_prefix(size);
  }
  return out;
}

/// A text as the content of an element of XML or HTML or as an attribute in double quotes,
/// `printable`, which leaves nothing that XML 1.0 cannot hold.
[[nodiscard]] inline std::string markup_escaped(std::string_view text,
                                                line_ends ends = line_ends::become_spaces) {
  std::string out;
  for (const char c : printable(text, ends)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

}  // namespace gpuplan::io
