#pragma once

// Ctrl-C as a question that a sweep asks.

#include <atomic>
#include <csignal>

namespace gpuplan::measure {

/// Notes a signal, Ctrl-C's by default, in place of ending the program at once: `received()` is
/// what sweep_options::interrupted asks for. A second one ends the program as ever. One at a time,
/// since a signal has one handler.
class interrupt_signal {
 public:
  explicit interrupt_signal(int which = SIGINT) : which_(which) {
    seen() = false;
    before_ = std::signal(which, note);
  }
  interrupt_signal(const interrupt_signal&) = delete;
  interrupt_signal& operator=(const interrupt_signal&) = delete;
  ~interrupt_signal() {
    if (before_ != SIG_ERR) std::signal(which_, before_);
  }

  [[nodiscard]] bool received() const noexcept { return seen(); }

 private:
  using handler = void (*)(int);

  int which_;
  handler before_ = SIG_DFL;

  static std::atomic<bool>& seen() noexcept {
    static_assert(std::atomic<bool>::is_always_lock_free, "a signal's handler may not wait");
    static constinit std::atomic<bool> flag{false};
    return flag;
  }
  static void note(int which) {
    seen() = true;
    std::signal(which, SIG_DFL);
  }
};

}  // namespace gpuplan::measure
