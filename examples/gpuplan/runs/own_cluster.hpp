#pragma once

// Steps that were timed on one's own cluster, and what they say of it and of its software.

#include <gpuplan/cluster.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/time/calibrated.hpp>
#include <gpuplan/time/stack_numbers.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runs/clusters.hpp"
#include "runs/stated_step.hpp"

namespace runs {

/// A step that was timed, or that may be.
struct own_step {
  std::int64_t line = 0;  // of the file
  std::string words{};    // what tells it from the others: "16 GPUs, ZeRO-3, 2 samples x 4"
  std::shared_ptr<const step_words> given{};
  named_cluster on{};
  stated_step is{};
  gpuplan::known<gpuplan::duration> time{};  // none: nobody timed it
};

/// What the timed ones say.
struct own_cluster {
  std::vector<own_step> steps{};
  gpuplan::stack_estimate before{};  // any step was timed
  gpuplan::stack_estimate found{};
};

/// The steps of a table in CSV whose columns are the options of `gpuplan time` and MODEL, without
/// the dashes, and `step_s` or `step_ms`, which is empty in steps that nobody timed. Throws
/// `guides::bad_request`, after the option and with the line, where one cannot be, or the library
/// learns nothing from them.
[[nodiscard]] own_cluster own_cluster_of(const std::string& option, const std::string& file);

/// Gives a setup and its cluster the numbers that were found, which hold for the same software.
/// Throws `guides::bad_request` where the devices are others.
void apply(const own_cluster& own, gpuplan::training_setup& setup, gpuplan::cluster& on);

}  // namespace runs
