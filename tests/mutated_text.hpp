#pragma once

// Texts with faults: some of their characters replaced, or put between.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "random_numbers.hpp"

/// `text` with 1 to `most` changes, each a character of `pieces` in place of one of its own or
/// before it. Precondition: neither is empty.
inline std::string mutated_text(std::string text,
                                std::string_view pieces,
                                std::int64_t most,
                                random_numbers& random) {
  const auto below = [&](std::size_t size) {
    return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(size)));
  };
  for (std::int64_t changes = 1 + random.below(most); changes > 0; --changes) {
    const std::size_t at = below(text.size());
    const std::size_t piece = below(pieces.size());
    if (random.below(2) == 0)
      text[at] = pieces[piece];
    else
      text.insert(at, 1, pieces[piece]);
  }
  return text;
}
