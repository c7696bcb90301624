#pragma once

// Ways to train a model that people choose from.

#include <gpuplan/batch.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/trainable.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fits_program {

struct method {
  std::string name;
  std::string recompute;  // "none" or "full"
  gpuplan::training_setup setup{};
  gpuplan::batch_plan plan{};                               // but for the micro-batch
  std::shared_ptr<const gpuplan::composite_model> parts{};  // which keeps those of the setup
};

/// Of adapters where none is said.
inline constexpr std::int64_t usual_rank = 16;

/// Whether the model's code is Megatron's, which has other ways than PyTorch's own.
[[nodiscard]] bool has_ways_of_megatron(const gpuplan::training_setup& model);

/// By PyTorch's own code: full training in fp32, mixed and pure bf16, these adapters on one GPU, on
/// a base as it is and in four bits, and full training in mixed bf16 on several, by
/// DistributedDataParallel and fully_shard. By Megatron's: full training in fp32 and bf16 on one
/// GPU, and in bf16 on several as replicas, with the distributed optimizer, and with layers or
/// experts shared among all. Each without and with layers computed again.
[[nodiscard]] std::vector<method> methods_for(const gpuplan::training_setup& model,
                                              std::int64_t gpus,
                                              const gpuplan::lora& adapters);

/// Those of them that are called by one of these words, whole and in either case: "qlora", "fp32",
/// "zero-3", "bf16 mixed". Throws `guides::bad_request` where a word calls none.
[[nodiscard]] std::vector<method> methods_called(const std::vector<method>& all,
                                                 const std::vector<std::string>& words);

}  // namespace fits_program
