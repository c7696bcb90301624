#pragma once

// One plain matrix product on the matrix units, without a library: each block of threads makes 128
// x 128 of the result and fetches the next tiles of its operands while it multiplies the present
// ones. What it achieves is a lower bound: `mma.sync` alone cannot use all of the matrix units from
// sm_90 on, and there are no more than two tiles in flight.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace gpuplan::cuda {

/// C = A B^T, all of them by rows: A is m x k, B n x k, C m x n. A linear layer's forward pass is
/// such a product of activations and weights.
template <class Element>
struct own_gemm_call {
  static_assert(std::is_same_v<Element, __nv_bfloat16> || std::is_same_v<Element, __half>);

  const Element* a;  // 16-byte aligned, as is b
  const Element* b;
  Element* c;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::int64_t a_pitch;  // elements from a row to the next: a multiple of 8, not below k; so b's
  std::int64_t b_pitch;
  std::int64_t c_pitch;  // not below n
};

namespace own_gemm {

inline constexpr int tile_m = 128;
inline constexpr int tile_n = 128;
inline constexpr int tile_k = 32;
inline constexpr int warp_m = 64;  // of the tile that one warp makes
inline constexpr int warp_n = 32;
inline constexpr int warps_across = tile_n / warp_n;
inline constexpr int threads = 32 * (tile_m / warp_m) * warps_across;
inline constexpr int chunk = 8;  // elements in the 16 bytes that are copied and loaded at once
inline constexpr int chunks_of_row = tile_k / chunk;
inline constexpr int tile_rows = tile_m + tile_n;               // A's, then B's
inline constexpr int shared_elements = 2 * tile_rows * tile_k;  // two buffers

/// Where a chunk of a row lies in a buffer. Chunks change places from row to row, so that eight
/// rows of one `ldmatrix` lie in different banks.
[[nodiscard]] __host__ __device__ constexpr int shared_index(int row, int chunk_of_row) {
  return row * tile_k + (chunk_of_row ^ (row / 2 % chunks_of_row)) * chunk;
}

/// The row and the chunk whose address a lane gives to `ldmatrix`, beside the first of the tile.
struct matrix_row {
  int row;
  int chunk_of_row;
};

/// For 16 x 16 of A: the quarters in the order of `mma`'s registers, down before across.
[[nodiscard]] __host__ __device__ constexpr matrix_row row_of_a(int lane) {
  return {lane % 16, lane / 16};
}

/// For 16 rows of B, two operands of `mma`: across before down.
[[nodiscard]] __host__ __device__ constexpr matrix_row row_of_b(int lane) {
  return {lane / 16 * 8 + lane % 8, lane / 8 % 2};
}

/// Where a register of a sum belongs in its 16 x 8.
struct place {
  int row;
  int column;
};
[[nodiscard]] __host__ __device__ constexpr place place_of_sum(int lane, int number) {
  return {lane / 4 + number / 2 * 8, lane % 4 * 2 + number % 2};
}

// What follows is the kernel, over a machine that does what takes special instructions: `device`
// below, or a test's that plays them on the host. That is why the check of who may call whom is
// off.

/// Begins to copy step `step`'s tiles of A and B to their buffer. What is beyond an edge becomes 0.
#pragma nv_exec_check_disable
template <class Machine, class Element>
__host__ __device__ void fetch(Machine& machine, const own_gemm_call<Element>& matmul, int step) {
  constexpr int copies = tile_rows * chunks_of_row / threads;
  Element* buffer = machine.shared() + step % 2 * (tile_rows * tile_k);
  for (int copy = 0; copy < copies; ++copy) {
    const int place = machine.thread() + copy * threads;
    const int row = place / chunks_of_row;
    const int chunk_of_row = place % chunks_of_row;
    const bool of_a = copy < copies * tile_m / tile_rows;
    const std::int64_t global_row =
        of_a ? machine.block_row() * tile_m + row : machine.block_column() * tile_n + row - tile_m;
    const std::int64_t global_k = std::int64_t{step} * tile_k + chunk_of_row * chunk;
    const std::int64_t rows = of_a ? matmul.m : matmul.n;
    const std::int64_t left = global_row < rows ? matmul.k - global_k : 0;
    const int elements = left < 0 ? 0 : left > chunk ? chunk : static_cast<int>(left);
    const Element* from = of_a ? matmul.a : matmul.b;
    const std::int64_t pitch = of_a ? matmul.a_pitch : matmul.b_pitch;
    if (elements != 0) from += global_row * pitch + global_k;
    machine.copy_chunk(buffer + shared_index(row, chunk_of_row),
                       from,
                       elements * static_cast<int>(sizeof(Element)));
  }
}

/// Adds the products of one step's tiles to the sums of the warp's 64 x 32.
#pragma nv_exec_check_disable
template <class Machine, class Element>
__host__ __device__ void multiply(Machine& machine,
                                  const Element* buffer,
                                  int first_row,
                                  int first_column,
                                  float (&sums)[warp_m / 16][warp_n / 8][4]) {
  const int lane = machine.thread() % 32;
  const matrix_row of_a = row_of_a(lane);
  const matrix_row of_b = row_of_b(lane);
  for (int first_chunk = 0; first_chunk < chunks_of_row; first_chunk += 2) {
    std::uint32_t a[warp_m / 16][4];
    std::uint32_t b[warp_n / 16][4];
    for (int i = 0; i < warp_m / 16; ++i)
      machine.load_matrices(
          a[i],
          buffer + shared_index(first_row + 16 * i + of_a.row, first_chunk + of_a.chunk_of_row));
    for (int i = 0; i < warp_n / 16; ++i)
      machine.load_matrices(b[i],
                            buffer + shared_index(tile_m + first_column + 16 * i + of_b.row,
                                                  first_chunk + of_b.chunk_of_row));
    for (int i = 0; i < warp_m / 16; ++i)
      for (int k = 0; k < warp_n / 8; ++k)
        machine.multiply_add(sums[i][k], a[i], b[k / 2][k % 2 * 2], b[k / 2][k % 2 * 2 + 1]);
  }
}

/// What one thread does for its block's part of C.
#pragma nv_exec_check_disable
template <class Machine, class Element>
__host__ __device__ void make_block(Machine& machine, const own_gemm_call<Element>& matmul) {
  const int warp = machine.thread() / 32;
  const int first_row = warp / warps_across * warp_m;
  const int first_column = warp % warps_across * warp_n;
  float sums[warp_m / 16][warp_n / 8][4] = {};
  const int steps = static_cast<int>((matmul.k + tile_k - 1) / tile_k);
  fetch(machine, matmul, 0);
  for (int step = 0; step < steps; ++step) {
    // Behind these two, everyone's copies of this step are there, and nobody reads the other
    // buffer.
    machine.wait_for_copies();
    machine.synchronise();
    if (step + 1 < steps) fetch(machine, matmul, step + 1);
    multiply(
        machine, machine.shared() + step % 2 * (tile_rows * tile_k), first_row, first_column, sums);
  }
  for (int i = 0; i < warp_m / 16; ++i)
    for (int k = 0; k < warp_n / 8; ++k)
      for (int number = 0; number < 4; ++number) {
        const place at = place_of_sum(machine.thread() % 32, number);
        const std::int64_t row = machine.block_row() * tile_m + first_row + 16 * i + at.row;
        const std::int64_t column =
            machine.block_column() * tile_n + first_column + 8 * k + at.column;
        if (row < matmul.m && column < matmul.n)
          matmul.c[row * matmul.c_pitch + column] = Element(sums[i][k][number]);
      }
}

// The instructions themselves (PTX ISA: cp.async, ldmatrix, mma.m16n8k16 with bf16 and fp16).
template <class Element>
struct device_machine {
  Element* buffers;

