#pragma once

// The words of the names of GPUs and models, to look for those that somebody typed.

#include <gpuplan/detail/text.hpp>

#include <cstddef>
#include <string_view>

namespace gpuplan::detail {

enum class ends_of_words {
  marks,   // "a100", "80gb" of "A100-80GB"
  numbers  // there too where letters meet digits: "a", "100", "80", "gb"
};

// Words in lower case. A dot between digits is of the word, "3.1", and others are marks. What lies
// beyond 24 words or 127 characters is dropped.
class name_words {
 public:
  constexpr name_words() = default;
  constexpr explicit name_words(std::string_view name, ends_of_words at = ends_of_words::marks) {
    add(name, at);
  }

  constexpr void add(std::string_view name, ends_of_words at = ends_of_words::marks) {
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= name.size(); ++i) {
      const bool is_in = i < name.size() && is_of_word(name, i);
      if (is_in && i > begin && at == ends_of_words::numbers &&
          is_number(name[i]) != is_number(name[i - 1])) {
        add_word(name.substr(begin, i - begin));
        begin = i;
      }
      if (is_in) continue;
      if (i > begin) add_word(name.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  constexpr void add_word(std::string_view word) {
    if (count_ == 24 || size_ + word.size() > 127) return;
    begins_[count_++] = static_cast<unsigned char>(size_);
    for (const char c : word) characters_[size_++] = lower(c);
    begins_[count_] = static_cast<unsigned char>(size_);
  }

  [[nodiscard]] constexpr std::size_t size() const { return count_; }
  [[nodiscard]] constexpr std::string_view operator[](std::size_t at) const {
    return {characters_ + begins_[at], static_cast<std::size_t>(begins_[at + 1] - begins_[at])};
  }
  // All of them, one behind the other.
  [[nodiscard]] constexpr std::string_view joined() const { return {characters_, size_}; }

  [[nodiscard]] constexpr bool has(std::string_view word) const {
    for (std::size_t at = 0; at < count_; ++at)
      if ((*this)[at] == word) return true;
    return false;
  }
  [[nodiscard]] constexpr bool has_all_of(const name_words& others) const {
    for (std::size_t at = 0; at < others.size(); ++at)
      if (!has(others[at])) return false;
    return true;
  }
  // Whether it has each of these as often as they do.
  [[nodiscard]] constexpr bool has_each_of(const name_words& others) const {
    for (std::size_t at = 0; at < others.size(); ++at)
      if (count_of(others[at]) < others.count_of(others[at])) return false;
    return true;
  }
  // Whether it has these one behind the other.
  [[nodiscard]] constexpr bool has_run_of(const name_words& others) const {
    for (std::size_t from = 0; from + others.count_ <= count_; ++from) {
      std::size_t same = 0;
      while (same < others.count_ && (*this)[from + same] == others[same]) ++same;
      if (same == others.count_) return true;
    }
    return false;
  }

 private:
  char characters_[128]{};
  unsigned char begins_[25]{};
  std::size_t size_ = 0;
  std::size_t count_ = 0;

  [[nodiscard]] constexpr std::size_t count_of(std::string_view word) const {
    std::size_t count = 0;
    for (std::size_t at = 0; at < count_; ++at)
      if ((*this)[at] == word) ++count;
    return count;
  }

  static constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static constexpr bool is_number(char c) { return is_digit(c) || c == '.'; }
  static constexpr bool is_of_word(std::string_view name, std::size_t at) {
    if (name[at] != '.') return letter_or_digit(name[at]);
    return at > 0 && at + 1 < name.size() && is_digit(name[at - 1]) && is_digit(name[at + 1]);
  }
};

// The number that a word of digits alone is, as far as it has four of them; -1 for others.
constexpr int number_of(std::string_view word) {
  int number = word.empty() || word.size() > 4 ? -1 : 0;
  for (const char c : word) {
    if (c < '0' || c > '9') return -1;
    if (number >= 0) number = 10 * number + (c - '0');
  }
  return number;
}

// Whether this is one of the words of a list, between spaces.
constexpr bool is_one_of(std::string_view word, std::string_view list) {
  for (std::size_t at = list.find(word); at != std::string_view::npos; at = list.find(word, at + 1))
    if (at > 0 && list[at - 1] == ' ' && at + word.size() < list.size() &&
        list[at + word.size()] == ' ')
      return true;
  return false;
}

}  // namespace gpuplan::detail
