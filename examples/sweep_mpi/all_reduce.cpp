#include "sweep_mpi/all_reduce.hpp"

#include <gpuplan/measure/statistics.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace sweep_mpi {
namespace {

using namespace gpuplan;

// Whole numbers so small that their sums are exact in any order.
void fill(std::span<float> values, int rank) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i + static_cast<std::size_t>(rank)) % 97);
}

bool is_sum(std::span<const float> values, int ranks) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::size_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += (i + static_cast<std::size_t>(rank)) % 97;
    if (values[i] != static_cast<float>(sum)) return false;
  }
  return true;
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The seconds of the rank for which it was longest.
double time_one(const ranks& among, std::span<float> values) {
  fill(values, among.rank());
  among.meet();
  const double start_s = now_s();
  among.sum(values);
  return among.largest(now_s() - start_s);
}

}  // namespace

all_reduce_reading measure_all_reduce(const ranks& among, const all_reduce_options& options) {
  all_reduce_reading found{.ranks = among.size()};
  std::vector<float> values(std::max<std::size_t>(options.most_bytes / sizeof(float), 1));
  for (std::size_t size = options.least_bytes; size <= options.most_bytes; size *= 4) {
    const std::span<float> part = std::span(values).first(size / sizeof(float));
    time_one(among, part);
    std::vector<double> seconds;
    // All ranks see the same times, so all make as many calls.
    double passed_s = 0;
    for (int call = 0; call < options.calls && passed_s <= options.cap_s; ++call) {
      seconds.push_back(time_one(among, part));
      passed_s += seconds.back();
    }
    // All ranks stop, or none.
    if (among.largest(is_sum(part, among.size()) ? 0 : 1) != 0)
      throw std::runtime_error("an all-reduce of " + std::to_string(size) +
                               " bytes gave a wrong sum");
    found.times.push_back(
        {.size = bytes::from_value(static_cast<double>(size)),
         .time = duration::from_value(measure::sort_into_quartiles(seconds).median)});
  }
  found.line = measure::line_through(found.times);
  return found;
}

interconnect links_of(const measure::transfer_line& line, int ranks) {
  const auto n = static_cast<double>(ranks);
  const double steps = 2 * (n - 1);
  interconnect links{};
  links.inside_node = line.rate * (steps / n);
  links.devices_per_node = ranks;
  links.inside = {.kind = "measured", .ring_share = 1, .hop = line.latency / steps};
  links.launch = duration{};
  return links;
}

}  // namespace sweep_mpi
