#pragma once

// Reports as text for a terminal, or as one table of all compared cells.

#include <gpuplan/io/format.hpp>
#include <gpuplan/io/table.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "guides/report.hpp"

namespace gpuplan::io {
struct sweep_report;
}

namespace guides {

struct output {
  gpuplan::io::format format = gpuplan::io::format::text;
  int width = 100;     // of a line of text
  bool color = false;  // of text
};

/// A line in bold where `color` is, `printable`.
[[nodiscard]] std::string bold(const std::string& line, bool color);

/// One row per cell of every table: guide, table, row, quantity, documented, computed, unit,
/// verdict, note.
[[nodiscard]] gpuplan::io::table flat(const std::vector<report>& reports);

[[nodiscard]] std::string render(const std::vector<report>& reports, const output& as);
[[nodiscard]] std::string render(const gpuplan::io::table& t, const output& as);
[[nodiscard]] std::string render(const gpuplan::io::sweep_report& report, const output& as);

}  // namespace guides
