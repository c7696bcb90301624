// expect-match: memory_plus_time.cpp:9:[0-9]+: error:
// expect-match: (gpuplan: only quantities of one kind add up)
// expect-match: information_base_dimension
// expect-match: time_base_dimension
#include <gpuplan/gpuplan.hpp>

using namespace gpuplan;

constexpr auto sum = 24_GB + 10_h;
int main() {}
