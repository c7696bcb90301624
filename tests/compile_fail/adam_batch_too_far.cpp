// expect-match: gpuplan: the effective batch lies too far above the tuned one
// expect-match: errc::batch_too_far_for_adam.*fact::low_thousandths, -600[L,}>]
#include <gpuplan/learning_rate.hpp>
#include <gpuplan/require.hpp>

using namespace gpuplan;

constexpr auto settings = require(
    [] { return adam_sde_rule{}.settings({.learning_rate = 2e-5, .effective_batch = 32}, 512); });
int main() {}
