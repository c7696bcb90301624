#include "model/render.hpp"

#include <gpuplan/io/format.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace describe_model {
namespace {

namespace io = gpuplan::io;
using io::cell;

// A power of 1000 and what it is called.
struct prefix {
  double size;
  const char* name;
};
constexpr std::array<prefix, 6> flop_prefixes{{{1e15, "PFLOP"},
                                               {1e12, "TFLOP"},
                                               {1e9, "GFLOP"},
                                               {1e6, "MFLOP"},
                                               {1e3, "KFLOP"},
                                               {1, "FLOP"}}};

// The largest that leaves a number of at least 1.
prefix prefix_for(double largest) {
  for (const prefix& one : flop_prefixes)
    if (largest >= one.size) return one;
  return flop_prefixes.back();
}

std::int64_t whole(const cell& c) { return static_cast<std::int64_t>(c.value().low()); }

// The largest FLOP of a column, or of all such columns where they have one unit.
double largest_flop(const section& table, std::size_t column) {
  double largest = 0;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (i != column && !(table.one_unit && table.columns[i].what == measure::flop)) continue;
    for (const auto& row : table.rows)
      if (row[i].what() == cell::kind::number) largest = std::max(largest, row[i].value().low());
  }
  return largest;
}

const char* unit_of(measure what) {
  switch (what) {
    case measure::flop:
      return "FLOP";
    case measure::percent:
      return "%";
    case measure::parameters:
    case measure::integer:
    case measure::text:
      break;
  }
  return "";
}

// The table with numbers as people read them, exact integers among them.
io::table for_people(const section& from) {
  io::table to;
  to.rows.resize(from.rows.size());
  for (std::size_t i = 0; i < from.columns.size(); ++i) {
    const column& c = from.columns[i];
    if (!c.in_text) continue;
    const prefix flop = prefix_for(largest_flop(from, i));
    to.columns.push_back({.name = c.name});
    io::column& head = to.columns.back();
    if (c.what != measure::text) head.align = io::alignment::right;
    if (c.what == measure::flop) head.unit = flop.name;
    if (c.what == measure::percent) head.unit = "%";
    if (c.what == measure::flop || c.what == measure::percent) head.align = io::alignment::point;
    for (std::size_t r = 0; r < from.rows.size(); ++r) {
      const cell& value = from.rows[r][i];
      if (value.what() != cell::kind::number)
        to.rows[r].push_back(value);
      else if (c.what == measure::flop)
        to.rows[r].emplace_back(value.value().low() / flop.size, 2);
      else if (c.what == measure::percent)
        to.rows[r].emplace_back(value.value().low(), 1);
      else
        to.rows[r].emplace_back(grouped(whole(value)));
    }
    if (c.what != measure::parameters) continue;
    to.columns.push_back({.name = "", .align = io::alignment::right});
    for (std::size_t r = 0; r < from.rows.size(); ++r) {
      const cell& value = from.rows[r][i];
      to.rows[r].push_back(value.what() == cell::kind::number ? cell(rounded(whole(value)))
                                                              : cell());
    }
  }
  return to;
}

// ---- text

constexpr int widest_bar = 40;
constexpr int narrowest_bar = 8;

// A bar of `cells` cells of a terminal, in eighths.
std::string bar(double cells) {
  static constexpr const char* eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto all = static_cast<int>(std::lround(8 * cells));
  std::string out;
  for (int i = 0; i < all / 8; ++i) out += "█";
  return out + eighths[all % 8];
}

int width_of(const io::table& table) {
  int width = 0;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    int column = io::display_width(heading(table.columns[i]));
    int before = 0;
    int after = 0;
    for (const auto& row : table.rows) {
      const std::string text = to_text(row[i]);
      column = std::max(column, io::display_width(text));
      const std::size_t point = std::min(text.rfind('.'), text.size());
      before = std::max(before, static_cast<int>(point));
      after = std::max(after, static_cast<int>(text.size() - point));
    }
    if (table.columns[i].align == io::alignment::point) column = std::max(column, before + after);
    width += column + 2;
  }
  return width;
}

