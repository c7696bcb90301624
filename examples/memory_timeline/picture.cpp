#include "memory_timeline/picture.hpp"

#include <gpuplan/io/svg.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/timeline.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memory_timeline/kinds.hpp"
#include "setups/numbers.hpp"

namespace memory_timeline {
namespace {

namespace io = gpuplan::io;
using gpuplan::memory_point;
using gpuplan::memory_sum;
using gpuplan::step_moment;

constexpr double height = 540;
constexpr double left = 64;
constexpr double right = 778;  // the legend is beyond
constexpr double top = 78;
constexpr double bottom = 470;
constexpr std::size_t most_columns = 714;  // a unit each

// What a person calls a moment, as far as there is room for names.
const char* phase_of(step_moment when) {
  switch (when) {
    case step_moment::forward:
      return "forward";
    case step_moment::loss:
    case step_moment::loss_backward:
      return "loss";
    case step_moment::last_layer:
    case step_moment::middle_layer:
    case step_moment::first_layer:
    case step_moment::embedding:
      return "backward";
    case step_moment::optimizer:
      break;
  }
  return "optimizer";
}

class drawing {
 public:
  explicit drawing(const picture& of) : of_(of) {
    const std::size_t count = std::min(most_columns, of_.points.size());
    columns_.resize(count);
    for (std::size_t at = 0; at < of_.points.size(); ++at) {
      memory_sum& column = columns_[at * count / of_.points.size()];
      if (of_.points[at].in_use.total > column.total) column = of_.points[at].in_use;
      if (of_.points[at].in_use.total > of_.points[peak_].in_use.total) peak_ = at;
    }
    const std::int64_t most_used = of_.points[peak_].in_use.total;
    shows_capacity_ = of_.capacity <= 3 * most_used;
    const auto most =
        static_cast<double>(shows_capacity_ ? std::max(most_used, of_.capacity) : most_used) /
        setups::gibibyte;
    step_ = io::grid_step(most / 6);
    most_ = step_ * std::ceil(most * 1.04 / step_);
  }

  [[nodiscard]] std::string text() const {
    std::string out = io::svg_document(960, height, of_.title);
    out += io::svg_text(left, 28, "font-size=\"17\" font-weight=\"bold\"", of_.title);
    out += io::svg_text(left, 48, "fill=\"#444444\"", of_.subtitle);
    return out + grid() + stacks() + phases() + capacity() + peak() + legend() + "</svg>\n";
  }

 private:
  [[nodiscard]] double x_of(std::size_t point) const {
    return left +
           (right - left) * static_cast<double>(point) / static_cast<double>(of_.points.size());
  }
  [[nodiscard]] double y_of(std::int64_t bytes) const {
    return bottom - (bottom - top) * static_cast<double>(bytes) / setups::gibibyte / most_;
  }

  [[nodiscard]] std::string grid() const {
    std::string out;
    const int digits = io::grid_digits(step_);
    for (int at = 0; at * step_ <= most_ * (1 + 1e-9); ++at) {
      const double y = bottom - (bottom - top) * at * step_ / most_;
      out += io::svg_line(left, y, right, y, "stroke=\"#dddddd\"");
      out += io::svg_text(left - 8, y + 4, "text-anchor=\"end\"", io::decimal(at * step_, digits));
    }
    return out + io::svg_text(left - 8, top - 10, "text-anchor=\"end\" fill=\"#444444\"", "GiB");
  }

  // Each kind from its floor to its top, column by column.
  [[nodiscard]] std::string stacks() const {
    std::string out;
    std::vector<std::int64_t> floor(columns_.size());
    const double wide = (right - left) / static_cast<double>(columns_.size());
    for (const kind& one : kinds()) {
      std::vector<std::int64_t> above = floor;
      bool any = false;
      for (std::size_t at = 0; at < columns_.size(); ++at) {
        above[at] += memory_timeline::of(columns_[at], one);
        any = any || above[at] != floor[at];
      }
      if (any)
        out += std::string("<path fill=\"") + one.hex + "\" d=\"M" + edge(above, wide, false) +
               "L" + edge(floor, wide, true) + "Z\"/>\n";
      floor = above;
    }
    return out;
  }
  // The steps along the top of a stack; equal neighbours are one.
  [[nodiscard]] std::string edge(const std::vector<std::int64_t>& tops,
                                 double wide,
                                 bool backwards) const {
    std::vector<std::string> corners;
    for (std::size_t first = 0; first < tops.size();) {
      std::size_t end = first + 1;
      while (end < tops.size() && tops[end] == tops[first]) ++end;
      for (const std::size_t at : {first, end})
        corners.push_back(io::svg_number(left + wide * static_cast<double>(at)) + " " +
                          io::svg_number(y_of(tops[first])));
      first = end;
    }
    if (backwards) std::reverse(corners.begin(), corners.end());
    std::string out;
    for (const std::string& corner : corners) out += (out.empty() ? "" : " ") + corner;
    return out;
  }

