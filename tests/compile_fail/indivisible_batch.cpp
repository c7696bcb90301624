// expect-match: gpuplan: no micro_batch x data_parallel x accumulation meets the effective batch
// expect-match: errc::no_such_batch
// expect-match: fact::effective_batch_low, 120L?, .*fact::effective_batch_high, 120L?,
// expect-match: fact::data_parallel, 7L?, .*fact::nearest_below, 119L?, .*fact::nearest_above,
// 126[L}>]
#include <gpuplan/require.hpp>
#include <gpuplan/solver.hpp>

using namespace gpuplan;

constexpr auto plan = require([] {
  return solve_batch({.effective_batch = 120, .data_parallel = 7, .gpu = 24_GB},
                     affine_memory{.fixed = 7_GB, .per_sample = 1.2_GB});
});
int main() {}
