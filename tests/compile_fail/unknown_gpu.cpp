// expect-match: gpuplan: the catalogue has no GPU of this name; the nearest name is given
// expect-match: errc::unknown_gpu.*'r', 't', 'x', '_', '4', '0', '9', '0'
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/require.hpp>

using namespace gpuplan;

constexpr auto gpu = require([] { return catalog::find_gpu("NVIDIA GeForce RTX 4900"); });
int main() {}
