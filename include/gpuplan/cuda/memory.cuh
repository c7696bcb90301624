#pragma once

// The bandwidth of a device's memory and of its L2 cache, as plain kernels reach it.

#include <gpuplan/cuda/memory/streams.cuh>
#include <gpuplan/cuda/runtime.cuh>
#include <gpuplan/cuda/sampling.cuh>
#include <gpuplan/cuda/session.cuh>
#include <gpuplan/measure/curves.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace gpuplan::cuda {

/// What is done to arrays: copy b = a, triad a = b + s c, sum, fill.
enum class stream_operation { copy, triad_fp64, triad_fp32, read, write };

inline constexpr stream_operation all_stream_operations[] = {stream_operation::copy,
                                                             stream_operation::triad_fp64,
                                                             stream_operation::triad_fp32,
                                                             stream_operation::read,
                                                             stream_operation::write};

[[nodiscard]] constexpr const char* name(stream_operation which) {
  switch (which) {
    case stream_operation::copy:
      return "copy";
    case stream_operation::triad_fp64:
      return "triad, fp64";
    case stream_operation::triad_fp32:
      return "triad, fp32";
    case stream_operation::read:
      return "read";
    case stream_operation::write:
      return "write";
  }
  return "";
}

/// How many arrays an operation reads and writes, each once.
[[nodiscard]] constexpr int arrays_of(stream_operation which) {
  switch (which) {
    case stream_operation::copy:
      return 2;
    case stream_operation::triad_fp64:
    case stream_operation::triad_fp32:
      return 3;
    default:
      return 1;
  }
}

/// How to measure a device's memory.
struct memory_options {
  sampling_options sampling{};
  std::size_t array_bytes = std::size_t{1} << 30;  // where 4 x the L2 cache is not more
};

/// A bandwidth: bytes read and written (not those that a cache fetches in order to write) over the
/// median time.
struct bandwidth_reading {
  bandwidth rate{};
  bytes array{};        // the size of one array
  unsigned blocks = 0;  // of the grid that was fastest
  sampled timing{};
};

/// The size in bytes of each of `arrays` arrays that nine tenths of the free memory hold: `wanted`,
/// but at least 4 x the L2 cache, so that the cache holds little of it, and a multiple of 4 KiB.
/// Nothing where so much is not free.
[[nodiscard]] constexpr std::optional<std::size_t> array_bytes_within(std::size_t wanted,
                                                                      std::size_t l2_bytes,
                                                                      std::size_t free_bytes,
                                                                      int arrays) {
  constexpr std::size_t page = 4096;
  const std::size_t least = (std::max<std::size_t>(4 * l2_bytes, 1) + page - 1) / page * page;
  const std::size_t most = free_bytes / 10 * 9 / static_cast<std::size_t>(arrays) / page * page;
  if (most < least) return std::nullopt;
  return std::clamp(wanted / page * page, least, most);
}

namespace detail {

/// For a choice between variants: short series, on a device that is hot or soon will be.
[[nodiscard]] inline sampling_options briefly(sampling_options options) {
  options.state = load::sustained;
  options.warm_up = {.window_s = 0.05, .windows = 1, .cap_s = 0.2};
  options.stop = {.spread = 0.02,
                  .window = 5,
                  .least_samples = 5,
                  .most_samples = 50,
                  .least_s = 0.02,
                  .cap_s = 1};
  return options;
}

/// The arrays of an operation, or measurement_error.
[[nodiscard]] inline std::vector<device_buffer<uint4>> allocate_arrays(const session& s,
                                                                       const char* what,
                                                                       std::size_t wanted,
                                                                       int arrays) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  GPUPLAN_CUDA_CALL(cudaMemGetInfo(&free_bytes, &total_bytes));
  const auto l2_bytes = static_cast<std::size_t>(std::max(s.properties().l2CacheSize, 0));
  const auto size = array_bytes_within(wanted, l2_bytes, free_bytes, arrays);
  if (!size)
    throw measurement_error(std::string(what) + ": " + std::to_string(arrays) +
                            " arrays of 4 x the L2 cache of " + std::to_string(l2_bytes) +
                            " bytes do not fit in nine tenths of the " +
                            std::to_string(free_bytes) + " bytes that are free");
  std::vector<device_buffer<uint4>> made;
  for (int i = 0; i < arrays; ++i) made.emplace_back(*size / sizeof(uint4));
  return made;
}

