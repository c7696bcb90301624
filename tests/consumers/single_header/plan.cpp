// A parallel layout, and the memory of a step, from one file. The other file may stand beside it.
#include <gpuplan_plan.hpp>
#include <gpuplan_solver.hpp>

#include <cstdio>

using namespace gpuplan;

int main() {
  plan_request request;
  request.setup = {.model = catalog::gpt3_6_7b,
                   .sequence_length = 2048,
                   .precision = bf16_megatron,
                   .framework = catalog::megatron_core};
  request.on = {.gpu = catalog::a100_sxm4_80gb, .gpus_per_node = 8};
  request.efficiency = catalog::ampere;
  request.effective_batch = 64;
  request.space = {.tensor_parallel = range<std::int64_t>{1, 8}, .micro_batch = {1, 4}};
  const auto answer = plan_training(request, transformer_memory_of{});
  if (!answer) return 1;
  const auto& best = answer->best();
  std::printf("%d x %d, tensor-parallel %d: %.17g s, %.0f bytes\n",
              static_cast<int>(best.batch.micro_batch),
              static_cast<int>(best.batch.accumulation),
              static_cast<int>(best.layout.tensor_parallel),
              in(best.step, 1_s),
              best.required.value());
}
