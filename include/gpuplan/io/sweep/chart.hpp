#pragma once

// A sweep as a picture.

#include <gpuplan/io/svg.hpp>
#include <gpuplan/io/sweep/settings.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/sweep/pick.hpp>
#include <gpuplan/sweep/rows.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// What a picture of a sweep shows. The rows are those of `to_svg`'s contract, and outlive its use.
struct sweep_chart {
  std::string title{};
  std::string subtitle{};
  sweep_rows rows{};
  std::string device{};             // its name, and
  std::optional<bytes> capacity{};  // what it has, where that is known
};

namespace detail {

// Okabe and Ito's colours, which differ to every eye; on grey paper marks and dashes do.
struct series_style {
  const char* colour;
  const char* mark;  // a path around the origin
  const char* dashes;
};
[[nodiscard]] inline series_style style_of(std::size_t series) {
  static constexpr const char* colours[] = {
      "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9"};
  static constexpr const char* marks[] = {"M-3.5 -3.5h7v7h-7z",
                                          "M0 -4.5L4.5 4H-4.5z",
                                          "M0 -5L5 0L0 5L-5 0z",
                                          "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0z"};
  static constexpr const char* dashes[] = {"", "7 3", "2 3"};
  return {colours[series % 7], marks[series % 4], dashes[series / 7 % 3]};
}

struct phase_style {
  const char* name;
  const char* colour;
  const char* ink;  // of a number on it
  duration sweep_row::*time;
};
// From light to dark and back, so that neighbours differ on grey paper.
[[nodiscard]] inline const std::array<phase_style, 5>& phase_styles() {
  static constexpr std::array<phase_style, 5> styles{{
      {"data", "#e69f00", "#000000", &sweep_row::data},
      {"forward", "#b3d9f0", "#000000", &sweep_row::forward},
      {"backward", "#0072b2", "#ffffff", &sweep_row::backward},
      {"optimizer", "#d9d9d9", "#000000", &sweep_row::optimizer},
      {"communication", "#3d1f00", "#ffffff", &sweep_row::communication},
  }};
  return styles;
}

class sweep_drawing {
 public:
  explicit sweep_drawing(const sweep_chart& chart)
      : chart_(chart), shown_(chart.rows), series_(series_of(shown_.rows)) {
    std::set<std::int64_t> all;
    for (const sweep_row& row : shown_.rows) {
      all.insert(row.micro_batch);
      if (!gpuplan::detail::ran(row)) continue;
      fastest_s_ = std::max(fastest_s_, throughput(row).value());
      most_GB_ = std::max(most_GB_, in(row.memory, 1_GB));
    }
    batches_.assign(all.begin(), all.end());
    if (const auto best = pick_highest_throughput(shown_.rows)) best_ = shown_.rows[best->row];
    if (chart.capacity) {
      const double has = in(*chart.capacity, 1_GB);
      shows_capacity_ = has <= 4 * most_GB_;
      if (shows_capacity_) most_GB_ = std::max(most_GB_, has);
    }
  }

  [[nodiscard]] std::string text() const {
    std::string out = svg_document(width(), bottom + 76, chart_.title);
    out += svg_text(left, 28, "font-size=\"17\" font-weight=\"bold\"", chart_.title);
    out += svg_text(left, 48, "fill=\"#444444\"", chart_.subtitle);
    if (!best_) return out + svg_text(left, 84, "", "No setting of this sweep ran.") + "</svg>\n";
    return out + throughputs() + memories() + shares() + batches() + legend() + "</svg>\n";
  }

 private:
  static constexpr double left = 74;
  static constexpr double right = 740;  // the legend is beyond
  static constexpr double bottom = 766;

  struct panel {
    double top;
    double bottom;
    double step;  // of the grid
    double most;

    [[nodiscard]] double y_of(double value) const { return bottom - (bottom - top) * value / most; }
  };

  [[nodiscard]] static panel panel_to(double most, double from_y, double to_y) {
    const double step = grid_step(most / 5);
    return {from_y, to_y, step, step * std::ceil(most * 1.06 / step)};
  }

