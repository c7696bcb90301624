#pragma once

// Amounts that add up, over time.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/chart/frame.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace gpuplan::io {

/// What is in use between one time and the next, by what it is for.
struct stacked_areas {
  struct layer {
    std::string name;
    std::vector<double> values{};  // from one time to the next, so one fewer than times
    std::size_t series = 0;        // whose colour it has
    std::string at_peak{};         // what it is where all together are most
  };
  struct span {
    std::string name;
    double from = 0;
    double to = 0;
  };
  /// A line of another origin, such as what was measured.
  struct outline {
    std::string name;
    std::vector<double> times{};
    std::vector<double> values{};  // likewise one fewer
  };

  std::string title;
  std::string subtitle{};
  std::string counts_along;     // "ms from the first kernel of the step"
  std::string counts_upwards;   // "GiB"
  std::vector<double> times{};  // not falling
  std::vector<layer> layers{};  // from the bottom
  std::vector<span> spans{};    // that have a name of their own below the axis
  double limit = 0;             // a line across; 0: none
  std::string limit_name{};
  std::string peak_name{};
  std::vector<outline> outlines{};
};

namespace detail {

class area_drawing {
 public:
  area_drawing(const stacked_areas& chart, double width)
      : chart_(chart), on_(width, chart.title, chart.subtitle) {
    const std::size_t count = chart.times.size() - 1;
    totals_.resize(count);
    for (const stacked_areas::layer& one : chart.layers)
      for (std::size_t at = 0; at < count; ++at) totals_[at] += one.values[at];
    peak_ = static_cast<std::size_t>(std::max_element(totals_.begin(), totals_.end()) -
                                     totals_.begin());
    double most = totals_[peak_];
    for (const stacked_areas::outline& one : chart.outlines)
      for (const double value : one.values) most = std::max(most, value);
    shows_limit_ = chart.limit > 0 && chart.limit <= 3 * most;
    if (shows_limit_) most = std::max(most, chart.limit);
    y_ = linear_axis(most * 1.04, width < 500 ? 4 : 6);
    x_ = linear_axis(chart.times.back(), width < 500 ? 3 : 7, true);
    for (const stacked_areas::outline& one : chart.outlines)
      if (!one.times.empty() && one.times.back() > x_.to)
        x_ = linear_axis(one.times.back(), width < 500 ? 3 : 7, true);
    left_ = chart_sheet::margin + y_.names_width() + 8;
    right_ = width - chart_sheet::margin - 4;
    x_.begin = left_;
    x_.end = right_;
  }

  [[nodiscard]] std::string document() {
    on_.text(chart_sheet::margin, on_.y() + 19, chart_.counts_upwards, {.in = &chart_faint});
    const double top = on_.y() + 36;
    bottom_ = top + (on_.width() < 500 ? 230 : 330);
    y_.begin = bottom_;
    y_.end = top;
    draw_heights(on_, y_, left_, right_);
    draw_layers();
    for (std::size_t at = 0; at < chart_.outlines.size(); ++at) draw_outline(at);
    draw_limit(top);
    draw_peak(top);
    draw_bottom(on_, x_, bottom_, chart_.counts_along);
    draw_spans();
    draw_legend();
    return on_.document();
  }

 private:
  // For each column as wide as a unit, when in it most is in use.
  [[nodiscard]] std::vector<std::size_t> fullest_of_columns() const {
    const auto columns = static_cast<std::size_t>(right_ - left_);
    std::vector<std::size_t> fullest(columns, 0);
    std::size_t at = 0;
    for (std::size_t column = 0; column < columns; ++column) {
      const double end = x_.to * static_cast<double>(column + 1) / static_cast<double>(columns);
      fullest[column] = at;
      while (at + 1 < totals_.size() && chart_.times[at + 1] < end) {
        ++at;
        if (totals_[at] > totals_[fullest[column]]) fullest[column] = at;
      }
    }
    return fullest;
  }

