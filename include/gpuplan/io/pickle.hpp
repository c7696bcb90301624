#pragma once

// Python's pickles of plain data: written by hand, and read without running what they ask for.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// Writes a pickle of protocol 2, which every Python 3 reads: dictionaries, lists, texts, whole
/// numbers, nothing. What is in a list or a dictionary stands between its `begin` and its `end`;
/// in a dictionary a text, the key, before each value.
class pickle_writer {
 public:
  pickle_writer() : out_("\x80\x02", 2) {}

  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void none() { out_ += 'N'; }
  void text(std::string_view words) {
    out_ += 'X';
    add(words.size(), 4);
    out_ += words;
  }
  void integer(std::int64_t value) {
    if (value >= INT32_MIN && value <= INT32_MAX) {
      out_ += 'J';
      add(static_cast<std::uint64_t>(value), 4);
    } else {
      out_ += "\x8a\x08";
      add(static_cast<std::uint64_t>(value), 8);
    }
  }
  void member(std::string_view key, std::int64_t value) {
    text(key);
    integer(value);
  }
  void member(std::string_view key, std::string_view value) {
    text(key);
    text(value);
  }
  /// All of it, once it holds one value.
  [[nodiscard]] std::string finished() const { return out_ + '.'; }

 private:
  void add(std::uint64_t value, int bytes) {
    for (int at = 0; at < bytes; ++at) out_ += static_cast<char>(value >> 8 * at & 0xff);
  }

  std::string out_;
};

/// A value of a pickle: those in it are places in `parsed_pickle::values`, since one may be in
/// several others.
struct pickled {
  enum class kind { none, flag, integer, number, text, list, dict };

  kind is = kind::none;
  std::int64_t whole = 0;            // an integer; of a flag 1 or 0
  double real = 0;                   // of a number
  std::string words{};               // of a text
  std::vector<std::size_t> items{};  // of a list or a tuple; of a dictionary a key and its value
};

/// What was read, or what is wrong: one of both.
struct parsed_pickle {
  std::vector<pickled> values{};
  std::size_t root = 0;
  std::string why{};  // a sentence; empty: nothing is wrong

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
  [[nodiscard]] const pickled& top() const { return values[root]; }
  /// The value of a dictionary's key, the last of several; nullptr where there is none.
  [[nodiscard]] const pickled* find(const pickled& in, std::string_view key) const {
    if (in.is != pickled::kind::dict) return nullptr;
    for (std::size_t at = in.items.size(); at >= 2; at -= 2)
      if (values[in.items[at - 2]].is == pickled::kind::text &&
          values[in.items[at - 2]].words == key)
        return &values[in.items[at - 1]];
    return nullptr;
  }
  /// The integer of a dictionary's key.
  [[nodiscard]] std::optional<std::int64_t> integer(const pickled& in, std::string_view key) const {
    const pickled* const found = find(in, key);
    if (found == nullptr || found->is != pickled::kind::integer) return {};
    return found->whole;
  }
};

/// The most values that are read of a pickle.
inline constexpr std::size_t most_pickled_values = std::size_t{1} << 25;

namespace detail {

class pickle_reader {
 public:
  explicit pickle_reader(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] parsed_pickle read() {
    while (why_.empty() && !stopped_) step();
    if (why_.empty() && stack_.size() != 1) fail("it ends without a value");
    if (!why_.empty()) return {.why = why_};
    return {.values = std::move(values_), .root = stack_.back()};
  }

