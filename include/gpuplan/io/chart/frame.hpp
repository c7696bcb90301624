#pragma once

// What every chart is made of: colours of day and night, texts whose width is known, axes, legends.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/svg.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// A colour on white paper, and where the reader's screen is dark.
struct chart_colour {
  const char* name;  // of its class
  const char* light;
  const char* dark;
};

/// Texts and what is behind them: texts have a contrast of 4.5 or more on the paper (WCAG 2.2).
inline constexpr chart_colour chart_paper{"paper", "#ffffff", "#15171c"};
inline constexpr chart_colour chart_ink{"ink", "#1a1a1a", "#ededed"};
inline constexpr chart_colour chart_faint{"faint", "#555555", "#b5b8bd"};
inline constexpr chart_colour chart_grid{"grid", "#dddddd", "#383c44"};

/// Okabe and Ito's colours (2008, jfly.uni-koeln.de/color), which differ to every eye, and lighter
/// ones of the same hues for dark screens. Areas have edges of ink, since three are pale on white.
inline constexpr chart_colour chart_colours[] = {{"c0", "#0072b2", "#3d9bdc"},
                                                 {"c1", "#56b4e9", "#9bd3f5"},
                                                 {"c2", "#009e73", "#1fbf91"},
                                                 {"c3", "#8c8c8c", "#8f959e"},
                                                 {"c4", "#e69f00", "#f0b32e"},
                                                 {"c5", "#d55e00", "#f07f2e"},
                                                 {"c6", "#cc79a7", "#e39ac3"},
                                                 {"c7", "#5b3a1e", "#c8a27e"}};
inline constexpr std::size_t chart_colour_count = std::size(chart_colours);

[[nodiscard]] inline const chart_colour& series_colour(std::size_t at) {
  return chart_colours[at % chart_colour_count];
}

/// The attributes of an area or a text in this colour, and of a line.
[[nodiscard]] inline std::string filled(const chart_colour& in) {
  return std::string("class=\"gp-f-") + in.name + "\" fill=\"" + in.light + '"';
}
[[nodiscard]] inline std::string stroked(const chart_colour& in) {
  return std::string("class=\"gp-s-") + in.name + "\" fill=\"none\" stroke=\"" + in.light + '"';
}

/// The rules by which the classes are dark on dark screens; on paper they never are. Programs that
/// know no style sheets show the attributes, which are the light ones.
[[nodiscard]] inline std::string chart_styles() {
  std::string rules;
  const auto add = [&](const chart_colour& one) {
    rules += std::string(".gp-f-") + one.name + "{fill:" + one.dark + "}.gp-s-" + one.name +
             "{stroke:" + one.dark + '}';
  };
  for (const chart_colour& one : {chart_paper, chart_ink, chart_faint, chart_grid}) add(one);
  for (const chart_colour& one : chart_colours) add(one);
  return "@media screen and (prefers-color-scheme:dark){" + rules +
         ".gp-halo{stroke:" + chart_paper.dark + "}.gp-edge{stroke:" + chart_paper.dark + "}}";
}

/// The width of a text in a face as wide as DejaVu Sans, which is wider than Helvetica and Arial.
[[nodiscard]] inline double text_width(std::string_view text, double size, bool bold = false) {
  double ems = 0;
  while (!text.empty()) {
    const detail::utf8_character first = detail::first_character(text);
    const std::uint32_t code = first.code;
    const auto is_one_of = [code](std::string_view all) {
      return code < 0x80 && all.find(static_cast<char>(code)) != std::string_view::npos;
    };
    if (is_one_of("ijl.,:;|'! "))
      ems += 0.34;
    else if (is_one_of("frtsIJ-/()[]\""))
      ems += 0.53;
    else if (is_one_of("mwMW%@+<>=~#_"))
      ems += 1;
    else
      ems += code < 0x80 ? (code >= 'A' && code <= 'Z' ? 0.79 : 0.64) : detail::cells_of(code);
    text.remove_prefix(first.size);
  }
  return ems * size * (bold ? 1.12 : 1);
}

/// The text in lines no wider than this, broken at spaces.
[[nodiscard]] inline std::vector<std::string> wrapped_to(const std::string& text,
                                                         double width,
                                                         double size,
                                                         bool bold = false) {
  std::vector<std::string> lines(1);
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const std::string longer = lines.back().empty() ? word : lines.back() + ' ' + word;
    if (!lines.back().empty() && text_width(longer, size, bold) > width)
      lines.push_back(word);
    else
      lines.back() = longer;
    begin = end + 1;
  }
  return lines;
}

/// As much of the text as this width holds, with an ellipsis where that is not all.
[[nodiscard]] inline std::string shortened_to(const std::string& text, double width, double size) {
  if (text_width(text, size) <= width) return text;
  std::string held;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t bytes = detail::first_character(rest).size;
    if (text_width(held + std::string(rest.substr(0, bytes)) + "…", size) > width) break;
    held += rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  return held.empty() ? held : held + "…";
}

