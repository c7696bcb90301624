#pragma once

// A step of one layout that the command line states in full, on GPUs that it names.

#include <gpuplan/batch.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/replay/step_time.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/stack_numbers.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/time/time_interval.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <memory>

#include "runs/clusters.hpp"
#include "setups/options.hpp"

namespace CLI {
class App;
}

namespace runs {

struct own_cluster;

/// What the command line states, before it is checked.
struct step_words {
  setups::arguments setup{};
  cluster_words clusters{};
  std::int64_t batch = 0;  // 0: as the accumulations make it
  double stragglers = 1;
  double fragmentation = 100 * gpuplan::usual_fragmentation;
  std::shared_ptr<const own_cluster> own{};  // what steps timed there say of it; may be none
};

/// The model, its setup, the cluster and what estimates take.
void add_step_options(CLI::App& app, step_words& to);
/// `--batch`: the samples of a step, from which accumulations follow.
void add_batch_option(CLI::App& app, step_words& to);
/// `--stragglers` and `--fragmentation`.
void add_estimate_options(CLI::App& app, double& straggler_slowdown, double& fragmentation_percent);

/// `--timed-steps`, whose file is read and understood at once.
void add_timed_steps_option(CLI::App& app, std::shared_ptr<const own_cluster>& to);

/// What holds of the cluster that a command's options leave open: an A100, and as many GPUs as the
/// layout or the files of `--from` have.
[[nodiscard]] cluster_defaults defaults_of(const setups::arguments& given);

/// What follows from the options on a cluster.
struct stated_step {
  setups::named_setup named{};
  gpuplan::batch_plan plan{};
  std::int64_t gpus = 1;
  gpuplan::roofline_time time{};                      // not valid of several models in one step,
  gpuplan::known<gpuplan::replayed_time> replayed{};  // whose time this says
  gpuplan::step_breakdown parts{};
  gpuplan::fullest_stage_memory memory{};
  gpuplan::known<gpuplan::stack_estimate> stack{};  // of timed steps, whose numbers `time` has

  /// Whether `interval_of` is what is said of its time, and not what other software would take.
  [[nodiscard]] bool has_interval() const { return stack || replayed; }
};

/// Throws `guides::bad_request` where there is no such step.
[[nodiscard]] stated_step step_of(const step_words& given, const named_cluster& on);

/// What tells the time of a step of several models: the replay of its operators.
[[nodiscard]] gpuplan::replayed_time time_by_replay(const gpuplan::training_setup& setup,
                                                    const gpuplan::cluster& on);
/// Throws `guides::bad_request` where options ask of a model of several parts what replays do not
/// tell.
void check_replay(const setups::named_setup& named,
                  const std::shared_ptr<const own_cluster>& own,
                  double straggler_slowdown);

/// Where 80 % of such steps lie: by what timed ones left open, or where none were, as the library
/// judges.
[[nodiscard]] gpuplan::time_interval interval_of(const stated_step& of);

}  // namespace runs
