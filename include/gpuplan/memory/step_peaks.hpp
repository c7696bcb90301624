#pragma once

// The most memory that a training step asks for, from a few of its layers. Constexpr.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/training_job.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan {

/// The moments of a step at which memory may be at its most.
enum class step_moment {
  forward,        // layers, and what is before them
  loss,           // behind the last layer
  loss_backward,  // to the last layer
  last_layer,     // its backward
  middle_layer,   // that of any between
  first_layer,    // that of the first
  embedding,      // what is before it
  optimizer       // clipping included
};
inline constexpr int step_moments = static_cast<int>(step_moment::optimizer) + 1;

[[nodiscard]] constexpr const char* text(step_moment moment) {
  constexpr const char* names[step_moments] = {"forward",
                                               "loss",
                                               "loss backward",
                                               "last layer's backward",
                                               "a layer's backward",
                                               "first layer's backward",
                                               "embedding's backward",
                                               "optimizer"};
  return names[static_cast<int>(moment)];
}

/// What memory is asked for.
enum class memory_part {
  weights,
  gradients,
  optimizer_states,
  buffers,      // the batch, tables, communication
  activations,  // kept for backward
  working,      // dies with the operator or the function that made it
  workspace     // of library calls
};
inline constexpr int memory_parts = static_cast<int>(memory_part::workspace) + 1;

[[nodiscard]] constexpr const char* text(memory_part part) {
  constexpr const char* names[memory_parts] = {"weights",
                                               "gradients",
                                               "optimizer states",
                                               "buffers",
                                               "activations",
                                               "working memory",
                                               "workspace"};
  return names[static_cast<int>(part)];
}

/// Bytes in all and by part.
struct memory_sum {
  std::int64_t total = 0;
  std::int64_t of[memory_parts]{};

  friend constexpr bool operator==(const memory_sum&, const memory_sum&) = default;
};

/// The most at each moment.
struct step_peaks {
  memory_sum at[step_moments]{};

  /// The moment of the peak.
  [[nodiscard]] constexpr step_moment when() const {
    int most = 0;
    for (int moment = 1; moment < step_moments; ++moment)
      if (at[moment].total > at[most].total) most = moment;
    return static_cast<step_moment>(most);
  }
  [[nodiscard]] constexpr const memory_sum& peak() const { return at[static_cast<int>(when())]; }
};

namespace eager {

/// Adds up what is asked for, and notes the most at each moment.
class summed_memory final : public memory_events {
 public:
  constexpr explicit summed_memory(std::int64_t layers)
      : last_layer_(static_cast<int>(layers) - 1) {}

  constexpr int allocate(std::int64_t bytes, int /*stream*/) override {
    now_ += bytes;
    step_peaks& peaks = peaks_;
    memory_sum& most = peaks.at[place_];
    if (now_ > most.total) {
      most.total = now_;
      if (parts_ != nullptr)
        for (int part = 0; part < memory_parts; ++part) most.of[part] = parts_[part];
    }
    if (free_ != none) {
      const int block = free_;
      free_ = static_cast<int>(size_[block]);
      size_[block] = bytes;
      return block;
    }
    return size_.push(bytes);
  }
  constexpr void release(int block) override {
    now_ -= size_[block];
    size_[block] = free_;
    free_ = block;
  }
  constexpr void begin(moment now, int layer) override {
    place_ = static_cast<int>(place_of(now, layer));
    // what is there already counts
    memory_sum& most = peaks_.at[place_];
    if (now_ > most.total) most.total = now_;
  }

  /// From here on the peaks count, and the parts are read here.
  constexpr void start(const std::int64_t* parts) {
    peaks_ = {};
    parts_ = parts;
  }
  [[nodiscard]] constexpr const step_peaks& peaks() const { return peaks_; }
  /// What is in use, and the moment that is.
  [[nodiscard]] constexpr std::int64_t now() const { return now_; }
  [[nodiscard]] constexpr step_moment moment_now() const {
    return static_cast<step_moment>(place_);
  }

