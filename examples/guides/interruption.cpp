#include "guides/interruption.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <utility>

namespace guides {
namespace {

static_assert(std::atomic<int>::is_always_lock_free, "a signal's handler may not wait");
static_assert(std::atomic<bool>::is_always_lock_free, "a signal's handler may not wait");
constinit std::atomic<int> holds{0};
constinit std::atomic<bool> has_come{false};
constinit std::atomic<bool> is_seen{false};  // on a terminal

// With nothing but what a signal's handler may do: what waits in buffers stays unsaid.
[[noreturn]] void end() {
  constexpr char line_end = '\n';
  [[maybe_unused]] ssize_t written = 0;
  if (is_seen) written = write(STDERR_FILENO, &line_end, 1);
  _exit(130);
}

thread_local const std::atomic<bool>* is_stop_wanted = nullptr;

extern "C" void guides_note_interrupt(int /*signal*/) {
  has_come = true;
  if (holds == 0) end();
}

}  // namespace

void end_on_interrupt() {
  struct sigaction before {};
  if (sigaction(SIGINT, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) return;
  is_seen = isatty(STDERR_FILENO) != 0;
  struct sigaction now {};
  now.sa_handler = guides_note_interrupt;
  sigemptyset(&now.sa_mask);
  sigaction(SIGINT, &now, nullptr);
}

uninterrupted::uninterrupted() { ++holds; }

uninterrupted::~uninterrupted() {
  if (--holds == 0 && has_come) end();
}

stoppable::stoppable(const std::atomic<bool>& wanted)
    : before_(std::exchange(is_stop_wanted, &wanted)) {}
stoppable::~stoppable() { is_stop_wanted = before_; }

void end_if_stopped() {
  if (is_stop_wanted != nullptr && *is_stop_wanted) throw stopped();
}

}  // namespace guides