  [[nodiscard]] __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  [[nodiscard]] __device__ std::int64_t block_row() const { return blockIdx.y; }
  [[nodiscard]] __device__ std::int64_t block_column() const { return blockIdx.x; }
  [[nodiscard]] __device__ Element* shared() const { return buffers; }
  __device__ void synchronise() const { __syncthreads(); }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  [[nodiscard]] static __device__ unsigned address(const Element* in_shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(in_shared));
  }
  // 16 bytes, of which the first `bytes` are read and the others become 0.
  __device__ void copy_chunk(Element* to, const Element* from, int bytes) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address(to)),
                 "l"(__cvta_generic_to_global(from)),
                 "r"(bytes)
                 : "memory");
  }
  __device__ void wait_for_copies() const { asm volatile("cp.async.wait_all;" ::: "memory"); }
  __device__ void load_matrices(std::uint32_t (&to)[4], const Element* row) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address(row))
                 : "memory");
  }
  __device__ void multiply_add(float (&sum)[4],
                               const std::uint32_t (&a)[4],
                               std::uint32_t b_first,
                               std::uint32_t b_second) const {
#define GPUPLAN_MULTIPLY_ADD(format)                                         \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." format "." format             \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])               \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_first), "r"(b_second))
    if constexpr (std::is_same_v<Element, __half>)
      GPUPLAN_MULTIPLY_ADD("f16");
    else
      GPUPLAN_MULTIPLY_ADD("bf16");
#undef GPUPLAN_MULTIPLY_ADD
  }
#else  // own_gemm is not launched there: see runs_on
  __device__ void copy_chunk(Element*, const Element*, int) const { __trap(); }
  __device__ void wait_for_copies() const {}
  __device__ void load_matrices(std::uint32_t (&)[4], const Element*) const {}
  __device__ void multiply_add(float (&)[4],
                               const std::uint32_t (&)[4],
                               std::uint32_t,
                               std::uint32_t) const {}
#endif
};

template <class Element>
__global__ void __launch_bounds__(threads, 2) kernel(const own_gemm_call<Element> matmul) {
  __shared__ __align__(128) Element buffers[shared_elements];
  device_machine<Element> machine{buffers};
  make_block(machine, matmul);
}

/// Whether a device has the instructions: from compute capability 8.0 (80) on.
[[nodiscard]] constexpr bool runs_on(int compute_capability) { return compute_capability >= 80; }

}  // namespace own_gemm
}  // namespace gpuplan::cuda
