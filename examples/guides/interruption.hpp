#pragma once

// Ctrl-C, which leaves nothing half-written, and searches that are given up.

#include <atomic>
#include <exception>

namespace guides {

/// From now on Ctrl-C ends the program with status 130, below a line that a terminal has of it.
/// Where the program that started this one has it ignored, as nohup does, it stays so.
void end_on_interrupt();

/// While one lives, Ctrl-C waits: the program ends where the last one does.
class uninterrupted {
 public:
  uninterrupted();
  uninterrupted(const uninterrupted&) = delete;
  uninterrupted& operator=(const uninterrupted&) = delete;
  ~uninterrupted();
};

/// What `end_if_stopped` throws.
class stopped : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "stopped"; }
};

/// While one lives, what this thread searches ends where `wanted` is set, for who runs a search in
/// a thread of its own and may no longer wait for it.
class stoppable {
 public:
  explicit stoppable(const std::atomic<bool>& wanted);
  stoppable(const stoppable&) = delete;
  stoppable& operator=(const stoppable&) = delete;
  ~stoppable();

 private:
  const std::atomic<bool>* before_;
};

/// Called by what takes long, again and again.
void end_if_stopped();

}  // namespace guides
