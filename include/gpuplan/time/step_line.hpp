#pragma once

// A step's time by its number of micro-batches: a straight line, but for what stages wait and for
// samples. Private.

#include <gpuplan/detail/math.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/time/kernels.hpp>
#include <gpuplan/time/pipeline.hpp>
#include <gpuplan/time/rates.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <limits>

namespace gpuplan::detail {

// What the stages of a step do, in seconds.
struct staged_work {
  pipeline_seconds stages{};  // with what stops them of sends
  pipeline_schedule schedule = pipeline_schedule::one_f_one_b;
  double busiest = 0;  // of a micro-batch: a stage's both passes
  // By how much the middle stages together take less than as many of the longest of them, over the
  // chunks of a stage: all but a few schedules pass each of them once.
  double slack = 0;

  // What the busiest stage waits for others.
  [[nodiscard]] constexpr double waits(std::int64_t micro_batches) const {
    if (stages.stages == 1) return 0;
    pipeline_seconds line = stages;
    line.micro_batches = micro_batches;
    const double all = pipeline_time(line, schedule) - slack;
    return larger_of(0, all - static_cast<double>(micro_batches) * busiest);
  }
};

// Samples that are read, of a micro-batch of all ranks, in seconds.
struct loading_work {
  double each = 0;
  bool is_hidden = true;  // behind the step

  [[nodiscard]] constexpr double waits(double micro_batches, double step) const {
    const double all = micro_batches * each;
    return is_hidden ? larger_of(0, all - step) : all;
  }
};

// The seconds of a step by its micro-batches. `each` and `once` are of the busiest stage.
class step_curve {
 public:
  constexpr step_curve() = default;
  constexpr step_curve(double each,
                       double once,
                       const staged_work& work,
                       const loading_work& loading)
      : each_(each), once_(once), work_(work), loading_(loading) {}

  // For many numbers of micro-batches: what the busiest stage waits falls as they grow, and each
  // time by less, so where it is the same for two numbers it is so for all above the lower one.
  constexpr void settle() {
    const std::int64_t stages = work_.stages.stages;
    if (stages == 1) return;
    settled_ = work_.waits(2 * stages);
    const double later = work_.waits(4 * stages);
    if (abs(settled_ - later) <= 1e-13 * static_cast<double>(stages) * each_)
      settles_at_ = 2 * stages;
  }

  [[nodiscard]] constexpr double operator()(std::int64_t micro_batches) const {
    const auto many = static_cast<double>(micro_batches);
    const double waits = micro_batches >= settles_at_ ? settled_ : work_.waits(micro_batches);
    const double step = many * each_ + (once_ + waits);
    return loading_.each == 0 ? step : step + loading_.waits(many, step);
  }

 private:
  double each_ = 0;
  double once_ = 0;
  double settled_ = 0;
  std::int64_t settles_at_ = std::numeric_limits<std::int64_t>::max();
  staged_work work_{};
  loading_work loading_{};
};

// A step's parts, in seconds.
struct step_line {
  // of a micro-batch on the busiest stage
  micro_batch_time busy{};
  std::int64_t busy_stage = 0;
  double point_to_point = 0;
  // of the step
  double hidden_point_to_point =
      0;  // behind other micro-batches: of the first one alone they are not
  double exposed_point_to_point =
      0;  // likewise those that stop stages: at most what there is to wait
  double gradients = 0;
  double parameters = 0;
  double optimizer = 0;
  double optimizer_flops = 0;  // of Muon
  double host = 0;
  staged_work work{};
  loading_work loading{};

  [[nodiscard]] constexpr double once() const {
    return hidden_point_to_point + gradients + parameters + optimizer + host;
  }
  [[nodiscard]] constexpr step_curve curve() const {
    return {busy.total() + point_to_point, once(), work, loading};
  }
  // Of one number of micro-batches alone.
  [[nodiscard]] constexpr step_curve curve_at(std::int64_t micro_batches) const {
    if (loading.each != 0) return curve();
    const double waits = once() + work.waits(micro_batches);
    return {
        0, static_cast<double>(micro_batches) * (busy.total() + point_to_point) + waits, {}, {}};
  }
  // Of each of so many, where no stage waits for another, nor for samples.
  [[nodiscard]] constexpr double at_least(std::int64_t micro_batches) const {
    return busy.total() + point_to_point + once() / static_cast<double>(micro_batches);
  }
  [[nodiscard]] constexpr step_breakdown at(std::int64_t micro_batches) const {
    const auto each = static_cast<double>(micro_batches);
    const auto seconds = [](double value) { return duration::from_value(value); };
    const double waits = work.waits(micro_batches);
    const double for_point_to_point = smaller_of(waits, exposed_point_to_point);
    const double step = each * (busy.total() + point_to_point) + (once() + waits);
    return {.data = seconds(loading.each == 0 ? 0 : loading.waits(each, step)),
            .forward = seconds(each * busy.forward),
            .backward = seconds(each * busy.backward),
            .recompute = seconds(each * busy.recompute),
            .tensor_communication = seconds(each * busy.tensor),
            .context_communication = seconds(each * busy.context),
            .expert_communication = seconds(each * busy.expert),
            .pipeline_communication =
                seconds(each * point_to_point + hidden_point_to_point + for_point_to_point),
            .gradient_communication = seconds(gradients),
            .parameter_communication = seconds(each * busy.parameter + parameters),
            .bubble = seconds(waits - for_point_to_point),
            .optimizer = seconds(optimizer),
            .host = seconds(each * busy.host + host)};
  }
};

}  // namespace gpuplan::detail
