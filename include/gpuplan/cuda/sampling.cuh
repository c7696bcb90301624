#pragma once

// The one protocol of all measurements: heat, time with events, read the real clock beside each
// sample, stop when the series is steady.

#include <gpuplan/cuda/clock.cuh>
#include <gpuplan/cuda/runtime.cuh>
#include <gpuplan/cuda/session.cuh>
#include <gpuplan/measure/statistics.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::cuda {

/// How long to heat a device before measuring.
struct warm_up_options {
  double window_s = 1;          // the clock is averaged over windows of this length
  int windows = 3;              // so many in a row must agree
  double steady_within = 0.01;  // the largest less the smallest, over the smallest
  double cap_s = 30;
};

/// What heating came to.
struct warm_up_result {
  bool steady = false;  // the windows agreed before the time was up
  double passed_s = 0;
  std::optional<double> clock_MHz{};  // the mean of the last window
};

/// The two states of a device that a measurement may be of. A hot device under load for seconds, as
/// in training; or a rested one for the first milliseconds, before power and heat take the clock
/// down.
enum class load { sustained, burst };

[[nodiscard]] constexpr const char* name(load state) {
  return state == load::sustained ? "sustained" : "burst";
}

/// How to sample.
struct sampling_options {
  std::string_view what = "sample";  // as progress and errors name it
  load state = load::sustained;
  bool flush_l2 = false;  // before every launch: one launch is one sample then
  double least_sample_s = 1e-3;
  warm_up_options warm_up{};              // of a sustained load
  measure::stop_rule stop{.least_s = 2};  // of a sustained load
  double rest_s = 5;                      // before a burst
  std::int64_t burst_samples = 8;         // of a burst
  // Of the clock expected; slower samples are discarded. Of a burst, the highest clock is expected,
  // but for what power takes within its first millisecond: an H100 comes down to 72 % of it.
  double least_clock_share = 0.75;
  double least_burst_clock_share = 0.5;
};

/// A series of timings of one piece of work.
struct sampled {
  duration median{};  // of one launch
  duration first_quartile{};
  duration third_quartile{};
  double spread = 0;  // standard deviation over mean, of all samples
  std::int64_t samples = 0;
  std::int64_t discarded = 0;  // for their slow clock; none of them is in the figures above
  std::int64_t launches_per_sample = 1;
  std::optional<double> clock_MHz{};  // of the SMs, the median over the samples; where it was read
  load state = load::sustained;
  bool flushed_l2 = false;
  bool warm = false;  // the clock was steady before the first sample
  measure::stop_reason ended = measure::stop_reason::steady;
};

namespace detail {

// Holds a stream for longer than the host needs to enqueue what takes it `enqueue_s`, within
// reason.
inline void hold(cudaStream_t on, double enqueue_s) {
  const double ns = 1e9 * std::min(1.5 * enqueue_s + 50e-6, 50e-3);
  GPUPLAN_CUDA_LAUNCH(hold_stream<<<1, 1, 0, on>>>(static_cast<std::uint64_t>(ns)));
}

// One launch alone: its seconds on the device, and those that the host took to enqueue it.
struct one_launch {
  double device_s;
  double enqueue_s;
};

inline one_launch time_one(session& s, const work& launch) {
  const event start;
  const event stop;
  const waits_at_end waits(s.stream());
  launch(s.stream());  // loads the kernels
  s.stream().synchronize();
  const double before_s = s.now_s();
  launch(s.stream());
  const double enqueue_s = s.now_s() - before_s;
  hold(s.stream(), enqueue_s);
  start.record(s.stream());
  launch(s.stream());
  stop.record(s.stream());
  s.stream().synchronize();
  return {seconds_between(start, stop), enqueue_s};
}

// How many launches last `goal_s`, at least one and so few that they can wait in a stream's queue.
inline std::int64_t launches_lasting(double goal_s, double one_s) {
  constexpr double most = 256;
  if (!(one_s * most > goal_s)) return static_cast<std::int64_t>(most);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(goal_s / one_s)));
}

inline void launch_times(const work& launch, std::int64_t count, cudaStream_t on) {
  for (std::int64_t i = 0; i < count; ++i) launch(on);
}

}  // namespace detail

