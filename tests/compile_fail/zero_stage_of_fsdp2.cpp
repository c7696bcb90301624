// clang-format off
// expect-match: gpuplan: this framework has no code for the first value beside those after it
// expect-match: fact::zero_stage, 7L?, .*fact::sharding, .*code_names::fsdp2[)]?, .*fact::takes, 2L?, .*fact::takes, 3L?
// forbid-match: '[a-z]', '[a-z]'
// clang-format on
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/training_setup.hpp>

using namespace gpuplan;

constexpr training_setup sharded{.model = catalog::llama_3_8b,
                                 .sequence_length = 8192,
                                 .precision = bf16_mixed,
                                 .parallelism = {.zero_stage = 7},
                                 .framework = catalog::torchtitan};
constexpr auto setup = require([] { return validate(sharded); });
int main() {}
