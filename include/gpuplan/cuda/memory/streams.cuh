#pragma once

// Loops over arrays in accesses of 16 bytes, each written once for kernels and for the host: what a
// kernel must leave, a test finds out by running the same body.

#include <gpuplan/cuda/host_device.hpp>
#include <gpuplan/cuda/runtime.cuh>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace gpuplan::cuda {

inline constexpr int stream_threads = 256;
/// Accesses that a thread starts before it waits for the first: 4 x 16 bytes.
inline constexpr int stream_unrolled = 4;

/// What one thread of a grid does of a loop over [0, count): first, first + step, and so on. Signed
/// 64 bits, beyond any memory.
struct grid_share {
  long long first = 0;
  long long step = 1;
  long long count = 0;
};

/// The share of thread `thread` of block `block`, all of whose threads together visit every index
/// once; at the same turn of the loop, neighbours visit neighbours.
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr grid_share share_of(
    long long block, long long thread, long long blocks, long long threads, long long count) {
  return {block * threads + thread, blocks * threads, count};
}

/// Runs a body over a share: `stream_unrolled` values are loaded before the first is stored, as
/// long as there are so many.
template <class Body>
GPUPLAN_HOST_DEVICE constexpr void run_share(Body& body, const grid_share& share) {
  long long i = share.first;
  for (; i + (stream_unrolled - 1) * share.step < share.count; i += stream_unrolled * share.step) {
    typename Body::value held[stream_unrolled] = {};
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int u = 0; u < stream_unrolled; ++u) held[u] = body.load(i + u * share.step);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int u = 0; u < stream_unrolled; ++u) body.store(i + u * share.step, held[u]);
  }
  for (; i < share.count; i += share.step) body.store(i, body.load(i));
}

template <class Body>
__global__ void __launch_bounds__(stream_threads) stream_kernel(Body body, long long count) {
#ifdef __CUDA_ARCH__
  run_share(body, share_of(blockIdx.x, threadIdx.x, gridDim.x, blockDim.x, count));
  body.finish();
#endif
}

/// Puts a body over [0, count) on a stream of the current device.
template <class Body>
void run_stream(cudaStream_t on, unsigned blocks, const Body& body, long long count) {
  GPUPLAN_CUDA_LAUNCH(stream_kernel<<<blocks, stream_threads, 0, on>>>(body, count));
}

/// What is written to arrays, and expected in them: the i-th word of 32 bits is i * factor +
/// offset, modulo 2^32.
struct ramp {
  std::uint32_t factor = 0x9e3779b9U;
  std::uint32_t offset = 12345;

  [[nodiscard]] GPUPLAN_HOST_DEVICE constexpr std::uint32_t word(long long i) const {
    return static_cast<std::uint32_t>(i) * factor + offset;
  }
  /// The i-th 16 bytes.
  [[nodiscard]] GPUPLAN_HOST_DEVICE constexpr uint4 at(long long i) const {
    return {word(4 * i), word(4 * i + 1), word(4 * i + 2), word(4 * i + 3)};
  }
  /// The sum of the first `words` words, modulo 2^32.
  [[nodiscard]] constexpr std::uint32_t sum(long long words) const {
    const auto n = static_cast<std::uint64_t>(words);
    const std::uint64_t pairs = n % 2 == 0 ? n / 2 * (n - 1) : (n - 1) / 2 * n;
    return static_cast<std::uint32_t>(pairs) * factor + static_cast<std::uint32_t>(n) * offset;
  }
};

/// Numbers whose triad is exact in every format: b[i] + s c[i] with b and c whole numbers below
/// 2^16, and s = 1/2.
template <class Number>
struct triad_numbers {
  static constexpr Number factor = Number(0.5);

  [[nodiscard]] static GPUPLAN_HOST_DEVICE constexpr Number b(long long i) {
    return static_cast<Number>(i & 0xfff);
  }
  [[nodiscard]] static GPUPLAN_HOST_DEVICE constexpr Number c(long long i) {
    return static_cast<Number>((i >> 3) & 0xffff);
  }
  [[nodiscard]] static GPUPLAN_HOST_DEVICE constexpr Number a(long long i) {
    return b(i) + factor * c(i);
  }
};

