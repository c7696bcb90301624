#pragma once

// The settings of a sweep in words, and its rows by setting.

#include <gpuplan/sweep/rows.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace gpuplan::io {

/// Rows that differ in their micro-batch alone, from the smallest to the largest.
struct sweep_series {
  sweep_setting setting{};  // micro_batch has no meaning
  std::vector<sweep_row> rows{};
};

/// The series of a sweep in the order in which they begin in it.
[[nodiscard]] inline std::vector<sweep_series> series_of(sweep_rows rows) {
  std::vector<sweep_series> all;
  for (const sweep_row& row : rows) {
    sweep_setting setting = setting_of(row);
    setting.micro_batch = 1;
    auto found = std::find_if(
        all.begin(), all.end(), [&](const sweep_series& one) { return one.setting == setting; });
    if (found == all.end()) found = all.insert(all.end(), {.setting = setting});
    found->rows.push_back(row);
  }
  for (sweep_series& one : all)
    std::stable_sort(one.rows.begin(), one.rows.end(), [](const sweep_row& a, const sweep_row& b) {
      return a.micro_batch < b.micro_batch;
    });
  return all;
}

/// All of a setting but its micro-batch: "4 workers, mixed precision, pinned memory".
[[nodiscard]] inline std::string in_words(const sweep_setting& setting) {
  std::string words =
      setting.workers == 1 ? "1 worker" : std::to_string(setting.workers) + " workers";
  words += setting.mixed_precision ? ", mixed precision" : ", full precision";
  return setting.pinned_memory ? words + ", pinned memory" : words;
}

}  // namespace gpuplan::io
