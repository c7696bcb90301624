#pragma once

// A plan as files that people run.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace write_program {

/// What the command line asks to be written.
struct request {
  std::vector<std::string> formats{};  // names of `io::plan_writers`; none: nothing is written
  std::string folder = "plan";
  std::string model{};  // as the Hub calls it; empty: a placeholder
  std::string script{};
  std::string gpu_type{};           // as the cluster names it; empty: any
  double learning_rate = 0;         // 0: not said
  double least_learning_rate = -1;  // below 0: not said
  std::int64_t warm_up_steps = -1;
  std::string schedule{};        // empty: not said
  std::int64_t decay_steps = 0;  // of wsd; 0: a tenth of all
  bool never_clips = false;      // gradients, so that files say it too
};

/// --write, --into, and what files state that a plan does not determine.
void add_options(CLI::App& app, request& to);
/// What trainers' files say of the learning rate, where no option says it.
void take_rates(const gpuplan::io::training_config& said, request& to);

/// Why one of the formats does not take the plan, and which do; empty: all take it.
[[nodiscard]] std::string refusal_of(const request& asked,
                                     const gpuplan::training_setup& setup,
                                     const gpuplan::batch_plan& plan,
                                     const gpuplan::cluster& on);

/// Writes the plan in each of the formats into the folder, with a README.md that says how to start
/// each; of several formats each into a folder of its name. A row for each: its files, the command,
/// and what of the plan the format cannot say. Nothing is written where a format refuses the plan:
/// throws `guides::bad_request` with the reason, and the formats that take it.
[[nodiscard]] gpuplan::io::table write(const request& asked,
                                       const gpuplan::training_setup& setup,
                                       const gpuplan::batch_plan& plan,
                                       const gpuplan::cluster& on,
                                       std::int64_t steps);

}  // namespace write_program