/// One word in a device's memory that kernels add to.
class device_counter {
 public:
  [[nodiscard]] std::uint32_t* data() const { return word_.data(); }
  void clear(cudaStream_t on) const {
    GPUPLAN_CUDA_CALL(cudaMemsetAsync(data(), 0, word_.bytes(), on));
  }
  /// What it holds when the stream has reached this.
  [[nodiscard]] std::uint32_t read(cudaStream_t on) const {
    std::uint32_t value = 0;
    GPUPLAN_CUDA_CALL(cudaMemcpyAsync(&value, data(), sizeof value, cudaMemcpyDeviceToHost, on));
    GPUPLAN_CUDA_CALL(cudaStreamSynchronize(on));
    return value;
  }

 private:
  device_buffer<std::uint32_t> word_{1};
};

/// Enough threads for any device, for kernels whose time does not count.
[[nodiscard]] inline unsigned plenty_of_blocks(const session& s) {
  return 8 * static_cast<unsigned>(s.properties().multiProcessorCount);
}

/// Throws measurement_error where `bytes` of the current device's memory are not the ramp's.
inline void require_ramp(cudaStream_t on,
                         unsigned blocks,
                         const char* what,
                         const void* data,
                         std::size_t bytes,
                         ramp values) {
  const device_counter wrong;
  wrong.clear(on);
  run_stream(on,
             blocks,
             check_body{static_cast<const uint4*>(data), values, wrong.data()},
             static_cast<long long>(bytes / sizeof(uint4)));
  if (const std::uint32_t count = wrong.read(on))
    throw measurement_error(std::string(what) + ": " + std::to_string(count) + " of " +
                            std::to_string(bytes / 4) + " words are wrong");
}

/// Writes a ramp to memory of the current device.
inline void write_ramp(
    cudaStream_t on, unsigned blocks, void* data, std::size_t bytes, ramp values) {
  run_stream(on,
             blocks,
             write_body{static_cast<uint4*>(data), values},
             static_cast<long long>(bytes / sizeof(uint4)));
}

/// Times `body` over `count` places with 2 to 32 blocks per SM, and with so many that each thread
/// has one place; and again with the number that was fastest.
template <class Body>
[[nodiscard]] bandwidth_reading fastest_grid(
    session& s, const Body& body, long long count, double bytes_moved, sampling_options options) {
  const auto sms = static_cast<unsigned>(s.properties().multiProcessorCount);
  const auto launch = [&](unsigned blocks) {
    return [&, blocks](cudaStream_t on) { run_stream(on, blocks, body, count); };
  };
  // Blocks that come and go pass over the arrays in order, and a copy then reaches 7 % more of an
  // H100's memory; 2^31 - 1 is the most of a grid.
  const long long one_place = std::min((count + stream_threads - 1) / stream_threads, 0x7fffffffLL);
  bandwidth_reading reading;
  duration shortest{};
  for (const unsigned blocks :
       {2 * sms, 4 * sms, 8 * sms, 16 * sms, 32 * sms, static_cast<unsigned>(one_place)}) {
    const duration time = sample(s, launch(blocks), briefly(options)).median;
    if (reading.blocks != 0 && time >= shortest) continue;
    shortest = time;
    reading.blocks = blocks;
  }
  reading.timing = sample(s, launch(reading.blocks), options);
  reading.rate = bytes::from_value(bytes_moved) / reading.timing.median;
  return reading;
}

// Each operation: fill its operands, time it, clear its result, run it once more, check the whole
// of the result.

