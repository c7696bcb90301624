#pragma once

// Pairs of numbers: points that are scattered, or joined by lines.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/chart/frame.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace gpuplan::io {

/// Series of points in one plane.
struct point_chart {
  struct point {
    double x = 0;
    double y = 0;
    std::string label{};  // beside it, where there is room
    std::string says{};   // shown by a pointer on it
  };
  enum class joined { no, by_lines, by_dashes };
  struct series {
    std::string name;
    std::vector<point> points{};
    joined are = joined::no;
    bool has_marks = true;
    std::size_t colour = 0;
  };

  std::string title;
  std::string subtitle{};
  std::string counts_along;
  std::string counts_upwards;
  std::vector<series> all{};
  bool is_logarithmic = false;  // both axes; all numbers are positive
  bool names_each = false;      // along: the points' own numbers, not round ones
};

namespace detail {

class point_drawing {
 public:
  point_drawing(const point_chart& chart, double width)
      : chart_(chart), on_(width, chart.title, chart.subtitle) {
    double least[2] = {0, 0};
    double most[2] = {0, 0};
    bool any = false;
    for (const point_chart::series& one : chart.all)
      for (const point_chart::point& at : one.points) {
        least[0] = any ? std::min(least[0], at.x) : at.x;
        least[1] = any ? std::min(least[1], at.y) : at.y;
        most[0] = std::max(most[0], at.x);
        most[1] = std::max(most[1], at.y);
        any = true;
      }
    x_ = chart.is_logarithmic ? logarithmic_axis(least[0], most[0])
                              : linear_axis(most[0] * 1.05, width < 500 ? 4 : 8);
    y_ =
        chart.is_logarithmic ? logarithmic_axis(least[1], most[1]) : linear_axis(most[1] * 1.05, 6);
    if (chart.names_each) name_each();
    left_ = chart_sheet::margin + y_.names_width() + 8;
    x_.begin = left_;
    x_.end = width - chart_sheet::margin - 6;
  }

  [[nodiscard]] std::string document() {
    on_.text(chart_sheet::margin, on_.y() + 19, chart_.counts_upwards, {.in = &chart_faint});
    const double top = on_.y() + 36;
    const double bottom = top + (on_.width() < 500 ? 230 : 320);
    y_.begin = bottom;
    y_.end = top;
    draw_heights(on_, y_, left_, x_.end);
    draw_bottom(on_, x_, bottom, chart_.counts_along, top);
    for (const point_chart::series& one : chart_.all) draw_lines(one);
    for (const point_chart::series& one : chart_.all)
      if (one.has_marks) draw_marks(one);
    for (const point_chart::series& one : chart_.all)
      for (const point_chart::point& at : one.points) draw_label(at, top, bottom);
    std::vector<chart_key> keys;
    for (const point_chart::series& one : chart_.all) {
      if (one.points.empty()) continue;
      using joined = point_chart::joined;
      keys.push_back({.series = one.colour,
                      .name = one.name,
                      .shown = one.are == joined::no         ? chart_key::shape::area
                               : one.are == joined::by_lines ? chart_key::shape::line
                                                             : chart_key::shape::dashed_line});
    }
    on_.legend(keys);
    return on_.document();
  }

 private:
  void name_each() {
    std::set<double> numbers;
    for (const point_chart::series& one : chart_.all)
      for (const point_chart::point& at : one.points) numbers.insert(at.x);
    x_.ticks.clear();
    for (const double number : numbers) x_.ticks.push_back({number, decimal(number, -1)});
  }

  struct box {
    double left, top, right, bottom;
  };

  void draw_lines(const point_chart::series& one) {
    if (one.are == point_chart::joined::no || one.points.size() < 2) return;
    std::string path;
    for (const point_chart::point& at : one.points)
      path += (path.empty() ? "M" : " ") + svg_number(x_.place(at.x)) + ' ' +
              svg_number(y_.place(at.y));
    on_.add("<path " + stroked(series_colour(one.colour)) + " stroke-width=\"2\"" +
            (one.are == point_chart::joined::by_dashes ? " stroke-dasharray=\"4 3\"" : "") +
            " d=\"" + path + "\"/>\n");
  }

  // Of a series a shape, so that colour is not all that tells them apart.
  void draw_marks(const point_chart::series& one) {
    static constexpr const char* shapes[] = {"M-4.5 0A4.5 4.5 0 1 0 4.5 0A4.5 4.5 0 1 0 -4.5 0z",
                                             "M-4 -4h8v8h-8z",
                                             "M0 -5.5L5 4.5H-5z",
                                             "M0 -5.5L5.5 0L0 5.5L-5.5 0z"};
    for (const point_chart::point& at : one.points) {
      const double x = x_.place(at.x);
      const double y = y_.place(at.y);
      taken_.push_back({x - 5, y - 5, x + 5, y + 5});
      on_.add("<path transform=\"translate(" + svg_number(x) + ' ' + svg_number(y) + ")\" " +
              filled(series_colour(one.colour)) + " stroke=\"#1a1a1a\" stroke-width=\"0.7\" d=\"" +
              shapes[one.colour % 4] + "\"><title>" +
              markup_escaped(at.says.empty() ? at.label : at.says) + "</title></path>\n");
    }
  }

  // Beside its point where nothing else is, or nowhere: a pointer still shows it.
  void draw_label(const point_chart::point& at, double top, double bottom) {
    if (at.label.empty()) return;
    const double wide = text_width(at.label, chart_sheet::text_size);
    const double x = x_.place(at.x);
    const double y = y_.place(at.y);
    const box places[] = {{x + 8, y - 15, x + 8 + wide, y - 1},
                          {x - 8 - wide, y - 15, x - 8, y - 1},
                          {x + 8, y + 2, x + 8 + wide, y + 16},
                          {x - 8 - wide, y + 2, x - 8, y + 16},
                          {x - wide / 2, y - 24, x + wide / 2, y - 9},
                          {x - wide / 2, y + 9, x + wide / 2, y + 24}};
    for (const box& place : places) {
      if (place.left < left_ || place.right > on_.width() - 4 || place.top < top - 8 ||
          place.bottom > bottom)
        continue;
      const bool is_free = std::none_of(taken_.begin(), taken_.end(), [&](const box& other) {
        return place.left < other.right && other.left < place.right && place.top < other.bottom &&
               other.top < place.bottom;
      });
      if (!is_free) continue;
      on_.text(place.left, place.bottom - 3, at.label, {.halo = true});
      taken_.push_back(place);
      return;
    }
  }

  const point_chart& chart_;
  chart_sheet on_;
  chart_axis x_{};
  chart_axis y_{};
  double left_ = 0;
  std::vector<box> taken_{};
};

}  // namespace detail

/// An SVG document. Preconditions: a point at least; numbers are finite, and positive where axes
/// are logarithmic.
[[nodiscard]] inline std::string to_svg(const point_chart& chart, double width = 880) {
  return detail::point_drawing(chart, width).document();
}

}  // namespace gpuplan::io
