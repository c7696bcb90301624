#pragma once

// Who does what when: a line for each, boxes along the time.

#include <gpuplan/io/chart/frame.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace gpuplan::io {

/// What workers do, each along its line.
struct gantt_chart {
  /// A fill on which `ink` has a contrast of 4.5 or more, by day and by night.
  struct kind {
    std::string name;
    const char* fill;
    const char* ink;
  };
  struct task {
    std::size_t row = 0;
    std::size_t kind = 0;
    double begin = 0;
    double end = 0;
    std::string label{};  // shown where the box holds it
    std::string says{};   // shown by a pointer on the box
    bool marked = false;  // with a line along its foot
  };

  std::string title;
  std::string subtitle{};
  std::string counts;         // along the axis
  std::string description{};  // the picture in words, for who does not see it
  std::string idle{};         // what a line is between its boxes: empty, and nothing is drawn there
  std::string mark{};         // what boxes are that are marked
  std::vector<std::string> rows{};
  std::vector<kind> kinds{};
  std::vector<task> tasks{};
};

/// An SVG document. Preconditions: rows and kinds of tasks exist; times are finite, not negative
/// and no task ends before it begins.
[[nodiscard]] inline std::string to_svg(const gantt_chart& chart, double width = 880) {
  chart_sheet on(width, chart.title, chart.subtitle);
  on.describe(chart.description);
  double names = 0;
  for (const std::string& row : chart.rows)
    names = std::max(names, text_width(row, chart_sheet::text_size));
  names = std::min(names, width / 3);
  double most = 0;
  for (const gantt_chart::task& one : chart.tasks) most = std::max(most, one.end);
  const double left = chart_sheet::margin + names + 8;
  chart_axis x = linear_axis(most, width < 500 ? 3 : 8, true);
  x.begin = left;
  x.end = width - chart_sheet::margin - 4;
  const double high = chart.rows.size() <= 16 ? 24 : 14;
  const double largest = high < 20 ? 8 : chart_sheet::small_size;  // letters in boxes
  const double top = on.y() + 12;
  const double bottom = top + high * static_cast<double>(chart.rows.size());
  for (std::size_t row = 0; row < chart.rows.size(); ++row) {
    const double y = top + high * static_cast<double>(row);
    if (!chart.idle.empty())
      on.area(left, y + 2, x.end - left, high - 4, filled(chart_grid) + " opacity=\"0.6\"", "");
    on.line(left, y + high, x.end, y + high, chart_grid, "");
    on.text(chart_sheet::margin,
            y + high / 2 + 4,
            shortened_to(chart.rows[row], names, chart_sheet::text_size),
            {.size = high < 20 ? chart_sheet::small_size : chart_sheet::text_size});
  }
  const auto mark = [&](double begin, double y, double wide, double tall) {
    if (wide > 2)
      on.area(begin + 0.3, y + tall - 3, wide - 0.6, 2.7, "fill=\"#1a1a1a\" opacity=\"0.7\"", "");
  };
  for (const gantt_chart::task& one : chart.tasks) {
    const gantt_chart::kind& kind = chart.kinds[one.kind];
    const double begin = x.place(one.begin);
    const double wide = x.place(one.end) - begin;
    const double y = top + high * static_cast<double>(one.row) + 2;
    if (!(wide > 0)) continue;
    on.area(begin,
            y,
            wide,
            high - 4,
            std::string("fill=\"") + kind.fill + '"' +
                (wide > 3 ? " stroke=\"#1a1a1a\" stroke-width=\"0.6\"" : ""),
            one.says);
    if (one.marked) mark(begin, y, wide, high - 4);
    double size = largest;
    while (size > 8 && text_width(one.label, size) + 2 > wide) --size;
    if (one.label.empty() || text_width(one.label, size) + 2 > wide) continue;
    on.add(svg_text(begin + wide / 2,
                    y + high / 2 - 2 + 0.36 * size - (one.marked ? 1 : 0),
                    "text-anchor=\"middle\" pointer-events=\"none\" font-size=\"" +
                        svg_number(size) + "\" fill=\"" + kind.ink + '"',
                    one.label));
  }
  draw_bottom(on, x, bottom, chart.counts);
  double at = chart_sheet::margin;
  double y = on.y() + 18;
  const auto key = [&](const std::string& name, const std::string& fill, bool marked) {
    const double wide = 20 + text_width(name, chart_sheet::text_size);
    if (at > chart_sheet::margin && at + wide > width - chart_sheet::margin) {
      at = chart_sheet::margin;
      y += 19;
    }
    on.area(at, y - 10, 13, 12, fill, "");
    if (marked) mark(at, y - 10, 13, 12);
    on.text(at + 19, y, name);
    at += wide + 16;
  };
  const auto any = [&](const auto& is) {
    return std::any_of(chart.tasks.begin(), chart.tasks.end(), is);
  };
  for (std::size_t which = 0; which < chart.kinds.size(); ++which)
    if (any([which](const gantt_chart::task& one) {
          return one.kind == which && one.end > one.begin;
        }))
      key(chart.kinds[which].name,
          std::string("fill=\"") + chart.kinds[which].fill +
              "\" stroke=\"#1a1a1a\" stroke-width=\"0.6\"",
          false);
  if (!chart.idle.empty()) key(chart.idle, filled(chart_grid) + " opacity=\"0.6\"", false);
  if (any([](const gantt_chart::task& one) { return one.marked; }))
    key(chart.mark, "fill=\"#ffffff\" stroke=\"#1a1a1a\" stroke-width=\"0.6\"", true);
  on.go_down(y + 6 - on.y());
  return on.document();
}

}  // namespace gpuplan::io