 private:
  void fail(const std::string& what) {
    if (why_.empty()) why_ = what + ", at byte " + std::to_string(at_);
  }
  // So many bytes, the lowest first.
  std::uint64_t number(int bytes) {
    std::uint64_t value = 0;
    if (bytes_.size() - at_ < static_cast<std::size_t>(bytes)) {
      fail("it is cut off");
      at_ = bytes_.size();
      return 0;
    }
    for (int i = 0; i < bytes; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes_[at_ + static_cast<std::size_t>(i)])}
               << 8 * i;
    at_ += static_cast<std::size_t>(bytes);
    return value;
  }
  std::string_view words(std::uint64_t size) {
    if (bytes_.size() - at_ < size) {
      fail("it is cut off");
      return {};
    }
    const std::string_view found = bytes_.substr(at_, size);
    at_ += size;
    return found;
  }
  void push(pickled value) {
    if (values_.size() >= most_pickled_values) return fail("it has too many values");
    values_.push_back(std::move(value));
    stack_.push_back(values_.size() - 1);
  }
  void push_integer(std::int64_t value) { push({.is = pickled::kind::integer, .whole = value}); }
  void push_long(std::uint64_t bytes) {
    if (bytes > 8) return fail("it has a number beyond 64 bits");
    std::uint64_t value = number(static_cast<int>(bytes));
    if (bytes > 0 && bytes < 8 && (value >> (8 * bytes - 1) & 1) != 0)
      value |= ~std::uint64_t{0} << 8 * bytes;
    push_integer(static_cast<std::int64_t>(value));
  }
  // What was put on the stack since the mark.
  std::vector<std::size_t> since_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) {
      fail("it has an end without a beginning");
      return {};
    }
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<std::size_t> found(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return found;
  }
  std::vector<std::size_t> last(std::size_t count) {
    if (stack_.size() < count) {
      fail("it takes more than there is");
      return {};
    }
    const auto from = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<std::size_t> found(from, stack_.end());
    stack_.erase(from, stack_.end());
    return found;
  }
  void extend(pickled::kind what, const std::vector<std::size_t>& more) {
    if (!why_.empty()) return;
    if (stack_.empty() || values_[stack_.back()].is != what ||
        (what == pickled::kind::dict && more.size() % 2 != 0))
      return fail("it adds to what is no list or dictionary");
    std::vector<std::size_t>& items = values_[stack_.back()].items;
    items.insert(items.end(), more.begin(), more.end());
  }
  void push_list(std::vector<std::size_t> items) {
    if (why_.empty()) push({.is = pickled::kind::list, .items = std::move(items)});
  }
  void remember(std::uint64_t as) {
    if (stack_.empty()) return fail("it remembers nothing");
    memo_[as] = stack_.back();
    next_ = std::max<std::uint64_t>(next_, as + 1);
  }
  void recall(std::uint64_t as) {
    const auto found = memo_.find(as);
    if (found == memo_.end()) return fail("it recalls what it did not remember");
    stack_.push_back(found->second);
  }

  void step() {
    if (at_ == bytes_.size()) return fail("it is cut off");
    const char code = bytes_[at_++];
    using kind = pickled::kind;
    switch (code) {
      case '\x80':  // PROTO
        if (number(1) > 5) fail("its protocol is not known");
        return;
      case '\x95':  // FRAME: how much follows
        number(8);
        return;
      case '.':
        stopped_ = true;
        return;
      case '(':
        marks_.push_back(stack_.size());
        return;
      case 'N':
        return push({});
      case '\x88':
      case '\x89':
        return push({.is = kind::flag, .whole = code == '\x88' ? 1 : 0});
      case 'J':
        return push_integer(static_cast<std::int32_t>(number(4)));
      case 'K':
        return push_integer(static_cast<std::int64_t>(number(1)));
      case 'M':
        return push_integer(static_cast<std::int64_t>(number(2)));
      case '\x8a':
        return push_long(number(1));
      case 'G': {  // the highest byte first
        std::uint64_t bits = 0;
        for (int i = 0; i < 8; ++i) bits = bits << 8 | number(1);
        return push({.is = kind::number, .real = std::bit_cast<double>(bits)});
      }
      case 'X':
        return push({.is = kind::text, .words = std::string(words(number(4)))});
      case '\x8c':
        return push({.is = kind::text, .words = std::string(words(number(1)))});
      case '\x8d':
        return push({.is = kind::text, .words = std::string(words(number(8)))});
      case '}':
        return push({.is = kind::dict});
      case ']':
      case ')':
        return push({.is = kind::list});
      case 't':
        return push_list(since_mark());
      case '\x85':
      case '\x86':
      case '\x87':
        return push_list(last(static_cast<std::size_t>(code - '\x85') + 1));
      case 'a':
        return extend(kind::list, last(1));
      case 'e':
        return extend(kind::list, since_mark());
      case 's':
        return extend(kind::dict, last(2));
      case 'u':
        return extend(kind::dict, since_mark());
      case 'q':
        return remember(number(1));
      case 'r':
        return remember(number(4));
      case '\x94':
        return remember(next_);
      case 'h':
        return recall(number(1));
      case 'j':
        return recall(number(4));
      default:
        return fail("it has more than plain data (operation " +
                    std::to_string(static_cast<unsigned char>(code)) + "), which is never run");
    }
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::vector<pickled> values_{};
  std::vector<std::size_t> stack_{};
  std::vector<std::size_t> marks_{};
  std::map<std::uint64_t, std::size_t> memo_{};
  std::uint64_t next_ = 0;
  bool stopped_ = false;
  std::string why_{};
};

}  // namespace detail

/// A pickle of any protocol as far as it is of nothing, flags, numbers of at most 64 bits, texts,
/// lists, tuples (which become lists) and dictionaries. What makes objects or calls functions is
/// refused, and nothing is ever run.
[[nodiscard]] inline parsed_pickle read_pickle(std::string_view bytes) {
  return detail::pickle_reader(bytes).read();
}

}  // namespace gpuplan::io
