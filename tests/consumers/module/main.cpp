// Plans while compiling and at run time, by the module.
#include <cstdio>

import gpuplan;

using namespace gpuplan;

long long parameters_by_headers();  // second.cpp, which includes headers

constexpr affine_memory model{.fixed = 7_GB, .per_sample = 1.2_GB};
constexpr auto plan = require([] {
  return solve_batch({.effective_batch = {120, 144}, .data_parallel = 4, .gpu = catalog::rtx_4090},
                     model);
});
static_assert(plan.effective_batch() == 120);

int main(int argc, char**) {
  const auto other = solve_batch(
      {.effective_batch = 128 * argc, .data_parallel = 4, .gpu = catalog::rtx_4090}, model);
  if (!other || parameters(catalog::gpt2).total() != parameters_by_headers()) return 1;
  std::printf(
      "%d x %d\n", static_cast<int>(other->micro_batch), static_cast<int>(other->accumulation));
}
