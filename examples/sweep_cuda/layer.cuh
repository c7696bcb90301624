#pragma once

// A linear layer on a GPU: products by cuBLASLt, the rest by kernels of its own. Needs the macro
// GPUPLAN_CUDA_CUBLASLT.

#include <gpuplan/cuda/cublaslt.cuh>
#include <gpuplan/cuda/for_each.cuh>
#include <gpuplan/cuda/matmul.cuh>
#include <gpuplan/cuda/random_data.cuh>
#include <gpuplan/cuda/runtime.cuh>
#include <gpuplan/precision.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sweep_cuda/operations.cuh"

namespace sweep_cuda {

namespace cuda = gpuplan::cuda;

/// What the layers of a network share: where their work goes, and room for cuBLASLt.
struct workshop {
  cudaStream_t on;
  cuda::cublaslt library{};
  cuda::device_buffer<std::byte> room{std::size_t{32} << 20};
};

[[nodiscard]] inline std::int64_t size_of(const auto& buffer) {
  return static_cast<std::int64_t>(buffer.size());
}
[[nodiscard]] inline std::size_t elements(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns);
}

/// What lies in a buffer, once the stream has come this far.
template <class T>
[[nodiscard]] std::vector<T> copied(const workshop& in, const cuda::device_buffer<T>& from) {
  std::vector<T> to(from.size());
  GPUPLAN_CUDA_CALL(
      cudaMemcpyAsync(to.data(), from.data(), from.bytes(), cudaMemcpyDeviceToHost, in.on));
  GPUPLAN_CUDA_CALL(cudaStreamSynchronize(in.on));
  return to;
}

/// A product by the algorithm that cuBLASLt thinks fastest.
class chosen_matmul {
 public:
  /// Throws `cuda::call_error`, and `cuda::measurement_error` where cuBLASLt has none.
  chosen_matmul(const workshop& in, const cuda::matmul& matmul) : matmul_(matmul, nullptr, false) {
    const auto found = matmul_.algorithms(in.library, 1, in.room.bytes());
    if (found.empty())
      throw cuda::measurement_error(std::string("cuBLASLt makes no ") + cuda::name(matmul.pass) +
                                    " matmul of this shape on this device");
    algorithm_ = found.front();
  }

  /// Puts C = A B on the stream.
  void launch(const workshop& in, const void* a, const void* b, void* c) const {
    matmul_.launch(in.library, algorithm_, a, b, c, in.room.data(), in.room.bytes(), in.on);
  }

 private:
  cuda::cublaslt_matmul matmul_;
  cuda::cublaslt_algorithm algorithm_{};
};

/// Parameters that AdamW trains. They are of fp32, and so is the optimizer's state; gradients, and
/// what products read, are elements of `Format`.
template <gpuplan::number_format Format>
class trained_values {
 public:
  using element = cuda::stored_t<Format>;

  trained_values(const workshop& in, std::span<const float> initial)
      : values_(initial.size()),
        means_(initial.size()),
        squares_(initial.size()),
        gradients_(initial.size()) {
    GPUPLAN_CUDA_CALL(cudaMemcpyAsync(
        values_.data(), initial.data(), values_.bytes(), cudaMemcpyHostToDevice, in.on));
    GPUPLAN_CUDA_CALL(cudaMemsetAsync(means_.data(), 0, means_.bytes(), in.on));
    GPUPLAN_CUDA_CALL(cudaMemsetAsync(squares_.data(), 0, squares_.bytes(), in.on));
    if constexpr (converts) {
      used_.emplace(initial.size());
      cuda::for_each(
          size_of(values_), converted<float, element>{values_.data(), used_->data()}, in.on);
    }
  }

  [[nodiscard]] const cuda::device_buffer<float>& values() const { return values_; }
  [[nodiscard]] const cuda::device_buffer<element>& gradients() const { return gradients_; }
  /// As products read them.
  [[nodiscard]] element* used() const {
    if constexpr (converts)
      return used_->data();
    else
      return values_.data();
  }

  /// Puts the step of this number, from 1, on the stream.
  void update(const workshop& in,
              const sweep_examples::adamw_options& with,
              float decay,
              std::int64_t step) {
    const auto share = [&](float beta) {
      return static_cast<float>(1 - std::pow(static_cast<double>(beta), static_cast<double>(step)));
    };
    cuda::for_each(size_of(values_),
                   adamw_update<element>{values_.data(),
                                         gradients_.data(),
                                         means_.data(),
                                         squares_.data(),
                                         used(),
                                         with,
                                         decay,
                                         share(with.beta1),
                                         share(with.beta2)},
                   in.on);
  }

