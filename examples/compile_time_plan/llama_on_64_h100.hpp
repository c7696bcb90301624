#pragma once

// Llama 3 8B on up to 64 H100 with torchtitan's fully_shard: the fastest of 16,504 plans, found and
// checked against the memory of replayed steps while this compiles. Whoever changes a line so that
// no plan fits, ends in time or stays within the money gets a compile error that says what is
// missing.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/chunks.hpp>
#include <gpuplan/require.hpp>

#include <cstdint>

namespace llama_training {

using namespace gpuplan;

inline constexpr std::int64_t sequence_length = 8192;
inline constexpr std::int64_t tokens = 100'000'000'000;

/// The cluster is of the cloud; its price is of the day, and an example.
constexpr plan_request request_on(std::int64_t nodes) {
  plan_request asked;
  asked.setup = {.model = catalog::llama_3_8b,
                 .sequence_length = sequence_length,
                 .precision = bf16_mixed,
                 .parallelism = {.zero_stage = 3},
                 .framework = catalog::torchtitan};
  asked.on = {.gpu = catalog::h100_sxm5_80gb,
              .nodes = nodes,
              .gpus_per_node = 8,
              .between_nodes = 400_GBps,
              .price_per_gpu = dated_price{3_usd_per_hour, "2026-08-27", "an example"}};
  asked.efficiency = catalog::hopper;
  asked.effective_batch = {128, 512};
  asked.space = {.gpus = range<std::int64_t>{8, 8 * nodes},
                 .tensor_parallel = range<std::int64_t>{1, 8},
                 .zero_stage = range<std::int64_t>{2, 3},
                 .recompute = true,
                 .micro_batch = {1, 4}};
  asked.samples = tokens / sequence_length;
  asked.finish_in = 3_d;
  asked.at_most = 15'000_usd;
  return asked;
}

/// GPUs need what replays of torchtitan's steps ask for, and a tenth on top.
inline constexpr auto memory = [] { return transformer_memory_of{.fragmentation = 0.1}; };

inline constexpr auto request = [] { return request_on(8); };
inline constexpr plan_answer answer = require([] { return plan_training(request, memory); });
inline constexpr training_plan best = answer.best();

}  // namespace llama_training
