#pragma once

// What headers of constants are written with: names and literals of C++.

#include <gpuplan/detail/text.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpuplan::io {

namespace detail {

// A text as a literal of C++; what is not printable ASCII is written in octal, which ends after
// three digits whatever follows.
[[nodiscard]] inline std::string literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) {
      out += '\\';
      for (const int shift : {6, 3, 0}) out += static_cast<char>('0' + ((byte >> shift) & 7));
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// A number that reads back as the same, of type double.
[[nodiscard]] inline std::string literal(double value) {
  std::string out = decimal(value, cell::shortest);
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

[[nodiscard]] inline const char* type_of(bytes) { return "bytes"; }
[[nodiscard]] inline const char* type_of(duration) { return "duration"; }

// How many characters from the first on make an identifier.
[[nodiscard]] constexpr std::size_t end_of_identifier(std::string_view name) {
  std::size_t at = 0;
  for (; at < name.size(); ++at) {
    const char c = name[at];
    const bool is_digit = c >= '0' && c <= '9';
    if (c != '_' && !gpuplan::detail::letter_or_digit(c)) break;
    if (is_digit && at == 0) break;
  }
  return at;
}

// Whether C++ has this name for itself: a keyword, what begins with _ or has two of them in a row,
// or a global name that a header of constants cannot do without.
[[nodiscard]] constexpr bool is_reserved(std::string_view name) {
  constexpr std::string_view words =
      " alignas alignof and and_eq asm auto bitand bitor bool boost break case catch char char16_t "
      "char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval "
      "constexpr constinit continue decltype default delete do double dynamic_cast else enum "
      "explicit export extern false float for friend goto gpuplan if inline int long main mutable "
      "namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
      "register "
      "reinterpret_cast requires return short signed sizeof static static_assert static_cast std "
      "struct switch template this thread_local throw true try typedef typeid typename union "
      "unsigned using virtual void volatile wchar_t while xor xor_eq ";
  if (name.starts_with('_') || name.find("__") != std::string_view::npos) return true;
  for (std::size_t at = words.find(name); at != std::string_view::npos;
       at = words.find(name, at + 1))
    if (words[at - 1] == ' ' && words[at + name.size()] == ' ') return true;
  return false;
}

}  // namespace detail

/// Whether a constant can have this name: letters, digits and _, no digit first, and no name that
/// C++ keeps for itself. Names of C's library, such as `exp`, are not looked for.
[[nodiscard]] constexpr bool is_identifier(std::string_view name) {
  return !name.empty() && detail::end_of_identifier(name) == name.size() &&
         !detail::is_reserved(name);
}

namespace detail {

// Throws `malformed_name` where a constant cannot have this name.
inline void require_identifier(std::string_view name) {
  if (is_identifier(name)) return;
  const std::size_t at = end_of_identifier(name);
  gpuplan::detail::precondition_violated(
      failure(errc::malformed_name,
              named_fact{fact::position, static_cast<std::int64_t>(at < name.size() ? at : 0)})
          .about("header name"));
}

}  // namespace detail

}  // namespace gpuplan::io
