#pragma once

// What a sweep shall measure, how long, and whom it asks and tells.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/measure/statistics.hpp>
#include <gpuplan/measure/sweep/ranks.hpp>
#include <gpuplan/measure/sweep/trial.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/sweep/rows.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace gpuplan::measure {

/// Which micro-batches are tried, for each combination of the other settings apart.
enum class search_order {
  grid,  // those of the options
  // From the first of the options on, doubled until one runs out of memory or time.
  doubling,
  // Doubled until one runs out of memory, then bisection between that one and the last that ran.
  // One that runs out of time or fails ends the search where it is. Whenever one runs, smaller ones
  // are taken to run too.
  largest_that_fits,
};

/// How far a sweep is.
struct sweep_progress {
  std::int64_t index = 0;    // of the trial, from 0; those measured before it are counted
  std::int64_t at_most = 0;  // trials
  double elapsed_s = 0;      // since the sweep began
  std::optional<double> remaining_s{};  // at most, if each trial takes what those so far did
  double share = 0;                     // of this trial that is done, 0 to 1, about
  std::int64_t steps = 0;               // measured in this trial so far
};

/// Who is told about a sweep, on the thread that runs it. What one throws ends the sweep, which
/// then returns what it has: see sweep_result::stopped_by.
class sweep_observer {
 public:
  virtual ~sweep_observer() = default;
  /// A setting is about to be set up.
  virtual void begins(const sweep_setting&, const sweep_progress&) {}
  /// A step has ended; at most about ten times a second.
  virtual void stepped(const sweep_setting&, const sweep_progress&) {}
  /// A trial has ended, also one that was skipped; not one that was measured before or interrupted.
  virtual void ends(const trial&, const sweep_progress&) {}
};

/// Which exceptions mean that memory ran out, beside std::bad_alloc: a predicate of
/// `const std::exception&`, or `out_of_memory_if::thrown<Types...>()`.
class out_of_memory_if {
 public:
  out_of_memory_if() = default;
  template <std::predicate<const std::exception&> Predicate>
  out_of_memory_if(Predicate predicate)  // NOLINT(google-explicit-constructor)
      : says_([predicate = std::move(predicate)](const std::exception_ptr& thrown) {
          try {
            std::rethrow_exception(thrown);
          } catch (const std::exception& e) {
            return static_cast<bool>(predicate(e));
          } catch (...) {
            return false;
          }
        }) {}

  /// Any of these types, or one derived from them.
  template <class... Types>
  [[nodiscard]] static out_of_memory_if thrown() {
    out_of_memory_if wrapped;
    wrapped.says_ = [](const std::exception_ptr& what) { return (is<Types>(what) || ...); };
    return wrapped;
  }

  [[nodiscard]] bool operator()(const std::exception_ptr& thrown) const {
    return is<std::bad_alloc>(thrown) || (says_ && says_(thrown));
  }

 private:
  std::function<bool(const std::exception_ptr&)> says_{};

  template <class Type>
  static bool is(const std::exception_ptr& thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Type&) {
      return true;
    } catch (...) {
      return false;
    }
  }
};

/// A sweep. What is not given is not asked: without probes there is no memory and no utilisation.
struct sweep_options {
  std::vector<std::int64_t> micro_batches{1};
  std::vector<std::int64_t> workers{0};
  std::vector<bool> mixed_precision{false};
  std::vector<bool> pinned_memory{false};
  search_order order = search_order::grid;
  std::int64_t largest_micro_batch = 65'536;  // that a search tries
  std::int64_t resolution = 1;                // bisection ends that near to the first that ran out

  std::int64_t warm_up_steps = 3;
  /// When a setting is done; its cap is on warm-up and measured steps together, of which the latter
  /// get half at least.
  median_rule stop{};
  /// A step that lasts longer is asked to stop, unless other ranks wait for it.
  double step_cap_s = std::numeric_limits<double>::infinity();
  /// A set-up or a tear-down that lasts longer hangs. Nothing can stop it.
  double set_up_cap_s = std::numeric_limits<double>::infinity();

