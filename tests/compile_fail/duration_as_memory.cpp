// expect-match: duration_as_memory.cpp:7:[0-9]+: error:
// expect-match: from .*time_base_dimension.* to .*information_base_dimension
#include <gpuplan/memory_model.hpp>

using namespace gpuplan;

constexpr affine_memory groot{.fixed = 5_h, .per_sample = 1.2_GB};
int main() {}
