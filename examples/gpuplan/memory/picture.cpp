#include "memory/picture.hpp"

#include <gpuplan/io/chart/stacked_areas.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/trace.hpp>

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
using gpuplan::memory_sum;
using gpuplan::step_moment;

// What a person calls a moment, as far as there is room for names.
const char* phase_of(step_moment when) {
  switch (when) {
    case step_moment::forward:
      return "forward";
    case step_moment::loss:
    case step_moment::loss_backward:
      return "loss";
    case step_moment::optimizer:
      return "optimizer";
    default:
      return "backward";
  }
}

struct time_unit {
  double of_second;
  const char* name;
};
time_unit unit_of(double seconds) {
  if (seconds >= 2) return {1, "seconds"};
  if (seconds >= 2e-3) return {1e3, "milliseconds"};
  return {1e6, "microseconds"};
}

}  // namespace

io::stacked_areas chart_of(const picture& of, const std::vector<measured_step>& measured) {
  const gpuplan::memory_trace& trace = of.step.trace;
  const time_unit unit = unit_of(of.step.times.back());
  io::stacked_areas chart{.title = of.title,
                          .subtitle = of.subtitle,
                          .counts_along = std::string(unit.name) + " of the step; " + of.step.clock,
                          .counts_upwards = "GiB"};
  // The state before the first change is there from the beginning.
  chart.times.push_back(0);
  for (const double time : of.step.times) chart.times.push_back(time * unit.of_second);
  const auto in_use_at = [&](std::size_t at) -> const memory_sum& {
    return at == 0 ? trace.at_first : trace.changes[at - 1].in_use;
  };
  const std::size_t count = trace.changes.size() + 1;
  std::size_t peak = 0;
  for (std::size_t at = 0; at < count; ++at)
    if (in_use_at(at).total > in_use_at(peak).total) peak = at;
  for (const kind& one : kinds()) {
    io::stacked_areas::layer layer{.name = one.of_picture, .series = one.series};
    const std::int64_t most = memory_timeline::of(in_use_at(peak), one);
    layer.at_peak = most > 0 ? setups::readable_bytes(most) : "not at the peak";
    layer.values.reserve(count);
    for (std::size_t at = 0; at < count; ++at)
      layer.values.push_back(static_cast<double>(memory_timeline::of(in_use_at(at), one)) /
                             setups::gibibyte);
    chart.layers.push_back(std::move(layer));
  }
  for (std::size_t first = 0; first < trace.changes.size();) {
    const std::string name = phase_of(trace.changes[first].when);
    std::size_t end = first + 1;
    while (end < trace.changes.size() && phase_of(trace.changes[end].when) == name) ++end;
    chart.spans.push_back({name, chart.times[first + 1], chart.times[end + 1]});
    first = end;
  }
  const step_moment when = peak == 0 ? step_moment::forward : trace.changes[peak - 1].when;
  chart.peak_name = setups::readable_bytes(in_use_at(peak).total) + ", " + gpuplan::text(when);
  if (of.capacity != 0) {
    chart.limit = static_cast<double>(of.capacity) / setups::gibibyte;
    chart.limit_name = of.gpu + ": " + setups::readable_bytes(of.capacity);
  }
  for (const measured_step& one : measured)
    chart.outlines.push_back(outline_of(one, "as measured, all of it", unit.of_second));
  return chart;
}

}  // namespace memory_timeline