 private:
  static constexpr bool converts = !std::is_same_v<element, float>;

  cuda::device_buffer<float> values_;
  cuda::device_buffer<float> means_;
  cuda::device_buffer<float> squares_;
  cuda::device_buffer<element> gradients_;
  std::optional<cuda::device_buffer<element>> used_{};
};

/// Y = X W^T + b for a batch of rows, with what is negative cut off where asked.
template <gpuplan::number_format Format>
class layer {
 public:
  using element = cuda::stored_t<Format>;

  /// `weights` have a row for each output. The first layer of a network needs no gradient of what
  /// it reads.
  layer(const workshop& in,
        std::span<const float> weights,
        std::span<const float> bias,
        std::int64_t samples,
        bool cuts,
        bool is_first)
      : outputs_per_sample_(static_cast<std::int64_t>(bias.size())),
        inputs_per_sample_(static_cast<std::int64_t>(weights.size() / bias.size())),
        samples_(samples),
        cuts_(cuts),
        weights_(in, weights),
        bias_(in, bias),
        outputs_(elements(samples, outputs_per_sample_)),
        gradients_(elements(samples, outputs_per_sample_)),
        parts_(elements(parts_of_column(), outputs_per_sample_)),
        forward_(
            in,
            matmul({samples, outputs_per_sample_, inputs_per_sample_}, cuda::matmul_pass::forward)),
        weight_gradient_(in,
                         matmul({outputs_per_sample_, inputs_per_sample_, samples},
                                cuda::matmul_pass::weight_gradient)) {
    if (!is_first)
      input_gradient_.emplace(in,
                              matmul({samples, inputs_per_sample_, outputs_per_sample_},
                                     cuda::matmul_pass::input_gradient));
  }

  [[nodiscard]] std::int64_t outputs_per_sample() const { return outputs_per_sample_; }
  [[nodiscard]] element* outputs() const { return outputs_.data(); }
  /// Of the outputs; whoever comes after this layer writes them.
  [[nodiscard]] element* gradients() const { return gradients_.data(); }
  [[nodiscard]] const trained_values<Format>& weights() const { return weights_; }
  [[nodiscard]] const trained_values<Format>& bias() const { return bias_; }

  void forward(const workshop& in, const element* inputs) const {
    forward_.launch(in, inputs, weights_.used(), outputs());
    cuda::for_each(
        size_of(outputs_),
        bias_and_relu<element>{outputs(), bias_.values().data(), outputs_per_sample_, cuts_},
        in.on);
  }

  /// The gradients of weights and bias, and where there is a layer before this one, of its outputs.
  void backward(const workshop& in, const element* inputs, element* of_inputs) const {
    if (cuts_)
      cuda::for_each(size_of(outputs_), relu_gradient<element>{outputs(), gradients()}, in.on);
    weight_gradient_.launch(in, gradients(), inputs, weights_.gradients().data());
    cuda::for_each(size_of(parts_),
                   column_parts<element>{gradients(), parts_.data(), samples_, outputs_per_sample_},
                   in.on);
    cuda::for_each(
        outputs_per_sample_,
        column_sums<element>{
            parts_.data(), bias_.gradients().data(), parts_of_column(), outputs_per_sample_},
        in.on);
    if (input_gradient_) input_gradient_->launch(in, gradients(), weights_.used(), of_inputs);
  }

  void update(const workshop& in, const sweep_examples::adamw_options& with, std::int64_t step) {
    weights_.update(in, with, with.weight_decay, step);
    bias_.update(in, with, 0, step);
  }

 private:
  std::int64_t outputs_per_sample_;
  std::int64_t inputs_per_sample_;
  std::int64_t samples_;
  bool cuts_;
  trained_values<Format> weights_;
  trained_values<Format> bias_;
  cuda::device_buffer<element> outputs_;
  cuda::device_buffer<element> gradients_;
  cuda::device_buffer<float> parts_;
  chosen_matmul forward_;
  chosen_matmul weight_gradient_;
  std::optional<chosen_matmul> input_gradient_{};

  static cuda::matmul matmul(gpuplan::matmul_shape shape, cuda::matmul_pass pass) {
    return {.format = Format, .shape = shape, .pass = pass};
  }
  [[nodiscard]] std::int64_t parts_of_column() const {
    return (samples_ + rows_of_part - 1) / rows_of_part;
  }
};

}  // namespace sweep_cuda
