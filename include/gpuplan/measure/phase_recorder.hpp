#pragma once

// Times the phases of a training step: by the host's clock, or by any other, such as the events of
// a device, which are read when the step has ended.

#include <gpuplan/speedup.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

namespace gpuplan::measure {

/// A clock of a recorder: `now()` marks a moment, and `seconds_between` two of them tells the time
/// that passed, once the step has ended. Where it has them, `begin_step()` is called before the
/// first mark of a step, and `wait()` after its last one, before any mark is read.
template <class Clock>
concept recorder_clock = requires(Clock& clock, const typename Clock::moment& mark) {
  { clock.now() } -> std::same_as<typename Clock::moment>;
  { clock.seconds_between(mark, mark) } -> std::convertible_to<double>;
};

/// The host's clock that never goes back.
struct steady_clock {
  using moment = std::chrono::steady_clock::time_point;

  [[nodiscard]] static moment now() noexcept { return std::chrono::steady_clock::now(); }
  [[nodiscard]] static double seconds_between(moment from, moment to) noexcept {
    return std::chrono::duration<double>(to - from).count();
  }
};
static_assert(recorder_clock<steady_clock>);

/// The name of a phase: "data".
[[nodiscard]] constexpr const char* name(phase which) {
  const char* const all[phase_count]{
      "data", "forward", "backward", "optimizer", "communication", "other"};
  return all[static_cast<int>(which)];
}

/// The seconds of one step in each phase; what was in none of them is in `phase::other`.
struct step_times {
  double seconds[phase_count]{};
  double step_s = 0;  // from its beginning to its end

  [[nodiscard]] constexpr double operator[](phase which) const {
    return seconds[static_cast<int>(which)];
  }
};

/// Thrown where a phase begins in a step that was asked to stop.
class step_stopped : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "the step was asked to stop"; }
};

/// What a step says its phases to, `{ auto scope = recorder.phase(phase::forward); ... }`, on one
/// thread. A phase within another interrupts it: no time is counted twice. What the clock throws
/// goes through.
template <recorder_clock Clock = steady_clock>
class phase_recorder {
 public:
  /// A phase lasts as long as its scope.
  class [[nodiscard]] scope {
   public:
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    // A step that throws is not read, so there is nothing to mark then.
    ~scope() noexcept(false) {
      if (std::uncaught_exceptions() == exceptions_) recorder_.mark(before_);
    }

   private:
    friend class phase_recorder;
    scope(phase_recorder& recorder, gpuplan::phase which)
        : recorder_(recorder), before_(recorder.current()) {
      recorder.mark(which);
    }

    phase_recorder& recorder_;
    gpuplan::phase before_;
    int exceptions_ = std::uncaught_exceptions();
  };

  /// `stop` tells whether steps shall stop; where empty, they never shall. The clock must outlive
  /// the recorder.
  explicit phase_recorder(Clock& clock, std::function<bool()> stop = {})
      : clock_(clock), stop_(std::move(stop)) {
    marks_.reserve(64);
  }

  /// Begins a phase. Throws step_stopped where the step was asked to stop.
  scope phase(gpuplan::phase which) {
    if (asked_to_stop()) throw step_stopped();
    return scope(*this, which);
  }

  /// Whether the step's time is up or the sweep was interrupted, for a step whose phases are long.
  [[nodiscard]] bool asked_to_stop() const { return stop_ && stop_(); }

  /// For who runs the steps: begins one, and forgets the last.
  void begin_step() {
    marks_.clear();
    if constexpr (requires { clock_.begin_step(); }) clock_.begin_step();
    mark(gpuplan::phase::other);
  }

  /// For who runs the steps: ends the one that was begun, and reads its marks.
  [[nodiscard]] step_times end_step() {
    mark(gpuplan::phase::other);
    if constexpr (requires { clock_.wait(); }) clock_.wait();
    step_times times;
    for (std::size_t i = 1; i < marks_.size(); ++i)
      times.seconds[static_cast<int>(marks_[i - 1].began)] +=
          clock_.seconds_between(marks_[i - 1].at, marks_[i].at);
    times.step_s = clock_.seconds_between(marks_.front().at, marks_.back().at);
    return times;
  }

 private:
  struct one_mark {
    typename Clock::moment at;
    gpuplan::phase began;
  };

  Clock& clock_;
  std::function<bool()> stop_;
  std::vector<one_mark> marks_{};

  [[nodiscard]] gpuplan::phase current() const {
    return marks_.empty() ? gpuplan::phase::other : marks_.back().began;
  }
  void mark(gpuplan::phase began) { marks_.push_back({clock_.now(), began}); }
};

}  // namespace gpuplan::measure
