// clang-format off
// expect-match: gpuplan: this GPU has no peak rate in this number format with this accumulator
// expect-match: errc::unsupported_format.*fact::format, [a-z:]*number_format::fp8, .*fact::accumulator, [a-z:]*accumulator::fp32,
// expect-match: 'a', '1', '0', '0', '_', 's', 'x', 'm', '4', '_', '8', '0', 'g', 'b'
// clang-format on
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/require.hpp>

using namespace gpuplan;

constexpr auto rate = require([] { return peak(catalog::a100_sxm4_80gb, number_format::fp8); });
int main() {}
