#pragma once

// Random steps of catalogued models on catalogued devices, in layouts that `roofline_time` takes.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/time/roofline.hpp>

#include <cstdint>
#include <iterator>

#include "random_model.hpp"

struct random_step {
  gpuplan::roofline_time model;
  gpuplan::batch_plan plan;
};

template <class Dice>
random_step roll_step(Dice& roll) {
  using namespace gpuplan;
  static const transformer models[] = {
      catalog::gpt2, catalog::llama_3_8b, catalog::mixtral_8x7b_v0_1, catalog::deepseek_v3};
  static const framework frameworks[] = {catalog::torchtitan,
                                         catalog::llm_foundry,
                                         catalog::megatron_lm,
                                         catalog::megatron_bridge,
                                         catalog::megatron_zero_3};
  static const gpu_spec gpus[] = {
      catalog::a100_sxm4_80gb, catalog::h100_sxm5_80gb, catalog::b200_sxm, catalog::rtx_4090};
  const auto power_of_two = [&](int most) { return std::int64_t{1} << roll.from(0, most); };
  const auto one_of = [&](const auto& list) -> const auto& {
    return list[static_cast<std::size_t>(roll.from(0, static_cast<int>(std::size(list)) - 1))];
  };
  random_step step;
  training_setup& setup = step.model.setup;
  setup.model = one_of(models);
  setup.sequence_length = 512 * power_of_two(4);
  setup.precision = roll.one_in(2) ? bf16_mixed : bf16_megatron;
  setup.framework = one_of(frameworks);
  setup.attention = roll.one_in(3) ? attention_kernel::eager : attention_kernel::flash;
  setup.recompute = roll.one_in(2) ? recompute_mode::full : recompute_mode::none;
  setup.parallelism = {.tensor_parallel = power_of_two(3),
                       .pipeline_parallel = power_of_two(2),
                       .context_parallel = power_of_two(1),
                       .sequence_parallel = roll.one_in(2),
                       .zero_stage = static_cast<int>(roll.from(0, 3))};
  if (setup.model.moe.num_experts != 0) setup.parallelism.expert_parallel = power_of_two(3);
  if (setup.model.moe.num_experts != 0 && roll.one_in(2))
    setup.parallelism.expert_tensor_parallel = setup.parallelism.tensor_parallel;
  step.plan = {power_of_two(2), 8 * power_of_two(3), 4 * power_of_two(4)};
  step.model.on = {.gpu = one_of(gpus), .nodes = 64, .gpus_per_node = 8, .between_nodes = 200_GBps};
  step.model.on.inside_node = 200_GBps;
  step.model.efficiency = catalog::efficiency_of(step.model.on.gpu);
  return step;
}