  // Of the document: as wide as the longest name needs that the legend has, in letters of a wide
  // face.
  [[nodiscard]] double width() const {
    std::size_t longest = 0;
    for (const sweep_series& series : series_)
      longest = std::max(longest, in_words(series.setting).size());
    return std::max(960.0, right + 48 + 6.2 * static_cast<double>(longest) + 8);
  }

  // One doubling is as wide as the next, and half of one is free on either side.
  [[nodiscard]] double x_of(std::int64_t batch) const {
    const double first = std::log2(static_cast<double>(batches_.front())) - 0.6;
    const double last = std::log2(static_cast<double>(batches_.back())) + 0.6;
    return left + (right - left) * (std::log2(static_cast<double>(batch)) - first) / (last - first);
  }

  [[nodiscard]] static std::string grid(const panel& area, const char* name, double scale = 1) {
    std::string out;
    const int digits = grid_digits(area.step * scale);
    for (int at = 0; at * area.step <= area.most * (1 + 1e-9); ++at) {
      const double y = area.y_of(at * area.step);
      out += svg_line(left, y, right, y, at == 0 ? "stroke=\"#444444\"" : "stroke=\"#dddddd\"");
      out +=
          svg_text(left - 8, y + 4, "text-anchor=\"end\"", decimal(at * area.step * scale, digits));
    }
    return out + svg_text(left, area.top - 10, "font-weight=\"bold\"", name);
  }

  // A line through the rows of each series that ran, with their marks.
  template <class Value>
  [[nodiscard]] std::string lines(const panel& in_panel, Value value) const {
    std::string out;
    for (std::size_t at = 0; at < series_.size(); ++at) {
      const series_style style = style_of(at);
      std::string points;
      std::string marks;
      for (const sweep_row& row : series_[at].rows) {
        if (!gpuplan::detail::ran(row)) continue;
        const std::string x = svg_number(x_of(row.micro_batch));
        const std::string y = svg_number(in_panel.y_of(value(row)));
        points += (points.empty() ? "" : " ") + x + ',' + y;
        marks += "<path transform=\"translate(" + x + ' ' + y + ")\" fill=\"" + style.colour +
                 "\" stroke=\"#ffffff\" d=\"" + style.mark + "\"/>\n";
      }
      if (points.empty()) continue;
      out += "<polyline fill=\"none\" stroke-width=\"1.8\" " + stroke_of(style) + " points=\"" +
             points + "\"/>\n" + marks;
    }
    return out;
  }
  [[nodiscard]] static std::string stroke_of(const series_style& style) {
    std::string out = std::string("stroke=\"") + style.colour + '"';
    if (*style.dashes != '\0') out += std::string(" stroke-dasharray=\"") + style.dashes + '"';
    return out;
  }

  // A ring around a point and its name at `name_y`, on the side where there is room.
  [[nodiscard]] std::string named_point(double x,
                                        double y,
                                        const std::string& name,
                                        double name_y) const {
    const bool is_right = x > (left + right) / 2;
    return "<circle cx=\"" + svg_number(x) + "\" cy=\"" + svg_number(y) +
           "\" r=\"7\" fill=\"none\" stroke=\"#000000\" stroke-width=\"1.2\"/>\n" +
           svg_text_over_lines(
               is_right ? x - 11 : x + 11,
               name_y,
               std::string("font-weight=\"bold\"") + (is_right ? " text-anchor=\"end\"" : ""),
               name);
  }

  [[nodiscard]] std::string throughputs() const {
    const panel here = panel_to(fastest_s_, 92, 290);
    const double best = throughput(*best_).value();
    return grid(here, "Throughput (samples/s)") +
           lines(here, [](const sweep_row& row) { return throughput(row).value(); }) +
           named_point(x_of(best_->micro_batch),
                       here.y_of(best),
                       rounded(best) + " samples/s",
                       here.y_of(best) - 9);
  }
  // To four digits, or all before the point.
  [[nodiscard]] static std::string rounded(double value) {
    const double digits = value > 0 ? std::floor(std::log10(value)) : 0;
    return short_decimal(value, static_cast<int>(std::clamp(3 - digits, 0.0, 6.0)));
  }

