#pragma once

// Steps that were timed on one's own cluster, and what they say of it and of its software.

#include <gpuplan/cluster.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/time/stack_numbers.hpp>
#include <gpuplan/time/timed_steps.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runs/clusters.hpp"
#include "runs/stated_step.hpp"

namespace runs {

/// A step that was timed, or that may be.
struct own_step {
  std::int64_t line = 0;  // of the file
  std::string words{};    // what tells it from the others: "16 GPUs, ZeRO-3, 2 samples x 4"
  std::shared_ptr<const step_words> given{};  // whose texts `is` points to
  named_cluster on{};
  stated_step is{};
  gpuplan::known<gpuplan::duration> time{};  // none: nobody timed it
};

/// What the timed ones say.
struct own_cluster {
  std::string file{};
  std::vector<own_step> steps{};
  gpuplan::stack_estimate before{};  // what was known before any step was timed
  gpuplan::stack_estimate found{};

  /// What was found, of a cluster that states another network in proportion to it; what no step
  /// tells of its links, the cluster keeps. Throws `guides::bad_request` where devices or software
  /// are others than the steps'.
  [[nodiscard]] gpuplan::stack_estimate estimate_of(const gpuplan::framework& software,
                                                    const named_cluster& on) const;
  /// Whether the steps say anything of a number.
  [[nodiscard]] bool tells(gpuplan::stack_number number) const;
  /// Whether the steps are of this software: transformers' classes count as one, and who shares
  /// states among GPUs does not count.
  [[nodiscard]] bool is_of(const gpuplan::framework& software) const;
};

/// The steps of a table in CSV whose columns are the options of `gpuplan time` and MODEL, without
/// the dashes, and `step_s` or `step_ms`, which is empty in steps that nobody timed. Throws
/// `guides::bad_request`, after the option and with the line, where one cannot be, they differ in
/// GPUs, network or software, or the library learns nothing from them. Lines of commas or after #,
/// and columns called note, notes or date, say nothing. A model's file is looked for beside the
/// table first.
[[nodiscard]] own_cluster own_cluster_of(const std::string& option, const std::string& file);
/// Likewise of the text of such a file.
[[nodiscard]] own_cluster own_cluster_in(std::string_view text,
                                         const std::string& option,
                                         const std::string& file);

/// The factor either way that holds 80 % of what a number may be.
[[nodiscard]] double factor_either_way(const gpuplan::stack_estimate& by,
                                       gpuplan::stack_number number);

/// Gives a setup and its cluster the numbers of an estimate.
void apply(const gpuplan::stack_estimate& stack,
           gpuplan::training_setup& setup,
           gpuplan::cluster& on);

}  // namespace runs