  void draw_layers() {
    const std::vector<std::size_t> fullest = fullest_of_columns();
    const double last = x_.place(chart_.times.back());
    std::vector<double> floor(totals_.size());
    for (const stacked_areas::layer& one : chart_.layers) {
      std::vector<double> above = floor;
      for (std::size_t at = 0; at < above.size(); ++at) above[at] += one.values[at];
      if (above != floor)
        on_.add("<path " + filled(series_colour(one.series)) + " stroke-width=\"0.4\" d=\"M" +
                edge(fullest, above, last, false) + "L" + edge(fullest, floor, last, true) +
                "Z\"><title>" + markup_escaped(one.name) + "</title></path>\n");
      floor = above;
    }
    on_.add("<path " + stroked(chart_ink) + " stroke-width=\"0.8\" d=\"M" +
            edge(fullest, floor, last, false) + "\"/>\n");
  }
  // The steps along the top of a stack; equal neighbours are one.
  [[nodiscard]] std::string edge(const std::vector<std::size_t>& fullest,
                                 const std::vector<double>& tops,
                                 double last,
                                 bool backwards) const {
    std::vector<std::string> corners;
    for (std::size_t first = 0; first < fullest.size();) {
      std::size_t end = first + 1;
      while (end < fullest.size() && tops[fullest[end]] == tops[fullest[first]]) ++end;
      for (const std::size_t at : {first, end})
        corners.push_back(svg_number(std::min(left_ + static_cast<double>(at), last)) + ' ' +
                          svg_number(y_.place(tops[fullest[first]])));
      first = end;
      if (left_ + static_cast<double>(end) >= last) break;
    }
    if (backwards) std::reverse(corners.begin(), corners.end());
    std::string out;
    for (const std::string& corner : corners) out += (out.empty() ? "" : " ") + corner;
    return out;
  }

  void draw_outline(std::size_t which) {
    const stacked_areas::outline& one = chart_.outlines[which];
    std::string path;
    std::string last;
    for (std::size_t at = 0; at < one.values.size(); ++at)
      for (const double time : {one.times[at], one.times[at + 1]}) {
        const std::string corner =
            svg_number(x_.place(time)) + ' ' + svg_number(y_.place(one.values[at]));
        if (corner != last) path += (path.empty() ? "M" : " ") + corner;
        last = corner;
      }
    if (path.empty()) return;
    on_.add("<path class=\"gp-halo\" fill=\"none\" stroke=\"#ffffff\" stroke-width=\"4\" d=\"" +
            path + "\"/>\n");
    on_.add("<path " + stroked(chart_ink) + " stroke-width=\"1.6\" d=\"" + path + "\"/>\n");
  }

  // Named on the side where the peak is not.
  void draw_limit(double top) {
    if (!(chart_.limit > 0)) return;
    const bool is_left = x_.place(chart_.times[peak_]) > (left_ + right_) / 2;
    const double x = is_left ? left_ + 6 : right_ - 6;
    const char* const anchor = is_left ? "start" : "end";
    const double y = shows_limit_ ? y_.place(chart_.limit) : top + 8;
    if (shows_limit_)
      on_.line(left_, y, right_, y, chart_ink, "stroke-width=\"1.5\" stroke-dasharray=\"7 4\"");
    const std::string name =
        shows_limit_ ? chart_.limit_name : chart_.limit_name + ", above this picture";
    on_.text(x,
             y < top + 14 ? y + 17 : y - 6,
             shortened_to(name, right_ - left_ - 12, chart_sheet::text_size * 1.12),
             {.bold = true, .anchor = anchor, .halo = true});
  }

