#pragma once

// `wgmma` of Hopper (sm_90a), both operands from shared memory: an operand row is 128 bytes, the
// unit of the swizzle, and so four instructions long in every format.

#include <gpuplan/cuda/probes/block_clock.cuh>
#include <gpuplan/cuda/probes/operands.hpp>

#include <cstdint>
#include <type_traits>

namespace gpuplan::cuda {

/// Blocks are of two warpgroups, which take turns at the tensor cores.
inline constexpr int wgmma_threads = 256;
/// Elements of the sum of 64 x 256 in each thread of a warpgroup.
inline constexpr int wgmma_sums = 128;
/// Bytes of an operand row, and of what one instruction takes of it.
inline constexpr int wgmma_row_bytes = 128;
inline constexpr int wgmma_step_bytes = 32;

/// The number that a `wgmma` sums in.
template <instruction Which>
using wgmma_sum = std::conditional_t<facts_of(Which).format == number_format::int8, int, float>;

namespace detail {

/// Where byte `byte` of row `row` of an operand lies in shared memory, from a multiple of 1024 on:
/// the 16-byte parts of each eight rows are swapped, so that eight rows of one part lie in
/// different banks (PTX ISA, "128-Byte swizzling mode").
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr int swizzled_offset(int row, int byte) {
  return row * wgmma_row_bytes + (byte ^ (row % 8 * 16));
}

/// The descriptor of an operand with contiguous rows at `address` in shared memory (PTX ISA,
/// "Matrix descriptor"): address, leading offset (unused with this swizzle) and the offset between
/// groups of eight rows in units of 16 bytes; mode 1, 128 bytes, in the two highest bits.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr std::uint64_t operand_descriptor(
    std::uint32_t address) {
  return (std::uint64_t{(address & 0x3ffffU) >> 4}) | (std::uint64_t{1} << 16) |
         (std::uint64_t{8 * wgmma_row_bytes / 16} << 32) | (std::uint64_t{1} << 62);
}

// ---- 128 registers, by name and as operands of assembly

#define GPUPLAN_WGMMA_NAMES                                                  \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "                       \
  "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "             \
  "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "             \
  "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "             \
  "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, "             \
  "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "             \
  "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "     \
  "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define GPUPLAN_WGMMA_4(constraint, i) \
  constraint(d[i]), constraint(d[i + 1]), constraint(d[i + 2]), constraint(d[i + 3])
#define GPUPLAN_WGMMA_16(constraint, i)                               \
  GPUPLAN_WGMMA_4(constraint, i), GPUPLAN_WGMMA_4(constraint, i + 4), \
      GPUPLAN_WGMMA_4(constraint, i + 8), GPUPLAN_WGMMA_4(constraint, i + 12)
#define GPUPLAN_WGMMA_128(constraint)                                     \
  GPUPLAN_WGMMA_16(constraint, 0), GPUPLAN_WGMMA_16(constraint, 16),      \
      GPUPLAN_WGMMA_16(constraint, 32), GPUPLAN_WGMMA_16(constraint, 48), \
      GPUPLAN_WGMMA_16(constraint, 64), GPUPLAN_WGMMA_16(constraint, 80), \
      GPUPLAN_WGMMA_16(constraint, 96), GPUPLAN_WGMMA_16(constraint, 112)
// `modifiers`: that D is added to, then the signs of A and B (1), and that neither is transposed
// (0), as far as the format has them.
#define GPUPLAN_WGMMA(constraint, ptx, modifiers)                           \
  asm volatile("wgmma.mma_async.sync.aligned." ptx " {" GPUPLAN_WGMMA_NAMES \
               "}, %128, %129, " modifiers ";"                              \
               : GPUPLAN_WGMMA_128(constraint)                              \
               : "l"(a), "l"(b))

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// D = A B + D, A and B by their descriptors; to be committed and waited for.
template <instruction Which>
__device__ __forceinline__ void issue_wgmma(wgmma_sum<Which> (&d)[wgmma_sums],
                                            std::uint64_t a,
                                            std::uint64_t b) {
  if constexpr (Which == instruction::wgmma_bf16)
    GPUPLAN_WGMMA("+f", "m64n256k16.f32.bf16.bf16", "1, 1, 1, 0, 0");
  else if constexpr (Which == instruction::wgmma_fp16)
    GPUPLAN_WGMMA("+f", "m64n256k16.f32.f16.f16", "1, 1, 1, 0, 0");
  else if constexpr (Which == instruction::wgmma_tf32)
    GPUPLAN_WGMMA("+f", "m64n256k8.f32.tf32.tf32", "1, 1, 1");
  else if constexpr (Which == instruction::wgmma_fp8)
    GPUPLAN_WGMMA("+f", "m64n256k32.f32.e4m3.e4m3", "1, 1, 1");
  else
    GPUPLAN_WGMMA("+r", "m64n256k32.s32.s8.s8", "1");
}

/// Writes an operand of `rows` rows to shared memory, `bits_at(row, column)` being its elements,
/// by all threads of the block.
template <int Bits, class BitsAt>
__device__ __forceinline__ void fill_operand(unsigned char* to, int rows, BitsAt&& bits_at) {
  constexpr int size = Bits / 8;
  constexpr int columns = wgmma_row_bytes / size;
  for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += wgmma_threads) {
    const int row = i / columns;
    const int column = i % columns;
    const std::uint64_t bits = bits_at(row, column);
    for (int byte = 0; byte < size; ++byte)
      to[swizzled_offset(row, column * size + byte)] =
          static_cast<unsigned char>(bits >> (8 * byte));
  }
}

