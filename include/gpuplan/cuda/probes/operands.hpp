#pragma once

// What a probe multiplies, and the closed form of what it must leave: numbers that look random to
// the multipliers, for equal or round ones cost less power and so run at higher clocks, and whose
// sums are exact all the same. For kernels and for the host.
//
// A probe alternates between two left operands that nearly cancel. Every element of A and B is
// +-(1 + f / 2^m), f and the sign by a hash of its place, so every product is a multiple of 2^-2m;
// the second A is the first negated, except in its last column, where the two are 1 and
// -(1 - 2^-m), and B's last row is 2^-m. So each pair of products adds 2^-2m to every element of
// the sum, whatever the hash gave, and the sum counts the pairs. Where the sum has no room for that
// (fp8, of whose products Hopper adds the highest 14 bits, arXiv:2412.19437, section 3.5.2; sums in
// fp16), A's last column cancels too. Integers likewise: up to 127 in size, and 1 more by each
// pair.

#include <gpuplan/cuda/host_device.hpp>
#include <gpuplan/cuda/probes/instructions.hpp>

#include <cstdint>

namespace gpuplan::cuda {

/// The bits of a number format, from the sign down.
struct bit_layout {
  int bits = 32;
  int mantissa_bits = 23;
  int exponent_bias = 127;
};

[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr bit_layout layout_of(number_format format) {
  switch (format) {
    case number_format::fp64:
      return {64, 52, 1023};
    case number_format::bf16:
      return {16, 7, 127};
    case number_format::fp16:
      return {16, 10, 15};
    case number_format::fp8:
      return {8, 3, 7};  // e4m3
    case number_format::int8:
      return {8, 0, 0};
    default:
      return {32, 23, 127};  // fp32; tf32, which reads the upper 19 bits of it
  }
}

/// One element of an operand: +-(1 + fraction / 2^m) 2^exponent, or `integer` in int8.
struct operand_element {
  bool negative = false;
  int exponent = 0;
  std::uint32_t fraction = 0;
  int integer = 0;
};

/// How the operands of an instruction are drawn.
struct operand_rule {
  number_format format = number_format::fp32;
  int fraction_bits = 6;     // m above
  bool counts_pairs = true;  // else each pair adds nothing
};

[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr operand_rule rule_of(number_format format,
                                                                 accumulator sum) {
  if (format == number_format::fp8 || sum == accumulator::fp16) return {format, 2, false};
  return {format, format == number_format::fp64 ? 20 : 6, true};
}

namespace detail {

// The finalizer of MurmurHash3: every bit of the place changes about half of the result's.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr std::uint32_t hashed(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bU;
  x ^= x >> 13;
  x *= 0xc2b2ae35U;
  return x ^ (x >> 16);
}

[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr operand_element drawn(const operand_rule& rule,
                                                                  std::uint32_t place) {
  const std::uint32_t hash = hashed(place);
  operand_element element;
  element.negative = (hash & 1U) != 0;
  element.fraction = (hash >> 1) & ((1U << rule.fraction_bits) - 1U);
  element.integer = static_cast<int>((hash >> 1) % 127U) + 1;
  if (element.negative) element.integer = -element.integer;
  return element;
}

}  // namespace detail

/// A's element at (row, column) of a matrix of `columns`, in its first (`second` = false) or second
/// form.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr operand_element left_operand(
    const operand_rule& rule, int row, int column, int columns, bool second) {
  const auto place = static_cast<std::uint32_t>(row * columns + column);
  operand_element element = detail::drawn(rule, 0x10000U + place);
  if (rule.counts_pairs && column == columns - 1) {
    // 1 + f / 2^m = 2 - 2^(1 - m), halved: 1 - 2^-m.
    if (second) return {true, -1, (1U << rule.fraction_bits) - 2U, 0};
    return {false, 0, 0, 1};
  }
  if (second) {
    element.negative = !element.negative;
    element.integer = -element.integer;
  }
  return element;
}

/// B's element at (row, column) of a matrix of `rows`; `chain` tells apart the matrices by which a
/// warp multiplies.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr operand_element right_operand(
    const operand_rule& rule, int row, int column, int rows, int chain) {
  if (rule.counts_pairs && row == rows - 1) return {false, -rule.fraction_bits, 0, 1};
  const auto place = static_cast<std::uint32_t>((chain * 256 + column) * rows + row);
  return detail::drawn(rule, 0x4000000U + place);
}

/// The bits of an element in its format, in the low end of the result.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr std::uint64_t bits_of(const operand_rule& rule,
                                                                  const operand_element& element) {
  if (rule.format == number_format::int8)
    return static_cast<std::uint64_t>(element.integer) & 0xffU;
  const bit_layout layout = layout_of(rule.format);
  const auto exponent =
      static_cast<std::uint64_t>(std::int64_t{element.exponent} + layout.exponent_bias);
  return (std::uint64_t{element.negative} << (layout.bits - 1)) |
         (exponent << layout.mantissa_bits) |
         (std::uint64_t{element.fraction} << (layout.mantissa_bits - rule.fraction_bits));
}

