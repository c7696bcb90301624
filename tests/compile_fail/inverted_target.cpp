// clang-format off
// expect-match: inverted_target.cpp:13:[0-9]+:
// expect-match: range.*144, 120
// expect-match: detail::inverted_range\(low, high\);  // gpuplan: a range must not end below its start
// max-lines: 20
// clang-format on
#include <gpuplan/solver.hpp>

using namespace gpuplan;

constexpr affine_memory groot{.fixed = 7_GB, .per_sample = 1.2_GB};

constexpr batch_request wish{.effective_batch = {144, 120}, .data_parallel = 4, .gpu = 24_GB};
int main() {}
