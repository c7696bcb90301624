#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/solver.hpp>

#include <cstdio>

using namespace gpuplan;

constexpr affine_memory model{.fixed = 7_GB, .per_sample = 1.2_GB};
constexpr auto plan = require([] {
  return solve_batch({.effective_batch = {120, 144}, .data_parallel = 4, .gpu = catalog::rtx_4090},
                     model);
});

int main() {
  std::printf("%d x %d\n", static_cast<int>(plan.micro_batch), static_cast<int>(plan.accumulation));
}
