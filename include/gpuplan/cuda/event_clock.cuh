#pragma once

// The time of a stream's device as a clock, for gpuplan::measure::phase_recorder.

#include <gpuplan/cuda/runtime.cuh>

#include <cstddef>
#include <vector>

namespace gpuplan::cuda {

/// A clock whose moments are events on a stream: what was put there before them has ended, what
/// comes after has not begun. Where the host leaves the stream without work, its time counts all
/// the same. In steps of about half a microsecond. Its functions throw call_error.
class event_clock {
 public:
  using moment = std::size_t;  // the place among the events of this step

  explicit event_clock(cudaStream_t on) : on_(on) {}

  /// Forgets the moments of the last step, whose events are used again.
  void begin_step() noexcept { used_ = 0; }
  /// Puts an event on the stream.
  [[nodiscard]] moment now() {
    if (used_ == events_.size()) events_.emplace_back();
    events_[used_].record(on_);
    return used_++;
  }
  /// Waits for the last event.
  void wait() const {
    if (used_ > 0) events_[used_ - 1].synchronize();
  }
  /// Precondition: both are of this step, and were waited for.
  [[nodiscard]] double seconds_between(moment from, moment to) const {
    return cuda::seconds_between(events_[from], events_[to]);
  }

 private:
  cudaStream_t on_;
  std::vector<event> events_{};
  std::size_t used_ = 0;
};

}  // namespace gpuplan::cuda
