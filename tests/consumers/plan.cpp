// What a user writes first: a plan at compile time, and one from run-time values.
#include <gpuplan/gpuplan.hpp>

#include <cstdio>

using namespace gpuplan;

int second_translation_unit(int micro_batch);

constexpr affine_memory model{.fixed = 7_GB, .per_sample = 1.2_GB};
constexpr auto plan = require([] {
  return solve_batch({.effective_batch = {120, 144}, .data_parallel = 4, .gpu = 24_GB}, model);
});
static_assert(plan.effective_batch() == 144);

int main(int argc, char**) {
  const auto other = solve_batch(
      {.effective_batch = 128 * argc, .data_parallel = 4, .gpu = catalog::rtx_4090}, model);
  if (!other) return 1;
  std::printf("%d x %d\n",
              second_translation_unit(static_cast<int>(other->micro_batch)),
              static_cast<int>(other->accumulation));
}