template <class Number>
[[nodiscard]] bandwidth_reading measure_triad(session& s,
                                              stream_operation which,
                                              const std::vector<device_buffer<uint4>>& arrays,
                                              const sampling_options& options) {
  using vector = vector_16<Number>;
  const auto array = [&](std::size_t i) { return reinterpret_cast<vector*>(arrays[i].data()); };
  const auto count = static_cast<long long>(arrays[0].size());
  const cudaStream_t on = s.stream();
  run_stream(on, plenty_of_blocks(s), triad_write_body<Number>{array(1), array(2)}, count);
  const triad_body<Number> body{array(1), array(2), array(0), triad_numbers<Number>::factor};
  const double moved = 3 * static_cast<double>(arrays[0].bytes());
  const bandwidth_reading reading = fastest_grid(s, body, count, moved, options);
  GPUPLAN_CUDA_CALL(cudaMemsetAsync(array(0), 0xff, arrays[0].bytes(), on));
  run_stream(on, reading.blocks, body, count);
  const device_counter wrong;
  wrong.clear(on);
  run_stream(on, plenty_of_blocks(s), triad_check_body<Number>{array(0), wrong.data()}, count);
  if (const std::uint32_t found = wrong.read(on))
    throw measurement_error(std::string(name(which)) + ": " + std::to_string(found) + " of " +
                            std::to_string(count) + " results are wrong");
  return reading;
}

[[nodiscard]] inline bandwidth_reading measure_copy(session& s,
                                                    const std::vector<device_buffer<uint4>>& arrays,
                                                    const sampling_options& options) {
  const auto count = static_cast<long long>(arrays[0].size());
  const cudaStream_t on = s.stream();
  write_ramp(on, plenty_of_blocks(s), arrays[0].data(), arrays[0].bytes(), {});
  const copy_body body{arrays[0].data(), arrays[1].data()};
  const double moved = 2 * static_cast<double>(arrays[0].bytes());
  const bandwidth_reading reading = fastest_grid(s, body, count, moved, options);
  GPUPLAN_CUDA_CALL(cudaMemsetAsync(arrays[1].data(), 0xff, arrays[1].bytes(), on));
  run_stream(on, reading.blocks, body, count);
  require_ramp(on, plenty_of_blocks(s), "copy", arrays[1].data(), arrays[1].bytes(), {});
  return reading;
}

[[nodiscard]] inline bandwidth_reading measure_read(session& s,
                                                    const std::vector<device_buffer<uint4>>& arrays,
                                                    const sampling_options& options) {
  const auto count = static_cast<long long>(arrays[0].size());
  const cudaStream_t on = s.stream();
  write_ramp(on, plenty_of_blocks(s), arrays[0].data(), arrays[0].bytes(), {});
  const device_counter total;
  const read_body body{arrays[0].data(), total.data()};
  const bandwidth_reading reading =
      fastest_grid(s, body, count, static_cast<double>(arrays[0].bytes()), options);
  total.clear(on);
  run_stream(on, reading.blocks, body, count);
  if (total.read(on) != ramp{}.sum(4 * count))
    throw measurement_error("read: the sum of what was read is wrong");
  return reading;
}

[[nodiscard]] inline bandwidth_reading measure_write(
    session& s, const std::vector<device_buffer<uint4>>& arrays, const sampling_options& options) {
  const cudaStream_t on = s.stream();
  const write_body body{arrays[0].data()};
  const auto count = static_cast<long long>(arrays[0].size());
  const bandwidth_reading reading =
      fastest_grid(s, body, count, static_cast<double>(arrays[0].bytes()), options);
  GPUPLAN_CUDA_CALL(cudaMemsetAsync(arrays[0].data(), 0xff, arrays[0].bytes(), on));
  run_stream(on, reading.blocks, body, count);
  require_ramp(on, plenty_of_blocks(s), "write", arrays[0].data(), arrays[0].bytes(), {});
  return reading;
}

}  // namespace detail

/// The bandwidth of an operation over arrays of at least 4 x the L2 cache, with the grid that is
/// fastest, and with its result checked in full. Throws call_error, and measurement_error where the
/// arrays do not fit in the free memory or a result is wrong.
[[nodiscard]] inline bandwidth_reading measure_bandwidth(session& s,
                                                         stream_operation which,
                                                         const memory_options& options = {}) {
  const auto arrays =
      detail::allocate_arrays(s, name(which), options.array_bytes, arrays_of(which));
  const detail::waits_at_end waits(s.stream());
  const auto measure = [&] {
    switch (which) {
      case stream_operation::copy:
        return detail::measure_copy(s, arrays, options.sampling);
      case stream_operation::triad_fp64:
        return detail::measure_triad<double>(s, which, arrays, options.sampling);
      case stream_operation::triad_fp32:
        return detail::measure_triad<float>(s, which, arrays, options.sampling);
      case stream_operation::read:
        return detail::measure_read(s, arrays, options.sampling);
      default:
        return detail::measure_write(s, arrays, options.sampling);
    }
  };
  bandwidth_reading reading = measure();
  reading.array = bytes::from_value(static_cast<double>(arrays[0].bytes()));
  return reading;
}

