#include "measure_gpu/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>
#include <gpuplan/io/text.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>

namespace measure_gpu_program {

std::string bar(std::string_view what, double share, int width) {
  const double done = std::clamp(share, 0.0, 1.0);
  std::string percent = std::to_string(static_cast<int>(std::floor(100 * done)));
  percent.insert(0, 3 - percent.size(), ' ');
  const std::string end = ' ' + percent + " %  " + std::string(what);
  const int cells = std::max(width - gpuplan::io::display_width(end) - 2, 0);
  const int full = static_cast<int>(std::floor(done * cells));
  std::string out = "[";
  for (int i = 0; i < cells; ++i) out += i < full ? '#' : '.';
  return out + ']' + end;
}

progress::progress(std::FILE* to) : to_(to), is_terminal_(false) {
  if (to == nullptr || isatty(fileno(to)) == 0) return;
  is_terminal_ = true;
  winsize size{};
  if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    width_ = std::clamp<int>(size.ws_col - 1, 40, 100);
}

void progress::show(std::string_view part, std::string_view what, double share) {
  if (to_ == nullptr) return;
  std::string name(part);
  if (!what.empty()) name += ": " + std::string(what);
  const std::string line = is_terminal_ ? bar(name, share, width_) : name;
  if (line == last_) return;
  if (is_terminal_)
    std::fprintf(to_, "\r\033[K%s", line.c_str());
  else
    std::fprintf(to_, "%s\n", line.c_str());
  std::fflush(to_);
  last_ = line;
}

void progress::clear() {
  if (is_terminal_ && !last_.empty()) std::fputs("\r\033[K", to_);
}

}  // namespace measure_gpu_program