/// Repeats a launch until the clock is steady: `windows` windows in a row whose mean clocks agree
/// within `steady_within`, or `cap_s`. Throws what the launch throws, and call_error.
inline warm_up_result warm_up(session& s, const work& launch, const warm_up_options& options = {}) {
  const double began_s = s.now_s();
  const auto passed_s = [&] { return s.now_s() - began_s; };
  const std::int64_t launches =
      detail::launches_lasting(0.02, detail::time_one(s, launch).device_s);
  const clock_reading clock(s.properties().multiProcessorCount);
  const std::array<event, 2> done{event(cudaEventDisableTiming), event(cudaEventDisableTiming)};
  const detail::waits_at_end waits(s.stream());
  std::vector<double> clocks;
  warm_up_result result;
  while (!result.steady && passed_s() < options.cap_s) {
    const double window_began_s = s.now_s();
    clock.start(s.stream());
    for (std::size_t i = 0; i < 2 || s.now_s() - window_began_s < options.window_s; ++i) {
      // One batch runs while another waits behind it, so that the device never idles.
      if (i >= 2) done[i % 2].synchronize();
      detail::launch_times(launch, launches, s.stream());
      done[i % 2].record(s.stream());
      s.report("warm-up", passed_s() / options.cap_s);
    }
    clock.stop(s.stream());
    s.stream().synchronize();
    result.clock_MHz = clock.MHz();
    if (!result.clock_MHz) {
      clocks.clear();
      continue;
    }
    clocks.push_back(*result.clock_MHz);
    const auto windows = static_cast<std::size_t>(options.windows);
    result.steady = clocks.size() >= windows &&
                    measure::agree(std::span(clocks).last(windows), options.steady_within);
  }
  result.passed_s = passed_s();
  s.report("warm-up", 1);
  return result;
}

namespace detail {

// One sample in flight.
struct sample_slot {
  explicit sample_slot(int multiprocessors) : clock(multiprocessors) {}
  event start{};
  event stop{};
  event done{cudaEventDisableTiming};
  clock_reading clock;
};

class sampler {
 public:
  sampler(session& s, const work& launch, const sampling_options& options)
      : session_(s), launch_(launch), options_(options) {
    for (std::int64_t i = 0; i < depth; ++i)
      slots_.emplace_back(s.properties().multiProcessorCount);
  }

  sampled run() {
    const waits_at_end waits(session_.stream());
    choose_launches();
    bring_into_state();
    const double began_s = session_.now_s();
    const std::int64_t limit = options_.state == load::burst
                                   ? options_.burst_samples
                                   : std::numeric_limits<std::int64_t>::max();
    std::optional<measure::stop_reason> ended;
    for (std::int64_t enqueued = 0, taken = 0; !ended && taken < limit; ++taken) {
      // Some samples wait behind the one that runs, so that the device never idles between them.
      for (; enqueued < limit && enqueued - taken < depth; ++enqueued) {
        if (enqueued == 0)
          hold(session_.stream(), enqueue_s_ * depth);
        else if (enqueue_s_ > device_s_)
          hold(session_.stream(), enqueue_s_);
        enqueue(slot(enqueued));
      }
      take(slot(taken));
      if (options_.state == load::burst) {
        session_.report(options_.what, static_cast<double>(taken + 1) / static_cast<double>(limit));
      } else {
        ended = judge(session_.now_s() - began_s);
      }
    }
    return result(ended.value_or(measure::stop_reason::most_samples));
  }

 private:
  static constexpr std::int64_t depth = 4;

  double least_clock_share() const {
    return options_.state == load::burst ? options_.least_burst_clock_share
                                         : options_.least_clock_share;
  }

  sample_slot& slot(std::int64_t sample) {
    return slots_[static_cast<std::size_t>(sample % depth)];
  }

  void choose_launches() {
    const one_launch one = time_one(session_, launch_);
    if (!options_.flush_l2) launches_ = launches_lasting(options_.least_sample_s, one.device_s);
    device_s_ = one.device_s * static_cast<double>(launches_);
    enqueue_s_ = one.enqueue_s * static_cast<double>(launches_);
  }

  // Power and heat hold a loaded device below its highest clock for good, so a sustained load is
  // judged against the clock that it settled at.
  void bring_into_state() {
    expected_MHz_ = session_.clock_limit_MHz();
    if (options_.state == load::burst) {
      session_.sleep_s(options_.rest_s);
      return;
    }
    const warm_up_result heated = warm_up(session_, launch_, options_.warm_up);
    warm_ = heated.steady;
    if (heated.clock_MHz) expected_MHz_ = std::min(expected_MHz_, *heated.clock_MHz);
  }

