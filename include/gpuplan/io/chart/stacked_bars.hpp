#pragma once

// Bars of parts that add up, one below the other.

#include <gpuplan/io/chart/frame.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace gpuplan::io {

/// Bars of one unit. A part that no bar has is in no legend.
struct stacked_bars {
  struct bar {
    std::string name;
    std::vector<double> values{};  // one for each part
    std::string total;             // at its end
  };

  std::string title;
  std::string subtitle{};
  std::string counts;                // what the axis counts: "seconds of a step"
  std::vector<std::string> parts{};  // from the left
  std::vector<bar> bars{};
  double limit = 0;  // a line across; 0: none
  std::string limit_name{};
};

/// An SVG document. Precondition: values are finite and not negative, as many as there are parts.
[[nodiscard]] inline std::string to_svg(const stacked_bars& chart, double width = 880) {
  chart_sheet on(width, chart.title, chart.subtitle);
  const double left = chart_sheet::margin;
  double most = chart.limit;
  double totals = 0;
  for (const stacked_bars::bar& one : chart.bars) {
    double sum = 0;
    for (const double value : one.values) sum += value;
    most = std::max(most, sum);
    totals = std::max(totals, text_width(one.total, chart_sheet::text_size));
  }
  chart_axis x = linear_axis(most, width < 500 ? 4 : 8, true);
  x.begin = left;
  x.end = width - chart_sheet::margin - totals - 10;
  const double name_room = on.inner();
  double name_lines = 0;
  for (const stacked_bars::bar& one : chart.bars)
    name_lines +=
        static_cast<double>(wrapped_to(one.name, name_room, chart_sheet::text_size).size());
  const bool has_limit = chart.limit > 0;
  const double top = on.y() + 8 + (has_limit ? 18 : 0);
  const double bottom = top + 15 * name_lines + 33 * static_cast<double>(chart.bars.size());
  for (const chart_axis::tick& one : x.ticks)
    if (x.place(one.value) <= x.end + 0.5)
      on.line(x.place(one.value), top, x.place(one.value), bottom, chart_grid, "");
  if (has_limit) {
    const double at = x.place(chart.limit);
    on.line(at, top - 4, at, bottom, chart_ink, "stroke-width=\"1.5\" stroke-dasharray=\"7 4\"");
    const double half = text_width(chart.limit_name, chart_sheet::text_size, true) / 2;
    on.text(std::clamp(at, left + half, std::max(left + half, width - left - half)),
            top - 9,
            chart.limit_name,
            {.bold = true, .anchor = "middle", .halo = true});
  }
  double y = top;
  for (const stacked_bars::bar& one : chart.bars) {
    for (const std::string& line : wrapped_to(one.name, name_room, chart_sheet::text_size))
      on.text(left, y += 15, line, {.halo = true});
    y += 4;
    double sum = 0;
    for (std::size_t at = 0; at < one.values.size(); ++at) {
      const double begin = x.place(sum);
      sum += one.values[at];
      const double wide = x.place(sum) - begin;
      if (!(wide > 0)) continue;
      on.area(begin,
              y,
              wide,
              21,
              filled(series_colour(at)),
              chart.parts[at] + ": " + short_number(one.values[at]) + " " + chart.counts);
      if (at >= chart_colour_count) on.hatch(begin, y, wide, 21);
      if (wide > 1.5)
        on.add(svg_line(begin, y, begin, y + 21, "class=\"gp-edge\" stroke=\"#ffffff\""));
    }
    on.add("<rect " + stroked(chart_ink) + " stroke-width=\"0.7\" pointer-events=\"none\" x=\"" +
           svg_number(left) + "\" y=\"" + svg_number(y) + "\" width=\"" +
           svg_number(x.place(sum) - left) + "\" height=\"21\"/>\n");
    on.text(x.place(sum) + 7, y + 15, one.total, {.halo = true});
    y += 29;
  }
  draw_bottom(on, x, bottom, chart.counts);
  std::vector<chart_key> keys;
  for (std::size_t at = 0; at < chart.parts.size(); ++at)
    if (std::any_of(chart.bars.begin(), chart.bars.end(), [at](const stacked_bars::bar& one) {
          return one.values[at] > 0;
        }))
      keys.push_back({.series = at, .name = chart.parts[at]});
  on.legend(keys);
  return on.document();
}

}  // namespace gpuplan::io
