// What the memory of a training step costs at run time: replayed, and in closed form.

#include <benchmark/benchmark.h>

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/profile.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/solver.hpp>

#include <cstdint>

using namespace gpuplan;

namespace {

constexpr std::int64_t gpus = 8;

// Llama 3 8B under fully_shard, with so many layers.
training_setup llama(std::int64_t layers) {
  training_setup setup{.model = catalog::llama_3_8b,
                       .sequence_length = 8192,
                       .precision = bf16_mixed,
                       .parallelism = {.zero_stage = 3},
                       .recompute = recompute_mode::full,
                       .framework = catalog::torchtitan};
  setup.model.num_hidden_layers = layers;
  return setup;
}

void replay_three_steps(benchmark::State& state) {
  const training_setup setup = llama(state.range(0));
  for (auto _ : state)
    benchmark::DoNotOptimize(replay(setup, {.micro_batch = 2, .data_parallel = gpus}));
}
BENCHMARK(replay_three_steps)->Arg(1)->Arg(8)->Arg(32)->Arg(80)->Unit(benchmark::kMicrosecond);

void peaks_of_a_step(benchmark::State& state) {
  const training_setup setup = llama(state.range(0));
  for (auto _ : state)
    benchmark::DoNotOptimize(peaks_of(setup, {.micro_batch = 2, .data_parallel = gpus}));
}
BENCHMARK(peaks_of_a_step)->Arg(1)->Arg(8)->Arg(32)->Arg(80)->Unit(benchmark::kMicrosecond);

void make_memory_profile(benchmark::State& state) {
  const transformer_memory memory{llama(32)};
  for (auto _ : state) benchmark::DoNotOptimize(memory_profile(memory, gpus));
}
BENCHMARK(make_memory_profile)->Unit(benchmark::kMicrosecond);

// Micro-batches from 1 to 64, for one and for several micro-batches of a step.
void required_by_memory_profile(benchmark::State& state) {
  const memory_profile profile(transformer_memory{llama(32)}, gpus);
  batch_plan plan{.micro_batch = 1, .data_parallel = gpus, .accumulation = state.range(0)};
  for (auto _ : state) {
    benchmark::DoNotOptimize(profile.required(plan));
    plan.micro_batch = plan.micro_batch % 64 + 1;
  }
}
BENCHMARK(required_by_memory_profile)->Arg(1)->Arg(4);

void solve_batch_by_memory_profile(benchmark::State& state) {
  const memory_profile profile(transformer_memory{llama(32)}, gpus);
  batch_request request{
      .effective_batch = {64, 128}, .data_parallel = gpus, .gpu = catalog::h100_sxm5_80gb};
  for (auto _ : state) {
    benchmark::DoNotOptimize(request);
    benchmark::DoNotOptimize(solve_batch(request, profile));
  }
}
BENCHMARK(solve_batch_by_memory_profile);

void solve_batch_by_transformer_memory(benchmark::State& state) {
  const transformer_memory memory{llama(32)};
  batch_request request{
      .effective_batch = {64, 128}, .data_parallel = gpus, .gpu = catalog::h100_sxm5_80gb};
  for (auto _ : state) {
    benchmark::DoNotOptimize(request);
    benchmark::DoNotOptimize(solve_batch(request, memory));
  }
}
BENCHMARK(solve_batch_by_transformer_memory)->Unit(benchmark::kMicrosecond);

}  // namespace
