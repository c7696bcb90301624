#pragma once

// What the measurements of one device share: a stream, room to flush the L2 cache with, the host's
// clock, and someone to tell how far they are.

#include <gpuplan/cuda/clock.cuh>
#include <gpuplan/cuda/runtime.cuh>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

namespace gpuplan::cuda {

/// Work to measure: puts itself on the stream it is given, and does not wait for it.
using work = std::function<void(cudaStream_t)>;

/// What of a session can be chosen.
struct session_options {
  int device = 0;
  /// Told what is being measured and which share of it is done, 0 to 1, about ten times a second.
  std::function<void(std::string_view what, double share)> progress{};
  /// The seconds since some moment, and a pause of so many seconds. The steady clock's where empty.
  std::function<double()> now_s{};
  std::function<void(double)> sleep_s{};
  /// The L2 cache is flushed with twice its size, and at least this.
  std::size_t least_flush_bytes = std::size_t{256} << 20;
};

/// A device while it is measured: the current one as long as the session lives. At the end, also
/// where an exception ended it, all its work was waited for, all its memory is free and the device
/// that was current before is so again. The device keeps its context, as after any call.
class session {
 public:
  /// Throws call_error where there is no such device.
  explicit session(session_options options = {})
      : options_(std::move(options)), device_(options_.device) {
    GPUPLAN_CUDA_CALL(cudaGetDeviceProperties(&properties_, options_.device));
    int kHz = 0;
    GPUPLAN_CUDA_CALL(cudaDeviceGetAttribute(&kHz, cudaDevAttrClockRate, options_.device));
    clock_limit_MHz_ = kHz / 1e3;
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  [[nodiscard]] int device() const noexcept { return options_.device; }
  [[nodiscard]] const cudaDeviceProp& properties() const noexcept { return properties_; }
  /// The highest clock of the SMs.
  [[nodiscard]] double clock_limit_MHz() const noexcept { return clock_limit_MHz_; }
  /// The stream that all is measured on.
  [[nodiscard]] const cuda::stream& stream() const noexcept { return stream_; }

  /// Enqueues the writing of a buffer larger than the L2 cache, so that nothing else is left in it.
  /// Throws call_error where there is no room for that buffer.
  void flush_l2() {
    if (!flush_)
      flush_.emplace(std::max(options_.least_flush_bytes,
                              2 * static_cast<std::size_t>(properties_.l2CacheSize)));
    GPUPLAN_CUDA_CALL(cudaMemsetAsync(flush_->data(), 0, flush_->bytes(), stream_));
  }
  /// Frees the buffer that `flush_l2` keeps, for a measurement that needs all the memory.
  void drop_flush_buffer() { flush_.reset(); }

  [[nodiscard]] double now_s() const {
    if (options_.now_s) return options_.now_s();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void sleep_s(double seconds) const {
    if (options_.sleep_s)
      options_.sleep_s(seconds);
    else
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

  /// Tells how far a measurement is; the end (share 1) always, anything else ten times a second.
  void report(std::string_view what, double share) {
    if (!options_.progress) return;
    const double now = now_s();
    if (share < 1 && reported_s_ && now - *reported_s_ < 0.1) return;
    reported_s_ = now;
    options_.progress(what, std::clamp(share, 0.0, 1.0));
  }

 private:
  session_options options_;
  device_scope device_;  // before all that is made on the device
  cudaDeviceProp properties_{};
  double clock_limit_MHz_ = 0;
  cuda::stream stream_;
  std::optional<device_buffer<std::byte>> flush_;
  std::optional<double> reported_s_;
  detail::waits_at_end waits_{stream_};  // last, to be the first to go
};

}  // namespace gpuplan::cuda
