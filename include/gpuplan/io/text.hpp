#pragma once

// Tables as aligned text for a terminal.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::io {

struct text_layout {
  int width = 0;   // characters of a line; 0 for no limit
  int indent = 0;  // spaces before each line
  bool color = false;
};

namespace detail {

// The blocks that terminals show two cells wide (Unicode 15, East Asian Width W and F, taken as
// whole blocks), and those that they show on top of the character before.
[[nodiscard]] inline int cells_of(std::uint32_t code) {
  struct block {
    std::uint32_t first, last;
    int cells;
  };
  static constexpr block blocks[] = {
      {0x0300, 0x036f, 0},
      {0x1100, 0x115f, 2},
      {0x200b, 0x200f, 0},
      {0x20d0, 0x20ff, 0},
      {0x2e80, 0x303e, 2},
      {0x3041, 0xa4cf, 2},
      {0xa960, 0xa97c, 2},
      {0xac00, 0xd7a3, 2},
      {0xf900, 0xfaff, 2},
      {0xfe00, 0xfe0f, 0},
      {0xfe30, 0xfe6f, 2},
      {0xff00, 0xff60, 2},
      {0xffe0, 0xffe6, 2},
      {0x1f300, 0x1f64f, 2},
      {0x1f680, 0x1f6ff, 2},
      {0x1f900, 0x1faff, 2},
      {0x20000, 0x3fffd, 2},
  };
  for (const block& b : blocks)
    if (b.first <= code && code <= b.last) return b.cells;
  return 1;
}

}  // namespace detail

/// How many cells of a terminal a UTF-8 text takes.
[[nodiscard]] inline int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const auto [code, size] = detail::first_character(text);
    width += detail::cells_of(code);
    text.remove_prefix(size);
  }
  return width;
}

/// The text in lines of at most `width` cells, broken at spaces; a longer word keeps a line to
/// itself. Always at least one line.
[[nodiscard]] inline std::vector<std::string> wrap(std::string_view text, int width) {
  if (display_width(text) <= width) return {std::string(text)};
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > width)
      lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

namespace detail {

inline constexpr int column_gap = 2;
inline constexpr int narrowest_last_column = 20;

[[nodiscard]] inline std::string spaces(int count) {
  return std::string(static_cast<std::size_t>(count < 0 ? 0 : count), ' ');
}

// Select Graphic Rendition of ECMA-48, in the colours that every terminal has.
[[nodiscard]] inline std::string toned(const std::string& text, tone t, bool color) {
  static constexpr const char* codes[] = {"", "32", "33", "31", "1;35", "2"};
  if (!color || t == tone::plain || text.empty()) return text;
  return std::string("\033[") + codes[static_cast<int>(t)] + 'm' + text + "\033[0m";
}

[[nodiscard]] inline std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

// The cells before the decimal point of a number or range, and from it on.
struct point_widths {
  int before = 0;
  int after = 0;
};
[[nodiscard]] inline point_widths around_point(const std::string& text) {
  const std::size_t point = text.rfind('.');
  const std::string_view all = text;
  if (point == std::string::npos) return {display_width(all), 0};
  return {display_width(all.substr(0, point)), display_width(all.substr(point))};
}

struct measured_column {
  int width = 0;
  point_widths numbers;
  std::vector<std::string> texts;  // one per row
};

[[nodiscard]] inline measured_column measure(const table& t, std::size_t index) {
  const column& c = t.columns[index];
  measured_column m;
  m.width = display_width(heading(c));
  if (m.width < c.at_least) m.width = c.at_least;
  for (const auto& row : t.rows) {
    m.texts.push_back(printable(to_text(row[index])));
    if (display_width(m.texts.back()) > m.width) m.width = display_width(m.texts.back());
    if (row[index].what() == cell::kind::text) continue;
    const point_widths widths = around_point(m.texts.back());
    if (widths.before > m.numbers.before) m.numbers.before = widths.before;
    if (widths.after > m.numbers.after) m.numbers.after = widths.after;
  }
  if (c.align == alignment::point && m.numbers.before + m.numbers.after > m.width)
    m.width = m.numbers.before + m.numbers.after;
  return m;
}

// The spaces on the left of a text, so that it stands in its column as `align` says.
[[nodiscard]] inline int left_padding(const measured_column& m,
                                      const std::string& text,
                                      cell::kind what,
                                      alignment align) {
  const int free = m.width - display_width(text);
  if (align == alignment::left) return 0;
  if (align == alignment::right || what == cell::kind::text) return free;
  return free - (m.numbers.after - around_point(text).after);
}

// Each row as lines of `name  value`, for tables that no line can hold; where the names leave the
// values less than a third of a line, these stand below them.
[[nodiscard]] inline std::string text_records(const table& t, const text_layout& layout) {
  int name_width = 0;
  for (const column& c : t.columns)
    if (display_width(heading(c)) > name_width) name_width = display_width(heading(c));
  int start = layout.indent + name_width + column_gap;
  const bool below = layout.width - start < layout.width / 3;
  if (below) start = layout.indent + 2 * column_gap;
  std::string out;
  for (const auto& row : t.rows) {
    if (&row != &t.rows.front()) out += '\n';
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string text = printable(to_text(row[i]));
      if (text.empty()) continue;
      const std::string name = heading(t.columns[i]);
      std::string before =
          spaces(layout.indent) + toned(name, tone::faint, layout.color) +
          (below ? '\n' + spaces(start) : spaces(name_width - display_width(name) + column_gap));
      for (const std::string& line : wrap(text, layout.width - start)) {
        out += before + toned(line, row[i].shade(), layout.color) + '\n';
        before = spaces(start);
      }
    }
  }
  return out;
}

}  // namespace detail

