// expect-match: gpuplan: a price needs the day on which it was true
// expect-match: errc::undated_price.*fact::price_per_gpu
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/require.hpp>

using namespace gpuplan;

constexpr auto rented = require([] {
  return validate(cluster{.gpu = catalog::h100_sxm5_80gb,
                          .price_per_gpu = dated_price{.each = 3_usd_per_hour}});
});
int main() {}
