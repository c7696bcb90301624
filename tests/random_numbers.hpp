#pragma once

#include <cstdint>

/// Random numbers that are the same at compile time and at run time.
class random_numbers {
 public:
  constexpr explicit random_numbers(std::uint64_t seed) : state_(seed) {}

  /// From 0 to below `end` (Knuth's MMIX generator, upper bits).
  constexpr std::int64_t below(std::int64_t end) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>(state_ >> 33) % end;
  }

 private:
  std::uint64_t state_;
};
