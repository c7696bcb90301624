#pragma once

// Threads that do the same work side by side, over and over.

#include <barrier>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace sweep_examples {

/// The part of `size` things that is one thread's: `[first, last)`.
struct share {
  std::int64_t first = 0;
  std::int64_t last = 0;

  [[nodiscard]] constexpr std::int64_t size() const { return last - first; }
};

/// Parts that differ by at most one. Precondition: size >= 0, 0 <= thread < threads.
[[nodiscard]] constexpr share share_of(std::int64_t size, int thread, int threads) {
  return {.first = size * thread / threads, .last = size * (thread + 1) / threads};
}

/// A fixed number of threads, of which the caller is one. One thread calls it at a time.
class thread_team {
 public:
  /// Precondition: threads >= 1.
  explicit thread_team(int threads);
  ~thread_team();
  thread_team(const thread_team&) = delete;
  thread_team& operator=(const thread_team&) = delete;

  [[nodiscard]] int threads() const { return threads_; }

  /// Calls `work` with 0, 1, ... `threads() - 1`, each on its thread, and returns when all are
  /// done. Throws what the first of them to have thrown by number threw.
  void run(const std::function<void(int)>& work);

 private:
  int threads_;
  const std::function<void(int)>* work_ = nullptr;  // nullptr: go home
  std::vector<std::exception_ptr> errors_;
  std::barrier<> gate_;
  std::vector<std::thread> others_{};

  void do_share(int thread);
};

}  // namespace sweep_examples
