// expect-match: gpuplan: the product of these values does not fit into 64 bits
// expect-match: errc::overflow
// expect-match: fact::micro_batch, 4294967296
// expect-match: fact::accumulation, 4294967296
#include <gpuplan/batch.hpp>
#include <gpuplan/require.hpp>

using namespace gpuplan;

constexpr auto plan = require(
    [] { return validate(batch_plan{.micro_batch = 1LL << 32, .accumulation = 1LL << 32}); });
int main() {}