  void draw_peak(double top) {
    const double x = x_.place((chart_.times[peak_] + chart_.times[peak_ + 1]) / 2);
    const double y = y_.place(totals_[peak_]);
    on_.add(
        "<circle class=\"gp-f-paper gp-s-ink\" fill=\"#ffffff\" stroke=\"#1a1a1a\" r=\"3.5\" "
        "cx=\"" +
        svg_number(x) + "\" cy=\"" + svg_number(y) + "\"/>\n");
    const double wide = text_width(chart_.peak_name, chart_sheet::text_size, true);
    const bool is_right = x > (left_ + right_) / 2;
    double begin = is_right ? x - 8 - wide : x + 8;
    begin = std::clamp(begin, left_ + 4, std::max(left_ + 4, right_ - wide));
    // where the limit's line has its name
    double at = std::max(y - 8, top + 12);
    if (shows_limit_ && std::abs(at - 4 - y_.place(chart_.limit)) < 12) at = y + 20;
    on_.text(begin, at, chart_.peak_name, {.bold = true, .halo = true});
  }

  // A bracket for each, with its name below it, or a line lower where the next would touch it.
  void draw_spans() {
    constexpr int most_lines = 3;
    constexpr std::size_t most_named = 12;  // of more, those whose name their bracket holds
    double ends[most_lines] = {0, 0, 0};
    int lines = 0;
    const double y = on_.y() + 6;
    for (const stacked_areas::span& one : chart_.spans) {
      const double begin = x_.place(one.from);
      const double end = x_.place(one.to);
      if (!(end - begin > 0.3)) continue;
      on_.add("<path " + stroked(chart_faint) + " stroke-width=\"1.2\" d=\"M" + svg_number(begin) +
              ' ' + svg_number(y - 4) + "v4H" + svg_number(end) + "v-4\"><title>" +
              markup_escaped(one.name) + "</title></path>\n");
      const double half = text_width(one.name, chart_sheet::text_size) / 2;
      const double middle =
          std::clamp((begin + end) / 2, left_ + half, std::max(left_ + half, right_ - half));
      const bool holds_name = end - begin > 2 * half + 6;
      if (chart_.spans.size() > most_named && !holds_name) continue;
      for (int line = 0; line < most_lines; ++line) {
        if (middle - half < ends[line]) continue;
        on_.text(middle, y + 15 + 15 * line, one.name, {.anchor = "middle"});
        ends[line] = middle + half + 6;
        lines = std::max(lines, line + 1);
        break;
      }
    }
    if (!chart_.spans.empty()) on_.go_down(10 + 15 * lines);
  }

  void draw_legend() {
    std::vector<chart_key> keys;
    for (const stacked_areas::layer& one : chart_.layers) {
      if (!std::any_of(
              one.values.begin(), one.values.end(), [](double value) { return value > 0; }))
        continue;
      keys.push_back({.series = one.series, .name = one.name, .figure = one.at_peak});
    }
    on_.text(chart_sheet::margin, on_.y() + 20, "At the peak:", {.in = &chart_faint});
    on_.go_down(18);
    on_.legend(keys);
    for (const stacked_areas::outline& one : chart_.outlines) {
      const double y = on_.y() + 16;
      on_.line(chart_sheet::margin,
               y - 4,
               chart_sheet::margin + 14,
               y - 4,
               chart_ink,
               "stroke-width=\"2\"");
      on_.text(chart_sheet::margin + 19, y, one.name);
      on_.go_down(18);
    }
  }

  const stacked_areas& chart_;
  chart_sheet on_;
  std::vector<double> totals_{};
  std::size_t peak_ = 0;
  bool shows_limit_ = false;
  chart_axis x_{};
  chart_axis y_{};
  double left_ = 0;
  double right_ = 0;
  double bottom_ = 0;
};

}  // namespace detail

/// An SVG document: every layer on those below it, in each column of the picture as when most is
/// in use there. Preconditions: two times or more, each layer's values finite, not negative and one
/// fewer than times.
[[nodiscard]] inline std::string to_svg(const stacked_areas& chart, double width = 880) {
  return detail::area_drawing(chart, width).document();
}

}  // namespace gpuplan::io
