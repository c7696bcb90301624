// Guide 004: the epochs of its models by a step's time.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/time/stack_numbers.hpp>

#include <string>

#include "guides/batch_sweep/tables.hpp"

namespace guides::batch_sweep {

range<duration> likely_epoch(const inputs& in, const model_size& size, const setting& with) {
  const gpu_spec& gpu = catalog::a100_sxm4_80gb;
  const roofline_time model{
      .setup = as_gpt(in, size), .on = {.gpu = gpu}, .efficiency = catalog::efficiency_of(gpu)};
  const batch_plan plan{.micro_batch = with.micro_batch, .accumulation = with.accumulation};
  const time_interval step = step_interval(model, plan);
  const double steps =
      static_cast<double>(in.samples_per_epoch) / static_cast<double>(plan.effective_batch());
  return {steps * step.low, steps * step.high};
}

std::string finding_of_the_hours(const inputs& in) {
  const auto epoch = [&](const model_size& size, const setting& with) {
    const range<duration> time = likely_epoch(in, size, with);
    return range_text({gpuplan::in(time.low(), 1_min), gpuplan::in(time.high(), 1_min)}, 1);
  };
  const auto printed = [&](const expectation& of) {
    return decimal(gpuplan::in(epoch_time(in, of), 1_min), 1);
  };
  return "By a step's time, an epoch takes " + epoch(in.small_model, in.small_on_80) + ", " +
         epoch(in.medium_model, in.medium_on_80) + " and " + epoch(in.large_model, in.large_on_80) +
         " minutes in 80 % of cases, not " + printed(in.small) + ", " + printed(in.medium) +
         " and " + printed(in.large) +
         ": the printed throughputs, as the printed memory, are of fewer tokens a sample than the "
         "code "
         "has by default.";
}

}  // namespace guides::batch_sweep
