#pragma once

// The time model of a guide: one step time that somebody stated or measured.

#include <gpuplan/detail/checks.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/time_model.hpp>

namespace gpuplan {

/// The step time of one plan, carried over to others: each GPU's time is in proportion to its
/// samples, `micro_batch x accumulation`, and a number of GPUs N stretches it by
/// `1 + serial_fraction (N - 1)`, Amdahl's law with the fraction that `karp_flatt` reads off a
/// stated efficiency. Valid near the plan that it comes from: smaller micro-batches use a GPU less
/// well, and the first GPU of a second node costs more than one of the first.
struct documented_time {
  duration step_time{};
  batch_plan measured_at{};
  double serial_fraction = 0;  // 0 to 1

  /// Precondition: `validate` accepts the model and the plan.
  [[nodiscard]] constexpr duration step(const batch_plan& plan) const {
    return step_time * (work(plan) / work(measured_at));
  }

 private:
  [[nodiscard]] constexpr double work(const batch_plan& plan) const {
    return static_cast<double>(plan.micro_batch) * static_cast<double>(plan.accumulation) *
           (1 + serial_fraction * static_cast<double>(plan.data_parallel - 1));
  }
};

/// The model where a throughput of all GPUs together is stated instead of a step time.
/// Precondition: a valid plan and a positive rate.
[[nodiscard]] constexpr documented_time documented_throughput(sample_rate rate,
                                                              const batch_plan& measured_at,
                                                              double serial_fraction = 0) {
  return {time_for(measured_at.effective_batch(), rate), measured_at, serial_fraction};
}

/// The model itself where its step time is positive and finite, its plan valid, and its serial
/// fraction from 0 to 1.
[[nodiscard]] constexpr result<documented_time> validate(const documented_time& model) {
  if (const failure why = detail::check_positive(model.step_time, fact::step_time);
      detail::failed(why))
    return why;
  if (const auto valid = validate(model.measured_at); !valid) return valid.why();
  if (const failure why = detail::check_between(model.serial_fraction, 0, 1, fact::serial_fraction);
      detail::failed(why))
    return why;
  return model;
}

}  // namespace gpuplan
