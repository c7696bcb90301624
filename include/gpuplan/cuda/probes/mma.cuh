#pragma once

// `mma.sync`, from registers alone: eight independent sums a warp, each the other operand's next
// use away from its last one.

#include <gpuplan/cuda/probes/block_clock.cuh>
#include <gpuplan/cuda/probes/operands.hpp>

#include <cstdint>

namespace gpuplan::cuda {

/// Blocks are of 8 warps, and a warp has 8 sums.
inline constexpr int mma_threads = 256;
inline constexpr int mma_chains = 8;

/// The registers of an `mma.sync`, and the instruction itself: D = A B + D.
template <instruction Which>
struct mma;

#define GPUPLAN_MMA_32(Which, Sum, constraint, ptx)                                         \
  template <>                                                                               \
  struct mma<instruction::Which> {                                                          \
    using register_type = std::uint32_t;                                                    \
    using sum_type = Sum;                                                                   \
    static constexpr int a_registers = 4;                                                   \
    static constexpr int b_registers = 2;                                                   \
    static constexpr int sums = 4;                                                          \
    static __device__ void issue(Sum (&d)[4],                                               \
                                 const std::uint32_t (&a)[4],                               \
                                 const std::uint32_t (&b)[2]) {                             \
      asm volatile(ptx " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"   \
                   : constraint(d[0]), constraint(d[1]), constraint(d[2]), constraint(d[3]) \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));     \
    }                                                                                       \
  }