namespace detail {

template <class Number>
struct vector_of;
template <>
struct vector_of<float> {
  using type = float4;
};
template <>
struct vector_of<double> {
  using type = double2;
};

}  // namespace detail

/// 16 bytes of numbers.
template <class Number>
using vector_16 = typename detail::vector_of<Number>::type;

namespace detail {

/// The 16 bytes at `i` of an array whose j-th number is `number_at(j)`.
template <class Number, class NumberAt>
[[nodiscard]] GPUPLAN_HOST_DEVICE constexpr vector_16<Number> vector_at(long long i,
                                                                        NumberAt number_at) {
  if constexpr (sizeof(Number) == 4)
    return {number_at(4 * i), number_at(4 * i + 1), number_at(4 * i + 2), number_at(4 * i + 3)};
  else
    return {number_at(2 * i), number_at(2 * i + 1)};
}

// Adds what the threads of a block, all of which call it, have to a total in memory: once a block,
// for atomic additions to one place go one after the other.
GPUPLAN_HOST_DEVICE inline void add_to(std::uint32_t* total, std::uint32_t part) {
#ifdef __CUDA_ARCH__
  __shared__ std::uint32_t of_warps[32];
  part = __reduce_add_sync(0xffffffffU, part);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = part;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  part = __reduce_add_sync(0xffffffffU, threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : 0);
  if (threadIdx.x == 0) atomicAdd(total, part);
#else
  *total += part;
#endif
}

}  // namespace detail

struct nothing {};

// ---- bodies: of the 16 bytes at i, `load` reads, `store` writes or takes into account, and
// `finish` ends a thread's share

/// to = from.
struct copy_body {
  using value = uint4;
  const uint4* from;
  uint4* to;

  GPUPLAN_HOST_DEVICE constexpr value load(long long i) const { return from[i]; }
  GPUPLAN_HOST_DEVICE constexpr void store(long long i, value held) const { to[i] = held; }
  GPUPLAN_HOST_DEVICE constexpr void finish() const {}
};

/// a = b + s c.
template <class Number>
struct triad_body {
  struct value {
    vector_16<Number> b;
    vector_16<Number> c;
  };
  const vector_16<Number>* b;
  const vector_16<Number>* c;
  vector_16<Number>* a;
  Number s;

  GPUPLAN_HOST_DEVICE constexpr value load(long long i) const { return {b[i], c[i]}; }
  GPUPLAN_HOST_DEVICE constexpr void store(long long i, const value& held) const {
    if constexpr (sizeof(Number) == 4)
      a[i] = {held.b.x + s * held.c.x,
              held.b.y + s * held.c.y,
              held.b.z + s * held.c.z,
              held.b.w + s * held.c.w};
    else
      a[i] = {held.b.x + s * held.c.x, held.b.y + s * held.c.y};
  }
  GPUPLAN_HOST_DEVICE constexpr void finish() const {}
};

/// Adds all words to *total, modulo 2^32.
struct read_body {
  using value = uint4;
  const uint4* from;
  std::uint32_t* total;
  std::uint32_t sum = 0;

  GPUPLAN_HOST_DEVICE constexpr value load(long long i) const { return from[i]; }
  GPUPLAN_HOST_DEVICE constexpr void store(long long, value held) {
    sum += held.x + held.y + held.z + held.w;
  }
  GPUPLAN_HOST_DEVICE void finish() const { detail::add_to(total, sum); }
};

/// Writes a ramp.
struct write_body {
  using value = nothing;
  uint4* to;
  ramp values{};

  GPUPLAN_HOST_DEVICE constexpr value load(long long) const { return {}; }
  GPUPLAN_HOST_DEVICE constexpr void store(long long i, value) const { to[i] = values.at(i); }
  GPUPLAN_HOST_DEVICE constexpr void finish() const {}
};

