// expect-match: gpuplan: the first number does not divide the second; those that would do are named
// expect-match: fact::tensor_parallel, 6L?, .*fact::num_attention_heads, 32L?,
// expect-match: fact::takes, 4L?, .*fact::takes, 8L?, .*fact::takes, 32L?
// forbid-match: '[a-z]', '[a-z]'
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/training_setup.hpp>

using namespace gpuplan;

constexpr training_setup divided{.model = catalog::llama_2_7b,
                                 .sequence_length = 4096,
                                 .precision = bf16_mixed,
                                 .parallelism = {.tensor_parallel = 6},
                                 .framework = catalog::torch_llama};
constexpr auto setup = require([] { return validate(divided); });
int main() {}