GPUPLAN_MMA_32(mma_bf16, float, "+f", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
GPUPLAN_MMA_32(mma_fp16, float, "+f", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
GPUPLAN_MMA_32(mma_tf32, float, "+f", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32");
GPUPLAN_MMA_32(mma_fp8, float, "+f", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32");
GPUPLAN_MMA_32(mma_int8, int, "+r", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32");

#undef GPUPLAN_MMA_32

template <>
struct mma<instruction::mma_fp16_sum_fp16> {
  using register_type = std::uint32_t;
  using sum_type = std::uint32_t;  // two of fp16
  static constexpr int a_registers = 4;
  static constexpr int b_registers = 2;
  static constexpr int sums = 2;
  static __device__ void issue(std::uint32_t (&d)[2],
                               const std::uint32_t (&a)[4],
                               const std::uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
        "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
        : "+r"(d[0]), "+r"(d[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

template <>
struct mma<instruction::mma_fp64> {
  using register_type = double;
  using sum_type = double;
  static constexpr int a_registers = 1;
  static constexpr int b_registers = 1;
  static constexpr int sums = 2;
  static __device__ void issue(double (&d)[2], const double (&a)[1], const double (&b)[1]) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d[0]), "+d"(d[1])
                 : "d"(a[0]), "d"(b[0]));
  }
};

template <>
struct mma<instruction::mma_fp64_m16n8k8> {
  using register_type = double;
  using sum_type = double;
  static constexpr int a_registers = 4;
  static constexpr int b_registers = 2;
  static constexpr int sums = 4;
  static __device__ void issue(double (&d)[4], const double (&a)[4], const double (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
  }
};

/// A register of the sums, which holds `low`, and where it holds two numbers `high` above it: of
/// fp16 whole numbers and their sixteenths up to 64.
template <instruction Which>
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr typename mma<Which>::sum_type sum_register(
    double low, double high) {
  if constexpr (facts_of(Which).sum == accumulator::fp16)
    return fp16_pair(low, high);
  else
    return static_cast<typename mma<Which>::sum_type>(low);
}

namespace detail {

// Elements of an operand in a register, and of the sum.
template <instruction Which>
inline constexpr int per_register =
    static_cast<int>(8 * sizeof(typename mma<Which>::register_type)) /
    (facts_of(Which).format == number_format::tf32 ? 32 : layout_of(facts_of(Which).format).bits);
template <instruction Which>
inline constexpr int per_sum = facts_of(Which).sum == accumulator::fp16 ? 2 : 1;

template <class Register>
[[nodiscard]] __device__ inline Register as_register(std::uint64_t bits) {
  if constexpr (sizeof(Register) == 8)
    return __longlong_as_double(static_cast<long long>(bits));
  else
    return static_cast<Register>(bits);
}

}  // namespace detail

/// Multiplies `pairs` times by each of the two left operands, and once more by the first where
/// `odd` is not 0, with `mma_chains` sums per warp, the i-th of which begins with i. Leaves thread
/// t's sums, one chain after the other, at `sums + t * mma_chains * mma<Which>::sums`, and writes
/// one clock per block. Leaves everything as it is where the code is for an architecture without
/// the instruction.
template <instruction Which>
__global__ void __launch_bounds__(mma_threads)
    mma_probe(long long pairs, int odd, typename mma<Which>::sum_type* sums, block_clock* clocks) {
#if defined(__CUDA_ARCH__)
  constexpr instruction_facts facts = facts_of(Which);
  if constexpr (__CUDA_ARCH__ / 10 >= facts.least_compute_capability) {
    using unit = mma<Which>;
    using register_type = typename unit::register_type;
    constexpr int each = detail::per_register<Which>;
    constexpr int width = layout_of(facts.format).bits;
    constexpr operand_rule rule = rule_of(facts.format, facts.sum);
    const int lane = static_cast<int>(threadIdx.x % 32);

    register_type first[unit::a_registers];
    register_type second[unit::a_registers];
    register_type right[mma_chains][unit::b_registers];
    typename unit::sum_type sum[mma_chains][unit::sums];
    for (int r = 0; r < unit::a_registers; ++r) {
      std::uint64_t bits[2] = {};
      for (int e = 0; e < each; ++e) {
        const matrix_place at = place_in_a(lane, r, e, each);
        for (int which = 0; which < 2; ++which)
          bits[which] |= bits_of(rule, left_operand(rule, at.row, at.column, facts.k, which == 1))
                         << (e * width);
      }
      first[r] = detail::as_register<register_type>(bits[0]);
      second[r] = detail::as_register<register_type>(bits[1]);
    }
#pragma unroll
    for (int chain = 0; chain < mma_chains; ++chain) {
      for (int r = 0; r < unit::b_registers; ++r) {
        std::uint64_t bits = 0;
        for (int e = 0; e < each; ++e) {
          const matrix_place at = place_in_b(lane, r, e, each);
          bits |= bits_of(rule, right_operand(rule, at.row, at.column, facts.k, chain))
                  << (e * width);
        }
        right[chain][r] = detail::as_register<register_type>(bits);
      }
      for (int i = 0; i < unit::sums; ++i) sum[chain][i] = sum_register<Which>(chain, chain);
    }

    const block_stopwatch watch(clocks);
#pragma unroll 1
    for (long long pair = 0; pair < pairs; ++pair) {
#pragma unroll
      for (int chain = 0; chain < mma_chains; ++chain) unit::issue(sum[chain], first, right[chain]);
#pragma unroll
      for (int chain = 0; chain < mma_chains; ++chain)
        unit::issue(sum[chain], second, right[chain]);
    }
    if (odd != 0) {
#pragma unroll
      for (int chain = 0; chain < mma_chains; ++chain) unit::issue(sum[chain], first, right[chain]);
    }
    watch.stop();

    sums += (static_cast<long long>(blockIdx.x) * mma_threads + threadIdx.x) *
            (mma_chains * unit::sums);
#pragma unroll
    for (int chain = 0; chain < mma_chains; ++chain)
      for (int i = 0; i < unit::sums; ++i) sums[chain * unit::sums + i] = sum[chain][i];
  }
#endif
}

/// What `mma_probe` must leave in register `i` of thread `thread`'s sums, counted over its chains.
template <instruction Which>
[[nodiscard]] constexpr typename mma<Which>::sum_type expected_of_mma(int thread,
                                                                      int i,
                                                                      long long pairs,
                                                                      bool odd) {
  constexpr instruction_facts facts = facts_of(Which);
  constexpr operand_rule rule = rule_of(facts.format, facts.sum);
  const int chain = i / mma<Which>::sums;
  const auto element = [&](int e) {
    const int in_lane = i % mma<Which>::sums * detail::per_sum<Which> + e;
    const matrix_place at = place_in_sum(thread % 32, in_lane);
    return sum_of_probe(rule, at, chain, facts.k, pairs, odd ? facts.k : 0);
  };
  return sum_register<Which>(element(0), element(detail::per_sum<Which> - 1));
}

}  // namespace gpuplan::cuda
