// Steps replayed at run time in two files, by the compiled library: as while compiling.
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>

using namespace gpuplan;

extern const training_setup gpt2;
bool fits_in(bytes capacity);  // second.cpp

constexpr training_setup here{
    .model = catalog::gpt2, .sequence_length = 1024, .framework = catalog::torch_gpt};
constexpr auto while_compiling = transformer_memory{here}.required({.micro_batch = 4});

const training_setup gpt2 = here;

int main() {
  const bytes now = transformer_memory{gpt2}.required({.micro_batch = 4});
  return now == while_compiling && fits_in(2 * now) && !fits_in(now / 2) ? 0 : 1;
}