/// "950", "12k", "3.5M": three figures or fewer, for an axis.
[[nodiscard]] inline std::string short_number(double value) {
  struct prefix {
    double times;
    const char* letter;
  };
  static constexpr prefix prefixes[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  const auto rounded = [](double number) {
    const int digits =
        number > 0 ? std::clamp(2 - static_cast<int>(std::floor(std::log10(number))), 0, 9) : 0;
    std::string text = decimal(number, digits);
    if (text.find('.') != std::string::npos) {
      text.erase(text.find_last_not_of('0') + 1);
      if (text.back() == '.') text.pop_back();
    }
    return text;
  };
  for (const prefix& one : prefixes)
    if (value >= 0.9995 * one.times) return rounded(value / one.times) + one.letter;
  return rounded(value);
}

/// What a colour of a chart stands for; of size zero it is left out.
struct chart_key {
  std::size_t series = 0;
  std::string name;
  std::string figure{};  // behind the name
  enum class shape { area, line, dashed_line } shown = shape::area;
};

/// An SVG document that grows downwards: its texts know their widths, so that nothing is cut. A
/// chart of `width` 880 is for a page, of 340 for a phone.
class chart_sheet {
 public:
  static constexpr double margin = 12;
  static constexpr double text_size = 12;
  static constexpr double small_size = 11;

  chart_sheet(double width, const std::string& title, const std::string& subtitle)
      : width_(width), title_(title) {
    for (const std::string& line : wrapped_to(title, inner(), 15, true))
      text(margin, y_ += 20, line, {.size = 15, .bold = true});
    if (subtitle.empty()) return;
    y_ += 2;
    for (const std::string& line : wrapped_to(subtitle, inner(), text_size))
      text(margin, y_ += 16, line, {.in = &chart_faint});
  }

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double inner() const { return width_ - 2 * margin; }
  /// Below what there is so far.
  [[nodiscard]] double y() const { return y_; }
  void go_down(double by) { y_ += by; }
  void add(const std::string& element) { body_ += element; }
  /// What the picture shows, in words.
  void describe(const std::string& words) { description_ = words; }

  struct look {
    double size = text_size;
    bool bold = false;
    const chart_colour* in = &chart_ink;
    const char* anchor = "start";  // "middle", "end"
    bool halo = false;             // above lines: with a margin of paper
  };
  void text(double x, double y, const std::string& words) { text(x, y, words, look()); }
  void text(double x, double y, const std::string& words, const look& how) {
    if (words.empty()) return;
    std::string same;
    if (how.size != text_size) same += " font-size=\"" + svg_number(how.size) + '"';
    if (how.bold) same += " font-weight=\"bold\"";
    if (std::string_view(how.anchor) != "start")
      same += std::string(" text-anchor=\"") + how.anchor + '"';
    if (how.halo)  // twice, since few programs know paint-order
      body_ += svg_text(x,
                        y,
                        std::string("class=\"gp-halo\" aria-hidden=\"true\" fill=\"none\" "
                                    "stroke-width=\"4\" stroke-linejoin=\"round\" stroke=\"") +
                            chart_paper.light + '"' + same,
                        words);
    body_ += svg_text(x, y, filled(*how.in) + same, words);
  }
  void line(double x1, double y1, double x2, double y2, const chart_colour& in, const char* more) {
    body_ += svg_line(x1, y1, x2, y2, stroked(in) + ' ' + more);
  }
  /// An area in a colour, with words that a pointer on it shows.
  void area(double x,
            double y,
            double wide,
            double high,
            const std::string& attributes,
            const std::string& says) {
    body_ += "<rect x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) + "\" width=\"" +
             svg_number(wide) + "\" height=\"" + svg_number(high) + "\" " + attributes;
    body_ += says.empty() ? std::string("/>\n")
                          : "><title>" + markup_escaped(says) + "</title></rect>\n";
  }
  /// The strokes that tell a colour's second use from its first.
  void hatch(double x, double y, double wide, double high) {
    std::string path;
    for (double at = 3; at < wide; at += 6)
      path += "M" + svg_number(x + at) + ' ' + svg_number(y) + 'v' + svg_number(high);
    if (!path.empty())
      body_ += "<path " + stroked(chart_paper) +
               " stroke-width=\"2\" pointer-events=\"none\" d=\"" + path + "\"/>\n";
  }

  /// The keys in rows, as many side by side as the width holds.
  void legend(const std::vector<chart_key>& keys) {
    double x = margin;
    double at = y_ + 20;
    bool any = false;
    for (const chart_key& key : keys) {
      const std::string words = key.name + (key.figure.empty() ? "" : " " + key.figure);
      const std::string fits = shortened_to(words, inner() - 20, text_size);
      const double wide = 20 + text_width(fits, text_size);
      if (x > margin && x + wide > margin + inner()) {
        x = margin;
        at += 19;
      }
      const chart_colour& colour = series_colour(key.series);
      if (key.shown == chart_key::shape::area) {
        area(x, at - 10, 13, 12, filled(colour), "");
        if (key.series >= chart_colour_count) hatch(x, at - 10, 13, 12);
      } else {
        line(x,
             at - 4,
             x + 14,
             at - 4,
             colour,
             key.shown == chart_key::shape::line ? "stroke-width=\"2.5\""
                                                 : "stroke-width=\"2\" stroke-dasharray=\"4 3\"");
      }
      text(x + 19, at, fits);
      x += wide + 16;
      any = true;
    }
    if (any) y_ = at + 6;
  }

  /// The document.
  [[nodiscard]] std::string document() const {
    const std::string wide = svg_number(width_);
    const std::string high = svg_number(std::ceil(y_ + margin));
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + wide + "\" height=\"" + high +
           "\" viewBox=\"0 0 " + wide + ' ' + high +
           "\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" role=\"img\">\n"
           "<title>" +
           markup_escaped(title_) + "</title>\n" +
           (description_.empty() ? "" : "<desc>" + markup_escaped(description_) + "</desc>\n") +
           "<style>" + chart_styles() + "</style>\n" + "<rect " + filled(chart_paper) +
           " width=\"" + wide + "\" height=\"" + high + "\"/>\n" + body_ + "</svg>\n";
  }

 private:
  double width_;
  double y_ = 6;
  std::string title_;
  std::string description_{};
  std::string body_{};
};

/// Where the numbers from one to another stand between two places, and the lines of a grid.
struct chart_axis {
  struct tick {
    double value;
    std::string name;
  };

  double from = 0;
  double to = 1;
  double begin = 0;  // the place of `from`
  double end = 1;    // and of `to`
  bool is_logarithmic = false;
  std::vector<tick> ticks{};

  [[nodiscard]] double place(double value) const {
    const double share = is_logarithmic ? std::log(value / from) / std::log(to / from)
                                        : (value - from) / (to - from);
    return begin + (end - begin) * share;
  }
  /// The widest name.
  [[nodiscard]] double names_width() const {
    double widest = 0;
    for (const tick& one : ticks)
      widest = std::max(widest, text_width(one.name, chart_sheet::text_size));
    return widest;
  }
};

/// From 0 to at least `most`, with about so many lines.
[[nodiscard]] inline chart_axis linear_axis(double most, int lines, bool ends_at_most = false) {
  const double reached = most > 0 && std::isfinite(most) ? most : 1;
  const double step = grid_step(reached / lines);
  const int digits = grid_digits(step);
  chart_axis axis{.to = ends_at_most ? reached : step * std::ceil(reached / step - 1e-9)};
  for (int at = 0; at * step <= axis.to * (1 + 1e-9); ++at) {
    const double value = at * step;
    axis.ticks.push_back({value, value >= 1e4 ? short_number(value) : decimal(value, digits)});
  }
  return axis;
}

/// From below `least` to above `most`, both positive, with lines at 1, 2 and 5 of each power of
/// ten, or at the powers alone where there would be many.
[[nodiscard]] inline chart_axis logarithmic_axis(double least, double most) {
  chart_axis axis{.from = least / 1.15, .to = most * 1.15, .is_logarithmic = true};
  const int first = static_cast<int>(std::floor(std::log10(axis.from)));
  const int last = static_cast<int>(std::ceil(std::log10(axis.to)));
  const bool is_long = last - first > 4;
  for (int power = first; power <= last; ++power)
    for (const double times : {1.0, 2.0, 5.0}) {
      const double value = times * std::pow(10.0, power);
      if (value < axis.from || value > axis.to || (is_long && times > 1)) continue;
      axis.ticks.push_back({value, short_number(value)});
    }
  return axis;
}

/// The lines of an axis of heights across the chart, with the names on the left.
inline void draw_heights(chart_sheet& on, const chart_axis& y, double left, double right) {
  for (const chart_axis::tick& one : y.ticks) {
    const double at = y.place(one.value);
    on.line(left, at, right, at, one.value == 0 ? chart_faint : chart_grid, "");
    on.text(left - 7, at + 4, one.name, {.in = &chart_faint, .anchor = "end"});
  }
}

/// The names of an axis along the bottom, as many as there is room for, and below them what they
/// count. What stands below it.
inline double draw_bottom(chart_sheet& on,
                          const chart_axis& x,
                          double bottom,
                          const std::string& counts,
                          double lines_from = -1) {
  double free_from = 0;
  for (const chart_axis::tick& one : x.ticks) {
    const double half = text_width(one.name, chart_sheet::text_size) / 2;
    const double at = x.place(one.value);
    if (at > x.end + 0.5) break;
    const double middle = std::clamp(at, half + 1, on.width() - half - 1);
    if (lines_from >= 0) on.line(at, lines_from, at, bottom, chart_grid, "");
    if (middle - half < free_from) continue;
    on.line(at, bottom, at, bottom + 4, chart_faint, "");
    on.text(middle, bottom + 17, one.name, {.in = &chart_faint, .anchor = "middle"});
    free_from = middle + half + 8;
  }
  double y = bottom + 18;
  for (const std::string& line : wrapped_to(counts, on.inner(), chart_sheet::text_size))
    on.text(on.width() / 2, y += 16, line, {.in = &chart_faint, .anchor = "middle"});
  on.go_down(y + 6 - on.y());
  return on.y();
}

}  // namespace gpuplan::io
