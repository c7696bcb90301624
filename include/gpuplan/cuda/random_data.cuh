#pragma once

// Data that matrices are filled with before they are multiplied: normal numbers in each format,
// from a generator whose i-th number depends on i alone, so that host and device agree on it.

#include <gpuplan/cuda/for_each.cuh>
#include <gpuplan/precision.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace gpuplan::cuda {

/// What an element of a format is stored as. `tf32` is stored as `fp32`.
template <number_format Format>
struct stored;
template <>
struct stored<number_format::fp64> {
  using type = double;
};
template <>
struct stored<number_format::fp32> {
  using type = float;
};
template <>
struct stored<number_format::tf32> {
  using type = float;
};
template <>
struct stored<number_format::bf16> {
  using type = __nv_bfloat16;
};
template <>
struct stored<number_format::fp16> {
  using type = __half;
};
template <>
struct stored<number_format::fp8> {
  using type = __nv_fp8_e4m3;
};
template <>
struct stored<number_format::int8> {
  using type = std::int8_t;
};
template <number_format Format>
using stored_t = typename stored<Format>::type;

/// Four words that a counter stands for.
struct philox_words {
  std::uint32_t word[4];

  friend constexpr bool operator==(const philox_words&, const philox_words&) = default;
};

/// Philox4x32-10: 128 random bits for a counter and a key (Salmon et al. 2011, "Parallel random
/// numbers: as easy as 1, 2, 3", SC11, section 3.3).
[[nodiscard]] __host__ __device__ constexpr philox_words philox(philox_words counter,
                                                                std::uint32_t key_low,
                                                                std::uint32_t key_high) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter.word[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(second >> 32) ^ counter.word[1] ^ key_low,
                static_cast<std::uint32_t>(second),
                static_cast<std::uint32_t>(first >> 32) ^ counter.word[3] ^ key_high,
                static_cast<std::uint32_t>(first)}};
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
  return counter;
}

/// The 128 random bits of place `index` in the series of `seed`.
[[nodiscard]] __host__ __device__ constexpr philox_words random_words(std::uint64_t seed,
                                                                      std::int64_t index) {
  const auto place = static_cast<std::uint64_t>(index);
  return philox(
      {{static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32), 0, 0}},
      static_cast<std::uint32_t>(seed),
      static_cast<std::uint32_t>(seed >> 32));
}

/// The number of place `index` in a series of independent normal numbers of mean 0 and variance 1
/// (Box and Muller 1958). None is beyond 8.6 in size: its uniform numbers have 53 bits.
[[nodiscard]] __host__ __device__ inline double normal_number(std::uint64_t seed,
                                                              std::int64_t index) {
  const philox_words bits = random_words(seed, index);
  const auto uniform = [](std::uint32_t high, std::uint32_t low) {
    const std::uint64_t both = (std::uint64_t{high} << 32 | low) >> 11;
    return (static_cast<double>(both) + 0.5) * 0x1p-53;  // never 0, whose logarithm is not finite
  };
  const double length = sqrt(-2.0 * log(uniform(bits.word[0], bits.word[1])));
  return length * cos(6.283185307179586 * uniform(bits.word[2], bits.word[3]));
}

/// A number of tf32, 10 bits behind the point, nearest to x; ties to even. Precondition: finite.
[[nodiscard]] __host__ __device__ constexpr float rounded_to_tf32(float x) {
  // std::bit_cast is no device function.
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  return __builtin_bit_cast(float, (bits + 0xfffU + (bits >> 13 & 1U)) & ~0x1fffU);
}

/// x as an element of `Format`, rounded to nearest; what a matrix unit reads is exactly this
/// number, of `tf32` too. `int8` takes 32 x, so that it uses its range as quantised tensors do.
template <number_format Format>
[[nodiscard]] __host__ __device__ stored_t<Format> element_of(double x) {
  if constexpr (Format == number_format::int8) {
    const double scaled = rint(32 * x);
    return static_cast<std::int8_t>(scaled > 127 ? 127 : scaled < -127 ? -127 : scaled);
  } else if constexpr (Format == number_format::tf32) {
    return rounded_to_tf32(static_cast<float>(x));
  } else if constexpr (Format == number_format::bf16) {
    return __double2bfloat16(x);
  } else if constexpr (Format == number_format::fp16) {
    return __double2half(x);
  } else {
    return static_cast<stored_t<Format>>(x);
  }
}

/// An element as a number.
template <class Element>
[[nodiscard]] __host__ __device__ double number_of(Element x) {
  if constexpr (std::is_arithmetic_v<Element>)
    return static_cast<double>(x);
  else
    return static_cast<double>(static_cast<float>(x));
}

namespace detail {

template <number_format Format>
struct normal_element {
  stored_t<Format>* to;
  std::uint64_t seed;

  __host__ __device__ void operator()(std::int64_t index) const {
    to[index] = element_of<Format>(normal_number(seed, index));
  }
};

}  // namespace detail

/// Fills `count` elements on the device with the normal numbers of `seed`.
template <number_format Format>
void fill_normal(stored_t<Format>* to, std::int64_t count, std::uint64_t seed, cudaStream_t on) {
  for_each(count, detail::normal_element<Format>{to, seed}, on);
}

}  // namespace gpuplan::cuda
