#pragma once

// A run whose batch, sequence length or data change on the way: phase by phase.

#include <string>
#include <vector>

#include "runs/timed_steps.hpp"

namespace CLI {
class App;
}

namespace runs {

/// What the command line gives of phases and evaluation.
struct phase_words {
  std::vector<std::string> each{};  // "tokens=1e12,batch=1024,sequence-length=4096"
  std::string ramp{};               // "64:64:1000000": start, increment and samples
  std::int64_t evaluate_every = 0;  // steps; 0: never
  double evaluation = 0;            // seconds
};

/// `--phase`, `--batch-ramp`, `--evaluate-every` and `--evaluation`, in the group of the run.
void add_phase_options(CLI::App& app, phase_words& to, const std::string& group);

/// The run as `timed_run_of` has it, of all phases one after another, or of a ramp's batches and
/// then the whole one, and with evaluation: a step is the mean one, and `phases` says what it is
/// made of. Without these, `timed_run_of(given)`. What a phase leaves out is of `given`. Throws
/// `guides::bad_request`, with the phase.
[[nodiscard]] timed_run timed_run_of(const timed_words& given, const phase_words& phases);

}  // namespace runs
