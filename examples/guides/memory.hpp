#pragma once

// What the steps of a guide's model take of a device in PyTorch.

#include <gpuplan/batch.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace guides {

/// The most that its tensors have at once. The allocator takes more of the device: see
/// `largest_micro_batch` for what fits.
[[nodiscard]] gpuplan::bytes peak_memory(const gpuplan::training_setup& setup,
                                         const gpuplan::batch_plan& plan);

/// The largest micro-batch that fits the device, by `transformer_memory`; 0 where none does.
[[nodiscard]] std::int64_t largest_micro_batch(const gpuplan::training_setup& setup,
                                               const gpuplan::batch_plan& plan,
                                               const gpuplan::gpu_spec& gpu);

}  // namespace guides