/// The bits of a number in fp16. Exact for 0 and for what fp16 holds as a normal number.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr std::uint32_t bits_of_fp16(double value) {
  if (value == 0) return 0;
  const bool negative = value < 0;
  double magnitude = negative ? -value : value;
  std::uint32_t exponent = 15;
  for (; magnitude >= 2; ++exponent) magnitude /= 2;
  for (; magnitude < 1; --exponent) magnitude *= 2;
  return (std::uint32_t{negative} << 15) | (exponent << 10) |
         static_cast<std::uint32_t>((magnitude - 1) * 1024);
}

/// Two numbers in fp16, the first in the low half.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr std::uint32_t fp16_pair(double low, double high) {
  return bits_of_fp16(low) | (bits_of_fp16(high) << 16);
}

/// The number that an element stands for. Exact.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr double value_of(const operand_rule& rule,
                                                            const operand_element& element) {
  if (rule.format == number_format::int8) return element.integer;
  double value = 1 + element.fraction / static_cast<double>(1U << rule.fraction_bits);
  for (int i = element.exponent; i < 0; ++i) value /= 2;
  return element.negative ? -value : value;
}

/// What each pair of products adds to every element of the sum: 2^-2m, 1 in int8, or nothing.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr double added_by_pair(const operand_rule& rule) {
  if (!rule.counts_pairs) return 0;
  if (rule.format == number_format::int8) return 1;
  const auto scale = static_cast<double>(1U << rule.fraction_bits);
  return 1 / (scale * scale);
}

/// The most pairs whose sum stays exact: with m = 6, 256 and the multiples of 2^-12 below it take
/// 20 of fp32's 24 bits, and one product of up to 128 fits beside it.
inline constexpr std::int64_t most_pairs = std::int64_t{1} << 20;

/// Places of the elements that a lane holds of the operands of an `mma.sync` (PTX ISA, "Matrix
/// Fragments for mma.m16n8k16" and the like), `per_register` elements in each register of A and B:
/// 4 in fp8 and int8, 2 in bf16 and fp16, 1 in tf32 and fp64. Registers are counted from 0. With
/// one register of A it is m8n8k4's.
struct matrix_place {
  int row = 0;
  int column = 0;

  friend constexpr bool operator==(const matrix_place&, const matrix_place&) = default;
};

[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr matrix_place place_in_a(int lane,
                                                                    int in_register,
                                                                    int element,
                                                                    int per_register) {
  return {lane / 4 + 8 * (in_register % 2),
          (lane % 4 + 4 * (in_register / 2)) * per_register + element};
}

[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr matrix_place place_in_b(int lane,
                                                                    int in_register,
                                                                    int element,
                                                                    int per_register) {
  return {(lane % 4 + 4 * in_register) * per_register + element, lane / 4};
}

/// Likewise of the sum, whose elements are counted over its registers.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr matrix_place place_in_sum(int lane, int element) {
  return {lane / 4 + 8 * (element / 2), lane % 4 * 2 + element % 2};
}

/// Likewise of the sum of a `wgmma` of m = 64 and any n, by the thread's number in its warpgroup.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr matrix_place place_in_group_sum(int thread,
                                                                            int element) {
  const int lane = thread % 32;
  return {thread / 32 * 16 + lane / 4 + 8 * (element / 2 % 2),
          element / 4 * 8 + lane % 4 * 2 + element % 2};
}

/// Element (row, column) of the sum, of chain `chain`, after `pairs` pairs of products of all
/// `columns` of A, and after one more product by the first A's first `columns_of_last` where that
/// is not 0. Exact.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr double sum_of_probe(const operand_rule& rule,
                                                                matrix_place place,
                                                                int chain,
                                                                int columns,
                                                                std::int64_t pairs,
                                                                int columns_of_last) {
  double sum = chain + static_cast<double>(pairs) * added_by_pair(rule);
  for (int i = 0; i < columns_of_last; ++i)
    sum += value_of(rule, left_operand(rule, place.row, i, columns, false)) *
           value_of(rule, right_operand(rule, i, place.column, columns, chain));
  return sum;
}

}  // namespace gpuplan::cuda
