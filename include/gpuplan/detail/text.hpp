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

// The fewest characters to insert, delete, replace or swap with the next in `a` for it to stand
// somewhere in `b`. Gives up above `limit`.
constexpr int infix_distance(const plain_name& a, const plain_name& b, int limit) {
  int row[64]{};     // of the first i characters of a, ending behind each of b
  int before[64]{};  // of one less
  for (int i = 1; i <= a.size; ++i) {
    int diagonal = row[0];
    int swapped = 0;  // what was two less, behind two less of b
    int least = row[0] = i;
    for (int j = 1; j <= b.size; ++j) {
      const int replaced = diagonal + (a.characters[i - 1] != b.characters[j - 1]);
      const int shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      const bool swaps = i > 1 && j > 1 && a.characters[i - 1] == b.characters[j - 2] &&
                         a.characters[i - 2] == b.characters[j - 1];
      const int two_less = swapped + 1;
      swapped = before[j - 1];
      before[j - 1] = diagonal;
      diagonal = row[j];
      row[j] = replaced < shorter ? replaced : shorter;
      if (swaps && two_less < row[j]) row[j] = two_less;
      least = row[j] < least ? row[j] : least;
    }
    if (least > limit) return least;
  }
  int least = row[0];
  for (int j = 1; j <= b.size; ++j) least = row[j] < least ? row[j] : least;
  return least;
}

// A name in lower case with its marks; what lies beyond 63 characters is dropped.
struct marked_name {
  char characters[64]{};
  std::size_t size = 0;

  constexpr explicit marked_name(std::string_view name) {
    for (; size < 63 && size < name.size(); ++size) characters[size] = lower(name[size]);
  }

  [[nodiscard]] constexpr std::string_view text() const { return {characters, size}; }

  // Behind the word that begins at `from`, which is letters alone or digits alone: "a", "100", "80"
  // and "gb" of "A100-80GB". `from` itself at a mark and at the end.
  [[nodiscard]] constexpr std::size_t end_of_word(std::size_t from) const {
    std::size_t end = from;
    while (end < size && letter_or_digit(characters[end]) && !parts(end, from)) ++end;
    return end;
  }
  // Whether a word is one of these.
  [[nodiscard]] constexpr bool has_word(std::string_view word) const {
    for (std::size_t at = text().find(word); at != std::string_view::npos;
         at = text().find(word, at + 1)) {
      const std::size_t end = at + word.size();
      if ((at == 0 || parts(at - 1, at)) && (end == size || parts(end, at))) return true;
    }
    return false;
  }

 private:
  // Whether there is an end of a word between two neighbours.
  [[nodiscard]] constexpr bool parts(std::size_t a, std::size_t b) const {
    return kind_of(characters[a]) != kind_of(characters[b]);
  }
  static constexpr int kind_of(char c) {
    return c >= '0' && c <= '9' ? 1 : c >= 'a' && c <= 'z' ? 2 : 0;
  }
};

// The nearest to a name of those offered: what has most of its words; of these the one in which it
// stands with the fewest characters changed, then one that begins with it, then the shortest, then
// the first.
class nearest_name {
 public:
  // `given` is what was typed, and `wanted` what of it counts; so for candidates.
  constexpr nearest_name(std::string_view given, const plain_name& wanted)
      : given_(given), wanted_(wanted) {}

  constexpr void offer(std::string_view known, const plain_name& candidate, const char* id) {
    const std::size_t words = characters_in(marked_name(known));
    if (words < words_) return;
    const int most = words > words_ ? 64 : distance_;
    const int distance = infix_distance(wanted_, candidate, most);
    if (distance > most) return;
    const bool begins = wanted_.size > 0 && candidate.text().starts_with(wanted_.text());
    const int more = begins ? 0 : 1 + candidate.size;
    if (words == words_ && distance == distance_ && more >= more_) return;
    words_ = words;
    distance_ = distance;
    more_ = more;
    id_ = id;
  }
  [[nodiscard]] constexpr const char* id() const { return id_; }

 private:
  marked_name given_;
  plain_name wanted_;
  std::size_t words_ = 0;
  int distance_ = 64;
  int more_ = 128;
  const char* id_ = "";

  // Of the words given, those that the candidate has.
  [[nodiscard]] constexpr std::size_t characters_in(const marked_name& candidate) const {
    std::size_t found = 0;
    for (std::size_t from = 0; from < given_.size;) {
      const std::size_t end = given_.end_of_word(from);
      if (end > from && candidate.has_word(given_.text().substr(from, end - from)))
        found += end - from;
      from = end > from ? end : from + 1;
    }
    return found;
  }
};

}  // namespace gpuplan::detail
