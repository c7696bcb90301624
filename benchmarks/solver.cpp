// What one answer of the batch solver costs at run time.

#include <benchmark/benchmark.h>

#include <gpuplan/solver.hpp>

#include <cstdint>

using namespace gpuplan;

namespace {

constexpr affine_memory groot{.fixed = 7_GB, .per_sample = 1.2_GB};

batch_request request_for(range<std::int64_t> target, std::int64_t gpus) {
  return {.effective_batch = target, .data_parallel = gpus, .gpu = 24_GB};
}

// The effective batch of 120 to 144 on four GPUs of 24 GB.
void solve_batch_120_to_144_on_4_gpus(benchmark::State& state) {
  batch_request request = request_for({120, 144}, 4);
  for (auto _ : state) {
    benchmark::DoNotOptimize(request);
    benchmark::DoNotOptimize(solve_batch(request, groot));
  }
}
BENCHMARK(solve_batch_120_to_144_on_4_gpus);

void solve_batch_infeasible(benchmark::State& state) {
  batch_request request = request_for(120, 7);
  for (auto _ : state) {
    benchmark::DoNotOptimize(request);
    benchmark::DoNotOptimize(solve_batch(request, groot));
  }
}
BENCHMARK(solve_batch_infeasible);

void max_micro_batch_by_comparison(benchmark::State& state) {
  bytes memory = 24_GB;
  for (auto _ : state) {
    benchmark::DoNotOptimize(memory);
    benchmark::DoNotOptimize(max_micro_batch(memory, groot));
  }
}
BENCHMARK(max_micro_batch_by_comparison);

void all_batch_options_120_to_144_on_4_gpus(benchmark::State& state) {
  batch_request request = request_for({120, 144}, 4);
  for (auto _ : state) {
    benchmark::DoNotOptimize(request);
    std::int64_t plans = 0;
    for (const batch_plan& plan : batch_options(request, groot)) plans += plan.micro_batch > 0;
    benchmark::DoNotOptimize(plans);
  }
}
BENCHMARK(all_batch_options_120_to_144_on_4_gpus);

}  // namespace