  // In the unit that leaves numbers to read.
  [[nodiscard]] std::string memories() const {
    if (!shown_.has_memory)
      return svg_text(left, 336, "font-weight=\"bold\"", "Memory") +
             svg_text(left, 362, "", "Memory was not measured.");
    const bool is_small = most_GB_ < 1;
    const panel here = panel_to(most_GB_, 346, 544);
    const double scale = is_small ? 1000 : 1;
    const std::string unit = is_small ? " MB" : " GB";
    std::string out = grid(here, is_small ? "Memory (MB)" : "Memory (GB)", scale);
    if (chart_.capacity) {
      const double has = in(*chart_.capacity, 1_GB);
      const std::string name = chart_.device + (chart_.device.empty() ? "" : ": ") +
                               (has < 1 ? rounded(has * 1000) + " MB" : rounded(has) + " GB");
      if (shows_capacity_)
        out += svg_line(left,
                        here.y_of(has),
                        right,
                        here.y_of(has),
                        "stroke=\"#000000\" stroke-width=\"1.5\" stroke-dasharray=\"7 4\"") +
               svg_text_over_lines(left + 8, here.y_of(has) + 15, "font-weight=\"bold\"", name);
      else
        out += svg_text_over_lines(
            left + 8, here.top + 14, "font-weight=\"bold\"", name + ", above this picture");
    }
    out += lines(here, [](const sweep_row& row) { return in(row.memory, 1_GB); });
    out += ran_out(here);
    const double memory = in(best_->memory, 1_GB);
    const double y = here.y_of(memory);
    // Below the point where what the device has is close above it.
    const bool is_close =
        chart_.capacity && shows_capacity_ && y - here.y_of(in(*chart_.capacity, 1_GB)) < 30;
    return out + named_point(x_of(best_->micro_batch),
                             y,
                             rounded(memory * scale) + unit,
                             is_close ? y + 20 : y - 9);
  }
  // Crosses where memory ended, at what the device has, where that is in the picture; what they are
  // is said once, at the first of them and above, where no row that ran can be.
  [[nodiscard]] std::string ran_out(const panel& in_panel) const {
    const double y = chart_.capacity && shows_capacity_ ? in_panel.y_of(in(*chart_.capacity, 1_GB))
                                                        : in_panel.top + 8;
    std::string out;
    std::optional<std::int64_t> first;
    for (std::size_t at = 0; at < series_.size(); ++at)
      for (const sweep_row& row : series_[at].rows) {
        if (gpuplan::detail::ran(row)) continue;
        first = std::min(first.value_or(row.micro_batch), row.micro_batch);
        out += "<path stroke-width=\"2.5\" fill=\"none\" stroke=\"" +
               std::string(style_of(at).colour) + "\" d=\"M" +
               svg_number(x_of(row.micro_batch) - 5) + ' ' + svg_number(y - 5) +
               "l10 10m-10 0l10 -10\"/>\n";
      }
    if (first) {
      const double x = x_of(*first);
      const bool is_left = x < left + 100;
      out += svg_text_over_lines(is_left ? x - 5 : std::min(x + 5, right),
                                 y - 9,
                                 is_left ? "" : "text-anchor=\"end\"",
                                 "out of memory");
    }
    return out;
  }

