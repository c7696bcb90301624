// Steps of mixtures of experts of Hugging Face's, held to the byte.

#include "check.hpp"
#include "configured_step.hpp"

using namespace gpuplan;

namespace {
#include "adapted_experts_rows.inc"
#include "replayed_experts_rows.inc"
}  // namespace

TEST_CASE("steps with experts take what PyTorch reports") {
  for (const configured::measured_step& step : steps) configured::check(step);
}

TEST_CASE("and so do adapters of the tensors of all experts") {
  for (const configured::measured_step& step : adapted_steps) configured::check(step);
}
