// expect-match: memory_without_unit.cpp:8:[0-9]+: error:
// expect-match: (could not convert|no viable conversion|no known conversion)
// max-lines: 22
#include <gpuplan/memory_model.hpp>

using namespace gpuplan;

constexpr affine_memory model{.fixed = 7.0};  // GB? GiB?
int main() {}