  // Of the series that the fastest row is of, as bars.
  [[nodiscard]] std::string shares() const {
    const panel here{600, bottom, 0.25, 1};
    sweep_setting setting = setting_of(*best_);
    setting.micro_batch = 1;
    const std::string name = "Shares of the step (%), " + in_words(setting);
    std::string out = grid(here, name.c_str(), 100);
    const auto found =
        std::find_if(series_.begin(), series_.end(), [&](const sweep_series& series) {
          return series.setting == setting;
        });
    double apart = right - left;
    for (std::size_t at = 1; at < batches_.size(); ++at)
      apart = std::min(apart, x_of(batches_[at]) - x_of(batches_[at - 1]));
    const double wide = std::min(0.72 * apart, 60.0);
    std::optional<std::int64_t> drawn;
    for (const sweep_row& row : found->rows) {
      if (!gpuplan::detail::ran(row) || drawn == row.micro_batch) continue;
      drawn = row.micro_batch;
      const double x = x_of(row.micro_batch) - wide / 2;
      double below = 0;
      for (const phase_style& phase : phase_styles()) {
        const double share = (row.*phase.time).value() / step_time(row).value();
        if (share <= 0) continue;
        const double y = here.y_of(below + share);
        const double height = here.y_of(below) - y;
        out += svg_rectangle(
            x,
            y,
            wide,
            height,
            std::string("fill=\"") + phase.colour + "\" stroke=\"#ffffff\" stroke-width=\"0.8\"");
        if (height >= 13 && wide >= 20)
          out += svg_text(
              x + wide / 2,
              y + height / 2 + 4,
              std::string("text-anchor=\"middle\" font-size=\"11\" fill=\"") + phase.ink + '"',
              decimal(100 * share, 0));
        below += share;
      }
    }
    return out;
  }

  // Below all panels, as far as there is room.
  [[nodiscard]] std::string batches() const {
    std::string out;
    double end = left - 100;
    for (const std::int64_t batch : batches_) {
      const double x = x_of(batch);
      const std::string name = std::to_string(batch);
      const double half = 3.5 * static_cast<double>(name.size());
      out += svg_line(x, bottom, x, bottom + 5, "stroke=\"#444444\"");
      if (x - half < end + 6) continue;
      out += svg_text(x, bottom + 20, "text-anchor=\"middle\"", name);
      end = x + half;
    }
    return out + svg_text((left + right) / 2,
                          bottom + 44,
                          "text-anchor=\"middle\"",
                          "micro-batch (samples), one doubling as wide as the next");
  }

  [[nodiscard]] std::string legend() const {
    constexpr std::size_t most_named = 28;
    std::string out;
    double y = 98;
    const double x = right + 16;
    for (std::size_t at = 0; at < std::min(series_.size(), most_named); ++at, y += 17) {
      const series_style style = style_of(at);
      out += svg_line(x, y - 4, x + 26, y - 4, "stroke-width=\"1.8\" " + stroke_of(style));
      out += "<path transform=\"translate(" + svg_number(x + 13) + ' ' + svg_number(y - 4) +
             ")\" fill=\"" + style.colour + "\" stroke=\"#ffffff\" d=\"" + style.mark + "\"/>\n";
      out += svg_text(x + 32, y, "font-size=\"10\"", in_words(series_[at].setting));
    }
    if (series_.size() > most_named)
      out += svg_text(x + 32,
                      y,
                      "font-size=\"10\"",
                      "and " + std::to_string(series_.size() - most_named) + " more");
    y = bottom - 4;
    for (const phase_style& phase : phase_styles()) {
      const bool any =
          std::any_of(chart_.rows.begin(), chart_.rows.end(), [&](const sweep_row& row) {
            return gpuplan::detail::ran(row) && (row.*phase.time).value() > 0;
          });
      if (!any) continue;
      out += svg_rectangle(
          x, y - 10, 12, 12, std::string("fill=\"") + phase.colour + "\" stroke=\"#444444\"");
      out += svg_text(x + 18, y, "", phase.name);
      y -= 20;
    }
    return out;
  }

  const sweep_chart& chart_;
  shown_rows shown_;
  std::vector<sweep_series> series_;
  std::vector<std::int64_t> batches_{};
  std::optional<sweep_row> best_{};
  double fastest_s_ = 0;
  double most_GB_ = 0;
  bool shows_capacity_ = false;
};

}  // namespace detail

/// An SVG 1.1 document without scripts, on white: throughput, memory and the phases' shares of the
/// step against the micro-batch, a series for each setting, with what the device has where that is
/// known. The shares are those of the series with the highest throughput. Where a row that ran has
/// a memory of 0, none was measured. Throws as `validate` of the rows says.
[[nodiscard]] inline std::string to_svg(const sweep_chart& chart) {
  return detail::sweep_drawing(chart).text();
}

}  // namespace gpuplan::io
