#pragma once

// A training step's memory from allocation to allocation. At run time.

#include <gpuplan/batch.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/replay/bounds.hpp>
#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/replay/training_job.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace gpuplan {

/// What is in use once something was allocated.
struct memory_point {
  step_moment when = step_moment::forward;
  int layer = eager::none;  // whose forward or backward runs
  memory_sum in_use{};
};

namespace eager {

/// Takes down what is in use at each allocation after `start`.
class recorded_memory final : public memory_events {
 public:
  explicit recorded_memory(const transformer& model) : sums_(stacks_of(model)) {}

  int allocate(std::int64_t bytes, int stream) override {
    const int block = sums_.allocate(bytes, stream);
    if (parts_ != nullptr) {
      points_.push_back({.when = sums_.moment_now(),
                         .layer = layer_,
                         .in_use = memory_sum::by(sums_.now(), parts_)});
    }
    return block;
  }
  void release(int block) override { sums_.release(block); }
  void begin(moment now, int layer) override {
    sums_.begin(now, layer);
    layer_ = layer;
  }

  void start(const std::int64_t* parts) { parts_ = parts; }
  [[nodiscard]] std::vector<memory_point> take() { return std::move(points_); }

 private:
  summed_memory sums_;
  const std::int64_t* parts_ = nullptr;
  int layer_ = none;
  std::vector<memory_point> points_{};
};

}  // namespace eager

/// The step that `peaks_of` looks at, with one point for each allocation. The largest is the peak.
/// Errors: those of `transformer_memory` of the setup, and of it with the plan; `out_of_bounds` of
/// the device, and of more than 2^20 passes through a layer.
[[nodiscard]] inline result<std::vector<memory_point>> timeline_of(
    const training_setup& setup, const batch_plan& plan, const eager::device_traits& device = {}) {
  if (const failure why = detail::flaw_of_replay(setup, plan, device); detail::failed(why))
    return why;
  eager::recorded_memory memory(setup.model);
  std::vector<memory_point> points;
  eager::train(memory, setup, plan, device, nullptr, [&](eager::training_job& job) {
    job.settle();
    memory.start(job.alive());
    job.step();
    points = memory.take();
  });
  return points;
}

}  // namespace gpuplan
