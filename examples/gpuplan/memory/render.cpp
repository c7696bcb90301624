#include "memory/render.hpp"

#include <gpuplan/io/format.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/memory/explanation.hpp>
#include <gpuplan/memory/step_peaks.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memory/kinds.hpp"
#include "setups/numbers.hpp"

namespace memory_timeline {
namespace {

namespace io = gpuplan::io;
using gpuplan::memory_part;
using gpuplan::memory_piece;
using gpuplan::memory_sum;
using io::cell;

cell in_gibibytes(std::int64_t bytes, int digits = 2) {
  return {static_cast<double>(bytes) / setups::gibibyte, digits};
}

std::string name_of(const memory_piece& piece) {
  std::string name = piece.in_layers ? "layer: " + piece.name : piece.name;
  if (!piece.kept_for.empty()) name += ", kept for " + piece.kept_for;
  return name;
}

std::string when(const gpuplan::memory_explanation& why) {
  std::string text = gpuplan::text(why.when);
  if (why.layer >= 0) text += ", layer " + std::to_string(why.layer);
  return text;
}

std::string verdict(const answer& of) {
  const std::int64_t peak = of.why.peak.total;
  if (of.capacity <= 0) return of.gpu + " has nothing for PyTorch" + of.beside;
  const std::string has =
      of.gpu + " has " + setups::readable_bytes(of.capacity) + " for PyTorch" + of.beside;
  const double share = 100.0 * static_cast<double>(peak) / static_cast<double>(of.capacity);
  return has + (peak <= of.capacity ? "; the peak takes " : ", too little: the peak takes ") +
         io::decimal(share, 1) + " % of that, before what the allocator cannot use";
}

// ---- tables for people

io::table steps(const answer& of) {
  io::table table{.title = "The most at each moment"};
  table.columns = {{.name = "moment"},
                   {.name = "total", .unit = "GiB", .align = io::alignment::point}};
  for (const kind& one : kinds())
    table.columns.push_back({.name = text(one.part), .unit = "GiB", .align = io::alignment::point});
  for (const line& one : of.lines) {
    std::vector<cell> row{one.name, in_gibibytes(one.most.total)};
    for (const kind& each : kinds())
      row.push_back(in_gibibytes(memory_timeline::of(one.most, each)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

io::table pieces(const answer& of) {
  io::table table{.title =
                      "The peak: " + setups::grouped(of.why.peak.total) + " B, " + when(of.why)};
  table.columns = {{.name = "size", .align = io::alignment::right},
                   {.name = "kind"},
                   {.name = "tensors"},
                   {.name = "formula"}};
  const std::size_t shown = std::min(of.most_pieces, of.why.pieces.size());
  for (std::size_t at = 0; at < shown; ++at) {
    const memory_piece& piece = of.why.pieces[at];
    table.rows.push_back({setups::readable_bytes(piece.total()),
                          text(piece.part),
                          name_of(piece),
                          formula(piece) + " = " + setups::grouped(piece.total()) + " B"});
  }
  if (shown == of.why.pieces.size()) return table;
  std::int64_t rest = 0;
  for (std::size_t at = shown; at < of.why.pieces.size(); ++at) rest += of.why.pieces[at].total();
  table.rows.push_back({setups::readable_bytes(rest),
                        "",
                        std::to_string(of.why.pieces.size() - shown) + " others",
                        setups::grouped(rest) + " B; --all shows them"});
  return table;
}

// The kinds that stages differ in; the rest together, for lines of a terminal.
constexpr memory_part parts_of_stages[] = {memory_part::weights,
                                           memory_part::optimizer_states,
                                           memory_part::gradients,
                                           memory_part::activations};

io::table stages(const answer& of) {
  io::table table{.title = "The peak of each stage, in GiB"};
  table.columns = {{.name = "stage", .align = io::alignment::right},
                   {.name = "layers"},
                   {.name = "total", .align = io::alignment::point}};
  for (const memory_part part : parts_of_stages)
    table.columns.push_back({.name = part == memory_part::optimizer_states ? "states" : text(part),
                             .align = io::alignment::point});
  table.columns.push_back({.name = "other", .align = io::alignment::point});
  table.columns.push_back({.name = "when"});
  for (const stage_line& one : of.stages) {
    std::string layers = "none";
    if (one.chunks > 1)
      layers = std::to_string(one.layers.size()) + " in " + std::to_string(one.chunks) + " chunks";
    else if (one.layers.size() > 0)
      layers = std::to_string(one.layers.first) + " to " + std::to_string(one.layers.last - 1);
    std::vector<cell> row{one.stage, layers, in_gibibytes(one.peak.total)};
    std::int64_t rest = one.peak.total;
    for (const memory_part part : parts_of_stages) {
      const std::int64_t bytes = one.peak.of[static_cast<int>(part)];
      row.push_back(in_gibibytes(bytes));
      rest -= bytes;
    }
    row.push_back(in_gibibytes(rest));
    row.emplace_back(one.when);
    table.rows.push_back(std::move(row));
  }
  return table;
}

// ---- text

// A stack of kinds along a line. Ends are rounded, not lengths: stacks of equal kinds align.
std::string bar(const memory_sum& sum, double cells_of_byte, bool color) {
  std::string out;
  std::int64_t below = 0;
  for (const kind& one : kinds()) {
    const std::int64_t above = below + memory_timeline::of(sum, one);
    const auto end = [&](std::int64_t bytes) {
      return std::lround(static_cast<double>(bytes) * cells_of_byte);
    };
    const long cells = end(above) - end(below);
    below = above;
    if (cells <= 0) continue;
    if (color) out += "\033[38;5;" + std::to_string(one.terminal) + "m";
    for (long at = 0; at < cells; ++at)
      out += color ? std::string("█") : std::string(1, one.letter);
    if (color) out += "\033[0m";
  }
  return out;
}

std::string legend(const memory_sum& peak, const guides::output& as) {
  std::string out;
  int at = 0;
  for (const kind& one : kinds()) {
    const std::int64_t bytes = memory_timeline::of(peak, one);
    if (bytes == 0) continue;
    const std::string mark = as.color ? "█" : std::string(1, one.letter);
    const std::string words =
        std::string(" ") + text(one.part) + " " + setups::readable_bytes(bytes);
    const int wide = 1 + io::display_width(words) + 3;
    if (at > 0 && at + wide > as.width - 2) {
      out += '\n';
      at = 0;
    }
    if (at == 0) out += "  ";
    if (as.color) out += "\033[38;5;" + std::to_string(one.terminal) + "m";
    out += mark;
    if (as.color) out += "\033[0m";
    out += words + "   ";
    at += wide;
  }
  std::string trimmed;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t next = out.find_first_not_of(' ', i);
    if (out[i] == ' ' && (next == std::string::npos || out[next] == '\n')) continue;
    trimmed += out[i];
  }
  return trimmed + '\n';
}

std::string bars(const answer& of, const guides::output& as) {
  int names = 0;
  std::int64_t most = 1;
  for (const line& one : of.lines) {
    names = std::max(names, io::display_width(one.name));
    most = std::max(most, one.most.total);
  }
  constexpr int figures = 11;
  const int room = std::max(10, as.width - 2 - names - figures - 2);
  const double cells_of_byte = room / static_cast<double>(most);
  std::string out;
  for (const line& one : of.lines) {
    std::string figure = setups::readable_bytes(one.most.total);
    std::string before = "  " + one.name;
    before.resize(static_cast<std::size_t>(2 + names + figures) - figure.size(), ' ');
    out += before + figure + "  " + bar(one.most, cells_of_byte, as.color) + '\n';
  }
  return out;
}

std::string text_of(const answer& of, const guides::output& as) {
  const auto bold = [&](const std::string& line) { return guides::bold(line, as.color); };
  std::string out = bold(of.title) + '\n';
  for (int at = 0; at < io::display_width(of.title); ++at) out += "═";
  out += '\n';
  for (const std::string& line : io::wrap(of.what, as.width - 2)) out += "  " + line + '\n';
  if (!of.gpu.empty())
    for (const std::string& line : io::wrap(verdict(of), as.width - 2)) out += "  " + line + '\n';
  for (const std::string& line : io::wrap(of.compared, as.width - 2))
    if (!line.empty()) out += "  " + line + '\n';
  out += '\n' + bold("The most at each moment") + "\n\n" + bars(of, as) + '\n';
  out += bold("At the peak") + "\n\n" + legend(of.why.peak, as) + '\n';
  io::table list = pieces(of);
  out += bold(list.title) + "\n\n";
  list.title.clear();
  out += to_text(list, {.width = as.width, .indent = 2, .color = as.color});
  if (of.stages.empty()) return out;
  io::table each = stages(of);
  out += '\n' + bold(each.title) + "\n\n";
  each.title.clear();
  return out + to_text(each, {.width = as.width, .indent = 2, .color = as.color});
}

// ---- for programs

io::table for_programs(const answer& of) {
  io::table out{.columns = {{.name = "table"},
                            {.name = "row"},
                            {.name = "column"},
                            {.name = "value", .align = io::alignment::right},
                            {.name = "unit"}}};
  const auto add = [&](const char* table,
                       const std::string& row,
                       const char* column,
                       cell value,
                       const char* unit) {
    out.rows.push_back({table, row, column, std::move(value), unit});
  };
  const auto add_memory =
      [&](const char* table, const std::string& row, const char* column, std::int64_t bytes) {
        add(table, row, column, in_gibibytes(bytes, cell::shortest), "GiB");
      };
  for (const line& one : of.lines) {
    add_memory("step", one.name, "total", one.most.total);
    for (const kind& each : kinds())
      add_memory("step", one.name, text(each.part), memory_timeline::of(one.most, each));
  }
  add_memory("peak", "all", "total", of.why.peak.total);
  add("peak", "all", "moment", gpuplan::text(of.why.when), "");
  if (of.why.layer >= 0) add("peak", "all", "layer", of.why.layer, "");
  if (!of.gpu.empty())
    add_memory("peak", "all", "capacity", std::max<std::int64_t>(0, of.capacity));
  if (!of.compared.empty()) add("compared", "all", "words", of.compared, "");
  for (std::size_t at = 0; at < of.why.pieces.size(); ++at) {
    const memory_piece& piece = of.why.pieces[at];
    const std::string row = std::to_string(at + 1);
    add("pieces", row, "name", piece.in_layers ? "layer: " + piece.name : piece.name, "");
    if (!piece.kept_for.empty()) add("pieces", row, "kept for", piece.kept_for, "");
    add("pieces", row, "kind", text(piece.part), "");
    add("pieces", row, "count", piece.count, "");
    add("pieces", row, "bytes each", piece.bytes_each, "B");
    add("pieces", row, "bytes", piece.total(), "B");
    add("pieces", row, "formula", formula(piece), "");
  }
  for (const stage_line& one : of.stages) {
    const std::string row = std::to_string(one.stage);
    if (one.chunks == 1) add("stages", row, "first layer", one.layers.first, "");
    add("stages", row, "layers", one.layers.size(), "");
    add_memory("stages", row, "total", one.peak.total);
    for (const kind& each : kinds())
      add_memory("stages", row, text(each.part), memory_timeline::of(one.peak, each));
    add("stages", row, "moment", one.when, "");
  }
  return out;
}

}  // namespace

std::string render(const answer& of, const guides::output& as) {
  if (as.format == io::format::text) return text_of(of, as);
  if (!traits_of(as.format).for_people) return guides::render(for_programs(of), as);
  std::string out = write(steps(of), as.format) + '\n' + write(pieces(of), as.format);
  if (!of.compared.empty())
    out += '\n' + write(io::table{.title = "Beside what was measured",
                                  .columns = {{.name = "what"}},
                                  .rows = {{of.compared}}},
                        as.format);
  if (!of.stages.empty()) out += '\n' + write(stages(of), as.format);
  return out;
}

}  // namespace memory_timeline