/// Adds to *wrong the count of words that are not the ramp's.
struct check_body {
  using value = uint4;
  const uint4* from;
  ramp values;
  std::uint32_t* wrong;
  std::uint32_t found = 0;

  GPUPLAN_HOST_DEVICE constexpr value load(long long i) const { return from[i]; }
  GPUPLAN_HOST_DEVICE constexpr void store(long long i, value held) {
    const uint4 right = values.at(i);
    found += static_cast<std::uint32_t>(held.x != right.x) + (held.y != right.y) +
             (held.z != right.z) + (held.w != right.w);
  }
  GPUPLAN_HOST_DEVICE void finish() const { detail::add_to(wrong, found); }
};

/// Writes the operands of a triad.
template <class Number>
struct triad_write_body {
  using value = nothing;
  vector_16<Number>* b;
  vector_16<Number>* c;

  GPUPLAN_HOST_DEVICE constexpr value load(long long) const { return {}; }
  GPUPLAN_HOST_DEVICE constexpr void store(long long i, value) const {
    b[i] = detail::vector_at<Number>(i, triad_numbers<Number>::b);
    c[i] = detail::vector_at<Number>(i, triad_numbers<Number>::c);
  }
  GPUPLAN_HOST_DEVICE constexpr void finish() const {}
};

/// Adds to *wrong the count of places of 16 bytes that do not hold the triad's result.
template <class Number>
struct triad_check_body {
  using value = vector_16<Number>;
  const vector_16<Number>* a;
  std::uint32_t* wrong;
  std::uint32_t found = 0;

  GPUPLAN_HOST_DEVICE constexpr value load(long long i) const { return a[i]; }
  GPUPLAN_HOST_DEVICE constexpr void store(long long i, const value& held) {
    const value right = detail::vector_at<Number>(i, triad_numbers<Number>::a);
    bool same = held.x == right.x && held.y == right.y;
    if constexpr (sizeof(Number) == 4) same = same && held.z == right.z && held.w == right.w;
    found += same ? 0U : 1U;
  }
  GPUPLAN_HOST_DEVICE void finish() const { detail::add_to(wrong, found); }
};

// ---- the L2 cache

inline constexpr int cache_threads = 1024;

/// Reads [0, count) round and round, past the L1 cache: each access is `step` places after the one
/// before.
struct cache_body {
  using value = uint4;
  const uint4* from;
  unsigned count;
  unsigned at;    // of the next access
  unsigned step;  // less than `count`
  std::uint32_t sum = 0;

  /// What thread `thread` of `threads` does, all of which together visit every place once a round.
  [[nodiscard]] static GPUPLAN_HOST_DEVICE constexpr cache_body of(const uint4* from,
                                                                   unsigned count,
                                                                   unsigned thread,
                                                                   unsigned threads) {
    return {from, count, thread % count, threads % count};
  }
  GPUPLAN_HOST_DEVICE constexpr unsigned next_place() {
    const unsigned here = at;
    at += step;
    if (at >= count) at -= count;
    return here;
  }
  GPUPLAN_HOST_DEVICE value load(long long) {
#ifdef __CUDA_ARCH__
    return __ldcg(from + next_place());
#else
    return from[next_place()];
#endif
  }
  GPUPLAN_HOST_DEVICE constexpr void store(long long, value held) {
    sum += held.x + held.y + held.z + held.w;
  }
};

/// Every block reads `count` places of its own `rounds` times, and adds all words to *total. No
/// block reads what another does: those that read the same end up side by side, and then the cache
/// serves arrays that are larger than itself.
static __global__ void __launch_bounds__(cache_threads)
    cache_kernel(const uint4* from, unsigned count, int rounds, std::uint32_t* total) {
#ifdef __CUDA_ARCH__
  cache_body body = cache_body::of(
      from + static_cast<long long>(blockIdx.x) * count, count, threadIdx.x, blockDim.x);
  run_share(body, {threadIdx.x, blockDim.x, static_cast<long long>(rounds) * count});
  detail::add_to(total, body.sum);
#endif
}

}  // namespace gpuplan::cuda