void add_bars(io::table& table, const section& from, int width) {
  const int room = std::min(widest_bar, width - 2 - width_of(table));
  if (room < narrowest_bar) return;
  const std::size_t shares = from.columns.size() - 1;
  const std::size_t rows = from.rows.size() - static_cast<std::size_t>(from.sums);
  double largest = 0;
  for (std::size_t r = 0; r < rows; ++r)
    largest = std::max(largest, from.rows[r][shares].value().low());
  table.columns.push_back({.name = ""});
  for (std::size_t r = 0; r < from.rows.size(); ++r) {
    const double part =
        largest == 0 || r >= rows ? 0 : from.rows[r][shares].value().low() / largest;
    table.rows[r].emplace_back(bar(part * room));
  }
}

std::string facts(const section& from, const guides::output& as) {
  int names = 0;
  for (const auto& row : from.rows) names = std::max(names, io::display_width(row[0].text()));
  std::string out = guides::bold(from.title, as.color) + '\n';
  for (int i = 0; i < io::display_width(from.title); ++i) out += "═";
  out += '\n';
  for (const auto& row : from.rows) {
    std::string before = "  " + row[0].text();
    before.resize(static_cast<std::size_t>(names) + 4, ' ');
    for (const std::string& line : io::wrap(row[1].text(), as.width - names - 4)) {
      out += before + line + '\n';
      before.assign(before.size(), ' ');
    }
  }
  return out;
}

std::string text_of(const section& from, const guides::output& as) {
  if (from.id == "model") return facts(from, as);
  io::table table = for_people(from);
  if (from.has_bars) add_bars(table, from, as.width);
  std::string out;
  for (const std::string& line : io::wrap(from.title, as.width))
    out += guides::bold(line, as.color) + '\n';
  return out + '\n' + to_text(table, {.width = as.width, .indent = 2, .color = as.color});
}

// ---- for programs

// One row for each of the table's, under names of one word.
io::table as_it_is(const section& from) {
  io::table out{.rows = from.rows};
  for (const column& c : from.columns) {
    out.columns.push_back({.name = c.name});
    std::replace(out.columns.back().name.begin(), out.columns.back().name.end(), ' ', '_');
  }
  return out;
}

// One row for each number or word of all tables.
io::table for_programs(const std::vector<section>& tables) {
  io::table out{.columns = {{.name = "table"},
                            {.name = "row"},
                            {.name = "column"},
                            {.name = "value", .align = io::alignment::right},
                            {.name = "unit"}}};
  for (const section& table : tables)
    for (const auto& row : table.rows)
      for (std::size_t i = 1; i < table.columns.size(); ++i)
        if (row[i].what() != cell::kind::nothing)
          out.rows.push_back({table.id,
                              to_text(row[0]),
                              table.columns[i].name,
                              row[i],
                              unit_of(table.columns[i].what)});
  return out;
}

}  // namespace

std::string grouped(std::int64_t value) {
  std::string out = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t i = out.size(); i > first + 3; i -= 3) out.insert(i - 3, ",");
  return out;
}

std::string rounded(std::int64_t value) {
  static constexpr std::array<prefix, 4> prefixes{
      {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " K"}}};
  const auto number = static_cast<double>(value);
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    // 999,500 is 1.00 M, not 1000 K.
    if (number < 0.9995 * prefixes[i].size) continue;
    const double scaled = number / prefixes[i].size;
    return io::decimal(scaled, scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0) + prefixes[i].name;
  }
  return std::to_string(value) + "  ";
}

std::string render(const std::vector<section>& tables, const guides::output& as) {
  if (!traits_of(as.format).for_people)
    return guides::render(tables.size() == 1 ? as_it_is(tables[0]) : for_programs(tables), as);
  std::string out;
  for (const section& table : tables) {
    if (!out.empty()) out += '\n';
    if (as.format == io::format::text) {
      out += text_of(table, as);
      continue;
    }
    io::table readable = for_people(table);
    readable.title = table.title;
    out += write(readable, as.format);
  }
  return out;
}

}  // namespace describe_model
