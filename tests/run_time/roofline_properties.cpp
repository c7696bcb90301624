// What holds of the time of any training step.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/stack_range.hpp>

#include <cstdint>
#include <iterator>

#include "check.hpp"
#include "random_model.hpp"

using namespace gpuplan;

namespace {

struct random_step {
  roofline_time model;
  batch_plan plan;
};

random_step roll_step(dice& roll) {
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
  step.plan = {power_of_two(2), 8 * power_of_two(3), 4 * power_of_two(4)};
  step.model.on = {.gpu = one_of(gpus), .nodes = 64, .gpus_per_node = 8, .between_nodes = 200_GBps};
  step.model.on.inside_node = 200_GBps;
  step.model.efficiency = catalog::efficiency_of(step.model.on.gpu);
  return step;
}

}  // namespace

TEST_CASE("a faster device or link never makes a step longer") {
  dice roll{std::mt19937_64{17}};
  for (int i = 0; i < 2000; ++i) {
    const random_step step = roll_step(roll);
    const duration before = step.model.step(step.plan);
    REQUIRE(before > 0_s);
    const auto longest = before * (1 + 1e-12);
    roofline_time faster = step.model;
    faster.on.gpu.dense.bf16 = *faster.on.gpu.dense.bf16 * 1.3;
    CHECK(static_cast<bool>(faster.step(step.plan) <= longest));
    faster = step.model;
    faster.on.gpu.memory_bandwidth = faster.on.gpu.memory_bandwidth * 1.3;
    CHECK(static_cast<bool>(faster.step(step.plan) <= longest));
    faster = step.model;
    faster.on.inside_node = 300_GBps;
    CHECK(static_cast<bool>(faster.step(step.plan) <= longest));
    faster = step.model;
    faster.on.between_nodes = 400_GBps;
    CHECK(static_cast<bool>(faster.step(step.plan) <= longest));
  }
}

TEST_CASE("weights that are kept until the backward pass are no slower than those gathered again") {
  dice roll{std::mt19937_64{19}};
  int faster = 0;
  int rounds = 0;
  while (rounds < 1000) {
    random_step step = roll_step(roll);
    if (step.model.setup.framework.engine.is != &engine_classes::fsdp2) continue;
    ++rounds;
    step.model.setup.parallelism.zero_stage = 3;
    const duration gathered_again = step.model.step(step.plan);
    step.model.setup.parallelism.zero_stage = 2;
    const duration kept = step.model.step(step.plan);
    CHECK(static_cast<bool>(kept <= gathered_again * (1 + 1e-12)));
    faster += kept < 0.999 * gathered_again ? 1 : 0;
  }
  CHECK(faster > 300);
}

TEST_CASE("parts add up, and none is below nothing") {
  dice roll{std::mt19937_64{18}};
  for (int i = 0; i < 2000; ++i) {
    const random_step step = roll_step(roll);
    const step_breakdown parts = step.model.breakdown(step.plan);
    double sum = 0;
    for (const duration& part : {parts.data,
                                 parts.forward,
                                 parts.backward,
                                 parts.recompute,
                                 parts.tensor_communication,
                                 parts.context_communication,
                                 parts.expert_communication,
                                 parts.pipeline_communication,
                                 parts.gradient_communication,
                                 parts.parameter_communication,
                                 parts.bubble,
                                 parts.optimizer,
                                 parts.host}) {
      REQUIRE(part >= 0_s);
      sum += part.value();
    }
    CHECK(detail::abs(sum - parts.total().value()) <= 1e-12 * sum);
    const range<duration> around = step_range(step.model, step.plan);
    CHECK(static_cast<bool>(around.low() <= parts.total()));
    CHECK(static_cast<bool>(parts.total() <= around.high()));
  }
}

TEST_CASE("one GPU alone exchanges nothing") {
  dice roll{std::mt19937_64{20}};
  for (int i = 0; i < 1000; ++i) {
    random_step step = roll_step(roll);
    step.model.setup.parallelism = {.zero_stage = step.model.setup.parallelism.zero_stage};
    step.plan.data_parallel = 1;
    const step_breakdown parts = step.model.breakdown(step.plan);
    CHECK(parts.gradient_communication == 0_s);
    CHECK(parts.parameter_communication == 0_s);
    CHECK(parts.tensor_communication + parts.pipeline_communication == 0_s);
    CHECK(parts.context_communication + parts.expert_communication == 0_s);
  }
}