  // Where a phase begins, and its name: of a short one a line lower, of many short ones nowhere.
  [[nodiscard]] std::string phases() const {
    std::string out = io::svg_line(left, bottom, right, bottom, "stroke=\"#444444\"");
    double ends[] = {-100, -100};  // of the last names on either line
    double ruled = -100;
    for (std::size_t first = 0; first < of_.points.size();) {
      const std::string name = phase_of(of_.points[first].when);
      std::size_t end = first + 1;
      while (end < of_.points.size() && phase_of(of_.points[end].when) == name) ++end;
      const double begin = x_of(first);
      if (first > 0 && begin - ruled >= 3) {
        out += io::svg_line(
            begin, top, begin, bottom + 5, "stroke=\"#444444\" stroke-dasharray=\"2 3\"");
        ruled = begin;
      }
      const double half = 3.4 * static_cast<double>(name.size());
      const double middle = std::clamp((begin + x_of(end)) / 2, left + half, right - half);
      const int line = x_of(end) - begin > 2 * half ? 0 : 1;
      if (middle - half > ends[line] + 4) {
        out += io::svg_text(middle, bottom + 20 + 16 * line, "text-anchor=\"middle\"", name);
        ends[line] = middle + half;
      }
      first = end;
    }
    return out + io::svg_text((left + right) / 2,
                              height - 12,
                              "text-anchor=\"middle\" fill=\"#444444\"",
                              "the step, allocation by allocation");
  }

  // Named on the side where the peak is not.
  [[nodiscard]] std::string capacity() const {
    if (of_.capacity == 0) return {};
    const bool is_left = x_of(peak_) > (left + right) / 2;
    const std::string name = of_.gpu + ": " + setups::readable_bytes(of_.capacity);
    const double x = is_left ? left + 8 : right - 8;
    if (!shows_capacity_) return over_lines(x, top + 14, !is_left, name + ", above this picture");
    const double y = y_of(of_.capacity);
    return io::svg_line(left,
                        y,
                        right,
                        y,
                        "stroke=\"#000000\" stroke-width=\"1.5\" stroke-dasharray=\"7 4\"") +
           over_lines(x, y - 6, !is_left, name);
  }

  [[nodiscard]] std::string peak() const {
    const double x = x_of(peak_);
    const double y = y_of(of_.points[peak_].in_use.total);
    const bool is_right = x > (left + right) / 2;
    return "<circle cx=\"" + io::svg_number(x) + "\" cy=\"" + io::svg_number(y) +
           "\" r=\"3.5\" fill=\"#ffffff\" stroke=\"#000000\"/>\n" +
           over_lines(is_right ? x - 8 : x + 8,
                      std::max(y - 7, top - 8),
                      is_right,
                      setups::readable_bytes(of_.points[peak_].in_use.total) + ", " +
                          gpuplan::text(of_.points[peak_].when));
  }
  [[nodiscard]] static std::string over_lines(double x,
                                              double y,
                                              bool to_the_left,
                                              const std::string& name) {
    const std::string how =
        std::string("font-weight=\"bold\"") + (to_the_left ? " text-anchor=\"end\"" : "");
    return io::svg_text_over_lines(x, y, how, name);
  }

  // In the order of the stack, with what each has at the peak.
  [[nodiscard]] std::string legend() const {
    std::string out;
    double y = bottom - 8;
    for (const kind& one : kinds()) {
      out += io::svg_rectangle(right + 12, y - 10, 12, 12, std::string("fill=\"") + one.hex + '"');
      out += io::svg_text(right + 30, y, "", std::string(one.of_picture));
      out +=
          io::svg_text(right + 30,
                       y + 13,
                       "font-size=\"10\" fill=\"#444444\"",
                       setups::readable_bytes(memory_timeline::of(of_.points[peak_].in_use, one)));
      y -= 32;
    }
    return out + io::svg_text(right + 12, y, "fill=\"#444444\"", "at the peak");
  }

  const picture& of_;
  std::vector<memory_sum> columns_{};
  std::size_t peak_ = 0;
  bool shows_capacity_ = false;
  double step_ = 1;
  double most_ = 1;
};

}  // namespace

std::string to_svg(const picture& of) { return drawing(of).text(); }

}  // namespace memory_timeline
