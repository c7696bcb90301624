#pragma once

// How far the measurements are, on standard error.

#include <cstdio>
#include <string>
#include <string_view>

namespace measure_gpu_program {

/// A bar of `width` characters for a terminal: what is measured, how much of it is done.
[[nodiscard]] std::string bar(std::string_view what, double share, int width);

/// Shows a bar where `to` is a terminal, and otherwise one line for each measurement.
class progress {
 public:
  /// `to` is nullptr for silence.
  explicit progress(std::FILE* to);
  ~progress() { clear(); }
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void show(std::string_view part, std::string_view what, double share);

 private:
  std::FILE* to_;
  bool is_terminal_;
  int width_ = 80;
  std::string last_{};

  void clear();
};

}  // namespace measure_gpu_program
