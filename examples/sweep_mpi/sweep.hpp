#pragma once

// A sweep that several ranks run together, and what exchanging gradients costs in it.

#include <gpuplan/measure/phase_recorder.hpp>
#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/measure/sweep/ranks.hpp>
#include <gpuplan/sweep/rows.hpp>

#include <cstddef>
#include <vector>

#include "sweep_cpu/training.hpp"
#include "sweep_mpi/ranks.hpp"

namespace sweep_mpi {

using sweep_cpu_program::training;

/// Trains on every rank its own samples, and one network by the mean of all gradients.
class training_on_ranks {
 public:
  /// `of_rank` shares out samples among as many ranks. Both must outlive it.
  training_on_ranks(const ranks& among, training& of_rank);

  /// The largest vote of all ranks. Collective.
  [[nodiscard]] const gpuplan::measure::agreement& agree() const { return agree_; }

  /// The callbacks of a sweep. A step that cannot go on on one rank throws on all, and none waits
  /// for another then: on that rank what it threw, on the others `measure::other_rank_failed`.
  void set_up(const gpuplan::sweep_setting& setting);
  void step(gpuplan::measure::phase_recorder<>& recorder);
  void tear_down(const gpuplan::sweep_setting& setting);

  /// Runs a sweep: `asked` says the settings and when to stop, the same on all ranks, and who
  /// observes; set-up, probes and the agreement of the ranks are written into it. Memory is that of
  /// the rank with the highest peak, utilisation that of this rank. Collective.
  [[nodiscard]] gpuplan::measure::sweep_result run(gpuplan::measure::sweep_options asked);

  /// What the ranks exchange in a step; 0 before the first setting is set up.
  [[nodiscard]] std::size_t gradient_bytes() const { return gradient_bytes_; }

  /// The all-reduces of a setting's steps.
  struct exchange {
    gpuplan::sweep_setting setting{};
    double median_s = 0;  // from when all ranks had come to it
  };
  /// Of the settings that made a step, in their order; of a rank alone none.
  [[nodiscard]] const std::vector<exchange>& exchanges() const { return communication_; }

 private:
  const ranks& among_;
  training& of_rank_;
  gpuplan::measure::agreement agree_;
  std::size_t gradient_bytes_ = 0;
  std::vector<double> seconds_{};  // of the setting's all-reduces
  std::vector<exchange> communication_{};

  void average_gradients();
};

}  // namespace sweep_mpi
