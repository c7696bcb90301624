#include "fits/verdicts.hpp"

#include <gpuplan/batch.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace fits_program {
namespace {

using namespace gpuplan;

std::int64_t count_of(bytes memory) { return static_cast<std::int64_t>(memory.value()); }

verdict judge(const gpu_spec& gpu, const method& way, double fragmentation) {
  verdict made{.method = way.name,
               .recompute = way.recompute,
               .gpus = way.plan.data_parallel * way.setup.parallelism.tensor_parallel};
  const transformer_memory memory{way.setup, fragmentation, nccl_channels(gpu)};
  if (const auto valid = validate(memory); !valid) {
    made.why_not = failure_text(valid.why()).c_str();
    return made;
  }
  batch_plan plan = way.plan;
  plan.micro_batch = 1;
  if (const auto valid = validate(memory, plan); !valid) {
    made.why_not = failure_text(valid.why()).c_str();
    return made;
  }
  memory_breakdown parts = memory.breakdown(plan);
  made.at_one = count_of(parts.total());
  if (const auto largest = max_micro_batch(gpu, memory, plan)) {
    made.largest = *largest;
    plan.micro_batch = *largest;
    parts = memory.breakdown(plan);
    made.at_largest = count_of(parts.total());
  } else if (largest.why().code != errc::exceeds_gpu_memory) {
    made.why_not = failure_text(largest.why()).c_str();
    return made;
  }
  made.when = text(parts.when);
  if (made.largest != 0) {
    ++plan.micro_batch;
    parts = memory.breakdown(plan);
  }
  const memory_breakdown_part& most = largest_part_of(parts);
  made.binds = most.name;
  made.binding_bytes = count_of(parts.*most.size);
  return made;
}

}  // namespace

judged_gpu judge(const gpu_spec& gpu, const std::vector<method>& methods, double fragmentation) {
  judged_gpu made{.name = gpu.name, .usable = count_of(usable_memory(gpu))};
  for (const method& way : methods) made.verdicts.push_back(judge(gpu, way, fragmentation));
  return made;
}

}  // namespace fits_program
