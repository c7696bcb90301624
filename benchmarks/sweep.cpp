// What the harness of a sweep costs beside the step that it times: the budget is a microsecond of
// the thread's time for each step.

#include <benchmark/benchmark.h>

#include <gpuplan/measure/sweep.hpp>

#include <cstdint>

namespace {

using namespace gpuplan;
using namespace gpuplan::measure;

// All that happens from one step to the next, of a step that does nothing but say its phases:
// marking and reading the clock, the series and its median, the time caps.
void sweep_overhead_of_phases(benchmark::State& state, std::int64_t phases_of_a_step) {
  const std::int64_t steps = state.range(0);
  sweep_options options{.warm_up_steps = 0};
  options.stop = {.least_samples = steps, .most_samples = steps, .cap_s = 3600};
  options.interrupted = [] { return false; };
  for (auto _ : state) {
    const sweep_result r = run_sweep(
        [phases_of_a_step](const sweep_setting&, auto& recorder) {
          for (std::int64_t i = 0; i < phases_of_a_step; ++i)
            const auto scope = recorder.phase(static_cast<phase>(i));
        },
        options);
    if (r.trials.front().steps != steps) state.SkipWithError("steps are missing");
    benchmark::DoNotOptimize(r.clock_cost_s);
  }
  state.SetItemsProcessed(state.iterations() * steps);
  state.counters["s_per_step"] = benchmark::Counter(
      static_cast<double>(steps),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
void sweep_overhead(benchmark::State& state) { sweep_overhead_of_phases(state, 4); }
void sweep_overhead_without_phases(benchmark::State& state) { sweep_overhead_of_phases(state, 0); }
BENCHMARK(sweep_overhead)->Arg(1'000)->Arg(100'000);
BENCHMARK(sweep_overhead_without_phases)->Arg(1'000);

}  // namespace
