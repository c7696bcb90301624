#pragma once

// How deep a text in JSON nests: what copies, prints and frees its values goes as deep on the
// stack.

#include <cstddef>
#include <string_view>

namespace gpuplan::io {

/// The deepest nesting of lists and objects that is read.
inline constexpr int most_json_depth = 32;

/// Whether a text that may be JSON nests lists and objects deeper than that: to ask before it is
/// parsed.
[[nodiscard]] constexpr bool is_too_deep(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (in_text && c == '\\')
      ++at;
    else if (c == '"')
      in_text = !in_text;
    else if (!in_text && (c == '[' || c == '{') && ++depth > most_json_depth)
      return true;
    else if (!in_text && (c == ']' || c == '}'))
      --depth;
  }
  return false;
}

}  // namespace gpuplan::io
