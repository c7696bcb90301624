#pragma once

// The steps of a run on each of several clusters: as measured, or estimated of a layout.

#include <gpuplan/io/table.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/run_phases.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runs/clusters.hpp"
#include "runs/runs.hpp"
#include "runs/stated_step.hpp"

namespace CLI {
class App;
}

namespace runs {

/// What the command line gives of steps and how many.
struct timed_words {
  step_words stated{};
  run_words run{};
  std::vector<double> steps{};  // seconds; none: estimated
  std::int64_t checkpoint = 0;  // bytes; 0: by the model
};

/// The options of a step, `--batch`, `--step` and those of a run.
void add_timed_options(CLI::App& app, timed_words& to);
/// `--checkpoint`, in the group of checkpoints.
void add_checkpoint_option(CLI::App& app, timed_words& to, const std::string& group);

/// A run's steps on one cluster.
struct timed_step {
  named_cluster on{};
  std::int64_t gpus = 0;
  std::int64_t batch = 0;
  std::int64_t steps = 0;
  gpuplan::duration step{};
  std::shared_ptr<const stated_step> stated{};  // none where it was measured
  gpuplan::known<bool> fits{};                  // likewise
  std::int64_t micro_batch = 0;                 // 0: not known
  std::string note{};                           // that it does not fit
  double tokens = 0;                            // of all samples; 0: not known
  std::int64_t tokens_of_sample = 0;            // 0: not known
  // Of a run in phases: what a mean step is made of, how far 80 % are off, and the evaluation in
  // it.
  std::vector<gpuplan::run_phase> phases{};
  gpuplan::known<gpuplan::range<double>> off{};
  gpuplan::duration evaluating{};

  [[nodiscard]] std::string name() const;  // of the cluster, or of its GPU
};

/// For programs: the micro-batch, and "yes" or "no"; nothing where the step was measured.
[[nodiscard]] gpuplan::io::cell micro_batch_cell(const timed_step& one);
[[nodiscard]] gpuplan::io::cell fits_cell(const timed_step& one);

/// What a checkpoint of such a step has in it: ": weights and what the optimizer keeps"; nothing
/// where its size is stated.
[[nodiscard]] std::string parts_of_checkpoint(const timed_words& given, const timed_step& one);

/// The same run on each cluster.
struct timed_run {
  std::vector<timed_step> on{};
  std::string what{};                           // in words: "10 billion tokens, as measured"
  gpuplan::known<gpuplan::bytes> checkpoint{};  // a weight and what the optimizer keeps of it
};

/// Throws `guides::bad_request` where something is missing or cannot be.
[[nodiscard]] timed_run timed_run_of(const timed_words& given);

}  // namespace runs
