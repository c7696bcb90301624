// Steps of mixtures of experts of Hugging Face's, held to the byte.

#include "check.hpp"
#include "configured_step.hpp"

using namespace gpuplan;

namespace {
#include "replayed_experts_rows.inc"
}  // namespace

TEST_CASE("steps with experts take what PyTorch reports") {
  for (const configured::measured_step& step : steps) configured::check(step);
}
