#pragma once

// The timed steps of one setting, as they come: until when to repeat, and what they amount to.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/measure/phase_recorder.hpp>
#include <gpuplan/measure/statistics.hpp>
#include <gpuplan/measure/sweep/trial.hpp>
#include <gpuplan/speedup.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gpuplan::measure {

/// The steps of one trial.
class step_series {
 public:
  /// Adds a step. One whose time is not positive, or any of its phases negative or not finite, as
  /// where a clock was set back, is counted and not used.
  void add(const step_times& times) {
    if (!is_a_time(times)) {
      ++discarded_;
      return;
    }
    for (std::size_t p = 0; p < phases; ++p) seconds_[p].push_back(times.seconds[p]);
    steps_.push_back(times.step_s);
    ascending_.push_back(times.step_s);
    measured_s_ += times.step_s;
  }

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(steps_.size()); }
  [[nodiscard]] std::int64_t discarded() const { return discarded_; }

  /// Whether the series may end now, `passed_s` after it began, and why. Looks at its median each
  /// time that it has grown by a sixteenth, so that a step costs the same however many there are.
  [[nodiscard]] std::optional<stop_reason> may_end(const median_rule& rule, double passed_s) {
    const std::size_t added = ascending_.size() - sorted_;
    const bool last = size() + discarded_ >= rule.most_samples || passed_s >= rule.cap_s;
    if (!last && (added == 0 || added < ascending_.size() / 16)) return std::nullopt;
    const std::optional<stop_reason> why =
        stop_now(rule, sorted(), {.measured_s = measured_s_, .passed_s = passed_s});
    if (!why && size() + discarded_ >= rule.most_samples) return stop_reason::most_samples;
    return why;
  }

  /// Which share of the steps that are asked for at least is done, 0 to 1.
  [[nodiscard]] double share_done(const median_rule& rule, double passed_s) const {
    const double counted = static_cast<double>(size()) / static_cast<double>(rule.least_samples);
    const double timed = rule.least_s > 0 ? measured_s_ / rule.least_s : 1;
    // From there on it may end at any step, or go on to the cap.
    return std::clamp(std::max(std::min({counted, timed, 0.99}), passed_s / rule.cap_s), 0.0, 1.0);
  }

  /// Writes what the steps amount to. Precondition: at least one was used.
  void summarise(trial& into) {
    into.steps = size();
    into.discarded = discarded_;
    quartiles* const parts[phases]{&into.data,
                                   &into.forward,
                                   &into.backward,
                                   &into.optimizer,
                                   &into.communication,
                                   &into.other};
    for (std::size_t p = 0; p < phases; ++p) *parts[p] = sort_into_quartiles(seconds_[p]);
    into.step = sort_into_quartiles(steps_);
    into.outliers = count_outliers(steps_, into.step);
  }

 private:
  static constexpr auto phases = static_cast<std::size_t>(phase_count);

  std::vector<double> seconds_[phases]{};
  std::vector<double> steps_{};
  std::vector<double> ascending_{};  // but for what was added since
  std::vector<double> merged_{};     // room to sort in
  std::size_t sorted_ = 0;
  double measured_s_ = 0;
  std::int64_t discarded_ = 0;

  static bool is_a_time(const step_times& times) {
    if (!(times.step_s > 0) || !gpuplan::detail::is_finite(times.step_s)) return false;
    return std::all_of(times.seconds, times.seconds + phases, [](double s) {
      return s >= 0 && gpuplan::detail::is_finite(s);
    });
  }

  std::span<const double> sorted() {
    const auto middle = ascending_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    std::sort(middle, ascending_.end());
    merged_.resize(ascending_.size());
    std::merge(ascending_.begin(), middle, middle, ascending_.end(), merged_.begin());
    ascending_.swap(merged_);
    sorted_ = ascending_.size();
    return ascending_;
  }
};

}  // namespace gpuplan::measure
