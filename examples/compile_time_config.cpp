// A training configuration that is validated when it is compiled. compile_time_config/ holds the
// configuration; this program prints what was decided.

#include <cstdint>
#include <string>

#include "compile_time_config/training_config.hpp"
#include "guides/front_end.hpp"

namespace {

using namespace gpuplan;
using policy_training::config;
using policy_training::planned;

std::string GB(bytes size, int digits) { return io::decimal(in(size, 1_GB), digits) + " GB"; }
std::string count(std::int64_t n) { return std::to_string(n); }

io::table decided() {
  const std::string per_sample = GB(config.memory.per_sample, 1);
  const std::string kept_free = io::decimal(100 * config.free.share, 0) + " %";
  const std::string tuned = io::decimal(config.tuned.learning_rate.low(), io::cell::shortest);
  return {
      .title = "This configuration compiled, so the run can start:",
      .columns = {{.name = "setting"},
                  {.name = "value", .align = io::alignment::right},
                  {.name = "follows from"}},
      .rows = {
          {"GPU", config.gpu.name, "the configuration"},
          {"GPUs", config.batch.data_parallel, "the configuration"},
          {"micro-batch", config.batch.micro_batch, "the configuration"},
          {"accumulation", config.batch.accumulation, "the configuration"},
          {"effective batch", config.batch.effective_batch(), "micro-batch x GPUs x accumulation"},
          {"memory needed",
           GB(planned.memory_needed, 1),
           GB(config.memory.fixed, 1) + " and " + per_sample + " a sample"},
          {"memory allowed",
           GB(planned.memory_allowed, 1),
           "what the driver reports less the CUDA context, " + kept_free + " kept free"},
          {"learning rate",
           {planned.learning_rate, 6},
           tuned + " at batch " + count(config.tuned.effective_batch) + ", square-root rule"},
          {"samples", planned.samples, count(config.steps) + " steps of the effective batch"},
          {"checkpoints", planned.checkpoints, "one every " + count(config.save_every) + " steps"},
      }};
}

}  // namespace

int main(int argc, char** argv) {
  return guides::run(argc,
                     argv,
                     "compile_time_config",
                     "A training configuration that was validated when this program was compiled.",
                     decided);
}
