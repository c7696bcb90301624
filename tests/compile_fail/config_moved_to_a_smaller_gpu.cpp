// expect-match: gpuplan: the plan needs more memory than the GPU has; lower micro_batch
// expect-match: fact::micro_batch, 11L?, .*fact::needed_MB, 20200L?, .*fact::gpu_has_MB,
// 9[0-9][0-9][0-9][L}>]
#include "compile_time_config/training_config.hpp"

using namespace policy_training;

// Somebody takes the queue that is always free, and changes nothing else.
constexpr training_config moved = [] {
  training_config c = config;
  c.gpu = catalog::rtx_2080_ti;
  return c;
}();
constexpr training_plan planned_there = require([] { return plan(moved); });
int main() {}
