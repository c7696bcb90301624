#pragma once

// A multilayer perceptron on a GPU, trained to classify.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "sweep/multilayer_perceptron.hpp"
#include "sweep/thread_team.hpp"
#include "sweep_cuda/layer.cuh"
#include "sweep_cuda/operations.cuh"

namespace sweep_cuda {

/// The parameters of a layer before it is trained; `weights` have a row for each output.
struct initial_layer {
  std::vector<float> weights{};
  std::vector<float> bias{};
};

/// Those with which `sweep_examples::multilayer_perceptron` begins.
[[nodiscard]] inline std::vector<initial_layer> initial_layers(std::span<const std::int64_t> widths,
                                                               std::uint64_t seed) {
  sweep_examples::thread_team team(1);
  sweep_examples::multilayer_perceptron on_cpu(widths, 1, team, seed);
  std::span<const float> rest = on_cpu.parameters();
  std::vector<initial_layer> layers;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const auto inputs = static_cast<std::size_t>(widths[i]);
    const auto outputs = static_cast<std::size_t>(widths[i + 1]);
    initial_layer made{.weights = std::vector<float>(inputs * outputs), .bias = {}};
    for (std::size_t input = 0; input < inputs; ++input)
      for (std::size_t output = 0; output < outputs; ++output)
        made.weights[output * inputs + input] = rest[input * outputs + output];
    rest = rest.subspan(inputs * outputs);
    made.bias.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(outputs));
    rest = rest.subspan(outputs);
    layers.push_back(std::move(made));
  }
  return layers;
}

/// Layers with what is negative cut off between them; the loss is the mean cross-entropy of the
/// last layer's outputs; the optimizer is AdamW. Products are made in `Format`, fp32 or bf16;
/// parameters, the optimizer's state and sums over samples are of fp32. All work goes on one
/// stream, and nothing waits for it but what says so.
template <gpuplan::number_format Format>
class network {
 public:
  using element = cuda::stored_t<Format>;

  /// A step takes exactly `samples`. Waits for the stream. Throws `cuda::call_error` where the
  /// device has no room. Precondition: at least one layer.
  network(std::span<const initial_layer> layers, std::int64_t samples, cudaStream_t on)
      : in_{.on = on},
        inputs_(static_cast<std::size_t>(samples) * inputs_of(layers.front())),
        classes_(static_cast<std::size_t>(samples)),
        losses_(static_cast<std::size_t>(samples)) {
    if constexpr (converts) used_inputs_.emplace(inputs_.size());
    for (const initial_layer& one : layers)
      layers_.emplace_back(
          in_, one.weights, one.bias, samples, &one != &layers.back(), &one == &layers.front());
    GPUPLAN_CUDA_CALL(cudaStreamSynchronize(on));  // the parameters may go
  }

  /// Copies a batch to the device: the inputs of each sample one after the other, and its class.
  /// The host's memory must stay until the stream has come this far.
  void load(std::span<const float> inputs, std::span<const std::uint8_t> classes) {
    copy(inputs, inputs_);
    copy(classes, classes_);
    if constexpr (converts)
      cuda::for_each(size_of(inputs_),
                     converted<float, element>{inputs_.data(), used_inputs_->data()},
                     in_.on);
  }

  /// The outputs of the batch that was loaded, its losses, and their gradient.
  void forward() {
    const element* from = inputs();
    for (const layer<Format>& one : layers_) {
      one.forward(in_, from);
      from = one.outputs();
    }
    const layer<Format>& last = layers_.back();
    cuda::for_each(size_of(classes_),
                   cross_entropy<element>{last.outputs(),
                                          classes_.data(),
                                          losses_.data(),
                                          last.gradients(),
                                          last.outputs_per_sample(),
                                          1.0F / static_cast<float>(classes_.size())},
                   in_.on);
  }

  /// The gradients of all parameters.
  void backward() {
    for (std::size_t i = layers_.size(); i-- > 0;)
      layers_[i].backward(in_,
                          i > 0 ? layers_[i - 1].outputs() : inputs(),
                          i > 0 ? layers_[i - 1].gradients() : nullptr);
  }

  /// One step of the optimizer.
  void update(const sweep_examples::adamw_options& with = {}) {
    ++step_;
    for (layer<Format>& one : layers_) one.update(in_, with, step_);
  }

  /// The mean loss of the last forward pass. Waits for the stream.
  [[nodiscard]] double loss() const {
    double sum = 0;
    for (const float one : copied(in_, losses_)) sum += static_cast<double>(one);
    return sum / static_cast<double>(losses_.size());
  }

  [[nodiscard]] const workshop& place() const { return in_; }
  [[nodiscard]] const layer<Format>& operator[](std::size_t i) const { return layers_[i]; }

 private:
  static constexpr bool converts = !std::is_same_v<element, float>;

  workshop in_;
  cuda::device_buffer<float> inputs_;
  std::optional<cuda::device_buffer<element>> used_inputs_{};
  cuda::device_buffer<std::uint8_t> classes_;
  cuda::device_buffer<float> losses_;
  std::vector<layer<Format>> layers_{};
  std::int64_t step_ = 0;
  cuda::detail::waits_at_end waits_{in_.on};  // last, to be the first to go

  static std::size_t inputs_of(const initial_layer& first) {
    return first.weights.size() / first.bias.size();
  }
  [[nodiscard]] const element* inputs() const {
    if constexpr (converts)
      return used_inputs_->data();
    else
      return inputs_.data();
  }
  template <class T>
  void copy(std::span<const T> from, const cuda::device_buffer<T>& to) const {
    GPUPLAN_CUDA_CALL(
        cudaMemcpyAsync(to.data(), from.data(), to.bytes(), cudaMemcpyHostToDevice, in_.on));
  }
};

}  // namespace sweep_cuda
