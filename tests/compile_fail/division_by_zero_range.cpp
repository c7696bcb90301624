// expect-match: division_by_zero_range.cpp:8:[0-9]+:
// expect-match: precondition_violated.failure.errc::division_by_range_with_zero
#include <gpuplan/range.hpp>

using namespace gpuplan;

// The time that an uncertain speed-up, from a slow-down to a reversal, leaves of ten hours.
constexpr auto hours = 10_h / range{-1.0, 2.0};
int main() {}
