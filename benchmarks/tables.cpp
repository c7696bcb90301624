// What it costs to compute the strategy tables: every cell of a guide from its inputs, with
// verdicts.

#include <benchmark/benchmark.h>

#include "guides/held.hpp"

#include <cstdint>

namespace {

void strategy_tables(benchmark::State& state, guides::guide guide) {
  std::int64_t cells = 0;
  for (auto _ : state) {
    const guides::report report = guide.make();
    cells = 0;
    for (const guides::table& table : report.tables)
      cells += static_cast<std::int64_t>(table.cells.size());
    benchmark::DoNotOptimize(cells);
  }
  state.counters["cells"] = static_cast<double>(cells);
}
BENCHMARK_CAPTURE(strategy_tables, 000, guides::guide_000);
BENCHMARK_CAPTURE(strategy_tables, 001, guides::guide_001);
BENCHMARK_CAPTURE(strategy_tables, 002, guides::guide_002);
BENCHMARK_CAPTURE(strategy_tables, 003, guides::guide_003);
BENCHMARK_CAPTURE(strategy_tables, 004, guides::guide_004);

}  // namespace
