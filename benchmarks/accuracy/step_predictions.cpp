#include "step_predictions.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>

namespace accuracy {

gpuplan::roofline_time time_model_of(const timed_run& run) {
  return {
      .setup = run.setup, .on = run.on, .efficiency = gpuplan::catalog::efficiency_of(run.on.gpu)};
}

predicted_step predict_step(const timed_run& run, const gpuplan::time_terms& terms) {
  predicted_step predicted{.why_not = run.why_not};
  if (!predicted.why_not.empty()) return predicted;
  gpuplan::roofline_time model = time_model_of(run);
  model.terms = terms;
  predicted.seconds = model.step(run.plan).value();
  return predicted;
}

}  // namespace accuracy
