#pragma once

// What a pipeline of stages takes for the micro-batches of a step, by its schedule.

#include <gpuplan/detail/pipeline.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

/// One micro-batch on one stage.
struct stage_time {
  duration forward{};
  duration backward{};  // with what it recomputes
  duration weights{};   // of it, the gradients of the weights: `zero_bubble` alone asks
};

/// Stages that pass micro-batches on. All but the first, which has the embedding, and the last,
/// which has the head, are alike.
struct stage_line {
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;
  std::int64_t virtual_pipeline = 1;  // chunks of a stage, interleaved: of 1F1B alone
  stage_time first{};                 // the only one, where there is one
  stage_time middle{};                // of two interleaved stages too: one without ends
  stage_time last{};
  duration send{};  // from one stage to the next while both go on; what stops them is stage time
};

namespace detail {

[[nodiscard]] constexpr stage_seconds seconds_of(const stage_time& stage) {
  return {stage.forward.value(), stage.backward.value(), stage.weights.value()};
}
[[nodiscard]] constexpr pipeline_seconds seconds_of(const stage_line& line) {
  return {line.stages,
          line.micro_batches,
          line.virtual_pipeline,
          seconds_of(line.first),
          seconds_of(line.middle),
          seconds_of(line.last),
          line.send.value()};
}

[[nodiscard]] constexpr double pipeline_time(const pipeline_seconds& line,
                                             pipeline_schedule schedule) {
  switch (schedule) {
    case pipeline_schedule::gpipe:
      return gpipe(line);
    case pipeline_schedule::zero_bubble:
      return zero_bubble(line);
    default:
      return interleaved(line);  // 1F1B where a stage is one chunk
  }
}

}  // namespace detail

/// From the first forward to the last backward. Of m micro-batches on p like stages of f forward
/// and b backward, without sends: (m + p - 1) (f + b); interleaved in v chunks, (m + (p - 1) / v)
/// (f + b); of ZB-H1 with w of b for weights, m (f + b) + (p - 1) (f + b - 2 w) where w is less
/// than b - w. Beside event simulations of the schedules, with ends from half to almost twice the
/// middle (thousands of random pipelines, tests/run_time/pipeline_schedules.cpp), GPipe is exact,
/// and 1F1B without sends. Else the forms are of the longest of some paths and so below: 1F1B by
/// 0.001 % in the mean and 0.3 % at most, interleaved by 0.4 % and 7 %, zero-bubble by 1.2 % and 6
/// %, and up to 1 % above where an end is short. Preconditions: numbers of at least 1, times not
/// negative, interleaved micro-batches a multiple of `stages`.
[[nodiscard]] constexpr duration pipeline_time(const stage_line& line, pipeline_schedule schedule) {
  return duration::from_value(detail::pipeline_time(detail::seconds_of(line), schedule));
}

/// Of it, what the busiest stage waits. Preconditions: as `pipeline_time`.
[[nodiscard]] constexpr duration pipeline_bubble(const stage_line& line,
                                                 pipeline_schedule schedule) {
  const detail::pipeline_seconds plain = detail::seconds_of(line);
  return duration::from_value(detail::pipeline_time(plain, schedule) - plain.work());
}

}  // namespace gpuplan
