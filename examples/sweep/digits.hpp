#pragma once

// Pictures of digits as a pen would write them: what the network of the sweeps learns to read.

#include <cstdint>
#include <span>

namespace sweep_examples {

inline constexpr std::int64_t image_side = 28;
inline constexpr std::int64_t pixels = image_side * image_side;
inline constexpr std::int64_t digits = 10;

/// Draws a digit, row by row from the top left, 0 for paper to 255 for ink, and returns which one.
/// Slant, size, place, stroke and the specks on the paper follow from `seed` and `index`, with the
/// same bytes on every machine: only operations that IEEE 754 rounds exactly are used.
std::uint8_t draw_digit(std::uint64_t seed,
                        std::int64_t index,
                        std::span<std::uint8_t, pixels> picture);

}  // namespace sweep_examples
