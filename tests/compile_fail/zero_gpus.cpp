// expect-match: gpuplan: this value must be greater than zero
// expect-match: errc::not_positive.*fact::data_parallel, 0[L}>]
#include <gpuplan/require.hpp>
#include <gpuplan/solver.hpp>

using namespace gpuplan;

constexpr auto plan = require([] {
  return solve_batch({.effective_batch = {120, 144}, .data_parallel = 0, .gpu = 24_GB},
                     affine_memory{.fixed = 7_GB, .per_sample = 1.2_GB});
});
int main() {}
