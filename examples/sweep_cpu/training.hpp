#pragma once

// The training that is swept.

#include <gpuplan/measure/phase_recorder.hpp>
#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/sweep/rows.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sweep/counted_memory.hpp"
#include "sweep/data_set.hpp"
#include "sweep/loader.hpp"
#include "sweep/multilayer_perceptron.hpp"
#include "sweep/thread_team.hpp"

namespace sweep_cpu_program {

/// How far the loss of one setting fell: the means over its first and its last steps.
struct learning {
  gpuplan::sweep_setting setting{};
  std::int64_t steps = 0;
  double first_loss = 0;
  double last_loss = 0;
};

/// Trains a network with every setting from the same start. Each setting takes its memory anew and
/// leaves none behind.
class training {
 public:
  struct options {
    std::vector<std::int64_t> widths{};  // of the network
    int threads = 1;                     // that compute
    std::size_t memory_limit =
        sweep_examples::counted_memory::unlimited;  // of the process, to about 1 MB
    std::int64_t rank = 0;  // of `ranks` processes that share out the samples
    std::int64_t ranks = 1;
  };

  /// Throws std::runtime_error where the process takes more than the limit without any buffers.
  /// Precondition: `samples` outlives it.
  training(const sweep_examples::data_set& samples, const options& with);

  /// Runs a sweep: set-up, tear-down and probes are written into what is asked. Memory is the peak
  /// of the process, utilisation its share of the time of the whole processor. Throws as
  /// `gpuplan::measure::run_sweep`.
  [[nodiscard]] gpuplan::measure::sweep_result sweep(gpuplan::measure::sweep_options asked);

  /// The parts of that, for who runs a sweep of several processes. `set_up` and `compute_gradients`
  /// throw std::bad_alloc where the limit is reached. Preconditions: all but `set_up` and
  /// `utilisation` between `set_up` and `tear_down`; `update` after `compute_gradients`.
  void set_up(const gpuplan::sweep_setting& setting);
  void compute_gradients(gpuplan::measure::phase_recorder<>& recorder);
  void update(gpuplan::measure::phase_recorder<>& recorder);
  void tear_down();
  [[nodiscard]] sweep_examples::multilayer_perceptron& network() { return *network_; }
  /// The share of the processor's time that this process has had since it was last asked.
  [[nodiscard]] double utilisation();

  /// What is left of the limit for the buffers of one setting, in bytes.
  [[nodiscard]] std::size_t memory_left() const { return memory_.limit(); }

  /// Of the settings that made a step, in their order.
  [[nodiscard]] const std::vector<learning>& learned() const { return learned_; }

 private:
  struct moment {
    double passed_s = 0;
    double computed_s = 0;  // by all threads together
  };

  const sweep_examples::data_set& samples_;
  options with_;
  sweep_examples::thread_team team_;
  sweep_examples::counted_memory memory_;
  gpuplan::sweep_setting setting_{};
  std::optional<sweep_examples::multilayer_perceptron> network_{};
  std::optional<sweep_examples::loader> loader_{};
  std::vector<float> losses_{};
  std::vector<learning> learned_{};
  moment asked_{};  // for the utilisation

  [[nodiscard]] static moment now();
};

}  // namespace sweep_cpu_program
