#include "step_predictions.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks/megatron.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/replay/device_kernels.hpp>
#include <gpuplan/replay/step_time.hpp>
#include <gpuplan/time/stack_numbers.hpp>

#include "measured_rows.hpp"

namespace accuracy {
namespace {

// The rates of kernels on a device that has a peak for what the setup computes in.
gpuplan::kernel_rates rates_of(const timed_run& run) {
  const gpuplan::roofline_time model = time_model_of(run);
  return gpuplan::kernel_rates_of(model.setup, model.on.gpu, model.efficiency, model.terms);
}

gpuplan::replayed_time eager_time_of(const timed_run& run) {
  return {.setup = run.setup, .on = run.on, .kernels = gpuplan::kernel_shares_of(run.on.gpu)};
}

// The row's device, alone.
void put_on_device(const row& source, timed_run& run) {
  if (!run.why_not.empty()) return;
  const auto gpu = gpuplan::catalog::find_gpu(source.text("gpu"));
  if (!gpu) {
    run.why_not = gpuplan::failure_text(gpu.why()).c_str();
    return;
  }
  run.on = {.gpu = *gpu, .nodes = 1, .gpus_per_node = 1};
  if (const auto at_most = peak(*gpu, run.setup.precision.compute); !at_most)
    run.why_not = gpuplan::failure_text(at_most.why()).c_str();
}

}  // namespace

gpuplan::roofline_time time_model_of(const timed_run& run) {
  return {
      .setup = run.setup, .on = run.on, .efficiency = gpuplan::catalog::efficiency_of(run.on.gpu)};
}

gpuplan::framework as_untimed(gpuplan::framework software) {
  const bool is_of_megatrons_kind = software.layers().is_pipelined;
  const gpuplan::software_costs own = software.costs;
  const bool is_compiled = software.implementation.compiles_layers;
  software.name = is_of_megatrons_kind ? "Megatron's kind"
                  : is_compiled        ? "compiled code"
                                       : "eager code";
  software.costs = is_of_megatrons_kind ? gpuplan::catalog::untimed_megatron
                   : is_compiled        ? gpuplan::catalog::untimed_compiled
                                        : gpuplan::catalog::untimed_eager;
  // What its code does, and no fit says.
  software.costs.hides_gradients = own.hides_gradients;
  software.costs.hides_parameters = own.hides_parameters;
  software.costs.hides_gathers = own.hides_gathers;
  return software;
}

predicted_step predict_eager_step(const timed_run& run) {
  predicted_step predicted{.why_not = run.why_not};
  if (!predicted.why_not.empty()) return predicted;
  const auto step = eager_time_of(run).interval(run.plan);
  if (!step) return predict_step(run);  // what is not counted
  predicted.seconds = step->median.value();
  predicted.low = step->low.value();
  predicted.high = step->high.value();
  return predicted;
}

predicted_step predict_step(const timed_run& run, const gpuplan::time_terms& terms) {
  predicted_step predicted{.why_not = run.why_not};
  if (!predicted.why_not.empty()) return predicted;
  gpuplan::roofline_time model = time_model_of(run);
  model.terms = terms;
  const gpuplan::time_interval time = step_interval(model, run.plan);
  predicted.seconds = time.median.value();
  predicted.low = time.low.value();
  predicted.high = time.high.value();
  return predicted;
}

timed_run describe_timed_step(const row& source) {
  timed_run run;
  const described_setup described = describe_setup(source);
  run.setup = described.setup;
  run.composite = described.composite;
  run.plan = described.plan;
  run.why_not = described.why_not;
  put_on_device(source, run);
  return run;
}

predicted_layer predict_layer(const row& source) {
  const csv_file file = step_of_layer(source);
  const timed_run run = describe_timed_step(row(file, file.rows[0]));
  predicted_layer predicted{.why_not = run.why_not};
  if (!predicted.why_not.empty()) return predicted;
  if (const auto layer = eager_time_of(run).layer(run.plan)) {
    predicted.forward_seconds = layer->forward.value();
    predicted.backward_seconds = layer->backward.value();
    return predicted;
  }
  const gpuplan::kernel_rates on = rates_of(run);
  const gpuplan::layer_cost cost = gpuplan::cost_of_layer(
      run.setup, on, run.plan.micro_batch, gpuplan::layer_kind::dense, false);
  predicted.forward_seconds = cost.forward.kernels(on);
  predicted.backward_seconds = cost.backward.kernels(on);
  return predicted;
}

predicted_step predict_matmul(const row& source) {
  timed_run run;
  if (source.text("precision") != "bf16")
    run.why_not = "products in " + std::string(source.text("precision")) + " are not timed";
  run.setup.precision = gpuplan::bf16_pure;
  put_on_device(source, run);
  predicted_step predicted{.why_not = run.why_not};
  if (!predicted.why_not.empty()) return predicted;
  const gpuplan::kernel_rates on = rates_of(run);
  const gpuplan::matmul_size product{.m = source.number("m").value_or(0),
                                     .n = source.number("n").value_or(0),
                                     .k = source.number("k").value_or(0)};
  predicted.seconds =
      gpuplan::matmul_time(product, on.linear, on.linear_bytes, on.linear_bytes, on);
  return predicted;
}

}  // namespace accuracy
