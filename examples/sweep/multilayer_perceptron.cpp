#include "sweep/multilayer_perceptron.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <numbers>
#include <numeric>
#include <span>

#include "sweep/random.hpp"

namespace sweep_examples {
namespace {

using matrix = Eigen::Map<Eigen::MatrixXf>;
using constant_matrix = Eigen::Map<const Eigen::MatrixXf>;
using column = Eigen::Map<Eigen::VectorXf>;
using constant_column = Eigen::Map<const Eigen::VectorXf>;

// Box and Muller's.
float normal(random_stream& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.between(0, 1)));
  return static_cast<float>(radius * std::cos(2 * std::numbers::pi * random.between(0, 1)));
}

}  // namespace

multilayer_perceptron::multilayer_perceptron(std::span<const std::int64_t> widths,
                                             std::int64_t micro_batch,
                                             thread_team& team,
                                             std::uint64_t seed,
                                             std::pmr::memory_resource* memory)
    : team_(team),
      micro_batch_(micro_batch),
      parameters_(memory),
      gradients_(memory),
      first_moments_(memory),
      second_moments_(memory),
      activations_(memory),
      deltas_(memory),
      losses_(static_cast<std::size_t>(team.threads())),
      hits_(static_cast<std::size_t>(team.threads())) {
  std::size_t count = 0;
  std::size_t outputs = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    layer made{.inputs = widths[i], .outputs = widths[i + 1]};
    made.weights = count;
    made.biases = count + static_cast<std::size_t>(made.inputs * made.outputs);
    made.activation = outputs;
    count = made.biases + static_cast<std::size_t>(made.outputs);
    outputs += static_cast<std::size_t>(made.outputs * micro_batch);
    layers_.push_back(made);
  }
  parameters_.resize(count);
  gradients_.resize(count * static_cast<std::size_t>(team.threads()));
  first_moments_.resize(count);
  second_moments_.resize(count);
  activations_.resize(outputs);
  deltas_.resize(outputs);
  random_stream random(seed);
  for (const layer& l : layers_) {
    const float scale = std::sqrt(2.0F / static_cast<float>(l.inputs));
    for (std::size_t i = l.weights; i < l.biases; ++i) parameters_[i] = scale * normal(random);
  }
}

float multilayer_perceptron::forward(std::span<const float> inputs,
                                     std::span<const std::uint8_t> labels) {
  inputs_ = inputs;
  labels_ = labels;
  team_.run([this](int thread) { forward_share(thread); });
  const double sum = std::accumulate(losses_.begin(), losses_.end(), 0.0);
  return static_cast<float>(sum / static_cast<double>(micro_batch_));
}

void multilayer_perceptron::forward_share(int thread) {
  const auto at = static_cast<std::size_t>(thread);
  const share mine = share_of(micro_batch_, thread, team_.threads());
  losses_[at] = 0;
  hits_[at] = 0;
  const float* from = inputs_.data() + mine.first * layers_.front().inputs;
  for (const layer& l : layers_) {
    const constant_matrix weights(parameters_.data() + l.weights, l.outputs, l.inputs);
    const constant_column biases(parameters_.data() + l.biases, l.outputs);
    const constant_matrix before(from, l.inputs, mine.size());
    float* const to = activations_.data() + l.activation + mine.first * l.outputs;
    matrix after(to, l.outputs, mine.size());
    after.noalias() = weights * before;
    after.colwise() += biases;
    if (&l != &layers_.back()) after = after.cwiseMax(0.0F);
    from = to;
  }
  // The last layer's outputs become the gradient of the loss by them: softmax less what is true.
  const layer& last = layers_.back();
  float* const outputs = activations_.data() + last.activation;
  float* const deltas = deltas_.data() + last.activation;
  const auto per_sample = 1.0F / static_cast<float>(micro_batch_);
  for (std::int64_t i = mine.first; i < mine.last; ++i) {
    const column scores(outputs + i * last.outputs, last.outputs);
    column delta(deltas + i * last.outputs, last.outputs);
    const Eigen::Index label = labels_[static_cast<std::size_t>(i)];
    Eigen::Index likeliest = 0;
    const float most = scores.maxCoeff(&likeliest);
    delta = (scores.array() - most).exp();
    const float sum = delta.sum();
    losses_[at] += std::log(static_cast<double>(sum)) - static_cast<double>(scores[label] - most);
    hits_[at] += likeliest == label ? 1 : 0;
    delta *= per_sample / sum;
    delta[label] -= per_sample;
  }
}

