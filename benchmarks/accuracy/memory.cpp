#include "memory.hpp"

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/device_needs.hpp>
#include <gpuplan/memory/profile.hpp>
#include <gpuplan/replay/nanotron.hpp>
#include <gpuplan/solver.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "framework_setups.hpp"
#include "notes.hpp"
#include "published_bigscience.hpp"
#include "published_simumax.hpp"
#include "published_torchtitan.hpp"
#include "run_columns.hpp"

namespace accuracy {
namespace {

constexpr int steps = 3;  // as were measured

// The largest micro-batch as the measurements looked for it: along the straight line through the
// last two that fit. Not every size below the largest fits, as the allocator's blocks differ, so
// that another search would end elsewhere.
template <class Attempt>
std::int64_t largest_batch(std::int64_t usable, Attempt peak_where_it_fits) {
  struct tried {
    std::int64_t batch = 0;
    std::int64_t peak = 0;
  };
  tried last{};
  tried before{};
  std::int64_t best = 0;
  std::int64_t top = 65'537;
  int fitted = 0;
  for (std::int64_t guess = 1; top - best > 1;) {
    const std::optional<std::int64_t> peak = peak_where_it_fits(guess);
    if (peak) {
      best = guess;
      before = last;
      last = {guess, *peak};
      ++fitted;
    } else {
      top = guess;
    }
    const std::int64_t middle = (best + top) / 2;
    if (fitted < 2) {
      guess = peak ? best + 1 : middle;
      continue;
    }
    const std::int64_t slope = std::max<std::int64_t>(1, last.peak - before.peak);
    guess = best + (usable - last.peak) * (last.batch - before.batch) / slope;
    if (!peak) {
      const std::int64_t less = guess * 24 / 25;
      guess = std::max(less < top ? less : 0, middle);
    }
    guess = std::min(std::max(guess, best + 1), top - 1);
  }
  return best;
}

predicted_memory predicted(const described_setup& described, memory_method by) {
  predicted_memory memory;
  memory.why_not = described.why_not;
  if (!memory.why_not.empty()) return memory;
  if (by == memory_method::replay) {
    memory.step = *gpuplan::replay(described.setup, described.plan, steps);
    return memory;
  }
  const gpuplan::memory_profile profile({described.setup, 0}, described.plan.data_parallel);
  if (const auto valid = validate(profile); !valid) {
    memory.why_not = gpuplan::failure_text(valid.why()).c_str();
    return memory;
  }
  gpuplan::memory_counts& peak = memory.step.peak;
  peak.requested = static_cast<std::int64_t>(profile.requested(described.plan).value());
  peak.allocated = peak.requested;
  return memory;
}

std::int64_t replayed_batch(described_setup described, std::int64_t usable) {
  return largest_batch(usable, [&](std::int64_t batch) {
    described.plan.micro_batch = batch;
    const auto step = *gpuplan::replay(described.setup, described.plan, steps, usable);
    return step.fits ? std::optional(step.peak.allocated) : std::nullopt;
  });
}

// A batch of as few micro-batches as fill a pipeline and empty it: those between repeat.
gpuplan::batch_plan short_batch(const described_setup& described) {
  gpuplan::batch_plan plan = described.plan;
  const gpuplan::parallelism& layout = described.setup.parallelism;
  plan.accumulation =
      std::min(plan.accumulation, (2 * layout.pipeline_parallel + 2) * layout.virtual_pipeline);
  return plan;
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

// The third step of a row of steps, on a device with this share of the memory that it says.
gpuplan::step_memory step_of(const row& source, const described_setup& described, double share) {
  gpuplan::eager::device_traits device;
  if (!described.setup.framework.implementation.keeps_workspaces)
    device.matrix_workspace = source.integer_or("workspace_bytes", device.matrix_workspace);
  else if (const auto gpu = gpuplan::catalog::find_gpu(source.text("gpu")))
    device.matrix_workspace = static_cast<std::int64_t>(gpuplan::cublas_workspace(*gpu).value());
  device.multiprocessors = source.integer_or("multiprocessors", device.multiprocessors);
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (const auto usable = source.integer("usable_bytes"))
    most = share == 1 ? *usable : static_cast<std::int64_t>(share * static_cast<double>(*usable));
  return *gpuplan::replay(described.setup, described.plan, steps, most, device);
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
  // a card with more memory, whose driver's number is not known
  if (value_in(source.text("notes"), "gpu_variant").starts_with("H100-9")) {
    device.gpu.memory_label_GB = 96;
    device.gpu.memory = {};
  }
  device.needs = needs_of(described.setup, described.plan, *gpu);
  device.traits.matrix_workspace =
      static_cast<std::int64_t>(gpuplan::cublas_workspace(*gpu).value());
  if (gpu->sm_count > 0) device.traits.multiprocessors = gpu->sm_count;
  return device;
}

}  // namespace

described_setup describe_published_run(const row& source) {
  if (source.text("source") == "bigscience") return describe_bigscience(source);
  if (source.text("source") == "torchtitan") return describe_torchtitan(source);
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
    const gpuplan::step_memory step = *gpuplan::replay(stage,
                                                       short_batch(described),
                                                       steps,
                                                       std::numeric_limits<std::int64_t>::max(),
                                                       device.traits);
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
  predicted.step = *gpuplan::replay(described.setup,
                                    short_batch(described),
                                    steps,
                                    std::numeric_limits<std::int64_t>::max(),
                                    device.traits);
  return predicted;
}

bool runs_nanotron(const row& source) { return source.text("framework") == "nanotron"; }

predicted_memory nanotron_memory_of(const row& source, double share) {
  predicted_memory predicted;
  const described_setup described = read_run_columns(source);
  predicted.why_not = described.why_not;
  if (!predicted.why_not.empty()) return predicted;
  const described_device device = device_of(source, described);
  predicted.why_not = device.why_not;
  if (!predicted.why_not.empty()) return predicted;
  const gpuplan::bytes left = usable_memory(device.gpu) * share - device.needs.total();
  auto reserved = nanotron_reserved(described.setup, described.plan, left);
  predicted.step.fits = static_cast<bool>(reserved);
  if (!reserved) reserved = nanotron_reserved(described.setup, described.plan);
  if (reserved)
    predicted.step.peak.reserved = static_cast<std::int64_t>(reserved->value());
  else
    predicted.why_not = gpuplan::failure_text(reserved.why()).c_str();
  return predicted;
}

predicted_fit nanotron_fit_of(const row& source) {
  const predicted_memory memory = nanotron_memory_of(source);
  predicted_fit predicted;
  predicted.why_not = memory.why_not;
  predicted.fits = memory.step.fits;
  predicted.by_a_margin = predicted.fits && nanotron_memory_of(source, 0.95).step.fits;
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
      return left > 0 && gpuplan::replay(stage,
                                         short_batch(described),
                                         steps,
                                         static_cast<std::int64_t>(left),
                                         device.traits)
                             ->fits;
    });
  };
  predicted.fits = fits_into(1);
  predicted.by_a_margin = predicted.fits && fits_into(0.95);
  return predicted;
}

