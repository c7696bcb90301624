// What it costs to count one model: once by itself, and as the planner does, with shapes that
// change.

#include <benchmark/benchmark.h>

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/parameters.hpp>

namespace {

using namespace gpuplan;

void count_parameters(benchmark::State& state, const transformer& shape) {
  transformer model = shape;
  for (auto _ : state) {
    benchmark::DoNotOptimize(model);
    benchmark::DoNotOptimize(parameters(model));
  }
}
BENCHMARK_CAPTURE(count_parameters, llama_3_8b, catalog::llama_3_8b);
BENCHMARK_CAPTURE(count_parameters, qwen3_235b_a22b, catalog::qwen3_235b_a22b);
BENCHMARK_CAPTURE(count_parameters, deepseek_v3, catalog::deepseek_v3);

void count_flops(benchmark::State& state, const transformer& shape) {
  transformer model = shape;
  training_pass pass{.sequence_length = 4096};
  for (auto _ : state) {
    benchmark::DoNotOptimize(model);
    benchmark::DoNotOptimize(pass);
    benchmark::DoNotOptimize(flops(model, pass));
  }
}
BENCHMARK_CAPTURE(count_flops, llama_3_8b, catalog::llama_3_8b);
BENCHMARK_CAPTURE(count_flops, qwen3_235b_a22b, catalog::qwen3_235b_a22b);
BENCHMARK_CAPTURE(count_flops, deepseek_v3, catalog::deepseek_v3);

}  // namespace
