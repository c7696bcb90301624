#pragma once

// How far a program is: a bar on a terminal, plain lines elsewhere. For systems with POSIX
// terminals.

#include <sys/ioctl.h>
#include <unistd.h>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/text.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace gpuplan::io {

/// A bar of `width` characters: how much is done, and of what. Where the words leave no room for a
/// bar, it is `[]` and the line is longer.
[[nodiscard]] inline std::string bar(std::string_view what, double share, int width) {
  const double done = std::clamp(share, 0.0, 1.0);
  std::string percent = std::to_string(static_cast<int>(std::floor(100 * done)));
  percent.insert(0, 3 - percent.size(), ' ');
  const std::string end = ' ' + percent + " %  " + std::string(what);
  const int cells = std::max(width - display_width(end) - 2, 0);
  const int full = static_cast<int>(std::floor(done * cells));
  std::string out = "[";
  for (int i = 0; i < cells; ++i) out += i < full ? '#' : '.';
  return out + ']' + end;
}

/// Seconds as people read them: "0.4 s", "12 s", "3 min 05 s", "2 h 07 min".
[[nodiscard]] inline std::string readable_time(double seconds) {
  if (!(seconds < 1e9)) return "years";
  if (seconds < 9.95) return decimal(std::max(seconds, 0.0), 1) + " s";
  const auto whole = static_cast<std::int64_t>(std::lround(seconds));
  const auto two_digits = [](std::int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + two_digits(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + two_digits(whole / 60 % 60) + " min";
}

/// One line of a terminal that is drawn again and again; elsewhere, lines below one another.
class progress_line {
 public:
  /// `to` is nullptr for silence.
  explicit progress_line(std::FILE* to) : to_(to) {
    if (to == nullptr || isatty(fileno(to)) == 0) return;
    is_terminal_ = true;
    winsize size{};
    if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
      width_ = std::clamp<int>(size.ws_col - 1, 40, 100);
  }
  ~progress_line() { clear(); }
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  /// Whether lines are drawn over one another, so that many of them may be shown.
  [[nodiscard]] bool is_terminal() const { return is_terminal_; }

  /// Shows a bar on a terminal, and elsewhere what it is of, once.
  void show(const std::string& what, double share) {
    if (to_ == nullptr) return;
    const std::string shown = printable(what);
    const std::string line = is_terminal_ ? bar(shown, share, width_) : shown;
    if (line == last_) return;
    if (is_terminal_)
      std::fprintf(to_, "\r\033[K%s", line.c_str());
    else
      std::fprintf(to_, "%s\n", line.c_str());
    std::fflush(to_);
    last_ = line;
  }

  /// A line that stays.
  void say(const std::string& line) {
    if (to_ == nullptr) return;
    clear();
    std::fprintf(to_, "%s\n", printable(line, line_ends::are_kept).c_str());
    std::fflush(to_);
  }

  /// Takes the bar away.
  void clear() {
    if (is_terminal_ && !last_.empty()) std::fputs("\r\033[K", to_);
    last_.clear();
  }

 private:
  std::FILE* to_;
  bool is_terminal_ = false;
  int width_ = 80;
  std::string last_{};
};

}  // namespace gpuplan::io
