#pragma once

// Llama 3 8B on eight H100 with torchtitan's fully_shard, every layer recomputed: whoever changes a
// line so that a step no longer fits gets a compile error with what it needs and what there is.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/profile.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/solver.hpp>

#include <cstdint>

namespace llama_training {

using namespace gpuplan;

inline constexpr std::int64_t gpus = 8;
inline constexpr gpu_spec gpu = catalog::h100_sxm5_80gb;

inline constexpr training_setup setup{.model = catalog::llama_3_8b,
                                      .sequence_length = 8192,
                                      .precision = bf16_mixed,
                                      .parallelism = {.zero_stage = 3},
                                      .recompute = recompute_mode::full,
                                      .framework = catalog::torchtitan};
inline constexpr transformer_memory memory{setup};

/// The step that people wrote down: it fits.
inline constexpr batch_plan written =
    require([] { return check({.micro_batch = 2, .data_parallel = gpus}, gpu, memory); });

/// The best batch of 64 to 128 sequences, by the memory of one and of four at once.
inline constexpr memory_profile profile = profile_at<memory, gpus, 1, 4>;
inline constexpr batch_plan best = require([] {
  return solve_batch({.effective_batch = {64, 128}, .data_parallel = gpus, .gpu = gpu}, profile);
});

}  // namespace llama_training
