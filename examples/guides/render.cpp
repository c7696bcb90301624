#include "guides/render.hpp"

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/format.hpp>
#include <gpuplan/io/sweep/report.hpp>
#include <gpuplan/io/text.hpp>

#include <algorithm>
#include <cstddef>

namespace guides {
namespace {

namespace io = gpuplan::io;

constexpr verdict compared[] = {verdict::agrees,
                                verdict::rounds,
                                verdict::differs,
                                verdict::breaks_its_own_formula,
                                verdict::not_computable};

io::cell signed_verdict(verdict v) {
  switch (v) {
    case verdict::agrees:
      return io::cell(std::string("✓ ") + text(v)).in(io::tone::good);
    case verdict::rounds:
      return io::cell(std::string("≈ ") + text(v)).in(io::tone::fair);
    case verdict::differs:
      return io::cell(std::string("✗ ") + text(v)).in(io::tone::bad);
    case verdict::breaks_its_own_formula:
      return io::cell(std::string("! ") + text(v)).in(io::tone::alarm);
    case verdict::not_computable:
      return io::cell(std::string("? ") + text(v)).in(io::tone::faint);
    case verdict::not_compared:
      break;
  }
  return {};
}

std::string with_unit(const std::string& name, const std::string& unit) {
  return io::heading({.name = name, .unit = unit});
}

// Cells under one head: those of one quantity, one to a row of the guide's table, or the reverse.
struct block {
  std::string head;
  bool of_one_quantity = true;
  std::vector<std::string> labels{};
  std::vector<const cell*> cells{};

  template <class Has>
  [[nodiscard]] bool any(Has has) const {
    return std::any_of(cells.begin(), cells.end(), [&has](const cell* c) { return has(*c); });
  }
  // Whether one note is said of every cell.
  [[nodiscard]] bool one_note() const {
    const std::string& first = cells.front()->note;
    return cells.size() > 1 && !first.empty() &&
           !any([&first](const cell& c) { return c.note != first; });
  }
};

std::vector<block> blocks_of(const table& t, bool by_quantity) {
  std::vector<block> blocks;
  for (const cell& c : t.cells) {
    const std::string quantity = with_unit(c.quantity, c.unit);
    const std::string& head = by_quantity ? quantity : c.row;
    auto found =
        std::find_if(blocks.begin(), blocks.end(), [&](const block& b) { return b.head == head; });
    if (found == blocks.end())
      found = blocks.insert(blocks.end(), {.head = head, .of_one_quantity = by_quantity});
    found->labels.push_back(by_quantity ? c.row : quantity);
    found->cells.push_back(&c);
  }
  return blocks;
}

// By quantity, which sets like beside like, unless that tears the table into shreds.
std::vector<block> blocks_of(const table& t) {
  constexpr std::size_t cells_worth_a_block = 3;
  auto by_quantity = blocks_of(t, true);
  if (t.cells.size() >= cells_worth_a_block * by_quantity.size()) return by_quantity;
  auto by_row = blocks_of(t, false);
  return by_row.size() < by_quantity.size() ? by_row : by_quantity;
}

io::table as_table(const block& b) {
  const bool documented =
      b.any([](const cell& c) { return c.documented.what != shown::kind::nothing; });
  const bool verdicts = b.any([](const cell& c) { return c.outcome != verdict::not_compared; });
  const bool notes = !b.one_note() && b.any([](const cell& c) { return !c.note.empty(); });
  const bool numbers = b.any([](const cell& c) {
    using kind = shown::kind;
    return c.computed.what == kind::number || c.computed.what == kind::span ||
           c.documented.what == kind::number || c.documented.what == kind::span;
  });
  // Points below one another say something only where the unit is the same.
  const auto values = !numbers            ? io::alignment::left
                      : b.of_one_quantity ? io::alignment::point
                                          : io::alignment::right;
  io::table out;
  out.columns.push_back({.name = b.head});
  if (documented) out.columns.push_back({.name = "documented", .align = values});
  out.columns.push_back({.name = "computed", .align = values});
  if (verdicts) out.columns.push_back({.name = "verdict"});
  if (notes) out.columns.push_back({.name = "note"});
  for (std::size_t i = 0; i < b.cells.size(); ++i) {
    const cell& c = *b.cells[i];
    auto& row = out.rows.emplace_back();
    row.emplace_back(b.labels[i]);
    if (documented) row.push_back(as_cell(c.documented));
    row.push_back(as_cell(c.computed));
    if (verdicts) row.push_back(signed_verdict(c.outcome));
    if (notes) row.push_back(io::cell(c.note).in(io::tone::faint));
  }
  return out;
}

// The width that a table takes before its notes.
int width_without_notes(const io::table& t) {
  int width = 0;
  for (std::size_t i = 0; i < t.columns.size() && t.columns[i].name != "note"; ++i) {
    int column = std::max(t.columns[i].at_least, io::display_width(heading(t.columns[i])));
    for (const auto& row : t.rows) column = std::max(column, io::display_width(to_text(row[i])));
    width += 2 + column;
  }
  return width;
}

// Gives labels and values one width, so that the blocks of a table stand below one another. A long
// text, such as a command line, widens its own block alone, and a block that would get too wide for
// a line stays as it is.
void align(std::vector<io::table>& blocks, int line) {
  constexpr int widest = 36;
  const auto part_of = [](const io::table& t, std::size_t i) {
    return i == 0 ? std::string("label") : t.columns[i].name;
  };
  for (const std::string part : {"label", "documented", "computed"}) {
    int common = 0;
    const auto for_each = [&](auto visit) {
      for (io::table& t : blocks)
        for (std::size_t i = 0; i < t.columns.size(); ++i)
          if (part_of(t, i) == part) visit(t, i);
    };
    for_each([&](io::table& t, std::size_t i) {
      int width = io::display_width(heading(t.columns[i]));
      for (const auto& row : t.rows) width = std::max(width, io::display_width(to_text(row[i])));
      if (width <= widest) common = std::max(common, width);
    });
    for_each([&](io::table& t, std::size_t i) {
      t.columns[i].at_least = common;
      if (width_without_notes(t) > line) t.columns[i].at_least = 0;
    });
  }
}

std::string repeated(const char* sign, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += sign;
  return out;
}

std::string paragraph(const std::string& first, const std::string& words, int width) {
  const int start = io::display_width(first);
  std::string out;
  std::string before = first;
  for (const std::string& line : io::wrap(words, width - start)) {
    out += before + line + '\n';
    before.assign(static_cast<std::size_t>(start), ' ');
  }
  return out;
}

std::string text_of(const table& t, const output& as) {
  std::string out;
  std::string before = t.id + "  ";
  for (const std::string& line : io::wrap(t.title, as.width - io::display_width(before))) {
    out += bold(before + line, as.color) + '\n';
    before.assign(before.size(), ' ');
  }
  if (!t.inputs.empty()) out += paragraph("  from ", t.inputs, as.width);
  const std::vector<block> blocks = blocks_of(t);
  std::vector<io::table> tables;
  for (const block& b : blocks) tables.push_back(as_table(b));
  align(tables, as.width);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    out += '\n' + to_text(tables[i], {.width = as.width, .indent = 2, .color = as.color});
    if (blocks[i].one_note()) out += paragraph("  all: ", blocks[i].cells.front()->note, as.width);
  }
  return out;
}

std::string text_of(const report& r, const output& as) {
  const std::string title = r.guide + " · " + r.title;
  std::string out = bold(title, as.color) + '\n' + repeated("═", io::display_width(title)) + '\n';
  for (const table& t : r.tables) out += '\n' + text_of(t, as);
  if (r.findings.empty()) return out;
  out += '\n' + bold("Findings of " + r.guide, as.color) + '\n';
  for (const std::string& finding : r.findings) out += paragraph("  • ", finding, as.width);
  return out;
}

// How many cells have which verdict, per guide.
io::table summary(const std::vector<report>& reports) {
  io::table out{.columns = {{.name = "guide"}}};
  for (const report& r : reports)
    out.columns.push_back({.name = r.guide, .align = io::alignment::right});
  if (reports.size() > 1) out.columns.push_back({.name = "all", .align = io::alignment::right});
  for (const verdict v : compared) {
    auto& row = out.rows.emplace_back();
    row.push_back(signed_verdict(v));
    std::ptrdiff_t all = 0;
    for (const report& r : reports) {
      std::ptrdiff_t count = 0;
      for (const table& t : r.tables)
        count += std::count_if(
            t.cells.begin(), t.cells.end(), [v](const cell& c) { return c.outcome == v; });
      row.emplace_back(count);
      all += count;
    }
    if (reports.size() > 1) row.emplace_back(all);
  }
  return out;
}

}  // namespace

