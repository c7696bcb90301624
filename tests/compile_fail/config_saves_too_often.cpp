// expect-match: gpuplan: this value lies outside the bounds that are stated beside it
// expect-match: fact::save_every, .*fact::checkpoints, 5L?, .*fact::at_most, 3L?
// forbid-match: no error
#include "compile_time_config/training_config.hpp"

using namespace policy_training;

// Five checkpoints of 8 GB each do not go into the quota of the home directory.
constexpr training_config often = [] {
  training_config c = config;
  c.save_every = 2'000;
  return c;
}();
constexpr training_plan planned_often = require([] { return plan(often); });
int main() {}
