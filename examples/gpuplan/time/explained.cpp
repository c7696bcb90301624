#include "time/explained.hpp"

#include <gpuplan/io/format.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/time_explanation.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "plan/report.hpp"

namespace time_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using io::cell;

// Of the step, what is too little to be shown to people.
constexpr double shown = 0.0005;

const plan_program::step_part& part_of(const time_piece& piece) {
  const auto all = plan_program::step_parts();
  return *std::find_if(
      all.begin(), all.end(), [&](const auto& one) { return one.time == piece.part; });
}

io::table pieces_of(const time_explanation& of) {
  io::table table{.title = "what the step is made of"};
  table.columns = {{.name = "part"},
                   {.name = "what"},
                   {.name = "s", .align = io::alignment::point},
                   {.name = "%", .align = io::alignment::point},
                   {.name = "bound by"},
                   {.name = "how it comes about"}};
  const int digits = plan_program::digits_of(in(of.step, 1_s), 4);
  for (const time_piece& piece : of.pieces())
    if (piece.time() >= shown * of.step || piece.hidden * piece.times > shown * in(of.step, 1_s))
      table.rows.push_back({part_of(piece).in_words,
                            text(piece.cause),
                            {in(piece.time(), 1_s), digits},
                            {100 * (piece.time() / of.step), 1},
                            text(piece.bound_by),
                            io::formula(piece)});
  return table;
}

io::table savings_of(const time_explanation& of) {
  io::table table{.title = "what 10 % better would save, each alone"};
  table.columns = {{.name = "what"},
                   {.name = "bounds s", .align = io::alignment::point},
                   {.name = "%", .align = io::alignment::point},
                   {.name = "saves s", .align = io::alignment::point},
                   {.name = "% of the step", .align = io::alignment::point}};
  const int digits = plan_program::digits_of(in(of.step, 1_s), 4);
  std::vector<time_saving> all(std::begin(of.savings), std::end(of.savings));
  std::sort(all.begin(), all.end(), [](const time_saving& a, const time_saving& b) {
    return a.saved != b.saved ? a.saved > b.saved : a.of < b.of;
  });
  for (const time_saving& one : all) {
    if (one.bound < shown * of.step && one.saved < shown * of.step) continue;
    const bool is_lever = one.of != time_resource::stages;
    table.rows.push_back({text(one.of),
                          {in(one.bound, 1_s), digits},
                          {100 * (one.bound / of.step), 1},
                          is_lever ? cell{in(one.saved, 1_s), digits} : cell(),
                          is_lever ? cell{100 * (one.saved / of.step), 2} : cell()});
  }
  return table;
}

}  // namespace

std::string explained(const time_explanation& of, const guides::output& as) {
  return guides::render(pieces_of(of), as) + "\n" + guides::render(savings_of(of), as);
}

void add_explanation(io::table& to, const time_explanation& of) {
  const std::size_t of_step = to.columns.size();
  to.columns.insert(to.columns.begin(), {.name = "table"});
  std::vector<cell>& step = to.rows.front();
  step.insert(step.begin(), "step");
  for (const char* name : {"part",
                           "what",
                           "bound_by",
                           "s",
                           "pct",
                           "saved_s",
                           "saved_pct",
                           "times",
                           "amount",
                           "unit",
                           "rate_per_s",
                           "calls",
                           "latency_s",
                           "hidden_s",
                           "formula"})
    to.columns.push_back({.name = name});
  step.resize(to.columns.size());
  const auto add = [&](const char* table, const std::vector<cell>& cells) {
    std::vector<cell> row{table};
    row.resize(1 + of_step);
    row.insert(row.end(), cells.begin(), cells.end());
    row.resize(to.columns.size());
    to.rows.push_back(row);
  };
  const auto seconds = [](duration time) { return cell(in(time, 1_s)); };
  const auto share = [&](duration time) { return cell(100 * (time / of.step)); };
  for (const time_piece& piece : of.pieces())
    add("pieces",
        {part_of(piece).name,
         text(piece.cause),
         text(piece.bound_by),
         seconds(piece.time()),
         share(piece.time()),
         cell(),
         cell(),
         piece.times,
         piece.amount,
         piece.unit == amount_unit::flop   ? "FLOP"
         : piece.unit == amount_unit::byte ? "B"
                                           : "s",
         piece.rate,
         piece.calls,
         piece.latency,
         piece.hidden,
         io::formula(piece)});
  for (const time_saving& one : of.savings)
    add("better",
        {cell(),
         cell(),
         text(one.of),
         seconds(one.bound),
         share(one.bound),
         seconds(one.saved),
         share(one.saved)});
}

}  // namespace time_program