#endif

#undef GPUPLAN_WGMMA
#undef GPUPLAN_WGMMA_128
#undef GPUPLAN_WGMMA_16
#undef GPUPLAN_WGMMA_4
#undef GPUPLAN_WGMMA_NAMES

}  // namespace detail

/// Multiplies `pairs` times by each of the two left operands, in four steps of one instruction of
/// each, and by the first step of the first once more where `odd` is not 0; each warpgroup into a
/// sum of its own, from 0 on. Leaves thread t's elements at `sums + t * wgmma_sums`, and one clock
/// per block. Leaves everything as it is in code that is not for sm_90a.
template <instruction Which>
__global__ void __launch_bounds__(wgmma_threads, 1)
    wgmma_probe(long long pairs, int odd, wgmma_sum<Which>* sums, block_clock* clocks) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr instruction_facts facts = facts_of(Which);
  constexpr operand_rule rule = rule_of(facts.format, facts.sum);
  constexpr int bits = layout_of(facts.format).bits;
  constexpr int columns = wgmma_row_bytes * 8 / bits;
  constexpr int steps = wgmma_row_bytes / wgmma_step_bytes;
  __shared__ __align__(1024) unsigned char first[64 * wgmma_row_bytes];
  __shared__ __align__(1024) unsigned char second[64 * wgmma_row_bytes];
  __shared__ __align__(1024) unsigned char right[256 * wgmma_row_bytes];
  detail::fill_operand<bits>(first, 64, [&](int row, int column) {
    return bits_of(rule, left_operand(rule, row, column, columns, false));
  });
  detail::fill_operand<bits>(second, 64, [&](int row, int column) {
    return bits_of(rule, left_operand(rule, row, column, columns, true));
  });
  detail::fill_operand<bits>(right, 256, [&](int row, int column) {
    return bits_of(rule, right_operand(rule, column, row, columns, 0));
  });
  // What was written by ordinary stores, the tensor cores read by another path.
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");

  const auto descriptor_of = [](const unsigned char* operand) {
    return detail::operand_descriptor(
        static_cast<std::uint32_t>(__cvta_generic_to_shared(operand)));
  };
  const std::uint64_t a_1 = descriptor_of(first);
  const std::uint64_t a_2 = descriptor_of(second);
  const std::uint64_t b = descriptor_of(right);
  constexpr std::uint64_t step = wgmma_step_bytes / 16;
  wgmma_sum<Which> sum[wgmma_sums];
#pragma unroll
  for (int i = 0; i < wgmma_sums; ++i) sum[i] = 0;

  const block_stopwatch watch(clocks);
#pragma unroll 1
  for (long long pair = 0; pair < pairs; ++pair) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < steps; ++i) {
      detail::issue_wgmma<Which>(sum, a_1 + i * step, b + i * step);
      detail::issue_wgmma<Which>(sum, a_2 + i * step, b + i * step);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }
  if (odd != 0) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    detail::issue_wgmma<Which>(sum, a_1, b);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  watch.stop();

  sums += (static_cast<long long>(blockIdx.x) * wgmma_threads + threadIdx.x) * wgmma_sums;
#pragma unroll
  for (int i = 0; i < wgmma_sums; ++i) sums[i] = sum[i];
#endif
}

/// What `wgmma_probe` must leave in element `i` of thread `thread` of a block.
template <instruction Which>
[[nodiscard]] constexpr wgmma_sum<Which> expected_of_wgmma(int thread,
                                                           int i,
                                                           long long pairs,
                                                           bool odd) {
  constexpr instruction_facts facts = facts_of(Which);
  const int columns = facts.k * (wgmma_row_bytes / wgmma_step_bytes);
  return static_cast<wgmma_sum<Which>>(sum_of_probe(rule_of(facts.format, facts.sum),
                                                    place_in_group_sum(thread % 128, i),
                                                    0,
                                                    columns,
                                                    pairs,
                                                    odd ? facts.k : 0));
}

}  // namespace gpuplan::cuda
