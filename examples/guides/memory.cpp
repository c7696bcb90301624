#include "guides/memory.hpp"

#include <gpuplan/replay.hpp>

namespace guides {
namespace {

constexpr int steps = 3;

}  // namespace

gpuplan::bytes allocated_memory(const gpuplan::training_setup& setup,
                                const gpuplan::batch_plan& plan) {
  return gpuplan::bytes::from_value(
      static_cast<double>(gpuplan::replay(setup, plan, steps).peak.allocated));
}

std::int64_t largest_micro_batch(const gpuplan::training_setup& setup,
                                 gpuplan::batch_plan plan,
                                 const gpuplan::gpu_spec& gpu) {
  const auto usable = static_cast<std::int64_t>(usable_memory(gpu).value());
  const auto fits = [&](std::int64_t micro_batch) {
    plan.micro_batch = micro_batch;
    return gpuplan::replay(setup, plan, steps, usable).fits;
  };
  std::int64_t works = 0;
  std::int64_t fails = 1;
  while (fits(fails)) {
    works = fails;
    fails *= 2;
  }
  while (fails - works > 1) {
    const std::int64_t middle = works + (fails - works) / 2;
    (fits(middle) ? works : fails) = middle;
  }
  return works;
}

}  // namespace guides
