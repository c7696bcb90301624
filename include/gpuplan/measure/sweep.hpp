#pragma once

// Runs a sweep of settings with a program's own training step: times its phases, goes on where
// memory runs out, and searches for the largest batch that fits.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/measure/phase_recorder.hpp>
#include <gpuplan/measure/statistics.hpp>
#include <gpuplan/measure/sweep/interrupt.hpp>
#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/measure/sweep/ranks.hpp>
#include <gpuplan/measure/sweep/search.hpp>
#include <gpuplan/measure/sweep/series.hpp>
#include <gpuplan/measure/sweep/trial.hpp>
#include <gpuplan/measure/sweep/watchdog.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace gpuplan::measure {

namespace detail {

// What a rank would do next. Of several ranks the largest holds: a series ends where all have
// enough, and all that follows where one says so.
enum class vote {
  enough,
  go_on,
  warm_enough,  // half the time is up
  out_of_time,
  interrupted,
  failed,
  out_of_memory,
};

[[nodiscard]] inline std::string readable(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

template <class Step, class Clock>
class sweep_runner {
 public:
  sweep_runner(Step& step, const sweep_options& options, Clock& clock)
      : step_(step),
        options_(options),
        clock_(clock),
        recorder_(clock, [this] { return asks_to_stop(); }) {}

  sweep_result run() {
    began_s_ = now_s();
    result_.clock_cost_s = clock_cost_s();
    progress_.at_most =
        static_cast<std::int64_t>(options_.workers.size() * options_.mixed_precision.size() *
                                  options_.pinned_memory.size()) *
        batch_search::most_trials(options_);
    result_.trials_bound = progress_.at_most;
    result_.trials.reserve(static_cast<std::size_t>(result_.trials_bound));
    const double shortest_s = std::min(2 * options_.step_cap_s, options_.set_up_cap_s);
    if (options_.hangs && shortest_s < std::numeric_limits<double>::infinity())
      watchdog_.emplace(shortest_s, options_.hangs);
    for (const bool mixed_precision : options_.mixed_precision)
      for (const bool pinned_memory : options_.pinned_memory)
        for (const std::int64_t workers : options_.workers)
          if (!run_batches({.workers = workers,
                            .mixed_precision = mixed_precision,
                            .pinned_memory = pinned_memory}))
            return std::move(result_);
    return std::move(result_);
  }

 private:
  Step& step_;
  const sweep_options& options_;
  Clock& clock_;
  phase_recorder<Clock> recorder_;
  std::optional<watchdog> watchdog_{};
  sweep_result result_{};
  sweep_progress progress_{};
  double began_s_ = 0;
  double step_began_s_ = 0;
  double trial_began_s_ = 0;
  double told_s_ = 0;
  double measured_trials_s_ = 0;  // by those of this sweep
  std::int64_t measured_trials_ = 0;

  [[nodiscard]] double now_s() const {
    if (options_.now_s) return options_.now_s();
    return steady_clock::seconds_between({}, steady_clock::now());
  }

  // The median of some means, since the first ones may bring in what later ones find.
  double clock_cost_s() {
    constexpr int marks = 200;
    double means[5]{};
    for (double& mean : means) {
      recorder_.begin_step();
      const double from_s = now_s();
      for (int i = 0; i < marks; ++i) static_cast<void>(clock_.now());
      mean = (now_s() - from_s) / marks;
      static_cast<void>(recorder_.end_step());
    }
    return sort_into_quartiles(means).median;
  }

  // ---- one combination

  // False where the sweep ends before all is done.
  bool run_batches(sweep_setting setting) {
    batch_search search(options_);
    const std::int64_t first = progress_.index;
    while (const std::optional<std::int64_t> batch = search.next()) {
      setting.micro_batch = *batch;
      std::optional<trial> t = measured_before(setting);
      const bool is_new = !t;
      if (is_new && search.next_is_skipped())
        t = trial{.setting = setting, .outcome = trial_outcome::skipped};
      if (!t && agreed(interrupted() ? vote::interrupted : vote::go_on) == vote::go_on)
        t = measure_and_tell(setting);
      if (!t) {
        result_.interrupted = true;
        return false;
      }
      search.ended(t->outcome);
      ++progress_.index;
      result_.trials.push_back(*std::move(t));
      if (is_new) tell([&](sweep_observer& o) { o.ends(result_.trials.back(), progress_now()); });
    }
    // A search that was quicker than it might have been.
    progress_.at_most -= batch_search::most_trials(options_) - (progress_.index - first);
    if (options_.order != search_order::grid && search.largest() > 0) {
      setting.micro_batch = search.largest();
      result_.largest_that_fits.push_back(setting);
    }
    return true;
  }

  // The last of that setting, unless it failed.
  [[nodiscard]] std::optional<trial> measured_before(const sweep_setting& setting) const {
    std::optional<trial> found;
    for (const trial& t : options_.already_measured)
      if (t.setting == setting) found = t;
    if (found && found->outcome == trial_outcome::failed) found.reset();
    return found;
  }

  std::optional<trial> measure_and_tell(const sweep_setting& setting) {
    trial_began_s_ = now_s();
    tell([&](sweep_observer& o) { o.begins(setting, progress_now()); });
    std::optional<trial> t = measure(setting);
    const double ended_s = now_s();
    measured_trials_s_ += ended_s - trial_began_s_;
    ++measured_trials_;
    trial_began_s_ = ended_s;
    return t;
  }

  // ---- one setting

  // Nothing where it was interrupted.
  std::optional<trial> measure(const sweep_setting& setting) {
    trial t{.setting = setting};
    step_series series;
    if (watchdog_) watchdog_->watches(setting, options_.set_up_cap_s);
    const double from_s = now_s();
    vote joint = agreed(attempt_watched(t, [&] {
      if (options_.set_up) options_.set_up(setting);
    }));
    t.set_up_s = now_s() - from_s;
    if (watchdog_) watchdog_->watches(setting, 2 * options_.step_cap_s);
    const double steps_from_s = now_s();
    if (joint == vote::go_on) joint = warm_up(t, steps_from_s);
    if (joint == vote::go_on) joint = repeat(t, series, steps_from_s);
    if (joint <= vote::out_of_time) {
      // On every rank, for a probe that asks them all.
      probe(options_.memory, t, t.memory_bytes, "memory", [](double v) { return v > 0; });
      probe(options_.utilisation, t, t.utilisation, "utilisation", [](double v) {
        return v >= 0 && v <= 1;
      });
      if (series.size() > 0) series.summarise(t);
    }
    const vote last = agreed(conclude(t, series));
    if (joint == vote::interrupted) return std::nullopt;
    const vote end = joint <= vote::out_of_time ? last : joint;
    t.outcome = end == vote::out_of_memory ? trial_outcome::out_of_memory
                : end == vote::failed      ? trial_outcome::failed
                : end == vote::out_of_time ? trial_outcome::out_of_time
                                           : trial_outcome::ran;
    if (t.outcome != trial_outcome::ran && t.message.empty() && options_.agree)
      t.message = "on another rank";
    return t;
  }

  // Go on where it is warm. A step may be so slow that warming up took most of the time.
  vote warm_up(trial& t, double from_s) {
    step_times unused;
    while (t.warm_up_steps < options_.warm_up_steps) {
      vote own = run_step(t, unused);
      const double passed_s = now_s() - from_s;
      if (own == vote::go_on && passed_s >= options_.stop.cap_s) {
        add_message(t,
                    "the first steps took " + readable(passed_s) + " s, and the cap is " +
                        readable(options_.stop.cap_s) + " s");
        own = vote::out_of_time;
      } else if (own == vote::go_on && passed_s >= options_.stop.cap_s / 2) {
        own = vote::warm_enough;
      }
      const vote joint = agreed(own);
      if (joint > vote::warm_enough) return joint;
      ++t.warm_up_steps;
      if (joint == vote::warm_enough) break;
    }
    return vote::go_on;
  }

  vote repeat(trial& t, step_series& series, double from_s) {
    trial before;
    if (options_.utilisation)
      static_cast<void>(attempt(before, [&] { static_cast<void>(options_.utilisation()); }));
    vote joint = vote::go_on;
    while (joint == vote::go_on) {
      step_times times;
      vote own = run_step(t, times);
      if (own == vote::go_on) {
        const double passed_s = now_s() - from_s;
        vote judged = vote::go_on;
        own = attempt(t, [&] {  // the series needs memory too
          series.add(times);
          judged = judge(t, series, passed_s);
        });
        if (own == vote::go_on) own = judged;
        if (from_s + passed_s - told_s_ >= 0.1) tell_step(t, series, passed_s);
      }
      joint = agreed(own);
    }
    if (joint == vote::out_of_time) t.why_ended = stop_reason::out_of_time;
    return joint;
  }

  vote judge(trial& t, step_series& series, double passed_s) {
    if (series.size() == 0 && series.discarded() >= options_.stop.least_samples)
      return vote::failed;
    const std::optional<stop_reason> why = series.may_end(options_.stop, passed_s);
    if (!why) return vote::go_on;
    t.why_ended = *why;
    return *why == stop_reason::out_of_time ? vote::out_of_time : vote::enough;
  }

  // What a setting came to on this rank, once all is torn down.
  vote conclude(trial& t, const step_series& series) {
    t.discarded = series.discarded();
    if (series.size() == 0 && t.discarded > 0)
      add_message(t,
                  "the clock gave no positive time in " + std::to_string(t.discarded) +
                      (t.discarded == 1 ? " step" : " steps"));
    if (watchdog_) watchdog_->watches(t.setting, options_.set_up_cap_s);
    trial ended;
    const vote torn_down = attempt_watched(ended, [&] {
      if (options_.tear_down) options_.tear_down(t.setting);
    });
    if (torn_down != vote::go_on) {
      add_message(t, "tear-down: " + ended.message);
      return vote::failed;
    }
    if (series.size() > 0) return vote::enough;
    return t.discarded > 0 ? vote::failed : vote::out_of_time;
  }

  vote run_step(trial& t, step_times& times) {
    step_began_s_ = now_s();
    const vote own = attempt_watched(t, [&] {
      recorder_.begin_step();
      step_(std::as_const(t.setting), recorder_);
      times = recorder_.end_step();
    });
    return own == vote::go_on && interrupted() ? vote::interrupted : own;
  }

  // ---- what both share

  template <class Part>
  vote attempt(trial& t, Part&& part) {
    try {
      part();
      return vote::go_on;
    } catch (const step_stopped&) {
      if (interrupted()) return vote::interrupted;
      add_message(t, "a step was stopped after " + readable(now_s() - step_began_s_) + " s");
      return vote::out_of_time;
    } catch (const std::exception& e) {
      add_message(t, e.what());
      return kind_of(std::current_exception());
    } catch (...) {
      add_message(t, "an exception that is no std::exception");
      return kind_of(std::current_exception());
    }
  }

  template <class Part>
  vote attempt_watched(trial& t, Part&& part) {
    if (watchdog_) watchdog_->begins();
    const vote own = attempt(t, std::forward<Part>(part));
    if (watchdog_) watchdog_->ends();
    return own;
  }

  [[nodiscard]] vote kind_of(const std::exception_ptr& thrown) const {
    return options_.is_out_of_memory(thrown) ? vote::out_of_memory : vote::failed;
  }

  // Where memory ran out there may be none to say so with.
  template <class Text>
  static void add_message(trial& t, const Text& more) {
    try {
      if (!t.message.empty()) t.message += "; ";
      t.message += more;
    } catch (const std::bad_alloc&) {
    }
  }

  template <class IsRight>
  void probe(const std::function<double()>& ask,
             trial& t,
             std::optional<double>& into,
             const char* what,
             IsRight is_right) {
    if (!ask) return;
    double value = 0;
    if (attempt(t, [&] { value = ask(); }) != vote::go_on) return;
    if (gpuplan::detail::is_finite(value) && is_right(value))
      into = value;
    else
      add_message(t, std::string("the probe of ") + what + " said " + readable(value));
  }

  [[nodiscard]] vote agreed(vote own) const {
    return options_.agree ? static_cast<vote>(options_.agree(static_cast<int>(own))) : own;
  }

  [[nodiscard]] bool interrupted() const {
    return !result_.stopped_by.empty() || (options_.interrupted && options_.interrupted());
  }

  // A rank that left its step alone would leave the others waiting in theirs.
  [[nodiscard]] bool asks_to_stop() const {
    if (options_.agree) return false;
    return interrupted() || (options_.step_cap_s < std::numeric_limits<double>::infinity() &&
                             now_s() - step_began_s_ >= options_.step_cap_s);
  }

  // ---- observers

  // All are told, also where one throws: a bar that breaks must not cost a file its row.
  template <class Tell>
  void tell(Tell&& call) {
    for (sweep_observer* const observer : options_.observers) {
      std::string thrown;
      try {
        call(*observer);
        continue;
      } catch (const std::exception& e) {
        thrown = e.what();
      } catch (...) {
      }
      if (thrown.empty()) thrown = "an exception without a text";
      if (result_.stopped_by.empty()) result_.stopped_by = thrown;
    }
  }

  void tell_step(const trial& t, const step_series& series, double passed_s) {
    sweep_progress so_far = progress_now();
    so_far.steps = series.size();
    so_far.share = series.share_done(options_.stop, passed_s);
    told_s_ = now_s();
    tell([&](sweep_observer& o) { o.stepped(t.setting, so_far); });
  }

  [[nodiscard]] sweep_progress progress_now() const {
    sweep_progress now = progress_;
    now.elapsed_s = now_s() - began_s_;
    if (measured_trials_ > 0) {
      const double each_s = measured_trials_s_ / static_cast<double>(measured_trials_);
      const double left_s = each_s * static_cast<double>(now.at_most - now.index);
      now.remaining_s = std::max(left_s - each_s, left_s - (now_s() - trial_began_s_));
      if (*now.remaining_s < 0) now.remaining_s = 0;
    }
    return now;
  }
};

}  // namespace detail

/// Runs `step(const sweep_setting&, phase_recorder<Clock>&)`, one training step, with every setting
/// of the options, again and again until the median of its time is known, and returns what was
/// measured, also where memory ran out, steps threw or an observer did. The step says its phases to
/// the recorder; the time outside of them is in `other`. Set-up and warm-up are in no figure. Steps
/// run on the calling thread, one after another. With a steady clock a step of four phases costs
/// 0.5 to 0.6 us of CPU time beside itself (measured by the benchmark sweep_overhead), of which ten
/// readings of the clock take `sweep_result::clock_cost_s` each. Throws plan_error for options that
/// are not valid, and what `agree`, `interrupted`, the clocks and the predicate of memory throw
/// outside of a step.
template <class Step, recorder_clock Clock>
sweep_result run_sweep(Step&& step, const sweep_options& options, Clock& clock) {
  static_assert(std::invocable<Step&, const sweep_setting&, phase_recorder<Clock>&>,
                "a step is called with a setting and the recorder of its phases");
  static_cast<void>(validate(options).value_or_throw());
  return detail::sweep_runner<std::remove_reference_t<Step>, Clock>(step, options, clock).run();
}

/// The same, timed by the steady clock of the host.
template <class Step>
sweep_result run_sweep(Step&& step, const sweep_options& options) {
  steady_clock clock;
  return run_sweep(step, options, clock);
}

}  // namespace gpuplan::measure
