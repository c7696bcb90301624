#include "memory/pace.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/memory/step_trace.hpp>
#include <gpuplan/precision.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

#include "guides/front_end.hpp"
#include "runs/stated_step.hpp"
#include "setups/numbers.hpp"
#include "setups/options.hpp"

namespace memory_timeline {
namespace {

using namespace gpuplan;

std::string clock_of(const gpu_spec& gpu) {
  return std::string("time as estimated for ") + gpu.name;
}

roofline_time model_on(const training_setup& setup, const batch_plan& plan, const gpu_spec& gpu) {
  const parallelism& layout = setup.parallelism;
  const std::int64_t gpus = plan.data_parallel * layout.tensor_parallel * layout.pipeline_parallel *
                            layout.context_parallel;
  const std::int64_t in_node = std::min<std::int64_t>(gpus, 8);
  return {.setup = setup,
          .on = {.gpu = gpu,
                 .nodes = (gpus + in_node - 1) / in_node,
                 .gpus_per_node = in_node,
                 .between_nodes = static_cast<double>(in_node) * 25_GBps},
          .efficiency = catalog::efficiency_of(gpu)};
}

bool is_valid(const roofline_time& model, const batch_plan& plan) {
  return validate(model) && validate(model, plan);
}

}  // namespace

timed_trace timed(const roofline_time& by, const batch_plan& plan, const batch_plan& drawn) {
  const gpu_spec& gpu = by.on.gpu;
  const double products =
      in(matmul_ceiling(gpu, format_of_linears(by.setup.precision))->value, 1_TFLOPS) * 1e12;
  const double bytes_per_s = in(memory_ceiling(gpu).value, 1_GBps) * 1e9;
  timed_trace made{.trace = *trace_of(by.setup, drawn), .clock = clock_of(gpu)};
  made.times = times_of(made.trace,
                        pace_of(by.breakdown(plan),
                                plan.accumulation,
                                products * by.efficiency.products,
                                bytes_per_s * by.efficiency.memory));
  return made;
}

timed_trace timed(const replayed_time& by, const batch_plan& drawn) {
  const auto found = trace_of(by, drawn);
  if (!found) throw guides::bad_request(setups::sentence_of(found.why()), found.why());
  timed_trace made{
      .trace = found->memory, .times = found->memory_times, .clock = clock_of(by.on.gpu)};
  made.times.push_back(in(found->parts.total(), 1_s));
  return made;
}

timed_trace timed(const training_setup& setup,
                  const batch_plan& plan,
                  const batch_plan& drawn,
                  const gpu_spec* gpu) {
  const gpu_spec asked = gpu == nullptr ? setups::gpu_named(setups::usual_gpu) : *gpu;
  const roofline_time model = model_on(setup, plan, asked);
  if (setup.composite != nullptr) return timed(runs::time_by_replay(setup, model.on), drawn);
  if (is_valid(model, plan)) return timed(model, plan, drawn);
  const roofline_time other = model_on(setup, plan, setups::gpu_named(setups::usual_gpu));
  if (!is_valid(other, plan))
    throw guides::bad_request(
        "--svg: a picture over time needs the step's time, which is not known for this setup");
  timed_trace made = timed(other, plan, drawn);
  made.clock += std::string(", since that of ") + asked.name + " is not known";
  return made;
}

}  // namespace memory_timeline
