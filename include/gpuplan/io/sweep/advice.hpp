#pragma once

// The diagnosis of a row of a sweep in words.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/io/sweep/settings.hpp>
#include <gpuplan/sweep/diagnosis.hpp>
#include <gpuplan/sweep/rows.hpp>
#include <gpuplan/units.hpp>

#include <string>

namespace gpuplan::io {

/// What holds a setting back, in words, and what may help; both empty where nothing does.
struct sweep_advice {
  std::string found{};
  std::string advice{};

  friend bool operator==(const sweep_advice&, const sweep_advice&) = default;
};

/// What may be advised of a program's settings: false where it does not have the setting, or a row
/// does not tell whether it was on.
struct sweep_offers {
  bool mixed_precision = true;
  bool pinned_memory = true;
};

/// A row's diagnosis in words: each of what it found, and what may help against any of it, said
/// once and without a full stop. What the row has already or `offers` leaves out is not advised.
[[nodiscard]] inline sweep_advice advice_on(const sweep_row& row,
                                            const sweep_diagnosis& diagnosis,
                                            const sweep_offers& offers = {}) {
  sweep_advice out;
  const auto add_to = [](std::string& text, const std::string& more) {
    if (!text.empty() && !more.empty()) text += ", ";
    text += more;
  };
  const auto add = [&](bool holds, const char* what, const std::string& todo) {
    if (!holds) return;
    add_to(out.found, what);
    add_to(out.advice, todo);
  };
  add(diagnosis.loading_bound,
      "loading bound",
      row.pinned_memory || !offers.pinned_memory ? "more workers, a faster SSD"
                                                 : "more workers, pin_memory, a faster SSD");
  // Where memory is tight a larger batch would not fit.
  const char* const larger = diagnosis.memory_tight ? "" : "a larger batch";
  const auto with_larger = [&](const std::string& before, const std::string& after) {
    std::string all = before;
    add_to(all, larger);
    add_to(all, after);
    return all;
  };
  add(diagnosis.under_utilised,
      "under-utilised",
      with_larger("", diagnosis.loading_bound ? "" : "more workers"));
  add(diagnosis.compute_bound,
      "compute bound",
      with_larger(row.mixed_precision || !offers.mixed_precision ? "" : "AMP", "a lighter model"));
  const bool said = diagnosis.under_utilised || diagnosis.compute_bound;
  add(diagnosis.memory_head_room, "memory head-room", said ? "" : larger);
  add(diagnosis.memory_tight, "memory tight", "a smaller batch");
  return out;
}

namespace detail {

// What the words of a diagnosis mean by these thresholds; memory is not always judged.
[[nodiscard]] inline std::string criteria_of(const sweep_thresholds& thresholds,
                                             bool judges_memory) {
  const auto percent = [](double share) { return short_decimal(100 * share, 1) + " %"; };
  const bool has_time = gpuplan::detail::is_finite(thresholds.data_time.value());
  const bool has_share = thresholds.data_share < 1;
  const bool has_utilisation = thresholds.utilisation.low() > 0;
  std::string words;
  if (has_time || has_share)
    words += "loading bound: a step waits for data longer than " +
             (has_time ? short_decimal(in(thresholds.data_time, 1_ms), 3) + " ms" : "") +
             (has_time && has_share ? " or " : "") +
             (has_share ? percent(thresholds.data_share) + " of it" : "") + "; ";
  if (has_utilisation)
    words += "under-utilised: below " + percent(thresholds.utilisation.low()) +
             " of the device's time; ";
  words += "compute bound: a step computes longer than it waits for data";
  if (has_utilisation) words += ", and is not under-utilised";
  if (judges_memory && thresholds.memory_share.low() > 0)
    words +=
        "; memory head-room: below " + percent(thresholds.memory_share.low()) + " of the device's";
  if (judges_memory && thresholds.memory_share.high() < 1)
    words +=
        "; memory tight: above " + percent(thresholds.memory_share.high()) + " of the device's";
  words.front() = static_cast<char>(words.front() - 'a' + 'A');
  return words + '.';
}

}  // namespace detail
}  // namespace gpuplan::io
