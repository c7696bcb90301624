#pragma once

// What $((...)) of a shell script counts.

#include <gpuplan/known.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpuplan::io::detail {

/// Whole numbers with + - * / % and brackets; names, with or without a $, are what `meaning` says.
class shell_counter {
 public:
  explicit shell_counter(std::string_view text) : text_(text) {}

  template <class Meaning>
  known<std::int64_t> count(const Meaning& meaning) {
    const std::int64_t is = sum(meaning, 0);
    skip();
    if (is_wrong_ || at_ != text_.size()) return {};
    return is;
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n'))
      ++at_;
  }
  bool takes(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t wrong() {
    is_wrong_ = true;
    return 0;
  }
  template <class Meaning>
  std::int64_t sum(const Meaning& meaning, int depth) {
    std::int64_t is = product(meaning, depth);
    while (!is_wrong_) {
      // both are below 2^31, so that neither sum nor product overflows
      if (takes('+'))
        is = bounded(is + product(meaning, depth));
      else if (takes('-'))
        is = bounded(is - product(meaning, depth));
      else
        break;
    }
    return is;
  }
  template <class Meaning>
  std::int64_t product(const Meaning& meaning, int depth) {
    std::int64_t is = factor(meaning, depth);
    while (!is_wrong_) {
      if (takes('*')) {
        is = bounded(is * factor(meaning, depth));
      } else if (takes('/')) {
        const std::int64_t by = factor(meaning, depth);
        is = by == 0 ? wrong() : is / by;
      } else if (takes('%')) {
        const std::int64_t by = factor(meaning, depth);
        is = by == 0 ? wrong() : is % by;
      } else {
        break;
      }
    }
    return is;
  }
  template <class Meaning>
  std::int64_t factor(const Meaning& meaning, int depth) {
    if (depth > 16) return wrong();
    if (takes('(')) {
      const std::int64_t is = sum(meaning, depth + 1);
      return takes(')') ? is : wrong();
    }
    if (takes('-')) return -factor(meaning, depth + 1);
    const bool is_variable = takes('$');
    const bool is_braced = is_variable && takes('{');
    skip();
    const std::size_t from = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string_view name = text_.substr(from, at_ - from);
    if (is_braced && !takes('}')) return wrong();
    if (name.empty()) return wrong();
    if (!is_digit(name[0])) return number(meaning(name));
    return is_variable ? wrong() : number(name);
  }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_word(char c) {
    return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  std::int64_t number(std::string_view digits) {
    std::int64_t is = 0;
    for (const char c : digits) {
      if (!is_digit(c) || is_wrong_) return wrong();
      is = bounded(is * 10 + (c - '0'));
    }
    // 010 would be eight
    return digits.empty() || (digits.size() > 1 && digits[0] == '0') ? wrong() : is;
  }
  std::int64_t bounded(std::int64_t is) {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    return is < most && is > -most ? is : wrong();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool is_wrong_ = false;
};

/// The number, or none where the expression has other operators, a name that `meaning` has no
/// number for, or leaves 32 bits.
template <class Meaning>
[[nodiscard]] known<std::int64_t> shell_arithmetic(std::string_view text, const Meaning& meaning) {
  return shell_counter(text).count(meaning);
}

}  // namespace gpuplan::io::detail
