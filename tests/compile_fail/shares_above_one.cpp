// expect-match: gpuplan: no shares within these ranges add up to 1
// expect-match: errc::no_such_shares.*fact::low_thousandths, 1200[L,}>]
#include <gpuplan/require.hpp>
#include <gpuplan/speedup.hpp>

using namespace gpuplan;

constexpr auto speedup = require([] {
  return combined_speedup({.data = 0.5, .forward = 0.7}, {optimisation{phase::data, 2.0}});
});
int main() {}
