#pragma once

// A network of fully connected layers that tells classes apart, trained by AdamW in float32.

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "sweep/thread_team.hpp"

namespace sweep_examples {

/// Loshchilov and Hutter (2019), algorithm 2, with the defaults of PyTorch; biases do not decay.
struct adamw_options {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.01F;
};

/// Layers `widths[0]` to `widths.back()` with ReLU between them, and the cross-entropy of a softmax
/// at the end. A step is `forward`, `backward`, `update`, in that order. Each thread of the team
/// takes its share of the samples with gradients of its own, which are then added up.
class multilayer_perceptron {
 public:
  /// Weights from He's normal distribution (2015), the same for the same seed whatever the batch
  /// and the team; biases 0. Takes all its memory now, from `memory`; what that throws is passed
  /// on. Preconditions: at least two widths, all >= 1; micro_batch >= 1; the team outlives it.
  multilayer_perceptron(std::span<const std::int64_t> widths,
                        std::int64_t micro_batch,
                        thread_team& team,
                        std::uint64_t seed = 1,
                        std::pmr::memory_resource* memory = std::pmr::get_default_resource());

  /// The mean loss of a batch: of `micro_batch` labels and as many times `widths[0]` inputs, sample
  /// after sample. The inputs must stay until `backward` is done. Precondition: as many as that,
  /// and labels below `widths.back()`.
  float forward(std::span<const float> inputs, std::span<const std::uint8_t> labels);

  /// Sets `gradients()` to those of the mean loss of the last `forward`.
  void backward();

  /// Moves the parameters by one step of AdamW along the gradients.
  void update(const adamw_options& options = {});

  /// Layer by layer: the weights, column by column of (outputs x inputs), then the biases.
  [[nodiscard]] std::span<float> parameters() { return parameters_; }
  /// In the order of the parameters. Who trains on several ranks averages them before `update`.
  [[nodiscard]] std::span<float> gradients() {
    return std::span<float>(gradients_).first(parameters_.size());
  }
  /// The share of the last `forward`'s samples that the network took for what they are.
  [[nodiscard]] double accuracy() const;

 private:
  struct layer {
    std::int64_t inputs = 0;
    std::int64_t outputs = 0;
    std::size_t weights = 0;     // where they begin among the parameters
    std::size_t biases = 0;      // likewise
    std::size_t activation = 0;  // where its outputs begin among the activations
  };

  thread_team& team_;
  std::int64_t micro_batch_;
  std::vector<layer> layers_{};
  std::pmr::vector<float> parameters_;
  std::pmr::vector<float> gradients_;  // of each thread in turn
  std::pmr::vector<float> first_moments_;
  std::pmr::vector<float> second_moments_;
  std::pmr::vector<float> activations_;  // after the ReLU; of the last layer, its gradient
  std::pmr::vector<float> deltas_;       // the gradients of the activations
  std::vector<double> losses_;           // of each thread, a sum
  std::vector<std::int64_t> hits_;       // likewise
  std::span<const float> inputs_{};
  std::span<const std::uint8_t> labels_{};
  double decay1_ = 1;  // beta1 to the power of the steps
  double decay2_ = 1;

  void forward_share(int thread);
  void backward_share(int thread);
};

}  // namespace sweep_examples
