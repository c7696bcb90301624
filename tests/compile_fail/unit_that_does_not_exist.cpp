// expect-match: unit_that_does_not_exist.cpp:7:[0-9]+: error:
// expect-match: operator ?""_?_?gb
#include <gpuplan/units.hpp>

using namespace gpuplan;

constexpr bytes memory = 24_gb;  // gigabits? GB is 10^9 bytes, GiB 2^30
int main() {}
