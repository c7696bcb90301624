#include <gpuplan/replay.hpp>

using namespace gpuplan;

extern const training_setup gpt2;

bool fits_in(bytes capacity) {
  const auto step =
      replay(gpt2, {.micro_batch = 4}, 1, static_cast<std::int64_t>(capacity.value()));
  return step && step->fits;
}
