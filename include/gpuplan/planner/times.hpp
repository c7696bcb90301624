#pragma once

// Which times the planner goes by.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time/calibrated.hpp>
#include <gpuplan/time/rates.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <concepts>

namespace gpuplan {

/// The times of `calibrated_time`, which are those of `roofline_time` where no factor is given.
struct roofline_times {
  known<sample_loader> loader{};
  double straggler_slowdown = 1;
  time_terms terms{};
  time_factors factors{};
  known<stack_estimate> stack{};  // what timed steps said of the cluster and its software

  [[nodiscard]] constexpr calibrated_time operator()(const training_setup& setup,
                                                     const cluster& on,
                                                     const device_efficiency& efficiency) const {
    const roofline_time model{.setup = setup,
                              .on = on,
                              .efficiency = efficiency,
                              .loader = loader,
                              .straggler_slowdown = straggler_slowdown,
                              .terms = terms};
    return {.model = stack ? stack->applied_to(model) : model, .factors = factors};
  }
};

/// Answers "how long do steps take?" for the planner: `roofline_times`, of which most plans are
/// ruled out by bounds; or anything that gives a time model for a setup on a cluster, which is then
/// asked about each plan. Where the model says `sample_time_falls`, true, the time of a sample
/// falls as accumulation grows, and it is asked about the most that fits alone, so far as no limit
/// of time or money is there.
template <class TimesOf>
concept times_of_setups = std::same_as<TimesOf, roofline_times> ||
    requires(const TimesOf& times_of, const training_setup& setup, const cluster& on) {
  { times_of(setup, on).step(batch_plan{}) } -> std::same_as<duration>;
};

namespace detail {

template <class Model>
inline constexpr bool sample_time_falls = requires {
  requires Model::sample_time_falls;
};

}  // namespace detail

/// The times themselves where `calibrated_time` is valid with them, of this setup on this cluster.
/// Errors: its own.
[[nodiscard]] constexpr result<roofline_times> validate(const roofline_times& times,
                                                        const training_setup& setup,
                                                        const cluster& on) {
  // Which stages and chunks a schedule takes is asked of each layout.
  training_setup asked = setup;
  asked.parallelism.schedule = pipeline_schedule::one_f_one_b;
  if (const auto valid = validate(times(asked, on, {})); !valid) return valid.why();
  return times;
}

}  // namespace gpuplan
