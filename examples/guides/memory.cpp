#include "guides/memory.hpp"

#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/solver.hpp>

namespace guides {

gpuplan::bytes peak_memory(const gpuplan::training_setup& setup, const gpuplan::batch_plan& plan) {
  return gpuplan::bytes::from_value(
      static_cast<double>(gpuplan::peaks_of(setup, plan).peak().total));
}

std::int64_t largest_micro_batch(const gpuplan::training_setup& setup,
                                 const gpuplan::batch_plan& plan,
                                 const gpuplan::gpu_spec& gpu) {
  const auto found = max_micro_batch(gpu, gpuplan::transformer_memory{setup}, plan);
  return found ? *found : 0;
}

}  // namespace guides
