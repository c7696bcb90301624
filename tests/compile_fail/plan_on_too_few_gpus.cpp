// expect-match: gpuplan: no plan ends the run in this time; allow more time or larger batches
// expect-match: fact::devices, 8L?, .*fact::minutes, [0-9]+L?, .*fact::at_most_minutes, 4320L?[}>]
#include "compile_time_plan/llama_on_64_h100.hpp"

using namespace llama_training;

// Seven of the eight nodes are gone, and nobody changed the date.
constexpr plan_answer there =
    require([] { return plan_training([] { return request_on(1); }, memory); });
int main() {}
