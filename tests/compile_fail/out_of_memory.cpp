// expect-match: gpuplan: the plan needs more memory than the GPU has; lower micro_batch
// expect-match: errc::exceeds_gpu_memory.*fact::micro_batch, 5L?, .*fact::data_parallel, 4L?,
// expect-match: fact::needed_MB, 13000L?, .*fact::gpu_has_MB, 11[0-9][0-9][0-9][L}>]
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/solver.hpp>

using namespace gpuplan;

constexpr affine_memory groot{.fixed = 5_GB + 2_GB, .per_sample = 1.2_GB};

// The third strategy of the guide in examples/guides/gr00t_cluster.hpp.
constexpr auto plan = require([] {
  return check(
      {.micro_batch = 5, .data_parallel = 4, .accumulation = 6}, catalog::rtx_2080_ti, groot);
});
int main() {}
