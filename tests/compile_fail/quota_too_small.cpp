// expect-match: gpuplan: the quota does not hold one checkpoint beside what else it must hold
// expect-match: errc::exceeds_quota.*fact::checkpoint_MB, 8000L?, .*fact::free_MB, 7800[L}>,]
#include <gpuplan/checkpoint.hpp>
#include <gpuplan/require.hpp>

using namespace gpuplan;

constexpr auto save_every = require([] {
  return save_interval_within({.quota = 23.8_GB, .used = 16_GB, .checkpoint = 8_GB}, 10'000);
});
int main() {}