 private:
  [[nodiscard]] constexpr step_moment place_of(moment now, int layer) {
    switch (now) {
      case moment::construct:
      case moment::forward:
        saw_layer_ = false;
        return step_moment::forward;
      case moment::loss:
        return step_moment::loss;
      case moment::backward:
        if (layer == none) return saw_layer_ ? step_moment::embedding : step_moment::loss_backward;
        saw_layer_ = true;
        return layer == last_layer_ ? step_moment::last_layer
               : layer == 0         ? step_moment::first_layer
                                    : step_moment::middle_layer;
      case moment::clip:
      case moment::optimizer:
        break;
    }
    return step_moment::optimizer;
  }

  growing_array<std::int64_t> size_{};
  int free_ = none;
  std::int64_t now_ = 0;
  int place_ = 0;
  int last_layer_;
  bool saw_layer_ = false;
  const std::int64_t* parts_ = nullptr;
  step_peaks peaks_{};
};

}  // namespace eager

namespace detail {

constexpr step_peaks replayed_peaks(training_setup setup,
                                    const batch_plan& plan,
                                    std::int64_t layers,
                                    const eager::device_traits& device) {
  const std::int64_t fewer = setup.model.num_hidden_layers - layers;
  setup.model.num_hidden_layers = layers;
  if (setup.model.num_decoder_layers != 0) setup.model.num_decoder_layers -= fewer;
  eager::summed_memory memory(setup.model.layers());
  eager::training_job job(memory, setup, plan, device);
  job.settle();
  memory.start(job.alive());
  job.step();
  return memory.peaks();
}

// Layers that differ from each other repeat after so many.
constexpr std::int64_t layer_period(const transformer& model) {
  std::int64_t period = 1;
  if (model.sliding_window != 0 && model.global_layer_step > 1) period = model.global_layer_step;
  if (model.moe.num_experts != 0) period *= model.moe.moe_layer_step;
  return period;
}

constexpr memory_sum extrapolated(const memory_sum& of_fewer,
                                  const memory_sum& of_more,
                                  std::int64_t steps) {
  memory_sum sum;
  sum.total = of_fewer.total + (of_more.total - of_fewer.total) * steps;
  for (int part = 0; part < memory_parts; ++part)
    sum.of[part] = of_fewer.of[part] + (of_more.of[part] - of_fewer.of[part]) * steps;
  return sum;
}

}  // namespace detail

/// The most that one step asks for at each of its moments: exact where layers repeat, since every
/// layer allocates and frees the same, so that each moment's peak is a straight line of their
/// number; two models of few layers are replayed. Precondition: `validate` accepts setup and plan.
[[nodiscard]] constexpr step_peaks peaks_of(const training_setup& setup,
                                            const batch_plan& plan,
                                            const eager::device_traits& device = {}) {
  const std::int64_t layers = setup.model.num_hidden_layers;
  const std::int64_t period = detail::layer_period(setup.model);
  std::int64_t ends = setup.model.moe.first_k_dense_layers;
  if (setup.trains.what == training::last_layers) ends += setup.trains.last_layers;
  // Where weights are gathered, layers between are unlike the first and the last. As many as leave
  // a whole number of periods to be added.
  std::int64_t fewer = ends + (plan.data_parallel > 1 ? 3 : 2) * period;
  fewer += (layers - fewer) % period;
  if (layers <= fewer + period) return detail::replayed_peaks(setup, plan, layers, device);
  const step_peaks of_fewer = detail::replayed_peaks(setup, plan, fewer, device);
  const step_peaks of_more = detail::replayed_peaks(setup, plan, fewer + period, device);
  step_peaks peaks;
  for (int moment = 0; moment < step_moments; ++moment)
    if (of_fewer.at[moment].total != 0)
      peaks.at[moment] =
          detail::extrapolated(of_fewer.at[moment], of_more.at[moment], (layers - fewer) / period);
  return peaks;
}

}  // namespace gpuplan
