// expect-match: gpuplan: this value must be greater than zero
// expect-match: errc::not_positive.*fact::samples, 0[L}>,]
#include <gpuplan/require.hpp>
#include <gpuplan/training_run.hpp>

using namespace gpuplan;

constexpr auto steps = require([] { return total_steps({.effective_batch = 512, .epochs = 3}); });
int main() {}
