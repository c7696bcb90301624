#pragma once

// What pictures in SVG 1.1 are written with: numbers, texts and lines as elements.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>

#include <cmath>
#include <string>

namespace gpuplan::io {

/// A coordinate to the hundredth.
[[nodiscard]] inline std::string svg_number(double value) {
  return decimal(std::round(value * 100) / 100, -1);
}

/// A text at a point, with attributes.
[[nodiscard]] inline std::string svg_text(double x,
                                          double y,
                                          const std::string& attributes,
                                          const std::string& text) {
  return "<text x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) + "\" " + attributes + ">" +
         markup_escaped(text) + "</text>\n";
}

/// A text that is read above lines: twice, with a white margin below, since few programs know
/// paint-order.
[[nodiscard]] inline std::string svg_text_over_lines(double x,
                                                     double y,
                                                     const std::string& attributes,
                                                     const std::string& text) {
  return svg_text(x,
                  y,
                  attributes + " stroke=\"#ffffff\" stroke-width=\"4\" stroke-linejoin=\"round\"",
                  text) +
         svg_text(x, y, attributes, text);
}

/// A straight line, with attributes.
[[nodiscard]] inline std::string svg_line(
    double x1, double y1, double x2, double y2, const std::string& attributes) {
  return "<line x1=\"" + svg_number(x1) + "\" y1=\"" + svg_number(y1) + "\" x2=\"" +
         svg_number(x2) + "\" y2=\"" + svg_number(y2) + "\" " + attributes + "/>\n";
}

/// A rectangle, with attributes.
[[nodiscard]] inline std::string svg_rectangle(
    double x, double y, double width, double height, const std::string& attributes) {
  return "<rect x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) + "\" width=\"" +
         svg_number(width) + "\" height=\"" + svg_number(height) + "\" " + attributes + "/>\n";
}

/// The beginning of a document of this size on white paper, with its title; `</svg>` ends it.
[[nodiscard]] inline std::string svg_document(double width,
                                              double height,
                                              const std::string& title) {
  const std::string wide = svg_number(width);
  const std::string high = svg_number(height);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + wide + "\" height=\"" + high +
         "\" viewBox=\"0 0 " + wide + ' ' + high +
         "\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n<title>" +
         markup_escaped(title) + "</title>\n" + "<rect width=\"" + wide + "\" height=\"" + high +
         "\" fill=\"#ffffff\"/>\n";
}

/// The distance of the lines of a grid: a power of ten, twice or five times that, of at least this.
[[nodiscard]] inline double grid_step(double at_least) {
  const double power = std::pow(10, std::floor(std::log10(at_least)));
  for (const double times : {1.0, 2.0, 5.0})
    if (times * power >= at_least * (1 - 1e-9)) return times * power;
  return 10 * power;
}

/// How many digits after the point the numbers beside a grid need.
[[nodiscard]] inline int grid_digits(double step) {
  return step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
}

}  // namespace gpuplan::io
