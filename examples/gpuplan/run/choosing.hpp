#pragma once

// What a deadline, a sum of money and a probability choose of several runs, and what each lacks.

#include <gpuplan/io/table.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/units.hpp>

#include <vector>

#include "run/request.hpp"
#include "run/whole_run.hpp"

namespace run_program {

/// Of the runs that fit and keep to `--deadline` and `--dollars` with `--sure`: the cheapest; where
/// no price is known, the one of fewest GPUs; else the one that keeps to them most often. None
/// where none fits.
[[nodiscard]] const run* chosen(const request& asked, const std::vector<run>& runs);

/// Writes into each run's note whether it keeps to them, and which is chosen of several.
void judge(const request& asked, std::vector<run>& runs);

/// A sentence about the chosen run: how often it keeps to them, and whether that is enough; below
/// it what would be just enough, each alone: a later deadline, more money (together, where both are
/// short), fewer tokens, a shorter step. Preconditions: there is a chosen run, and `--deadline` or
/// `--dollars`. Throws `guides::bad_request`.
[[nodiscard]] gpuplan::io::table chances(const request& asked,
                                         const failure_rate& rate,
                                         gpuplan::known<gpuplan::bytes> checkpoint,
                                         const run& of);

/// Whether two runs or more fit and have a price.
[[nodiscard]] bool has_choices(const std::vector<run>& runs);
/// These from the slowest to the fastest in the median: which are dominated by another in 10, 50
/// and 90 % of cases, in some of these, or in none, and then what an hour less costs beside the
/// next slower one.
[[nodiscard]] gpuplan::io::table choices(const request& asked, const std::vector<run>& runs);

}  // namespace run_program
