// expect-match: gpuplan: the second run takes no less time than the first
// expect-match: errc::no_time_saved.*fact::devices, 2L?, .*fact::devices, 1[L}>,]
#include <gpuplan/cost.hpp>
#include <gpuplan/require.hpp>

using namespace gpuplan;

constexpr auto each_hour = require([] {
  return price_of_time_saved({.devices = 2, .time = 53_h, .cost = 316_usd},
                             {.devices = 1, .time = 100_h, .cost = 300_usd});
});
int main() {}
