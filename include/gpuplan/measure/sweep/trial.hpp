#pragma once

// What measuring one setting of a sweep came to.

#include <gpuplan/measure/statistics.hpp>
#include <gpuplan/speedup.hpp>
#include <gpuplan/sweep/rows.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpuplan::measure {

/// How a trial ended.
enum class trial_outcome {
  ran,
  out_of_memory,
  skipped,      // a smaller batch of this setting ran out of memory: this one was not tried
  failed,       // it threw something else, or could not be timed: `message` says what
  out_of_time,  // no step ended in its time
};

/// The outcome in lower-case words, as files and reports have it.
[[nodiscard]] constexpr const char* name(trial_outcome outcome) {
  switch (outcome) {
    case trial_outcome::ran:
      return "ran";
    case trial_outcome::out_of_memory:
      return "out of memory";
    case trial_outcome::skipped:
      return "skipped";
    case trial_outcome::failed:
      return "failed";
    case trial_outcome::out_of_time:
      return "out of time";
  }
  return "";
}

/// One setting, measured. What follows `steps` is of the measured steps, and is nothing without
/// one.
struct trial {
  sweep_setting setting{};
  trial_outcome outcome = trial_outcome::ran;
  std::string message{};  // why it did not run, or what of it is missing
  double set_up_s = 0;    // before the first step
  std::int64_t warm_up_steps = 0;
  std::int64_t steps = 0;      // measured
  std::int64_t outliers = 0;   // of them, by Tukey's fences
  std::int64_t discarded = 0;  // steps whose time was not positive and finite; in no figure
  stop_reason why_ended = stop_reason::median_known;
  quartiles data{};  // seconds of a step, as all that follow
  quartiles forward{};
  quartiles backward{};
  quartiles optimizer{};
  quartiles communication{};
  quartiles other{};  // in none of these phases
  quartiles step{};
  std::optional<double> utilisation{};   // 0 to 1
  std::optional<double> memory_bytes{};  // the peak
};

/// The time of one phase of a trial's steps.
[[nodiscard]] inline const quartiles& phase_of(const trial& t, phase which) {
  const quartiles* const all[phase_count]{
      &t.data, &t.forward, &t.backward, &t.optimizer, &t.communication, &t.other};
  return *all[static_cast<int>(which)];
}

/// A trial as a row to analyse. Its step is the median of the trial's, and its phases are the
/// shares that the medians of the trial's phases have in their sum; what was in none of them counts
/// as forward, as all does where each phase is in fewer than half of the steps. A probe that was
/// not there leaves 0, which `validate` refuses of memory. Precondition: it ran, or ran out of
/// memory.
[[nodiscard]] inline sweep_row row_of(const trial& t) {
  if (t.outcome != trial_outcome::ran && t.outcome != trial_outcome::out_of_memory)
    gpuplan::detail::precondition_violated(failure(errc::too_few_rows).about("row_of"));
  sweep_row row{.micro_batch = t.setting.micro_batch,
                .workers = t.setting.workers,
                .mixed_precision = t.setting.mixed_precision,
                .pinned_memory = t.setting.pinned_memory};
  if (t.outcome == trial_outcome::out_of_memory) {
    row.status = sweep_status::out_of_memory;
    return row;
  }
  row.data = duration::from_value(t.data.median);
  row.forward = duration::from_value(t.forward.median + t.other.median);
  row.backward = duration::from_value(t.backward.median);
  row.optimizer = duration::from_value(t.optimizer.median);
  row.communication = duration::from_value(t.communication.median);
  row.gpu_utilisation = t.utilisation.value_or(0);
  row.memory = bytes::from_value(t.memory_bytes.value_or(0));
  return gpuplan::detail::scaled_to(duration::from_value(t.step.median), row);
}

/// The rows of the trials that ran or ran out of memory, in their order.
[[nodiscard]] inline std::vector<sweep_row> rows_of(const std::vector<trial>& trials) {
  std::vector<sweep_row> rows;
  for (const trial& t : trials)
    if (t.outcome == trial_outcome::ran || t.outcome == trial_outcome::out_of_memory)
      rows.push_back(row_of(t));
  return rows;
}

}  // namespace gpuplan::measure
