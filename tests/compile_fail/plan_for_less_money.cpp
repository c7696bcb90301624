// expect-match: gpuplan: no plan ends the run for this money; allow more, or take fewer
// expect-match: fact::devices, 8L?, .*fact::cents, [0-9]+L?, .*fact::at_most_cents, 10000L?[}>]
#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/require.hpp>

using namespace gpuplan;

constexpr auto memory_of = [](const training_setup&) { return affine_memory{.per_sample = 1_GB}; };

// A million samples for 100 dollars.
constexpr auto answer = require([] {
  plan_request request;
  request.setup = {.model = catalog::gpt3_175b,
                   .sequence_length = 2048,
                   .precision = bf16_megatron,
                   .framework = catalog::megatron_lm};
  request.on = {.gpu = catalog::a100_sxm4_80gb,
                .gpus_per_node = 8,
                .price_per_gpu = dated_price{2_usd_per_hour, "2026-08-27", "a quote"}};
  request.efficiency = catalog::ampere;
  request.effective_batch = 64;
  request.space = {.tensor_parallel = range<std::int64_t>{1, 8}, .micro_batch = {1, 4}};
  request.samples = 1'000'000;
  request.at_most = 100_usd;
  return plan_training(request, memory_of);
});
int main() {}
