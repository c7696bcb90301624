#include "memory.hpp"

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/memory/device.hpp>

#include <algorithm>
#include <limits>
#include <vector>

#include "framework_setups.hpp"
#include "published_bigscience.hpp"
#include "published_simumax.hpp"

namespace accuracy {
namespace {

constexpr int steps = 3;  // as were measured

// The largest count from 0 to 2^20 for which `holds`, which stays false once it is.
template <class Predicate>
std::int64_t largest_count(Predicate holds) {
  const std::int64_t most = std::int64_t{1} << 20;
  std::int64_t works = 0;
  std::int64_t fails = 1;
  while (fails < most && holds(fails)) {
    works = fails;
    fails *= 2;
  }
  while (fails - works > 1) {
    const std::int64_t middle = works + (fails - works) / 2;
    (holds(middle) ? works : fails) = middle;
  }
  return works;
}

predicted_memory replayed(const described_setup& described) {
  predicted_memory predicted;
  predicted.why_not = described.why_not;
  if (predicted.why_not.empty())
    predicted.step = gpuplan::replay(described.setup, described.plan, steps);
  return predicted;
}

// A setup for each pipeline stage that may be the fullest: the first, the next, which may have a
// layer more, and the last.
std::vector<gpuplan::training_setup> stages_of(const gpuplan::training_setup& setup) {
  std::vector<gpuplan::training_setup> stages;
  const std::int64_t count = setup.parallelism.pipeline_parallel;
  for (const std::int64_t stage : {std::int64_t{0}, std::int64_t{1}, count - 1}) {
    if (stage >= count || (!stages.empty() && stages.back().place.stage >= stage)) continue;
    stages.push_back(setup);
    stages.back().place.stage = stage;
  }
  return stages;
}

struct described_device {
  gpuplan::gpu_spec gpu{};
  gpuplan::device_needs needs{};
  gpuplan::eager::device_traits traits{};
  std::string why_not;
};
described_device device_of(const row& source, const described_setup& described) {
  described_device device;
  const auto gpu = gpuplan::catalog::find_gpu(source.text("gpu"));
  if (!gpu) {
    device.why_not = gpuplan::failure_text(gpu.why()).c_str();
    return device;
  }
  device.gpu = *gpu;
  device.needs = needs_of(described.setup, described.plan, *gpu);
  device.traits.matrix_workspace =
      static_cast<std::int64_t>(gpuplan::cublas_workspace(*gpu).value());
  if (gpu->sm_count > 0) device.traits.multiprocessors = gpu->sm_count;
  return device;
}

}  // namespace

described_setup describe_published_run(const row& source) {
  if (source.text("source") == "bigscience") return describe_bigscience(source);
  if (source.text("source") == "simumax_b200") return describe_simumax(source);
  described_setup unknown;
  unknown.why_not = "what its framework's code keeps is not replayed";
  return unknown;
}

predicted_memory device_memory_of(const row& source, const described_setup& described) {
  predicted_memory predicted;
  predicted.why_not = described.why_not;
  if (!predicted.why_not.empty()) return predicted;
  const described_device device = device_of(source, described);
  predicted.why_not = device.why_not;
  if (!predicted.why_not.empty()) return predicted;
  for (const gpuplan::training_setup& stage : stages_of(described.setup)) {
    const gpuplan::step_memory step = gpuplan::replay(
        stage, described.plan, steps, std::numeric_limits<std::int64_t>::max(), device.traits);
    if (step.peak.reserved > predicted.step.peak.reserved) predicted.step = step;
  }
  predicted.beside =
      static_cast<std::int64_t>((device.needs.total() + gpuplan::context_memory).value());
  return predicted;
}

predicted_memory stage_memory_of(const row& source, const described_setup& described) {
  predicted_memory predicted;
  predicted.why_not = described.why_not;
  if (!predicted.why_not.empty()) return predicted;
  const described_device device = device_of(source, described);
  predicted.why_not = device.why_not;
  if (!predicted.why_not.empty()) return predicted;
  predicted.step = gpuplan::replay(described.setup,
                                   described.plan,
                                   steps,
                                   std::numeric_limits<std::int64_t>::max(),
                                   device.traits);
  return predicted;
}

predicted_fit fit_of(const row& source, const described_setup& described) {
  predicted_fit predicted;
  predicted.why_not = described.why_not;
  if (!predicted.why_not.empty()) return predicted;
  const described_device device = device_of(source, described);
  predicted.why_not = device.why_not;
  if (!predicted.why_not.empty()) return predicted;
  const auto fits_into = [&](double share) {
    const double left = (usable_memory(device.gpu) * share - device.needs.total()).value();
    const auto stages = stages_of(described.setup);
    return std::all_of(stages.begin(), stages.end(), [&](const gpuplan::training_setup& stage) {
      return left > 0 &&
             gpuplan::replay(
                 stage, described.plan, steps, static_cast<std::int64_t>(left), device.traits)
                 .fits;
    });
  };
  predicted.fits = fits_into(1);
  predicted.by_a_margin = predicted.fits && fits_into(0.95);
  return predicted;
}

predicted_memory step_memory_of(const row& source) { return replayed(describe_setup(source)); }

predicted_memory framework_memory_of(const row& source) {
  return replayed(describe_framework_setup(source));
}

predicted_batch largest_micro_batch_of(const row& source) {
  predicted_batch predicted;
  described_setup described = describe_setup(source);
  predicted.why_not = described.why_not;
  if (!predicted.why_not.empty()) return predicted;
  const std::int64_t usable = source.integer_or("usable_bytes", 0);
  if (usable < 0) source.fail("usable_bytes", "is negative");
  predicted.micro_batch = largest_count([&](std::int64_t batch) {
    described.plan.micro_batch = batch;
    return gpuplan::replay(described.setup, described.plan, steps, usable).fits;
  });
  return predicted;
}

}  // namespace accuracy
