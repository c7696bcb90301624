// expect-match: flop_as_flop_rate.cpp:8:[0-9]+: error:
// expect-match: from .*flop_dimension.* to .*time_base_dimension.*static_rational<-1
#include <gpuplan/units.hpp>

using namespace gpuplan;

constexpr duration time_of(flop_count work, compute_rate speed) { return work / speed; }
constexpr duration time = time_of(1_EFLOP, 165.2_TFLOP);
int main() {}
