// expect-match: gpuplan: the plan needs more memory than the GPU has; lower micro_batch
// expect-match: fact::micro_batch, 4096L?, .*fact::needed_MB, 27850L?, .*fact::gpu_has_MB,
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/require.hpp>

#include "measured_on_monday.hpp"

using namespace gpuplan;

// It ran on Monday, on 80 GB. On Tuesday somebody takes a smaller GPU.
constexpr batch_plan tuesday =
    require([] { return check({.micro_batch = 4096}, catalog::rtx_4090, monday.memory); });
int main() {}
