#pragma once

// Ctrl-C, which leaves nothing half-written.

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

}  // namespace guides