  void enqueue(sample_slot& to) {
    const cudaStream_t on = session_.stream();
    to.clock.start(on);
    if (options_.flush_l2) session_.flush_l2();
    to.start.record(on);
    for (std::int64_t i = 0; i < launches_; ++i) launch_(on);
    to.stop.record(on);
    to.clock.stop(on);
    to.done.record(on);
  }

  void take(const sample_slot& from) {
    from.done.synchronize();
    const double seconds = seconds_between(from.start, from.stop);
    if (!(seconds > 0))
      throw measurement_error(std::string(options_.what) + ": no time passed between two events");
    const std::optional<double> MHz = from.clock.MHz();
    measured_s_ += seconds;
    if (MHz && *MHz < least_clock_share() * expected_MHz_) {
      ++discarded_;
      slowest_MHz_ = std::min(slowest_MHz_, *MHz);
      return;
    }
    samples_s_.push_back(seconds / static_cast<double>(launches_));
    if (MHz) clocks_.push_back(*MHz);
  }

  std::optional<measure::stop_reason> judge(double passed_s) {
    const measure::stop_rule& rule = options_.stop;
    const auto ended =
        measure::stop_now(rule, samples_s_, {.measured_s = measured_s_, .passed_s = passed_s});
    const double done = std::min(static_cast<double>(samples_s_.size()) /
                                     static_cast<double>(std::max(rule.window, rule.least_samples)),
                                 measured_s_ / rule.least_s);
    // From there on it may end at any sample, or go on to the cap.
    session_.report(options_.what,
                    ended ? 1 : std::max(std::min(done, 0.99), passed_s / rule.cap_s));
    return ended;
  }

  sampled result(measure::stop_reason ended) {
    if (samples_s_.empty())
      throw measurement_error(
          std::string(options_.what) + ": all " + std::to_string(discarded_) +
          " samples ran below " + std::to_string(std::lround(100 * least_clock_share())) +
          " % of the expected clock of " + std::to_string(std::lround(expected_MHz_)) +
          " MHz, the slowest at " + std::to_string(std::lround(slowest_MHz_)) + " MHz");
    const double spread = measure::relative_spread(samples_s_);
    const auto count = static_cast<std::int64_t>(samples_s_.size());
    const measure::quartiles time = measure::sort_into_quartiles(samples_s_);
    sampled out{.median = duration::from_value(time.median),
                .first_quartile = duration::from_value(time.lower),
                .third_quartile = duration::from_value(time.upper),
                .spread = spread,
                .samples = count,
                .discarded = discarded_,
                .launches_per_sample = launches_,
                .state = options_.state,
                .flushed_l2 = options_.flush_l2,
                .warm = warm_,
                .ended = ended};
    if (!clocks_.empty()) out.clock_MHz = measure::sort_into_quartiles(clocks_).median;
    return out;
  }

  session& session_;
  const work& launch_;
  const sampling_options& options_;
  std::vector<sample_slot> slots_;
  std::int64_t launches_ = 1;  // in a sample
  double device_s_ = 0;        // of a sample
  double enqueue_s_ = 0;       // of a sample
  double expected_MHz_ = 0;
  bool warm_ = false;
  std::vector<double> samples_s_;
  std::vector<double> clocks_;
  double measured_s_ = 0;
  std::int64_t discarded_ = 0;
  double slowest_MHz_ = std::numeric_limits<double>::infinity();
};

}  // namespace detail

/// Times a launch by the protocol above. Sustained: heats with the launch itself, then samples back
/// to back until `stop`. Burst: rests, then takes `burst_samples` samples from a queue that was
/// filled first. A sample is as many launches as last `least_sample_s` (one where the L2 cache is
/// flushed), between two events; beside it stands the clock that an SM really ran at, and one
/// slower than `least_clock_share` of the settled clock, or of a burst than
/// `least_burst_clock_share` of the highest, is discarded. Throws call_error, measurement_error
/// where every sample was discarded or no time passed, and what the launch throws; the stream is
/// idle afterwards in any case.
inline sampled sample(session& s, const work& launch, const sampling_options& options = {}) {
  return detail::sampler(s, launch, options).run();
}

}  // namespace gpuplan::cuda