void multilayer_perceptron::backward() {
  team_.run([this](int thread) { backward_share(thread); });
  const int threads = team_.threads();
  if (threads == 1) return;
  const auto count = static_cast<std::int64_t>(parameters_.size());
  team_.run([&](int thread) {
    const share mine = share_of(count, thread, threads);
    column sum(gradients_.data() + mine.first, mine.size());
    for (int other = 1; other < threads; ++other)
      sum += constant_column(gradients_.data() + other * count + mine.first, mine.size());
  });
}

void multilayer_perceptron::backward_share(int thread) {
  const share mine = share_of(micro_batch_, thread, team_.threads());
  float* const gradients =
      gradients_.data() + static_cast<std::size_t>(thread) * parameters_.size();
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const layer& l = layers_[i];
    const constant_matrix delta(
        deltas_.data() + l.activation + mine.first * l.outputs, l.outputs, mine.size());
    const float* const from =
        i == 0 ? inputs_.data() + mine.first * l.inputs
               : activations_.data() + layers_[i - 1].activation + mine.first * l.inputs;
    const constant_matrix before(from, l.inputs, mine.size());
    matrix(gradients + l.weights, l.outputs, l.inputs).noalias() = delta * before.transpose();
    column(gradients + l.biases, l.outputs) = delta.rowwise().sum();
    if (i == 0) return;  // nobody asks for the gradient of the inputs
    const constant_matrix weights(parameters_.data() + l.weights, l.outputs, l.inputs);
    matrix passed_on(
        deltas_.data() + layers_[i - 1].activation + mine.first * l.inputs, l.inputs, mine.size());
    passed_on.noalias() = weights.transpose() * delta;
    passed_on.array() *= (before.array() > 0.0F).cast<float>();
  }
}

void multilayer_perceptron::update(const adamw_options& options) {
  decay1_ *= static_cast<double>(options.beta1);
  decay2_ *= static_cast<double>(options.beta2);
  const auto correct1 = static_cast<float>(1 / (1 - decay1_));
  const auto correct2 = static_cast<float>(1 / (1 - decay2_));
  team_.run([&](int thread) {
    const auto move = [&](std::size_t first, std::int64_t size, float decay) {
      const share mine = share_of(size, thread, team_.threads());
      const std::size_t at = first + static_cast<std::size_t>(mine.first);
      const constant_column gradient(gradients_.data() + at, mine.size());
      column parameter(parameters_.data() + at, mine.size());
      column m(first_moments_.data() + at, mine.size());
      column v(second_moments_.data() + at, mine.size());
      m = options.beta1 * m + (1 - options.beta1) * gradient;
      v = options.beta2 * v + (1 - options.beta2) * gradient.cwiseAbs2();
      parameter = (1 - options.learning_rate * decay) * parameter -
                  (options.learning_rate * correct1) *
                      (m.array() / ((correct2 * v).array().sqrt() + options.epsilon)).matrix();
    };
    for (const layer& l : layers_) {
      move(l.weights, l.inputs * l.outputs, options.weight_decay);
      move(l.biases, l.outputs, 0);
    }
  });
}

double multilayer_perceptron::accuracy() const {
  const std::int64_t hits = std::accumulate(hits_.begin(), hits_.end(), std::int64_t{0});
  return static_cast<double>(hits) / static_cast<double>(micro_batch_);
}

}  // namespace sweep_examples
