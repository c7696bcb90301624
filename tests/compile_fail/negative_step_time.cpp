// expect-match: gpuplan: this value must be greater than zero
// expect-match: errc::not_positive.*fact::time_us, -500000[L}>,]
#include <gpuplan/require.hpp>
#include <gpuplan/training_run.hpp>

using namespace gpuplan;

constexpr auto hours = require([] { return training_time(10'000, range(-0.5_s)); });
int main() {}
