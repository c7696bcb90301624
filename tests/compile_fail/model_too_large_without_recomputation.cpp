// expect-match: gpuplan: the plan needs more memory than the GPU has; lower micro_batch
// expect-match: fact::micro_batch, 1L?, .*fact::data_parallel, 8L?,
// expect-match: fact::needed_MB, 9[0-9][0-9][0-9][0-9]L?, .*fact::gpu_has_MB,
// 84[0-9][0-9][0-9][L}>]
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/require.hpp>

using namespace gpuplan;

// examples/compile_time_memory/llama_on_8_h100.hpp without its line about recomputation.
constexpr transformer_memory memory{{.model = catalog::llama_3_8b,
                                     .sequence_length = 8192,
                                     .precision = bf16_mixed,
                                     .parallelism = {.zero_stage = 3},
                                     .framework = catalog::torchtitan}};
constexpr batch_plan plan = require(
    [] { return check({.micro_batch = 1, .data_parallel = 8}, catalog::h100_sxm5_80gb, memory); });
int main() {}
