#include "sweep_cuda/command_line.hpp"

#include <gpuplan/measure/sweep/options.hpp>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "measure_gpu/devices.hpp"
#include "sweep/data_set.hpp"
#include "sweep/program.hpp"
#include "sweep_cuda/training.hpp"

namespace sweep_cuda {
namespace {

namespace measure = gpuplan::measure;

constexpr const char* about =
    "Which batch, loading threads, precision and host memory train a network fastest on a GPU: a\n"
    "multilayer perceptron learns to read drawn digits, by AdamW, with products by cuBLASLt.\n"
    "Loading, forward, backward and optimizer are timed by events of the device.";
constexpr const char* examples =
    "Examples:\n"
    "  sweep_cuda --micro-batch 64,256,1024 --workers 4,8 --precision both --pinned both\n"
    "  sweep_cuda --memory-limit 2000 --order largest\n"
    "  sweep_cuda --hidden 4096,4096,4096 --output sweep.csv --resume\n"
    "Exit status: 0; 1 where something could not be measured or written; 2 for a wrong command\n"
    "line; 3 where there is no device; 4 where a step hung; 130 where Ctrl-C ended it, once what "
    "was measured is "
    "printed.";

struct choices {
  int device = 0;
  std::string precision = "full";
  std::string pinned = "no";
};

// "both" is both, in the order in which they are worth trying.
std::vector<bool> tried(const std::string& asked, const std::string& yes) {
  if (asked == "both") return {false, true};
  return {asked == yes};
}

sweep_examples::sweep_subject subject_of(const sweep_examples::sweep_request& asked,
                                         const choices& chosen,
                                         const std::function<double()>& now_s) {
  const training_options with{
      .device = chosen.device,
      .widths = widths_of(asked),
      .memory_limit = static_cast<std::size_t>(asked.memory_limit_MB * 1e6)};
  const trained_on device = device_of(with);
  const auto samples = std::make_shared<sweep_examples::data_set>(samples_of(asked));
  sweep_examples::sweep_subject subject{.device = device.name,
                                        .memory_bytes = device.memory_bytes,
                                        .model = sweep_examples::name_of_network(with.widths),
                                        .conditions = sweep_examples::conditions_of(asked, 0)};
  subject.run = [=](measure::sweep_options options) {
    options.mixed_precision = tried(chosen.precision, "mixed");
    options.pinned_memory = tried(chosen.pinned, "yes");
    options.now_s = now_s;
    // The device says how busy it was in a last second at most, which must be one of these steps.
    options.stop.least_s = 1;
    options.stop.most_samples = 1'000'000;
    return run_sweep(*samples, with, std::move(options));
  };
  subject.remarks = [] {
    return std::vector<std::string>{
        "Times are of the device, also while it waits for the host. Full precision is fp32; mixed "
        "precision is bf16 with parameters and AdamW in fp32. Memory is what the device has less "
        "of than before the first setting, with the kernels that were loaded since. Utilisation is "
        "that of the last sixth of a second to a second of a setting: where its steps took less, "
        "also of what was before them."};
  };
  return subject;
}

}  // namespace

int run(int argc, char** argv, const std::function<double()>& now_s) {
  choices chosen;
  bool nothing_there = false;
  const int status = sweep_examples::run_sweep_program(
      argc,
      argv,
      "sweep_cuda",
      about,
      [&](CLI::App& app) {
        app.footer(examples);
        app.add_option("--device", chosen.device, "Which device, from 0, as CUDA counts them")
            ->transform(guides::whole_number(0, 1 << 16))
            ->type_name("")
            ->capture_default_str();
        const auto one_of = [&](const char* name,
                                std::string& into,
                                const std::vector<std::string>& values,
                                const char* what) {
          app.add_option(name, into, what)
              ->check(CLI::IsMember(values))
              ->type_name("")
              ->capture_default_str();
        };
        one_of(
            "--precision", chosen.precision, {"full", "mixed", "both"}, "fp32, or bf16 products");
        one_of("--pinned",
               chosen.pinned,
               {"no", "yes", "both"},
               "Whether samples wait for the device in memory of the host that does not move");
      },
      [&](const sweep_examples::sweep_request& asked) {
        try {
          return subject_of(asked, chosen, now_s);
        } catch (const measure_gpu_program::no_device&) {
          nothing_there = true;
          throw;
        }
      });
  return nothing_there ? 3 : status;
}

}  // namespace sweep_cuda