std::string bold(const std::string& line, bool color) {
  const std::string shown = io::printable(line);
  return color ? "\033[1m" + shown + "\033[0m" : shown;
}

io::table flat(const std::vector<report>& reports) {
  io::table out{.columns = {{.name = "guide"},
                            {.name = "table"},
                            {.name = "row"},
                            {.name = "quantity"},
                            {.name = "documented", .align = io::alignment::right},
                            {.name = "computed", .align = io::alignment::right},
                            {.name = "unit"},
                            {.name = "verdict"},
                            {.name = "note"}}};
  for (const report& r : reports)
    for (const table& t : r.tables)
      for (const cell& c : t.cells)
        out.rows.push_back({r.guide,
                            t.id,
                            c.row,
                            c.quantity,
                            as_cell(c.documented),
                            as_cell(c.computed),
                            c.unit,
                            c.outcome == verdict::not_compared ? io::cell() : text(c.outcome),
                            c.note});
  return out;
}

std::string render(const io::table& t, const output& as) {
  return io::write(t, as.format, {.width = as.width, .color = as.color});
}

std::string render(const std::vector<report>& reports, const output& as) {
  if (as.format != io::format::text) return render(flat(reports), as);
  std::string out;
  for (const report& r : reports) out += text_of(r, as) + "\n\n";
  out += bold("Verdicts", as.color) + "\n\n";
  return out + to_text(summary(reports), {.width = as.width, .indent = 2, .color = as.color});
}

std::string render(const gpuplan::io::sweep_report& report, const output& as) {
  return io::write(report, as.format, {.width = as.width, .color = as.color});
}

}  // namespace guides
