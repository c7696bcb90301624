#pragma once

// Megatron-Core's pipeline_model_parallel_layout, in both directions: "Et*4|(tttt|)*14tmL".

#include <gpuplan/io/value.hpp>
#include <gpuplan/parallelism.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpuplan::io {

/// What a layout's text says.
struct read_pipeline_layout {
  listed_chunks chunks{};
  std::int64_t mtp_layers = 0;
  bool mtp_is_apart = false;  // in a chunk before the one of the loss
  std::string why{};          // why it says nothing; empty: it does

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
};

namespace detail {

/// The text with each repetition written out. It has no more letters than `most_of_a_layout`.
class layout_unfolder {
 public:
  static constexpr std::size_t most_of_a_layout = 1 << 16;

  explicit layout_unfolder(std::string_view text) : text_(text) {}

  /// False where a bracket or a number is wrong, or it grows too long.
  bool unfold(std::string& to) { return read_row(to, 0) && at_ == text_.size(); }

 private:
  // Up to the bracket that closes it.
  bool read_row(std::string& to, int depth) {
    while (at_ < text_.size() && text_[at_] != ')') {
      std::string one;
      const char first = text_[at_++];
      if (first == '(') {
        if (depth == 8 || !read_row(one, depth + 1) || at_ == text_.size()) return false;
        ++at_;  // the closing one
      } else if (first == '*') {
        return false;
      } else if (first != ',' && first != ' ') {
        one = first;
      }
      std::size_t times = 1;
      if (at_ < text_.size() && text_[at_] == '*' && !read_times(times)) return false;
      if (one.size() * times > most_of_a_layout - to.size()) return false;
      for (; times > 0 && !one.empty(); --times) to += one;
    }
    return depth > 0 || at_ == text_.size();
  }
  bool read_times(std::size_t& times) {
    const std::size_t first = ++at_;
    times = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      times = 10 * times + static_cast<std::size_t>(text_[at_] - '0');
      if (times > most_of_a_layout) return false;
    }
    return at_ != first;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// A layout's text; in Megatron-Bridge's configuration it may be a list of lists of words. Empty
/// where there is none.
[[nodiscard]] inline std::string pipeline_layout_text(const value* is) {
  if (is == nullptr) return "";
  if (is->text() != nullptr) return *is->text();
  const value::list* const chunks = is->items();
  if (chunks == nullptr) return "";
  std::string text;
  for (const value& chunk : *chunks) {
    if (&chunk != &chunks->front()) text += "|";
    if (chunk.items() == nullptr) return "?";
    for (const value& layer : *chunk.items()) {
      const std::string* const word = layer.text();
      if (word == nullptr) return "?";
      text += *word == "embedding" ? "E"
              : *word == "decoder" ? "t"
              : *word == "mtp"     ? "m"
              : *word == "loss"    ? "L"
                                   : "?";
    }
  }
  return text;
}

}  // namespace detail

/// The layers of each chunk: E the embedding, t a decoder layer, m a layer of multi-token
/// prediction, L the head and its loss, | between chunks; `x*n` and `(...)*n` repeat, commas
/// separate nothing. E comes first, L last, and m behind the last t; at most 128 chunks
/// of 255 layers.
[[nodiscard]] inline read_pipeline_layout pipeline_layout_of(std::string_view text) {
  read_pipeline_layout read;
  std::string all;
  if (!detail::layout_unfolder(text).unfold(all)) {
    read.why = "is no layout: brackets and numbers as in Et*4|(tttt|)*14tmL are taken";
    return read;
  }
  if (all.size() < 2 || all.front() != 'E' || all.back() != 'L') {
    read.why = "begins without E or ends without L, which are taken";
    return read;
  }
  listed_chunks& chunks = read.chunks;
  chunks.count = 1;
  for (std::size_t at = 1; at + 1 < all.size(); ++at) {
    std::uint8_t& layers = chunks.layers[chunks.count - 1];
    if (all[at] == 't' && read.mtp_layers == 0 && layers < 255) {
      ++layers;
    } else if (all[at] == '|' && chunks.count < listed_chunks::most) {
      ++chunks.count;
      read.mtp_is_apart = read.mtp_layers != 0;
    } else if (all[at] == 'm') {
      ++read.mtp_layers;
    } else {
      if (all[at] == 't' && layers == 255)
        read.why = "has more than 255 layers in a chunk, which are taken";
      else if (all[at] == 't')
        read.why = "has t behind m; before it, it is taken";
      else if (all[at] == '|')
        read.why = "has more than 128 chunks, which are taken";
      else
        read.why = std::string("has ") + all[at] + " within; t, m and | are taken";
      return read;
    }
  }
  return read;
}

/// The text that says so: as many layers together as `t*n`, like chunks one after the other as
/// `(t*n|)*m`.
[[nodiscard]] inline std::string text_of(const listed_chunks& chunks, std::int64_t mtp_layers) {
  const auto letters = [](char letter, std::int64_t count) {
    if (count == 0) return std::string();
    return std::string(1, letter) + (count > 1 ? "*" + std::to_string(count) : "");
  };
  std::string text = "E";
  for (int at = 0; at < chunks.count;) {
    const std::uint8_t layers = chunks.layers[at];
    int alike = at;
    // neither the first, behind E, nor the last, before L
    while (at > 0 && alike < chunks.count - 1 && chunks.layers[alike] == layers) ++alike;
    if (alike - at > 1) {
      text += "(" + letters('t', layers) + "|)*" + std::to_string(alike - at);
      at = alike;
      continue;
    }
    text += letters('t', layers) + (at + 1 < chunks.count ? "|" : "");
    ++at;
  }
  return text + letters('m', mtp_layers) + "L";
}

}  // namespace gpuplan::io
