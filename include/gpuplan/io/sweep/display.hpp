#pragma once

// Shows how far a sweep is, on standard error or elsewhere.

#include <gpuplan/io/progress.hpp>
#include <gpuplan/io/sweep/settings.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/measure/sweep/trial.hpp>

#include <cstdio>
#include <string>

namespace gpuplan::io {

/// What is being measured, how far it is, and the time that has passed and that is left at most.
[[nodiscard]] inline std::string line_of(const sweep_setting& setting,
                                         const measure::sweep_progress& at) {
  std::string line = std::to_string(at.index + 1) + " of " + std::to_string(at.at_most) +
                     ": batch " + std::to_string(setting.micro_batch) + ", " + in_words(setting) +
                     "; " + readable_time(at.elapsed_s);
  if (at.remaining_s) line += ", " + readable_time(*at.remaining_s) + " left";
  return line;
}

/// What a trial came to, in a line.
[[nodiscard]] inline std::string line_of(const measure::trial& t) {
  std::string line =
      "batch " + std::to_string(t.setting.micro_batch) + ", " + in_words(t.setting) + ": ";
  if (t.outcome != measure::trial_outcome::ran)
    return line + name(t.outcome) + (t.message.empty() ? "" : ", " + t.message);
  line += decimal(static_cast<double>(t.setting.micro_batch) / t.step.median, 1) + " samples/s, " +
          decimal(1e3 * t.step.median, 2) + " ms";
  if (t.memory_bytes) line += ", " + decimal(*t.memory_bytes / 1e9, 3) + " GB";
  return line + " (" + std::to_string(t.steps) + " steps)";
}

/// A bar on a terminal with the setting that is measured; elsewhere a line for each that was.
class sweep_display final : public measure::sweep_observer {
 public:
  /// `to` is nullptr for silence.
  explicit sweep_display(std::FILE* to) : line_(to) {}

  void begins(const sweep_setting& setting, const measure::sweep_progress& at) override {
    stepped(setting, at);
  }
  void stepped(const sweep_setting& setting, const measure::sweep_progress& at) override {
    if (!line_.is_terminal() || at.at_most < 1) return;
    line_.show(line_of(setting, at),
               (static_cast<double>(at.index) + at.share) / static_cast<double>(at.at_most));
  }
  void ends(const measure::trial& t, const measure::sweep_progress& at) override {
    if (line_.is_terminal()) return;  // the next one shows at once
    line_.say(std::to_string(at.index) + " of " + std::to_string(at.at_most) + ": " + line_of(t));
  }

  /// A line that stays, such as what a writer tells.
  void say(const std::string& line) { line_.say(line); }
  /// Takes the bar away, before something else is printed.
  void clear() { line_.clear(); }

 private:
  progress_line line_;
};

}  // namespace gpuplan::io
