// expect-match: gpuplan: no MIG profile of this name is known for this GPU; the nearest name is
// given expect-match: errc::unknown_mig_profile.*'1', 'g', '.', '1', '2', 'g', 'b'
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/require.hpp>

using namespace gpuplan;

constexpr auto slice = require([] { return mig(catalog::h100_nvl, "1g.13gb"); });
int main() {}
