#pragma once

// The settings of a sweep in words, and its rows as tables and pictures show them.

#include <gpuplan/io/table.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/sweep/pick.hpp>
#include <gpuplan/sweep/rows.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
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
  std::vector<std::size_t> series(rows.size());  // of each row
  std::map<std::tuple<std::int64_t, bool, bool>, std::size_t> places;
  std::vector<std::pair<std::int64_t, std::size_t>> order;  // by micro-batch, then as they come
  for (std::size_t at = 0; at < rows.size(); ++at) {
    sweep_setting setting = setting_of(rows[at]);
    order.emplace_back(setting.micro_batch, at);
    setting.micro_batch = 1;
    const auto [found, is_new] = places.try_emplace(
        {setting.workers, setting.mixed_precision, setting.pinned_memory}, all.size());
    if (is_new) all.push_back({.setting = setting});
    series[at] = found->second;
  }
  std::sort(order.begin(), order.end());
  for (const auto& [batch, at] : order) all[series[at]].rows.push_back(rows[at]);
  return all;
}

/// The series of the row with the highest throughput. Errors: as `pick_highest_throughput`.
[[nodiscard]] inline result<sweep_series> fastest_series(sweep_rows rows) {
  const auto fastest = pick_highest_throughput(rows);
  if (!fastest) return fastest.why();
  std::vector<sweep_series> all = series_of(rows);
  return std::move(*std::find_if(all.begin(), all.end(), [&](const sweep_series& series) {
    return differ_in_batch_alone(series.setting, setting_of(rows[fastest->row]));
  }));
}

/// All of a setting but its micro-batch: "4 workers, mixed precision, pinned memory".
[[nodiscard]] inline std::string in_words(const sweep_setting& setting) {
  std::string words =
      setting.workers == 1 ? "1 worker" : std::to_string(setting.workers) + " workers";
  words += setting.mixed_precision ? ", mixed precision" : ", full precision";
  return setting.pinned_memory ? words + ", pinned memory" : words;
}

namespace detail {

// Rows to read what does not depend on memory from, where none was measured: it is then 1 byte, and
// shown nowhere. Throws as `validate` of the rows says.
struct shown_rows {
  std::vector<sweep_row> rows{};
  bool has_memory = true;

  explicit shown_rows(sweep_rows given) : rows(given.begin(), given.end()) {
    for (const sweep_row& row : rows)
      if (gpuplan::detail::ran(row) && row.memory == bytes{}) has_memory = false;
    if (!has_memory)
      for (sweep_row& row : rows) row.memory = 1_B;
    static_cast<void>(validate(sweep_rows(rows)).value_or_throw());
  }
};

// A number with at most these digits after the point, and no zeros at the end.
[[nodiscard]] inline std::string short_decimal(double value, int digits) {
  std::string text = decimal(value, digits);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace detail
}  // namespace gpuplan::io
