#pragma once

// Random numbers that are the same on every machine.

#include <cstdint>

namespace sweep_examples {

/// A number of 64 bits that any change of `x` changes: the finaliser of SplitMix64 (Steele, Lea and
/// Flood, 2014).
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// A stream of random numbers, SplitMix64; streams of different names are independent.
class random_stream {
 public:
  constexpr explicit random_stream(std::uint64_t seed, std::uint64_t name = 0)
      : state_(mixed(mixed(seed + gap) + name * gap)) {}

  constexpr std::uint64_t next() { return mixed(state_ += gap); }

  /// From `least` up to, but without, `most`.
  constexpr double between(double least, double most) {
    return least + (most - least) * (static_cast<double>(next() >> 11) * 0x1p-53);
  }

 private:
  static constexpr std::uint64_t gap = 0x9e3779b97f4a7c15;
  std::uint64_t state_;
};

/// Where position `position` of `size` lies in the shuffling of that name: a permutation of 0 to
/// `size - 1`, without a table, by a Feistel network of four rounds that is walked until it lands
/// below `size`. Precondition: 0 <= position < size < 2^62.
[[nodiscard]] constexpr std::int64_t shuffled(std::int64_t position,
                                              std::int64_t size,
                                              std::uint64_t name) {
  int half = 1;
  while ((std::int64_t{1} << (2 * half)) < size) ++half;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  auto at = static_cast<std::uint64_t>(position);
  do {
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t right = at & mask;
      at = right << half | ((at >> half) ^ (mixed(name + 4 * right + round) & mask));
    }
  } while (at >= static_cast<std::uint64_t>(size));
  return static_cast<std::int64_t>(at);
}

}  // namespace sweep_examples
