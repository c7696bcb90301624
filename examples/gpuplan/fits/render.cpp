#include "fits/render.hpp"

#include <gpuplan/io/format.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "setups/numbers.hpp"

namespace fits_program {
namespace {

namespace io = gpuplan::io;
using io::cell;

cell in_gibibytes(std::int64_t bytes, int digits = 1) {
  return {static_cast<double>(bytes) / setups::gibibyte, digits};
}
cell whole(std::int64_t bytes) { return in_gibibytes(bytes, cell::shortest); }

io::table for_people(const judged_gpu& gpu) {
  io::table table{.title = gpu.name + ": " + setups::readable_bytes(gpu.usable) +
                           " for PyTorch; sizes in GiB"};
  table.columns = {{.name = "method"},
                   {.name = "GPUs", .align = io::alignment::right},
                   {.name = "recompute"},
                   {.name = "at 1", .align = io::alignment::point},
                   {.name = "largest", .align = io::alignment::right},
                   {.name = "there", .align = io::alignment::point},
                   {.name = "peak"},
                   {.name = "in the way"}};
  for (const verdict& one : gpu.verdicts) {
    std::vector<cell> row{one.method, one.gpus, one.recompute};
    if (!one.why_not.empty()) {
      row.insert(row.end(), {cell(), cell("-").in(io::tone::faint), cell(), cell(), one.why_not});
    } else {
      row.push_back(in_gibibytes(one.at_one));
      if (one.largest == 0)
        row.insert(row.end(), {cell("no").in(io::tone::bad), cell()});
      else
        row.insert(row.end(), {cell(one.largest).in(io::tone::good), in_gibibytes(one.at_largest)});
      row.insert(row.end(), {one.when, one.binds + " " + to_text(in_gibibytes(one.binding_bytes))});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

io::table for_programs(const answer& of) {
  io::table table;
  for (const char* name : {"gpu",
                           "usable_GiB",
                           "method",
                           "gpus",
                           "recompute",
                           "fits",
                           "memory_at_1_GiB",
                           "largest_micro_batch",
                           "memory_at_largest_GiB",
                           "peak",
                           "binding",
                           "binding_GiB",
                           "error"})
    table.columns.push_back({.name = name});
  for (const judged_gpu& gpu : of.gpus)
    for (const verdict& one : gpu.verdicts) {
      std::vector<cell> row{gpu.name, whole(gpu.usable), one.method, one.gpus, one.recompute};
      if (!one.why_not.empty()) {
        row.resize(table.columns.size() - 1);
        row.emplace_back(one.why_not);
      } else {
        row.insert(row.end(), {one.largest > 0 ? "yes" : "no", whole(one.at_one), one.largest});
        row.push_back(one.largest > 0 ? whole(one.at_largest) : cell());
        row.insert(row.end(), {one.when, one.binds, whole(one.binding_bytes), cell()});
      }
      table.rows.push_back(std::move(row));
    }
  return table;
}

}  // namespace

std::string render(const answer& of, const guides::output& as) {
  if (!traits_of(as.format).for_people) return guides::render(for_programs(of), as);
  std::string out;
  if (as.format == io::format::text) {
    out = guides::bold(of.title, as.color) + '\n';
    for (int at = 0; at < io::display_width(of.title); ++at) out += "═";
    out += '\n';
    for (const std::string& line : io::wrap(of.note, as.width - 2)) out += "  " + line + '\n';
  }
  for (const judged_gpu& gpu : of.gpus) {
    io::table table = for_people(gpu);
    if (as.format != io::format::text) {
      out += (out.empty() ? "" : "\n") + write(table, as.format);
      continue;
    }
    out += '\n' + guides::bold(table.title, as.color) + "\n\n";
    table.title.clear();
    out += to_text(table, {.width = as.width, .indent = 2, .color = as.color});
  }
  return out;
}

}  // namespace fits_program
