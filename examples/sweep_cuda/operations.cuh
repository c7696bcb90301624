#pragma once

// What training does beside matrix products, element by element. Elements are of float or of
// __nv_bfloat16; sums and the optimizer's state are of float.

#include <gpuplan/cuda/for_each.cuh>
#include <gpuplan/cuda/runtime.cuh>

#include <cmath>
#include <cstdint>

#include "sweep/multilayer_perceptron.hpp"

namespace sweep_cuda {

/// to[i] = from[i], in another format.
template <class From, class To>
struct converted {
  const From* from;
  To* to;

  __host__ __device__ void operator()(std::int64_t i) const {
    to[i] = To(static_cast<float>(from[i]));
  }
};

/// Adds a bias to each column of a matrix by rows, and cuts off what is negative where asked.
template <class Element>
struct bias_and_relu {
  Element* values;
  const float* bias;
  std::int64_t columns;
  bool cuts;

  __host__ __device__ void operator()(std::int64_t i) const {
    const float sum = static_cast<float>(values[i]) + bias[i % columns];
    values[i] = Element(cuts && sum < 0 ? 0.0F : sum);
  }
};

/// The gradient of what was cut off is 0.
template <class Element>
struct relu_gradient {
  const Element* outputs;
  Element* gradients;

  __host__ __device__ void operator()(std::int64_t i) const {
    if (!(static_cast<float>(outputs[i]) > 0)) gradients[i] = Element(0.0F);
  }
};

/// The loss of row i, -log of the share that the class has of the outputs' exponentials, and its
/// gradient times `scale` to each of them.
template <class Element>
struct cross_entropy {
  const Element* outputs;
  const std::uint8_t* classes;
  float* losses;
  Element* gradients;
  std::int64_t columns;
  float scale;

  __host__ __device__ void operator()(std::int64_t i) const {
    const Element* const row = outputs + i * columns;
    float largest = static_cast<float>(row[0]);
    for (std::int64_t j = 1; j < columns; ++j) {
      const auto one = static_cast<float>(row[j]);
      if (one > largest) largest = one;
    }
    float sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) sum += expf(static_cast<float>(row[j]) - largest);
    losses[i] = logf(sum) - (static_cast<float>(row[classes[i]]) - largest);
    for (std::int64_t j = 0; j < columns; ++j) {
      const float share = expf(static_cast<float>(row[j]) - largest) / sum;
      gradients[i * columns + j] = Element(scale * (share - (j == classes[i] ? 1.0F : 0.0F)));
    }
  }
};

/// Rows that one thread adds up.
inline constexpr std::int64_t rows_of_part = 64;

/// parts[i] becomes the sum of `rows_of_part` elements below each other: part i / columns of column
/// i % columns. So few at once that the sum is as exact as float, and the same in each run.
template <class Element>
struct column_parts {
  const Element* values;
  float* parts;
  std::int64_t rows;
  std::int64_t columns;

  __host__ __device__ void operator()(std::int64_t i) const {
    const std::int64_t first = i / columns * rows_of_part;
    const std::int64_t end = first + rows_of_part < rows ? first + rows_of_part : rows;
    float sum = 0;
    for (std::int64_t row = first; row < end; ++row)
      sum += static_cast<float>(values[row * columns + i % columns]);
    parts[i] = sum;
  }
};

/// sums[i] becomes the sum of the parts of column i.
template <class Element>
struct column_sums {
  const float* parts;
  Element* sums;
  std::int64_t parts_of_column;
  std::int64_t columns;

  __host__ __device__ void operator()(std::int64_t i) const {
    float sum = 0;
    for (std::int64_t part = 0; part < parts_of_column; ++part) sum += parts[part * columns + i];
    sums[i] = Element(sum);
  }
};

/// One step of AdamW (Loshchilov and Hutter 2019, algorithm 2) on parameter i. `used` becomes the
/// parameter as products read it.
template <class Element>
struct adamw_update {
  float* parameters;
  const Element* gradients;
  float* means;
  float* squares;
  Element* used;  // may be `parameters`
  sweep_examples::adamw_options with;
  float decay;         // what `with` says, or 0
  float mean_share;    // 1 - beta1^step
  float square_share;  // 1 - beta2^step

  __host__ __device__ void operator()(std::int64_t i) const {
    const auto gradient = static_cast<float>(gradients[i]);
    means[i] = with.beta1 * means[i] + (1 - with.beta1) * gradient;
    squares[i] = with.beta2 * squares[i] + (1 - with.beta2) * gradient * gradient;
    const float mean = means[i] / mean_share;
    const float length = sqrtf(squares[i] / square_share) + with.epsilon;
    const float changed =
        parameters[i] * (1 - with.learning_rate * decay) - with.learning_rate * mean / length;
    parameters[i] = changed;
    used[i] = Element(changed);
  }
};

}  // namespace sweep_cuda
