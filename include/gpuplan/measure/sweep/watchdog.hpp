#pragma once

// Notices from another thread what does not end: a step, or a set-up.

#include <gpuplan/sweep/rows.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace gpuplan::measure {

/// Calls `hangs` from a thread of its own, once for each part of a trial that lasts its span or
/// longer by the steady clock; looks ten times in the shortest span, so up to a tenth of that late.
/// What `hangs` throws ends the program.
class watchdog {
 public:
  watchdog(double shortest_s, std::function<void(const sweep_setting&)> hangs)
      : period_(shortest_s / 10),
        hangs_(std::move(hangs)),
        thread_([this](std::stop_token stop) { watch(stop); }) {}
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

  /// The setting of the parts that follow, and how long each of them may last. Precondition: no
  /// part has begun that has not ended.
  void watches(const sweep_setting& setting, double span_s) {
    const std::lock_guard lock(mutex_);
    setting_ = setting;
    span_ = std::chrono::duration<double>(span_s);
  }
  void begins() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void ends() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }

 private:
  using clock = std::chrono::steady_clock;

  std::chrono::duration<double> period_;
  std::function<void(const sweep_setting&)> hangs_;
  std::atomic<std::uint64_t> count_{0};  // of beginnings and ends: odd within a part
  std::mutex mutex_{};
  sweep_setting setting_{};
  std::chrono::duration<double> span_{};
  std::condition_variable_any ends_{};
  std::jthread thread_;  // last, to be the first to go

  void watch(const std::stop_token& stop) noexcept {
    std::uint64_t seen = 0;
    clock::time_point since = clock::now();
    bool told = false;
    std::unique_lock lock(mutex_);
    while (!ends_.wait_for(lock, stop, period_, [&] { return stop.stop_requested(); })) {
      const std::uint64_t count = count_.load(std::memory_order_relaxed);
      if (count != seen) {
        seen = count;
        since = clock::now();
        told = false;
      } else if (count % 2 == 1 && !told && clock::now() - since >= span_) {
        told = true;
        const sweep_setting hung = setting_;
        lock.unlock();
        hangs_(hung);
        lock.lock();
      }
    }
  }
};

}  // namespace gpuplan::measure
