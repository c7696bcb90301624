// expect-match: gpuplan: the product of these values does not fit into 64 bits
// expect-match: fact::micro_batch, 1099511627776L?, .*fact::sequence_length, 8192L?,
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/require.hpp>

using namespace gpuplan;

constexpr transformer_memory memory{{.model = catalog::llama_3_8b,
                                     .sequence_length = 8192,
                                     .framework = catalog::hugging_face_llama}};
constexpr batch_plan plan =
    require([] { return check({.micro_batch = 1'099'511'627'776}, 80_GB, memory); });
int main() {}
