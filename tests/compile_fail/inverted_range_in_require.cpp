// clang-format off
// expect-match: detail::inverted_range\(low, high\);  // gpuplan: a range must not end below its start
// expect-match: range.*144, 120
// forbid-match: conditions? is not a constant expression
// max-lines: 27
// clang-format on
#include <gpuplan/require.hpp>
#include <gpuplan/solver.hpp>

using namespace gpuplan;

constexpr affine_memory groot{.fixed = 7_GB, .per_sample = 1.2_GB};

constexpr auto plan = require([] {
  return solve_batch({.effective_batch = {144, 120}, .data_parallel = 4, .gpu = 24_GB}, groot);
});
int main() {}
