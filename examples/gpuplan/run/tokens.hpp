#pragma once

// What tokens are worth: at a batch that is not the tuned one, and read again.

#include <gpuplan/io/table.hpp>
#include <gpuplan/token_budget.hpp>

#include <vector>

#include "run/request.hpp"
#include "run/whole_run.hpp"
#include "runs/timed_steps.hpp"

namespace run_program {

/// The timed words of the request, of `--tuned-batch` with the tokens that `--batch` takes to the
/// same loss. Throws `guides::bad_request`.
[[nodiscard]] runs::timed_words at_own_batch(const request& asked);

/// Steps and samples at a batch, as multiples of the least that any takes, by `--critical-batch`.
[[nodiscard]] gpuplan::batch_price price_of(const request& asked, const run& one);
/// What the tokens are worth as unique ones, by `--unique-tokens`. Throws `guides::bad_request`
/// where the run's are not known.
[[nodiscard]] double worth_of(const request& asked, const run& one);

/// Both as tables for people.
[[nodiscard]] gpuplan::io::table batches(const request& asked, const std::vector<run>& all);
[[nodiscard]] gpuplan::io::table unique_data(const request& asked, const std::vector<run>& all);

}  // namespace run_program
