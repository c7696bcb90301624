#pragma once

// Hours of the week in which GPUs are there, as people write them.

#include <gpuplan/job_chain.hpp>
#include <gpuplan/units.hpp>

#include <string>
#include <vector>

namespace runs {

/// Windows within a week that begins with one of them, and when in it the run starts.
struct run_windows {
  std::vector<gpuplan::week_window> each{};  // in order, none next to another
  gpuplan::duration now{};
};

/// Of `--windows`: "nights" (20:00 to 8:00), "weekends" (Friday 18:00 to Monday 8:00), "fri
/// 18:00-mon 8:00", and "20:00-8:00" of every day; and `--starts`, "mon 9:00". Throws
/// `guides::bad_request` for what is none of these, and for all of the week.
[[nodiscard]] run_windows windows_of(const std::vector<std::string>& texts,
                                     const std::string& starts);

}  // namespace runs
