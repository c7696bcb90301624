// clang-format off
// expect-match: gpuplan: this framework has no code for the first value beside those after it
// expect-match: fact::precision_weights, [a-z:]*number_format::fp8, .*fact::takes, [a-z:]*number_format::fp32, .*fact::takes, [a-z:]*number_format::bf16,
// forbid-match: '[a-z]', '[a-z]'
// clang-format on
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/training_setup.hpp>

using namespace gpuplan;

constexpr training_setup in_fp8{.model = catalog::llama_3_8b,
                                .sequence_length = 8192,
                                .precision = {.weights = number_format::fp8},
                                .framework = catalog::torch_llama};
constexpr auto setup = require([] { return validate(in_fp8); });
int main() {}
