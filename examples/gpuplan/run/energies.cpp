#include "run/energies.hpp"

#include <gpuplan/energy.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/units.hpp>

#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "plan/report.hpp"

namespace run_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using guides::bad_request;
using io::cell;

cell figures(double value) { return {value, plan_program::digits_of(value)}; }

}  // namespace

io::table energies(const request& asked, const std::vector<run>& runs) {
  io::table table{.title = "energy"};
  if (asked.pue > 1) table.title += " with the building, PUE " + io::decimal(asked.pue, -1);
  table.columns = {{.name = "gpu"}, {.name = "gpus", .align = io::alignment::right}};
  for (const char* name : {"W of a GPU", "of its host", "kWh 10 %", "50 %", "90 %"})
    table.columns.push_back({.name = name, .align = io::alignment::point});
  const bool has_tokens = runs.front().of.tokens > 0;
  if (has_tokens)
    table.columns.push_back({.name = "kWh a million tokens", .align = io::alignment::point});
  const bool has_carbon = static_cast<bool>(runs.front().of.on.carbon_g_per_kWh);
  if (has_carbon) table.columns.push_back({.name = "kg CO2", .align = io::alignment::point});
  bool has_unknown_hosts = false;
  for (const run& one : runs) {
    if (!one.draw)
      throw bad_request(std::string("--energy: what a ") + one.of.on.on.gpu.id +
                        " draws is not known; --power N says it");
    const bool has_host = static_cast<bool>(one.host);
    has_unknown_hosts = has_unknown_hosts || (!has_host && !one.of.on.on.power_per_gpu);
    std::vector<cell> row{one.of.name(),
                          one.of.gpus,
                          figures(in(*one.draw, 1_W)),
                          has_host ? figures(in(*one.host, 1_W)) : cell()};
    for (const duration& time : {one.held.low, one.held.median, one.held.high})
      row.push_back(figures(in(*one.energy(time), 1_kWh)));
    const double kWh = in(*one.energy(one.held.median), 1_kWh);
    if (has_tokens) row.push_back(figures(kWh / one.of.tokens * 1e6));
    if (has_carbon)
      row.push_back(one.of.on.carbon_g_per_kWh
                        ? figures(checked(
                              carbon_kg(*one.energy(one.held.median), *one.of.on.carbon_g_per_kWh)))
                        : cell());
    table.rows.push_back(row);
  }
  if (has_unknown_hosts)
    table.title += ", without hosts, of which --host-power says what they draw";
  return table;
}

}  // namespace run_program
