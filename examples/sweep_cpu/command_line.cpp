#include "sweep_cpu/command_line.hpp"

#include <gpuplan/measure/sweep/options.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "sweep/counted_memory.hpp"
#include "sweep/data_set.hpp"
#include "sweep/multilayer_perceptron.hpp"
#include "sweep/program.hpp"
#include "sweep_cpu/description.hpp"
#include "sweep_cpu/training.hpp"

namespace sweep_cpu_program {
namespace {

constexpr const char* about =
    "Which batch, and how many loading threads, train a network fastest on this machine's\n"
    "processor: a multilayer perceptron learns to read drawn digits, by AdamW in float32. "
    "Loading,\n"
    "forward, backward and optimizer are timed, and memory is the peak of the process.";
constexpr const char* examples =
    "Examples:\n"
    "  sweep_cpu --micro-batch 16,64,256 --workers 0,1 --svg sweep.svg\n"
    "  sweep_cpu --memory-limit 50 --order largest\n"
    "  sweep_cpu --output sweep.csv --resume\n"
    "Exit status: 0; 1 where something could not be measured or written; 2 for a wrong command\n"
    "line; 4 where a step hung; 130 where Ctrl-C ended it, once what was measured is printed.";

int half_of_the_processor() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency() / 2));
}

std::vector<std::string> remarks_on(const training& trained, int threads) {
  std::vector<std::string> remarks{
      "Memory is the peak of the resident set of the process" +
      std::string(sweep_examples::restart_peak_resident_memory()
                      ? ", of each setting apart."
                      : " since its start: this system does not let it start again.") +
      " The network computes on " +
      (threads == 1 ? "1 thread" : std::to_string(threads) + " threads") +
      ", and utilisation is of all that the processor has."};
  if (std::string learned = remark_on_loss(trained); !learned.empty())
    remarks.push_back(std::move(learned));
  return remarks;
}

// What a sweep needs as long as it runs and is reported on.
struct held {
  sweep_examples::data_set samples;
  training trained;

  held(const sweep_examples::sweep_request& asked, const training::options& with)
      : samples(samples_of(asked)), trained(samples, with) {}
};

sweep_examples::sweep_subject subject_of(const sweep_examples::sweep_request& asked, int threads) {
  training::options with{.widths = widths_of(asked), .threads = threads};
  if (asked.memory_limit_MB > 0)
    with.memory_limit = static_cast<std::size_t>(asked.memory_limit_MB * 1e6);
  const auto all = std::make_shared<held>(asked, with);
  sweep_examples::sweep_subject subject{
      .device = name_of_processor(),
      .memory_bytes = asked.memory_limit_MB > 0 ? asked.memory_limit_MB * 1e6 : memory_of_machine(),
      .model = sweep_examples::name_of_network(with.widths),
      .conditions = sweep_examples::conditions_of(asked, threads),
      .offers = {.mixed_precision = false, .pinned_memory = false}};
  subject.thresholds.utilisation = {0, 1};  // other programs have their share of the processor
  subject.run = [all](gpuplan::measure::sweep_options options) {
    return all->trained.sweep(std::move(options));
  };
  subject.remarks = [all, threads] { return remarks_on(all->trained, threads); };
  return subject;
}

}  // namespace

int run(int argc, char** argv) {
  int threads = half_of_the_processor();
  return sweep_examples::run_sweep_program(
      argc,
      argv,
      "sweep_cpu",
      about,
      [&](CLI::App& app) {
        app.footer(examples);
        app.add_option("--threads", threads, "That compute; by default half of the processor's")
            ->transform(guides::whole_number(1, 1024))
            ->type_name("")
            ->capture_default_str();
      },
      [&](const sweep_examples::sweep_request& asked) { return subject_of(asked, threads); });
}

}  // namespace sweep_cpu_program
