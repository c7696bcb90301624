// expect-match: gpuplan: this value must not be negative
// expect-match: errc::negative.*fact::per_sample, .*fact::needed_MB, -1200L?[}>]
#include <gpuplan/require.hpp>
#include <gpuplan/solver.hpp>

using namespace gpuplan;

constexpr auto plan = require([] {
  return solve_batch({.effective_batch = {120, 144}, .data_parallel = 4, .gpu = 24_GB},
                     affine_memory{.fixed = 7_GB, .per_sample = -1.2_GB});
});
int main() {}
