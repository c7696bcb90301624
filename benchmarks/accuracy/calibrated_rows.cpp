#include "calibrated_rows.hpp"

#include <gpuplan/time/calibrated.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

namespace accuracy {
namespace {

constexpr std::int64_t few_gpus = 32;

// The places of so many of the rows, drawn by the seed.
std::vector<std::size_t> drawn_of(const std::vector<timed_row>& rows,
                                  std::size_t steps,
                                  std::uint32_t seed) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (total_gpus(rows[i].model.on) <= few_gpus) places.push_back(i);
  if (places.size() < steps) {
    places.clear();
    for (std::size_t i = 0; i < rows.size(); ++i) places.push_back(i);
  }
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < places.size(); ++i)
    std::swap(places[i], places[i + random() % (places.size() - i)]);
  places.resize(std::min(steps, places.size()));
  return places;
}

void add_time(const timed_row& row,
              const gpuplan::stack_estimate& stack,
              std::vector<comparison>& times) {
  const gpuplan::time_interval time = step_interval(row.model, row.batch, stack);
  for (const auto& [what, seconds] : {std::pair{quantity::step_time, time.median},
                                      std::pair{quantity::step_time_low, time.low},
                                      std::pair{quantity::step_time_high, time.high}})
    times.push_back({.id = row.id,
                     .what = what,
                     .measured = row.seconds,
                     .predicted = number(seconds.value())});
}

calibrated_group calibrated(const std::vector<timed_row>& rows,
                            std::size_t steps,
                            std::uint32_t seed) {
  calibrated_group group{.source = rows[0].source, .gpu = rows[0].model.on.gpu.id};
  const std::vector<std::size_t> drawn = drawn_of(rows, steps, seed);
  std::vector<gpuplan::timed_step> timed;
  for (const std::size_t place : drawn)
    timed.push_back(
        {rows[place].model, rows[place].batch, gpuplan::duration::from_value(rows[place].seconds)});
  group.steps = timed.size();
  const auto stack = gpuplan::calibrate(rows[0].model.on, timed);
  if (!stack) {
    group.why_not = gpuplan::failure_text(stack.why()).c_str();
    return group;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::find(drawn.begin(), drawn.end(), i) != drawn.end()) continue;
    add_time(rows[i], *stack, group.times);
    group.rows.push_back(rows[i]);
    group.rows.back().model = stack->applied_to(rows[i].model);
  }
  return group;
}

}  // namespace

std::vector<calibrated_group> calibrated_groups(const std::vector<timed_row>& rows,
                                                std::size_t steps,
                                                std::uint32_t seed) {
  std::map<std::pair<std::string, std::string>, std::vector<timed_row>> by_group;
  for (const timed_row& row : rows) by_group[{row.source, row.model.on.gpu.id}].push_back(row);
  std::vector<calibrated_group> groups;
  for (const auto& [name, of_group] : by_group) groups.push_back(calibrated(of_group, steps, seed));
  return groups;
}

}  // namespace accuracy
