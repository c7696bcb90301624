#pragma once

// Chains of fused multiply-adds of the vector units.

#include <gpuplan/cuda/probes/block_clock.cuh>
#include <gpuplan/cuda/probes/operands.hpp>

#include <cstdint>

namespace gpuplan::cuda {

/// Blocks fill an SM as far as all architectures let one block do, and a thread has 8 chains.
inline constexpr int fma_threads = 1024;
inline constexpr int fma_chains = 8;
/// Pairs of FMAs per turn of the loop.
inline constexpr int fma_unrolled = 4;

/// A chain alternates x = b_1 - x and x = b_2 - x, each as an FMA by -1, with x in [1, 2), b_1 = 3
/// and b_2 = 3 + 2 u, u being the last place of numbers in [1, 2): most bits of x change each time,
/// nothing is ever rounded, and each pair adds 2 u to x, which counts the pairs. In half2, which
/// has no room to count, b_2 = b_1.
template <instruction Which>
struct fma_chain;

template <>
struct fma_chain<instruction::fma_fp32> {
  using type = float;
  static constexpr int mantissa_bits = 23;
  static constexpr bool counts_pairs = true;
};

template <>
struct fma_chain<instruction::fma_fp64> {
  using type = double;
  static constexpr int mantissa_bits = 52;
  static constexpr bool counts_pairs = true;
};

template <>
struct fma_chain<instruction::fma_half2> {
  using type = std::uint32_t;  // two of fp16
  static constexpr int mantissa_bits = 10;
  static constexpr bool counts_pairs = false;
};

/// The number that a chain begins with: 1 + f / 2^mantissa_bits, in [1, 1.5), f by a hash.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr double start_of_chain(int mantissa_bits,
                                                                  int thread,
                                                                  int chain) {
  const auto place = static_cast<std::uint32_t>(thread * fma_chains + chain);
  const std::uint64_t hash =
      (std::uint64_t{detail::hashed(place + 0x8000000U)} << 32) | detail::hashed(place);
  const std::uint64_t fraction = hash % (std::uint64_t{1} << (mantissa_bits - 1));
  // In bits, for a kernel that counts its FMAs has none of its own here.
  return __builtin_bit_cast(double,
                            (std::uint64_t{1023} << 52) | (fraction << (52 - mantissa_bits)));
}

/// A number as a chain holds it: in half2 twice, in bits.
template <instruction Which>
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr typename fma_chain<Which>::type in_chain(double x) {
  if constexpr (Which == instruction::fma_half2)
    return fp16_pair(x, x);
  else
    return static_cast<typename fma_chain<Which>::type>(x);
}

namespace detail {

// As assembly, which stays between the two readings of the clock.
__device__ inline void fused(float& x, float a, float b) {
  asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
}
__device__ inline void fused(double& x, double a, double b) {
  asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(x) : "d"(a), "d"(b));
}
__device__ inline void fused(std::uint32_t& x, std::uint32_t a, std::uint32_t b) {
  asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
}

}  // namespace detail

/// The second addend of the chains: 3 + 2 u, or 3 where they do not count.
template <instruction Which>
[[nodiscard]] constexpr double second_addend() {
  using chain = fma_chain<Which>;
  if constexpr (!chain::counts_pairs)
    return 3;
  else
    return 3 + 2 / static_cast<double>(std::uint64_t{1} << chain::mantissa_bits);
}

/// Runs the chains for `pairs` pairs, a multiple of `fma_unrolled`, and one more half of a pair
/// where `odd` is not 0, with a = -1 and the two addends, which the compiler must not know. Leaves
/// thread t's chains at `ends + t * fma_chains`, and one clock per block.
template <instruction Which>
__global__ void __launch_bounds__(fma_threads) fma_probe(long long pairs,
                                                         int odd,
                                                         typename fma_chain<Which>::type a,
                                                         typename fma_chain<Which>::type b_1,
                                                         typename fma_chain<Which>::type b_2,
                                                         typename fma_chain<Which>::type* ends,
                                                         block_clock* clocks) {
#if defined(__CUDA_ARCH__)
  const int thread = static_cast<int>(threadIdx.x);
  typename fma_chain<Which>::type x[fma_chains];
#pragma unroll
  for (int i = 0; i < fma_chains; ++i)
    x[i] = in_chain<Which>(start_of_chain(fma_chain<Which>::mantissa_bits, thread, i));

  const block_stopwatch watch(clocks);
#pragma unroll 1
  for (long long pair = 0; pair < pairs; pair += fma_unrolled) {
#pragma unroll
    for (int i = 0; i < 2 * fma_unrolled * fma_chains; ++i)
      detail::fused(x[i % fma_chains], a, i / fma_chains % 2 == 0 ? b_1 : b_2);
  }
  if (odd != 0) {
#pragma unroll
    for (int i = 0; i < fma_chains; ++i) detail::fused(x[i], a, b_1);
  }
  watch.stop();

  ends += (static_cast<long long>(blockIdx.x) * fma_threads + threadIdx.x) * fma_chains;
#pragma unroll
  for (int i = 0; i < fma_chains; ++i) ends[i] = x[i];
#endif
}

/// What `fma_probe` must leave in chain `i` of thread `thread` of a block: in half2 twice the same.
template <instruction Which>
[[nodiscard]] constexpr typename fma_chain<Which>::type expected_of_fma(int thread,
                                                                        int i,
                                                                        long long pairs,
                                                                        bool odd) {
  const double grown = static_cast<double>(pairs) * (second_addend<Which>() - 3);
  const double x = start_of_chain(fma_chain<Which>::mantissa_bits, thread, i) + grown;
  return in_chain<Which>(odd ? 3 - x : x);
}

}  // namespace gpuplan::cuda
