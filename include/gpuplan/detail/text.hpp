#pragma once

// Names that people type: compared without regard to case and punctuation, and the nearest one for
// those that match nothing.

#include <cstddef>
#include <string_view>

namespace gpuplan::detail {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr bool letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// The letters and digits of a name, in lower case; what lies beyond 63 of them is dropped.
struct plain_name {
  char characters[64]{};
  int size = 0;

  constexpr explicit plain_name(std::string_view name) {
    for (const char c : name)
      if (letter_or_digit(c) && size < 63) characters[size++] = lower(c);
  }

  [[nodiscard]] constexpr std::string_view text() const {
    return {characters, static_cast<std::size_t>(size)};
  }

  friend constexpr bool operator==(const plain_name& a, const plain_name& b) {
    return a.size == b.size && a.text() == b.text();
  }
};

// Whether names are the same where case does not matter, nor which punctuation there is.
constexpr bool same_but_for_marks(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i]) && (letter_or_digit(a[i]) || letter_or_digit(b[i])))
      return false;
  return true;
}

// Levenshtein's distance: how many characters to insert, delete or replace. Gives up at `limit`
// and returns it.
constexpr int edit_distance(const plain_name& a, const plain_name& b, int limit) {
  const int difference = a.size < b.size ? b.size - a.size : a.size - b.size;
  if (difference >= limit) return limit;
  int row[64]{};  // distances of the first i characters of a to every beginning of b
  for (int j = 0; j <= b.size; ++j) row[j] = j;
  for (int i = 1; i <= a.size; ++i) {
    int diagonal = row[0];
    int least = row[0] = i;
    for (int j = 1; j <= b.size; ++j) {
      const int replaced = diagonal + (a.characters[i - 1] != b.characters[j - 1]);
      const int shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      diagonal = row[j];
      row[j] = replaced < shorter ? replaced : shorter;
      least = row[j] < least ? row[j] : least;
    }
    if (least >= limit) return limit;
  }
  return row[b.size] < limit ? row[b.size] : limit;
}

// The nearest to a name of those offered: one that begins with it, else the one with the fewest
// characters to change.
class nearest_name {
 public:
  constexpr explicit nearest_name(const plain_name& wanted) : wanted_(wanted) {}

  constexpr void offer(const plain_name& candidate, const char* id) {
    const bool begins_so = wanted_.size > 0 && candidate.text().starts_with(wanted_.text());
    const int distance = begins_so ? 0 : edit_distance(wanted_, candidate, least_);
    if (distance >= least_) return;
    least_ = distance;
    id_ = id;
  }
  [[nodiscard]] constexpr const char* id() const { return id_; }

 private:
  plain_name wanted_;
  int least_ = 64;
  const char* id_ = "";
};

}  // namespace gpuplan::detail
