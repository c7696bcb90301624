// expect-match: gpuplan: this micro_batch lies outside those that were measured; measure it
// expect-match: fact::micro_batch, 5000L?, .*fact::at_least, 1L?, .*fact::at_most, 4096L?,
// expect-match: fact::low_MB, 32139L?, .*fact::high_MB, 36782L?
#include <gpuplan/require.hpp>

#include "measured_on_monday.hpp"

using namespace gpuplan;

constexpr batch_plan plan =
    require([] { return check({.micro_batch = 5000}, *monday.origin.gpu_memory, monday.memory); });
int main() {}
