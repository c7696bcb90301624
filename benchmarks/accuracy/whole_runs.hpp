#pragma once

// Complete published runs: GPU-hours, days and energy from the model, its tokens and the GPUs.

#include <gpuplan/cluster.hpp>
#include <gpuplan/planner/request.hpp>

#include <string>
#include <vector>

#include "comparison.hpp"
#include "csv.hpp"
#include "row_comparisons.hpp"

namespace accuracy {

/// What hours count: steps alone; all of the training, with interruptions; or the time from its
/// first to its last day.
enum class run_hours { steps, training, calendar };

/// A run as a question to the planner, and what its hours count besides training.
struct whole_run {
  gpuplan::plan_request asked{};  // `samples` are those of the whole run
  double work = 1;                // of the run's FLOPs over those of the described shape
  run_hours counts = run_hours::training;
  double power_usage = 1.1;  // of the data centre over the devices
  std::string why_not;       // what is not stated; blank where a plan can be asked for
};

/// Throws `bad_file` for a cell that no run can have.
whole_run describe_whole_run(const row& source);

/// `gpu_hours`, `days` and `energy`, each with the ends of the range that holds four of five, where
/// the row states them.
void compare_whole_run(row_comparisons& row);

/// Predicts a file's runs anew, each by what the runs of other sources took over their plans.
void by_other_sources(const csv_file& file, std::vector<comparison>& all);

}  // namespace accuracy
