// expect-match: division_by_zero_range.cpp:9:[0-9]+:
// expect-match: detail::division_by_zero\(\);  // gpuplan: a range that contains zero cannot divide
// max-lines: 30
#include <gpuplan/range.hpp>

using namespace gpuplan;

// The time that an uncertain speed-up, from a slow-down to a reversal, leaves of ten hours.
constexpr auto hours = 10_h / range{-1.0, 2.0};
int main() {}