predicted_memory step_memory_of(const row& source, memory_method by) {
  const described_setup described = describe_setup(source);
  if (by != memory_method::replay || !described.why_not.empty()) return predicted(described, by);
  return {.step = step_of(source, described, 1), .why_not = {}};
}

predicted_fit step_fit_of(const row& source) {
  const described_setup described = describe_setup(source);
  predicted_fit fit{.why_not = described.why_not};
  if (!fit.why_not.empty()) return fit;
  fit.fits = step_of(source, described, 1).fits;
  fit.by_a_margin = fit.fits && step_of(source, described, 0.95).fits;
  return fit;
}

predicted_memory framework_memory_of(const row& source, memory_method by) {
  return predicted(describe_framework_setup(source), by);
}

predicted_batch largest_micro_batch_of(const row& source, memory_method by) {
  predicted_batch predicted;
  const described_setup described = describe_setup(source);
  predicted.why_not = described.why_not;
  if (!predicted.why_not.empty()) return predicted;
  const std::int64_t usable = source.integer_or("usable_bytes", 0);
  if (usable < 0) source.fail("usable_bytes", "is negative");
  if (by == memory_method::replay) {
    predicted.micro_batch = replayed_batch(described, usable);
    return predicted;
  }
  const gpuplan::memory_profile profile(gpuplan::transformer_memory{described.setup},
                                        described.plan.data_parallel);
  const auto largest = max_micro_batch(
      gpuplan::bytes::from_value(static_cast<double>(usable)), profile, described.plan);
  if (largest)
    predicted.micro_batch = *largest;
  else if (largest.why().code != gpuplan::errc::exceeds_gpu_memory)
    predicted.why_not = gpuplan::failure_text(largest.why()).c_str();
  return predicted;
}

}  // namespace accuracy
