#pragma once

// The clock that the SMs really run at, read on the SMs themselves: needs neither NVML nor rights.

#include <gpuplan/cuda/runtime.cuh>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace gpuplan::cuda {

/// The two counters of one SM at one moment: the device's time in ns, and the SM's clock cycles.
struct clock_stamp {
  std::uint64_t time_ns;
  std::uint64_t cycles;
};

namespace detail {

// stamps[i] becomes the counters of SM i, of each SM that got a block. SMs need not be numbered
// without gaps, so those beyond the array are left out.
static __global__ void stamp_clocks(clock_stamp* stamps, unsigned size) {
  unsigned sm = 0;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (sm >= size || threadIdx.x != 0) return;
  clock_stamp now{};
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now.time_ns));
  now.cycles = static_cast<std::uint64_t>(clock64());
  stamps[sm] = now;
}

// Holds the stream for this long: what the host puts behind it meanwhile runs without gaps.
static __global__ void hold_stream(std::uint64_t ns) {
  std::uint64_t start = 0;
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < ns);
}

}  // namespace detail

/// The device's timer moves in steps of up to 1.024 us, so a clock is read over at least this much.
inline constexpr std::uint64_t shortest_clock_ns = 100'000;

/// The mean clock in MHz between two sets of stamps of the same SMs: of the first SM that is in
/// both and was not reset between them. Nothing where there is none, or where they lie less than
/// `shortest_clock_ns` apart. Within 2 % at 100 us, 0.2 % at 1 ms.
[[nodiscard]] inline std::optional<double> clock_MHz_between(std::span<const clock_stamp> before,
                                                             std::span<const clock_stamp> after) {
  for (std::size_t sm = 0; sm < before.size() && sm < after.size(); ++sm) {
    const clock_stamp& from = before[sm];
    const clock_stamp& to = after[sm];
    if (from.time_ns == 0 || to.time_ns < from.time_ns + shortest_clock_ns ||
        to.cycles <= from.cycles)
      continue;
    return 1e3 * static_cast<double>(to.cycles - from.cycles) /
           static_cast<double>(to.time_ns - from.time_ns);
  }
  return std::nullopt;
}

/// Two sets of stamps around work on a stream.
class clock_reading {
 public:
  explicit clock_reading(int multiprocessors)
      : sms_(static_cast<unsigned>(multiprocessors)),
        stamps_(std::size_t{2} * static_cast<std::size_t>(multiprocessors)) {}

  /// Enqueues the first set, and forgets what was read before. Only once `stop` was waited for.
  void start(cudaStream_t on) const {
    for (clock_stamp& stamp : stamps_.elements()) stamp = {};
    enqueue(stamps_.data(), on);
  }
  /// Enqueues the second set.
  void stop(cudaStream_t on) const { enqueue(stamps_.data() + sms_, on); }
  /// The mean clock between the two, once the stream has reached the second.
  [[nodiscard]] std::optional<double> MHz() const {
    const std::span<const clock_stamp> all = stamps_.elements();
    return clock_MHz_between(all.first(sms_), all.last(sms_));
  }

 private:
  // Two blocks for each SM: with one, a busy SM may be passed over for a free one.
  void enqueue(clock_stamp* stamps, cudaStream_t on) const {
    GPUPLAN_CUDA_LAUNCH(detail::stamp_clocks<<<2 * sms_, 1, 0, on>>>(stamps, sms_));
  }

  unsigned sms_;
  pinned_buffer<clock_stamp> stamps_;
};

}  // namespace gpuplan::cuda
