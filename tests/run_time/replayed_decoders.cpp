// Steps of decoders of Hugging Face's, held to the byte.

#include "check.hpp"
#include "configured_step.hpp"

using namespace gpuplan;

namespace {
#include "replayed_decoders_rows.inc"
}  // namespace

TEST_CASE("steps of decoders take what PyTorch reports") {
  for (const configured::measured_step& step : steps) configured::check(step);
}
