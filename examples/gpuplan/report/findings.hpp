#pragma once

// What a report says, before it is drawn.

#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/limits.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memory/pace.hpp"
#include "plan/options.hpp"
#include "plan/report.hpp"
#include "report/schedule.hpp"

namespace report_program {

/// The best plan on a number of GPUs of one kind.
struct counted_plan {
  std::string gpu;  // "h100"
  std::int64_t gpus = 0;
  plan_program::described_plan is{};
  bool is_on_front = false;  // no other run is shorter and costs less
};

/// Whether all of these runs have a cost: else GPU-hours stand in its place.
[[nodiscard]] bool have_all_costs(const std::vector<counted_plan>& counts);

struct findings {
  plan_program::named_request asked{};
  double fragmentation = 0;  // of the peak
  std::int64_t evaluated = 0;
  std::int64_t excluded = 0;
  std::vector<plan_program::named_plan> plans{};  // best first
  std::vector<gpuplan::lifted_limit> limits{};    // whose lifting gives a better plan
  // of the best plan
  std::vector<gpuplan::memory_breakdown> stages{};
  std::size_t fullest = 0;                // of these
  memory_timeline::timed_trace step{};    // of the fullest
  std::int64_t drawn_micro_batches = 0;   // of that
  std::vector<pipeline_task> schedule{};  // empty: one stage, or more than are drawn
  std::int64_t scheduled_micro_batches = 0;
  std::vector<counted_plan> counts{};

  [[nodiscard]] const plan_program::described_plan& best() const { return plans.front().is; }
  [[nodiscard]] const gpuplan::cluster& on() const {
    return cluster_of(asked.request, *best().plan);
  }
};

/// Throws `guides::bad_request` where there is no plan.
[[nodiscard]] findings find(const plan_program::arguments& given,
                            gpuplan::plan_goal goal,
                            int plans);

}  // namespace report_program
