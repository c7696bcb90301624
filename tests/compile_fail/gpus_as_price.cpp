// expect-match: gpus_as_price.cpp:[0-9]+:[0-9]+: error: .*cost
#include <gpuplan/cost.hpp>

using namespace gpuplan;

constexpr auto money_for_it = cost(100_h, 3_usd_per_hour, 8);
int main() {}
