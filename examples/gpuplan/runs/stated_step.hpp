#pragma once

// A step of one layout that the command line states in full, on GPUs that it names.

#include <gpuplan/batch.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

#include "runs/clusters.hpp"
#include "setups/options.hpp"

namespace CLI {
class App;
}

namespace runs {

/// `--batch`: the samples of a step, from which accumulations follow.
void add_batch_option(CLI::App& app, std::int64_t& to);
/// `--stragglers` and `--fragmentation`.
void add_estimate_options(CLI::App& app, double& straggler_slowdown, double& fragmentation_percent);

/// What holds of the cluster that a command's options leave open: an A100, and as many GPUs as the
/// layout or the files of `--from` have.
[[nodiscard]] cluster_defaults defaults_of(const setups::arguments& given);

/// What follows from the options on a cluster.
struct stated_step {
  setups::named_setup named{};
  gpuplan::batch_plan plan{};
  std::int64_t gpus = 1;
  gpuplan::roofline_time time{};
  gpuplan::fullest_stage_memory memory{};
};

/// Throws `guides::bad_request` where there is no such step.
[[nodiscard]] stated_step step_of(const setups::arguments& given,
                                  const named_cluster& on,
                                  std::int64_t batch,
                                  double straggler_slowdown,
                                  double fragmentation);

}  // namespace runs
