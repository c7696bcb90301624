#pragma once

// One whole run on one cluster: what it takes, simulated.

#include <gpuplan/goodput.hpp>
#include <gpuplan/job_chain.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>
#include <string>

#include "guides/front_end.hpp"
#include "run/request.hpp"
#include "runs/timed_steps.hpp"
#include "setups/numbers.hpp"

namespace run_program {

using setups::checked;

/// How often such a cluster fails, and what is not known of it.
struct failure_rate {
  gpuplan::known<gpuplan::duration> device_time{};
  gpuplan::known<gpuplan::duration> of_job{};
  gpuplan::range<double> factor = 1.0;
  std::string in_words{};
};

/// Of `--failures` or `--between-failures`. Throws `guides::bad_request`.
[[nodiscard]] failure_rate rate_of(const request& asked);

/// What 10, 50 and 90 % of runs take at most, and `--sure` of them.
struct run_quantiles {
  gpuplan::duration low{};
  gpuplan::duration median{};
  gpuplan::duration high{};
  gpuplan::duration sure{};
};

struct run {
  runs::timed_step of{};
  gpuplan::interrupted_run is{};
  gpuplan::run_uncertainty unknown{};
  gpuplan::run_time_parts parts{};
  run_quantiles times{};
  run_quantiles held{};  // without queues and closed windows: what is paid
  double on_time = 1;
  double kept = 1;  // on time, and for no more than --dollars
  std::int64_t paid_gpus = 0;
  std::int64_t save_every = 0;  // steps; 0: only at the end
  std::int64_t checkpoints = 0;
  std::int64_t jobs = 1;                  // or windows
  gpuplan::job_chain jobs_of_parts{};     // in which `parts` are its work
  gpuplan::duration queued{};             // of them all, where the run takes its median
  gpuplan::known<gpuplan::power> draw{};  // of a GPU in training
  gpuplan::known<gpuplan::power> host{};  // of its share of its node
  gpuplan::known<gpuplan::power> mean{};  // of all that is paid, with the building
  std::string note{};

  /// Of training alone: the mean step, its part of the days, and its share of all that is held.
  [[nodiscard]] gpuplan::duration step() const;
  [[nodiscard]] gpuplan::duration training() const;
  [[nodiscard]] double goodput() const;
  [[nodiscard]] gpuplan::known<gpuplan::money> cost(gpuplan::duration held_for) const;
  [[nodiscard]] gpuplan::known<gpuplan::energy> energy(gpuplan::duration held_for) const;
};

/// "; nodes of spot are taken back after 24 h on average", of clusters whose file says so, or of
/// all by `--reclaimed`.
[[nodiscard]] std::string reclaims(const request& asked, const std::vector<run>& runs);

/// The run of these steps, simulated 20,000 times. Throws `guides::bad_request`.
[[nodiscard]] run run_of(const request& asked,
                         const failure_rate& rate,
                         gpuplan::known<gpuplan::bytes> checkpoint,
                         const runs::timed_step& one);
/// The longest run of such steps that `--budget` pays for, `--sure` of it. Throws
/// `guides::bad_request`.
[[nodiscard]] run run_within_budget(const request& asked,
                                    const failure_rate& rate,
                                    gpuplan::known<gpuplan::bytes> checkpoint,
                                    const runs::timed_step& one);

}  // namespace run_program