  /// Before the first step of a setting, timed apart, and after its last, also where something was
  /// thrown: what `set_up` had made until then is `tear_down`'s to free.
  std::function<void(const sweep_setting&)> set_up{};
  std::function<void(const sweep_setting&)> tear_down{};
  /// The peak of memory in bytes since the setting was begun, asked after the last measured step.
  std::function<double()> memory{};
  /// The share of the time since it was last asked that the device was busy, 0 to 1; asked before
  /// the first and after the last measured step.
  std::function<double()> utilisation{};
  out_of_memory_if is_out_of_memory{};
  /// Whether to end the sweep: asked at every step and phase. See interrupt_signal.
  std::function<bool()> interrupted{};
  /// Where several ranks run one sweep: they agree after every set-up and every step, so that all
  /// do the same. A step that exchanges something guards what may throw before it: see `together`.
  agreement agree{};
  /// Told from another thread, once, that a step has lasted twice its cap and does not stop, or
  /// that a set-up or tear-down has lasted its cap: the last chance to save what is only in memory
  /// and leave the program. Not called without a cap.
  std::function<void(const sweep_setting&)> hangs{};
  /// The trials of an earlier sweep, on every rank alike, which are not measured again; those that
  /// failed are.
  std::vector<trial> already_measured{};
  std::vector<sweep_observer*> observers{};
  /// The seconds since some moment; the steady clock's where empty.
  std::function<double()> now_s{};
};

/// The options themselves where there is at least one of each setting and none twice, micro-batches
/// are positive and workers not negative, a search's limit is at least its first batch, and the
/// numbers of steps and seconds allow at least one measured step; else what is wrong with the
/// field.
[[nodiscard]] inline result<sweep_options> validate(const sweep_options& options) {
  using gpuplan::detail::check_at_least;
  using gpuplan::detail::failed;
  failure why{};
  const auto check = [&](const failure& found, const char* name) {
    if (!failed(why) && failed(found)) why = found.about(name);
  };
  const auto check_some = [&](const auto& all, const char* name) {
    check(all.empty() ? failure(errc::not_positive) : failure(), name);
  };
  const auto check_no_two = [&](const auto& all, const char* name) {
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (all[i] == all[j]) check(failure(errc::measured_twice), name);
  };
  const auto check_above_zero = [&](double value, const char* name) {  // nor NaN
    check(value > 0 ? failure() : failure(errc::not_positive), name);
  };
  check_some(options.micro_batches, "micro_batches");
  check_some(options.workers, "workers");
  check_some(options.mixed_precision, "mixed_precision");
  check_some(options.pinned_memory, "pinned_memory");
  check_no_two(options.micro_batches, "micro_batches");
  check_no_two(options.workers, "workers");
  check_no_two(options.mixed_precision, "mixed_precision");
  check_no_two(options.pinned_memory, "pinned_memory");
  for (const std::int64_t batch : options.micro_batches)
    check(check_at_least(batch, 1, fact::micro_batch), "micro_batches");
  for (const std::int64_t workers : options.workers)
    check(check_at_least(workers, 0, fact::workers), "workers");
  if (options.order != search_order::grid && !options.micro_batches.empty())
    check(check_at_least(
              options.largest_micro_batch, options.micro_batches.front(), fact::micro_batch),
          "largest_micro_batch");
  check(check_at_least(options.resolution, 1, fact::micro_batch), "resolution");
  check(check_at_least(options.warm_up_steps, 0, fact::steps), "warm_up_steps");
  const median_rule& stop = options.stop;
  check_above_zero(stop.within, "stop.within");
  check(check_at_least(stop.least_samples, 1, fact::samples), "stop.least_samples");
  check(check_at_least(stop.most_samples, stop.least_samples, fact::samples), "stop.most_samples");
  check(stop.least_s >= 0 ? failure() : failure(errc::negative), "stop.least_s");
  check_above_zero(stop.cap_s, "stop.cap_s");
  check_above_zero(options.step_cap_s, "step_cap_s");
  check_above_zero(options.set_up_cap_s, "set_up_cap_s");
  if (failed(why)) return why;
  return options;
}

/// What a sweep came to.
struct sweep_result {
  std::vector<trial> trials{};  // with those measured before, in the order of the sweep
  double clock_cost_s = 0;      // of one mark of the recorder's clock: a phase costs two
  bool interrupted = false;     // before it was done; what was being measured then is not here
  std::string stopped_by{};     // what an observer threw, which ended the sweep
  /// Of the searches, for each combination in which one ran: the largest micro-batch that did.
  std::vector<sweep_setting> largest_that_fits{};
  std::int64_t trials_bound = 0;  // never more trials than this
};

}  // namespace gpuplan::measure