/// How to measure the L2 cache.
struct cache_options {
  sampling_options sampling{};
  std::size_t least_footprint = std::size_t{1} << 20;
  double largest_in_caches = 4;  // of the largest footprint, in sizes of the L2 cache
  double least_traffic = 4e9;    // bytes that a launch reads at least
};

/// The rate at which all SMs together read one array, each its own part, over the array's size.
struct cache_reading {
  std::vector<measure::footprint_rate> curve{};  // footprints by factors of sqrt(2)
  std::optional<measure::cache_knee> knee{};
  std::vector<sampled> timings{};  // of the points of the curve
};

/// The sizes of arrays to read: from `least` by factors of sqrt(2) to `largest` and not beyond,
/// each a multiple of 256 bytes.
[[nodiscard]] inline std::vector<std::size_t> cache_footprints(std::size_t least, double largest) {
  std::vector<std::size_t> sizes;
  double odd = 1.41421356237309505 * static_cast<double>(least);
  for (double even = static_cast<double>(least); even <= largest; even *= 2, odd *= 2)
    for (const double size : {even, odd})
      if (size <= largest)
        sizes.push_back(std::max<std::size_t>(1, static_cast<std::size_t>(size) / 256) * 256);
  return sizes;
}

/// The L2 cache's bandwidth over the footprint, past the L1 caches, and where the cache ends. The
/// array is shared out among the SMs, each of which reads its part again and again: nothing is read
/// twice but what the cache has kept meanwhile. The sum of what was read is checked for every
/// footprint. Throws call_error, and measurement_error where a sum is wrong or 4 x the L2
/// cache are not free.
[[nodiscard]] inline cache_reading measure_cache(session& s, const cache_options& options = {}) {
  const auto l2_bytes = static_cast<double>(s.properties().l2CacheSize);
  const std::vector<std::size_t> footprints =
      cache_footprints(options.least_footprint, options.largest_in_caches * l2_bytes);
  cache_reading reading;
  if (footprints.empty()) return reading;
  const auto arrays = detail::allocate_arrays(s, "L2 cache", footprints.back(), 1);
  const uint4* const data = arrays[0].data();
  const cudaStream_t on = s.stream();
  const detail::waits_at_end waits(on);
  detail::write_ramp(on, detail::plenty_of_blocks(s), arrays[0].data(), arrays[0].bytes(), {});
  const detail::device_counter total;
  const auto blocks = static_cast<unsigned>(s.properties().multiProcessorCount);
  sampling_options sampling = options.sampling;
  for (const std::size_t footprint : footprints) {
    const auto of_block =
        static_cast<unsigned>(std::max<std::size_t>(1, footprint / sizeof(uint4) / blocks));
    const long long count = static_cast<long long>(of_block) * blocks;
    const double once = static_cast<double>(count) * sizeof(uint4);
    // Small ones may come to the same number of places for each SM.
    if (!reading.curve.empty() && !(once > reading.curve.back().footprint.value())) continue;
    const int rounds = std::max(1, static_cast<int>(std::min(options.least_traffic / once, 1e6)));
    const auto launch = [&](cudaStream_t to) {
      GPUPLAN_CUDA_LAUNCH(
          cache_kernel<<<blocks, cache_threads, 0, to>>>(data, of_block, rounds, total.data()));
    };
    const sampled timing = sample(s, launch, sampling);
    // The device is hot by now.
    sampling.warm_up = {.window_s = 0.1, .windows = 1, .cap_s = 0.5};
    total.clear(on);
    launch(on);
    const std::uint32_t expected = ramp{}.sum(4 * count) * static_cast<std::uint32_t>(rounds);
    if (total.read(on) != expected)
      throw measurement_error("L2 cache: the sum of what was read is wrong, of " +
                              std::to_string(footprint) + " bytes");
    reading.curve.push_back(
        {bytes::from_value(once), bytes::from_value(once * rounds) / timing.median});
    reading.timings.push_back(timing);
  }
  reading.knee = measure::knee_of(reading.curve);
  return reading;
}

}  // namespace gpuplan::cuda