namespace detail {

inline constexpr int widest_text_below = 30;

// Of a table that is too wide, how many columns a line holds where the last one goes below it, and
// as many numbers and short texts before that as must; none where a longer text would have to.
[[nodiscard]] inline std::size_t columns_on_line(const table& t,
                                                 const std::vector<measured_column>& columns,
                                                 const text_layout& layout) {
  std::size_t count = columns.size() - 1;
  int width = layout.indent - column_gap;
  for (std::size_t i = 0; i < count; ++i) width += columns[i].width + column_gap;
  for (; count > 0 && width > layout.width; --count) {
    const bool is_text = t.columns[count - 1].align == alignment::left;
    if (is_text && columns[count - 1].width > widest_text_below) return 0;
    width -= columns[count - 1].width + column_gap;
  }
  return count;
}

// "kWh: 39.1, kg CO2: 15.7": what a row has from a column on.
[[nodiscard]] inline std::string named_values(const table& t,
                                              const std::vector<measured_column>& columns,
                                              std::size_t row,
                                              std::size_t first) {
  std::string all;
  for (std::size_t i = first; i < columns.size(); ++i)
    if (const std::string& text = columns[i].texts[row]; !text.empty())
      all += (all.empty() ? "" : ", ") + heading(t.columns[i]) + ": " + text;
  return all;
}

}  // namespace detail

/// The table as aligned text, after its title, in lines of `layout.width`: the last column is
/// wrapped, or goes below its row where the others leave it too little. Where the others alone are
/// too wide, columns of numbers and short texts before it go below too, with their names. Where
/// less than half of the columns would stay, every row becomes lines of `name  value`. Texts are
/// `printable`. Throws as `validate` says.
[[nodiscard]] inline std::string to_text(const table& t, const text_layout& layout = {}) {
  static_cast<void>(validate(t).value_or_throw());
  std::string out;
  if (!t.title.empty()) {
    const std::string title = printable(t.title);
    const int room = layout.width > 0 ? layout.width - layout.indent : display_width(title);
    for (const std::string& line : wrap(title, room))
      out += detail::spaces(layout.indent) + line + "\n";
  }
  if (t.columns.empty()) return out;

  std::vector<detail::measured_column> columns;
  int last_start = layout.indent;
  for (std::size_t i = 0; i < t.columns.size(); ++i) {
    columns.push_back(detail::measure(t, i));
    if (i + 1 < t.columns.size()) last_start += columns[i].width + detail::column_gap;
  }
  detail::measured_column& last = columns.back();
  std::size_t on_the_line = columns.size();
  if (layout.width > 0 && last_start + last.width > layout.width) {
    last.width = layout.width - last_start;
    if (last.width < detail::narrowest_last_column) {
      on_the_line = detail::columns_on_line(t, columns, layout);
      if (2 * on_the_line < columns.size()) return out + detail::text_records(t, layout);
      last_start = layout.indent + 2 * detail::column_gap;
      last.width = layout.width - last_start;
    }
  }
  const bool last_below = on_the_line < columns.size();
  const bool named_below =
      columns.size() - on_the_line > 1 || t.columns.back().align != alignment::left;

  std::string head = detail::spaces(layout.indent);
  std::string rule = head;
  for (std::size_t i = 0; i < on_the_line; ++i) {
    const std::string name = heading(t.columns[i]);
    const std::string padding = detail::spaces(columns[i].width - display_width(name));
    const std::string gap = detail::spaces(i + 1 < on_the_line ? detail::column_gap : 0);
    head += (t.columns[i].align == alignment::left ? name + padding : padding + name) + gap;
    for (int k = 0; k < columns[i].width; ++k) rule += "─";
    rule += gap;
  }
  out += detail::without_trailing_spaces(head) + '\n' +
         detail::toned(rule, tone::faint, layout.color) + '\n';

  for (std::size_t r = 0; r < t.rows.size(); ++r) {
    std::string line = detail::spaces(layout.indent);
    for (std::size_t i = 0; i < on_the_line && i + 1 < columns.size(); ++i) {
      const cell& c = t.rows[r][i];
      const std::string& text = columns[i].texts[r];
      const int left = detail::left_padding(columns[i], text, c.what(), t.columns[i].align);
      const int right = columns[i].width - display_width(text) - left;
      line += detail::spaces(left) + detail::toned(text, c.shade(), layout.color) +
              detail::spaces(right + detail::column_gap);
    }
    const cell& c = t.rows[r].back();
    std::string ending = last.texts[r];
    if (last_below) {
      out += detail::without_trailing_spaces(line) + '\n';
      if (named_below) ending = detail::named_values(t, columns, r, on_the_line);
      if (ending.empty()) continue;
      line = detail::spaces(last_start);
    }
    const auto parts = wrap(ending, last.width);
    const int left = parts.size() > 1 || last_below
                         ? 0
                         : detail::left_padding(last, parts[0], c.what(), t.columns.back().align);
    line += detail::spaces(left);
    for (const std::string& part : parts) {
      out += detail::without_trailing_spaces(line + detail::toned(part, c.shade(), layout.color)) +
             '\n';
      line = detail::spaces(last_start);
    }
  }
  return out;
}

}  // namespace gpuplan::io
