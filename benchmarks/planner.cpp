// What a search for the best plan costs at run time: GPT of a trillion parameters on 3,072 GPUs,
// and a mixture of experts.

#include <benchmark/benchmark.h>

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/limits.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

using namespace gpuplan;

namespace {

// Of Narayanan et al. 2021 (arXiv 2104.04473, table 1), on 384 nodes of 8 A100 with 8 adapters of
// 200 Gb/s each.
plan_request trillion(range<std::int64_t> effective_batch) {
  plan_request request;
  transformer model = catalog::gpt3_175b;
  model.num_hidden_layers = 128;
  model.hidden_size = 25600;
  model.num_attention_heads = 160;
  model.intermediate_size = 102400;
  model.vocab_size = 51200;
  request.setup = {.model = model,
                   .sequence_length = 2048,
                   .precision = bf16_megatron,
                   .framework = catalog::megatron_lm};
  request.on = {
      .gpu = catalog::a100_sxm4_80gb, .nodes = 384, .gpus_per_node = 8, .between_nodes = 200_GBps};
  request.efficiency = catalog::ampere;
  request.tensor_within_node = false;
  request.effective_batch = effective_batch;
  request.space = {.tensor_parallel = range<std::int64_t>{1, 32},
                   .pipeline_parallel = range<std::int64_t>{1, 128},
                   .virtual_pipeline = range<std::int64_t>{1, 128},
                   .zero_stage = range<std::int64_t>{0, 1},
                   .recompute = true,
                   .micro_batch = {1, 64}};
  return request;
}

void plan(benchmark::State& state, const plan_request& request) {
  const transformer_memory_of memory_of{.fragmentation = 0};
  std::int64_t evaluated = 0;
  std::int64_t searched = 0;
  std::int64_t asked = 0;
  for (auto _ : state) {
    const auto answer = plan_training(request, memory_of);
    evaluated += answer->evaluated;
    searched += answer->evaluated + answer->excluded;
    asked += answer->asked;
    benchmark::DoNotOptimize(answer->best().step);
  }
  using benchmark::Counter;
  const auto each = [](std::int64_t count) {
    return Counter(static_cast<double>(count), Counter::kAvgIterations);
  };
  state.counters["plans"] = each(searched);
  state.counters["evaluated"] = each(evaluated);
  state.counters["memory_asked"] = each(asked);
  state.counters["plans_per_second"] = Counter(static_cast<double>(searched), Counter::kIsRate);
}

// Every effective batch up to 81,920: each plan's time is worked out.
void plan_training_exhaustive_1t_on_3072_gpus(benchmark::State& state) {
  plan_request request = trillion({1, 81'920});
  request.evaluates_all = true;
  plan(state, request);
}
BENCHMARK(plan_training_exhaustive_1t_on_3072_gpus)->Unit(benchmark::kMillisecond);

// The best of the same plans, proven.
void plan_training_optimum_1t_on_3072_gpus(benchmark::State& state) {
  plan(state, trillion({1, 81'920}));
}
BENCHMARK(plan_training_optimum_1t_on_3072_gpus)->Unit(benchmark::kMillisecond);

// At the effective batch of the paper.
void plan_training_optimum_1t_batch_3072(benchmark::State& state) { plan(state, trillion(3072)); }
BENCHMARK(plan_training_optimum_1t_batch_3072)->Unit(benchmark::kMillisecond);

// The same three where how many layers are recomputed is chosen too.
plan_request trillion_by_layers(range<std::int64_t> effective_batch) {
  plan_request request = trillion(effective_batch);
  request.space.recompute_layers = true;
  return request;
}
void plan_training_exhaustive_by_layers_1t_on_3072_gpus(benchmark::State& state) {
  plan_request request = trillion_by_layers({1, 81'920});
  request.evaluates_all = true;
  plan(state, request);
}
BENCHMARK(plan_training_exhaustive_by_layers_1t_on_3072_gpus)->Unit(benchmark::kMillisecond);
void plan_training_optimum_by_layers_1t_on_3072_gpus(benchmark::State& state) {
  plan(state, trillion_by_layers({1, 81'920}));
}
BENCHMARK(plan_training_optimum_by_layers_1t_on_3072_gpus)->Unit(benchmark::kMillisecond);
void plan_training_optimum_by_layers_1t_batch_3072(benchmark::State& state) {
  plan(state, trillion_by_layers(3072));
}
BENCHMARK(plan_training_optimum_by_layers_1t_batch_3072)->Unit(benchmark::kMillisecond);

// The space in which Calculon (Isaev et al. 2023, llm-optimal-execution at commit 1886c888) looks
// for the optimum of this model, batch and cluster: factors of the GPUs, heads, layers and batch;
// chunks; recomputation; shared optimizer states; reductions or sequence parallelism; gradients
// hidden or not; products that hide no reductions, or a share of them, of which it tries two. Of
// its 7,002,336 plans all others differ from these in what is not modelled here: in which of two
// networks each kind of communication uses, which follows from the ranks' places; in offloading to
// the host, which Megatron's code lacks; in gathering activations again; in scattering what stages
// send, which Megatron always does.
class calculon_space {
 public:
  calculon_space() {
    const training_setup as_set = trillion(3072).setup;
    for (const bool hides_gradients : {true, false})
      for (const double hidden : {0.0, 0.5, 0.9}) {
        training_setup& setup = setups_[count_++];
        setup = as_set;
        setup.framework.costs.hides_gradients = hides_gradients;
        setup.framework.costs.hidden_tensor_communication = hidden;
      }
  }
  plan_request request() const {
    plan_request asked = trillion(3072);
    asked.setup = setups_[0];
    asked.setups = std::span(setups_).subspan(1);
    asked.space.micro_batch = {1, 3072};
    asked.space.sequence_parallel = true;
    return asked;
  }

 private:
  training_setup setups_[6]{};
  std::size_t count_ = 0;
};
void plan_training_exhaustive_calculon_1t(benchmark::State& state) {
  const calculon_space space;
  plan_request request = space.request();
  request.evaluates_all = true;
  plan(state, request);
}
BENCHMARK(plan_training_exhaustive_calculon_1t)->Unit(benchmark::kMillisecond);

void plan_training_optimum_calculon_1t(benchmark::State& state) {
  const calculon_space space;
  plan(state, space.request());
}
BENCHMARK(plan_training_optimum_calculon_1t)->Unit(benchmark::kMillisecond);

// A mixture of experts on nodes of 8 A100: one is too small for it, two are not.
plan_request mixture(std::int64_t nodes) {
  plan_request request;
  request.setup = {.model = catalog::mixtral_8x7b_v0_1,
                   .sequence_length = 4096,
                   .precision = bf16_megatron,
                   .framework = catalog::megatron_transformer_engine};
  request.on = {.gpu = catalog::a100_sxm4_80gb,
                .nodes = nodes,
                .gpus_per_node = 8,
                .between_nodes = 200_GBps};
  request.efficiency = catalog::ampere;
  request.effective_batch = 64;
  const range<std::int64_t> any{1, 8 * nodes};
  request.space = {.tensor_parallel = any,
                   .pipeline_parallel = any,
                   .virtual_pipeline = any,
                   .context_parallel = any,
                   .expert_parallel = any,
                   .zero_stage = range<std::int64_t>{0, 3},
                   .recompute = true};
  return request;
}
void plan_training_optimum_mixtral_on_16_gpus(benchmark::State& state) { plan(state, mixture(2)); }
BENCHMARK(plan_training_optimum_mixtral_on_16_gpus)->Unit(benchmark::kMillisecond);

// Why there is none: the plan that needs least memory is looked for.
void plan_training_optimum_mixtral_on_8_gpus_none(benchmark::State& state) {
  const plan_request request = mixture(1);
  for (auto _ : state) benchmark::DoNotOptimize(plan_training(request, transformer_memory_of{}));
}
BENCHMARK(plan_training_optimum_mixtral_on_8_gpus_none)->Unit(benchmark::kMillisecond);

// And what would do instead.
void limits_of_mixtral_on_8_gpus(benchmark::State& state) {
  const plan_request request = mixture(1);
  for (auto _ : state) benchmark::DoNotOptimize(limits_of(request, transformer_memory_of{}));
}
BENCHMARK(limits_of_mixtral_on_8_gpus)->Unit(benchmark::kMillisecond);

}  // namespace
