#pragma once

// What `[ ... ]`, `[[ ... ]]` and `test` of a shell script find, where the script alone decides it.

#include <gpuplan/known.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace gpuplan::io::detail {

[[nodiscard]] inline bool has_expansion(std::string_view word) {
  return word.find_first_of("$`") != std::string_view::npos;
}

/// Whether a text is what a pattern of the shell stands for: * is any text, ? any character. Absent
/// where it has brackets, or both are long.
[[nodiscard]] inline known<bool> shell_matches(std::string_view text, std::string_view pattern) {
  if (pattern.find_first_of("[\\(") != std::string_view::npos) return {};
  if (text.size() > 4096 || pattern.size() > 4096) return {};
  std::size_t at = 0;
  std::size_t in = 0;
  std::size_t star = std::string_view::npos;
  std::size_t behind = 0;
  while (at < text.size()) {
    if (in < pattern.size() && pattern[in] == '*') {
      star = in++;
      behind = at;
    } else if (in < pattern.size() && (pattern[in] == '?' || pattern[in] == text[at])) {
      ++in;
      ++at;
    } else if (star != std::string_view::npos) {
      in = star + 1;
      at = ++behind;
    } else {
      return false;
    }
  }
  while (in < pattern.size() && pattern[in] == '*') ++in;
  return in == pattern.size();
}

[[nodiscard]] inline known<bool> shell_compares(const std::string& left,
                                                std::string_view by,
                                                const std::string& right) {
  const bool is_equal = by == "=" || by == "==";
  if (is_equal || by == "!=") {
    const known<bool> matches = shell_matches(left, right);
    if (!matches) return {};
    return *matches == is_equal;
  }
  const auto number = [](const std::string& text) -> known<std::int64_t> {
    std::int64_t is = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), is);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return {};
    return is;
  };
  const auto one = number(left);
  const auto other = number(right);
  if (!one || !other) return {};
  if (by == "-eq") return *one == *other;
  if (by == "-ne") return *one != *other;
  if (by == "-lt") return *one < *other;
  if (by == "-le") return *one <= *other;
  if (by == "-gt") return *one > *other;
  if (by == "-ge") return *one >= *other;
  return {};
}

/// What a command that tests finds. Absent where it is none, asks for files, joins several tests,
/// or has words that the script does not say. `is_unset`: of "$NAME", whether the script sets no
/// such variable, so that it is empty.
template <class Unset>
[[nodiscard]] known<bool> shell_condition(std::vector<std::string> words, const Unset& is_unset) {
  if (words.empty()) return {};
  if (words[0] == "true" || words[0] == ":") return true;
  if (words[0] == "false") return false;
  const std::string closes = words[0] == "[" ? "]" : words[0] == "[[" ? "]]" : "";
  if (closes.empty() && words[0] != "test") return {};
  if (!closes.empty()) {
    if (words.back() != closes) return {};
    words.pop_back();
  }
  words.erase(words.begin());
  std::size_t opposites = 0;
  while (opposites + 1 < words.size() && words[opposites] == "!") ++opposites;
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(opposites));
  const bool is_opposite = opposites % 2 == 1;
  const auto found = [is_opposite](bool is) { return is != is_opposite; };
  const bool asks_for_text =
      words.size() == 1 || (words.size() == 2 && (words[0] == "-z" || words[0] == "-n"));
  if (asks_for_text) {
    std::string text = words.back();
    if (is_unset(text)) text.clear();
    if (has_expansion(text)) return {};
    return found(text.empty() == (words.size() == 2 && words[0] == "-z"));
  }
  if (words.empty() || words.size() != 3) return {};
  if (has_expansion(words[0]) || has_expansion(words[2])) return {};
  const known<bool> compared = shell_compares(words[0], words[1], words[2]);
  if (!compared) return {};
  return found(*compared);
}

}  // namespace gpuplan::io::detail
