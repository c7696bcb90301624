#pragma once

// What a sweep shall measure, how long, and whom it asks and tells.

#include <gpuplan/measure/statistics.hpp>
#include <gpuplan/measure/sweep/trial.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/sweep/rows.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuplan::measure {

/// Which micro-batches are tried, for each combination of the other settings apart.
enum class search_order {
  grid,               // those of the options
  doubling,           // from the first of the options, doubled until one does not run
  largest_that_fits,  // the same, then bisection between the last that ran and the first that did
                      // not
};

/// How far a sweep is.
struct sweep_progress {
  std::int64_t index = 0;  // of the trial, from 0; those measured before it are counted
  std::int64_t of = 0;     // trials, at most
  double elapsed_s = 0;    // since the sweep began
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
  template <class Predicate>
  requires std::is_invocable_r_v<bool, const Predicate&, const std::exception&> out_of_memory_if(
      Predicate predicate)  // NOLINT(google-explicit-constructor)
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
    out_of_memory_if made;
    made.says_ = [](const std::exception_ptr& what) { return (is<Types>(what) || ...); };
    return made;
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

/// Returns the largest of the numbers that all ranks pass to it: of one MPI_Allreduce with MPI_MAX.
/// Every rank calls it equally often.
using agreement = std::function<int(int)>;

/// A sweep. What is not given is not asked: without probes there is no memory and no utilisation.
struct sweep_options {
  std::vector<std::int64_t> micro_batches{1};
  std::vector<std::int64_t> workers{0};
  std::vector<bool> mixed_precision{false};
  std::vector<bool> pinned_memory{false};
  search_order order = search_order::grid;
  std::int64_t largest_micro_batch = 65'536;  // that a search tries
  std::int64_t resolution = 1;  // bisection ends that near to the first that did not run

  std::int64_t warm_up_steps = 3;
  median_rule stop{};
  /// A step that lasts longer is asked to stop, unless other ranks wait for it.
  double step_cap_s = std::numeric_limits<double>::infinity();

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
  /// Where several ranks run one sweep: what they decide together.
  agreement agree{};
  /// Told from another thread, once, that a step has lasted twice its cap and does not stop: the
  /// last chance to save what is only in memory and leave the program. Not called without a cap.
  std::function<void(const sweep_setting&)> hangs{};
  /// The trials of an earlier sweep, which are not measured again; those that failed are.
  std::vector<trial> already_measured{};
  std::vector<sweep_observer*> observers{};
  /// The seconds since some moment; the steady clock's where empty.
  std::function<double()> now_s{};
};

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
