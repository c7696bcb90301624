// The fastest way to train a model on a cluster, found when this program was compiled.
// compile_time_plan/ holds what is trained, on what, and the limits.

#include <string>

#include "compile_time_plan/llama_on_64_h100.hpp"
#include "guides/front_end.hpp"

namespace {

using namespace gpuplan;
using llama_training::answer;
using llama_training::best;
using llama_training::request;

constexpr planned_run run = run_of(request(), best);
static_assert(answer.evaluated + answer.excluded > 10'000);
static_assert(run.time <= 3_d && *run.cost <= 15'000_usd);
static_assert(best.required <= usable_memory(catalog::h100_sxm5_80gb));

io::table decided() {
  const std::string gpus = std::to_string(best.gpus) + " x " + request().on.gpu.name;
  const std::int64_t plans = answer.evaluated + answer.excluded;
  const auto tenths = [](double value) { return io::decimal(value, 1); };
  return {
      .title = "Llama 3 8B on " + gpus + ", the fastest of " + std::to_string(plans) + " plans:",
      .columns = {{.name = "the plan"}, {.name = "value", .align = io::alignment::right}},
      .rows = {{"data parallel", best.batch.data_parallel},
               {"tensor parallel", best.layout.tensor_parallel},
               {"ZeRO stage", best.layout.zero_stage},
               {"layers recomputed", best.recompute == recompute_mode::full ? "all" : "none"},
               {"micro-batch", best.batch.micro_batch},
               {"accumulation", best.batch.accumulation},
               {"a step", tenths(in(best.step, 1_s)) + " s"},
               {"memory of a GPU", tenths(in(best.required, 1_GB)) + " GB"},
               {"the run", tenths(in(run.time, 1_h)) + " hours"},
               {"its GPU-hours", io::decimal(in(run.gpu_time, 1_h), 0)},
               {"its energy, at the TDP", tenths(in(*run.energy_used, 1000_kWh)) + " MWh"},
               {"its price", "$" + io::decimal(in(*run.cost, 1_usd), 0)},
               {"plans worked out", answer.evaluated},
               {"plans that a bound excluded", answer.excluded}}};
}

}  // namespace

int main(int argc, char** argv) {
  return guides::run(argc,
                     argv,
                     "compile_time_plan",
                     "The fastest way to train a model, found when this program was compiled.",
                     decided);
}
