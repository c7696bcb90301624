// The network of program sweep_cuda, trained on a stand-in whose kernels run their own bodies:
// against finite differences of a loss in double precision, and AdamW against its formula.

#include <gpuplan/precision.hpp>

#include <stand_in/cublaslt.hpp>
#include <stand_in/stand_in.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "every_call_fails.hpp"
#include "played_matmuls.hpp"
#include "sweep_cuda/network.cuh"

namespace {

using namespace gpuplan;

template <number_format Format>
void play_network() {
  using element = cuda::stored_t<Format>;
  stand_in::reset();
  played::play<sweep_cuda::bias_and_relu<element>>();
  played::play<sweep_cuda::relu_gradient<element>>();
  played::play<sweep_cuda::column_parts<element>>();
  played::play<sweep_cuda::column_sums<element>>();
  played::play<sweep_cuda::cross_entropy<element>>();
  played::play<sweep_cuda::adamw_update<element>>();
  if constexpr (!std::is_same_v<element, float>) {
    played::play<sweep_cuda::converted<float, element>>();
  }
  stand_in::current_matmul().body = played::multiply_by_columns<element, element, float>;
}

// Two layers of 5, 7 and 3, and 70 samples: more than one part of a column's sum.
struct problem {
  static constexpr std::size_t inputs = 5, hidden = 7, classes = 3, samples = 70;

  std::vector<float> weights_1 = numbers(hidden * inputs, 1, 0.4F);
  std::vector<float> bias_1 = numbers(hidden, 2, 0.2F);
  std::vector<float> weights_2 = numbers(classes * hidden, 3, 0.4F);
  std::vector<float> bias_2 = numbers(classes, 4, 0.2F);
  std::vector<float> batch = numbers(samples * inputs, 5, 1);
  std::vector<std::uint8_t> of_class = [] {
    std::vector<std::uint8_t> made(samples);
    for (std::size_t i = 0; i < samples; ++i) made[i] = static_cast<std::uint8_t>(i * i % classes);
    return made;
  }();

  static std::vector<float> numbers(std::size_t count, std::uint64_t seed, float size) {
    std::vector<float> made(count);
    for (std::size_t i = 0; i < count; ++i)
      made[i] = size * static_cast<float>(cuda::normal_number(seed, static_cast<std::int64_t>(i)));
    return made;
  }

  template <number_format Format>
  [[nodiscard]] sweep_cuda::network<Format> network(cudaStream_t on) const {
    const std::vector<sweep_cuda::initial_layer> layers{{weights_1, bias_1}, {weights_2, bias_2}};
    return {layers, samples, on};
  }

  // In double precision, by the definitions; with `change` added to parameter `changed`.
  [[nodiscard]] double loss(const float* changed = nullptr, double change = 0) const {
    const auto parameter = [&](const float& of) {
      return static_cast<double>(of) + (&of == changed ? change : 0);
    };
    double sum = 0;
    for (std::size_t i = 0; i < samples; ++i) {
      double between[hidden];
      for (std::size_t j = 0; j < hidden; ++j) {
        double value = parameter(bias_1[j]);
        for (std::size_t k = 0; k < inputs; ++k)
          value +=
              parameter(weights_1[j * inputs + k]) * static_cast<double>(batch[i * inputs + k]);
        between[j] = value > 0 ? value : 0;
      }
      double exponentials = 0;
      double of_right = 0;
      for (std::size_t j = 0; j < classes; ++j) {
        double value = parameter(bias_2[j]);
        for (std::size_t k = 0; k < hidden; ++k)
          value += parameter(weights_2[j * hidden + k]) * between[k];
        exponentials += std::exp(value);
        if (of_class[i] == j) of_right = value;
      }
      sum += std::log(exponentials) - of_right;
    }
    return sum / static_cast<double>(samples);
  }

  // Of the loss by one parameter.
  [[nodiscard]] double slope(const float& of) const {
    constexpr double step = 1e-6;
    return (loss(&of, step) - loss(&of, -step)) / (2 * step);
  }
};

template <number_format Format>
void check_gradients(double within) {
  const problem p;
  play_network<Format>();
  const cuda::stream on;
  auto network = p.network<Format>(on);
  network.load(p.batch, p.of_class);
  network.forward();
  CHECK(network.loss() == doctest::Approx(p.loss()).epsilon(within));
  network.backward();
  const auto check = [&](const std::vector<float>& of, const auto& gradients) {
    const auto found = copied(network.place(), gradients);
    REQUIRE(found.size() == of.size());
    for (std::size_t i = 0; i < of.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(cuda::number_of(found[i]) - p.slope(of[i])) < within);
    }
  };
  check(p.weights_1, network[0].weights().gradients());
  check(p.bias_1, network[0].bias().gradients());
  check(p.weights_2, network[1].weights().gradients());
  check(p.bias_2, network[1].bias().gradients());
}

TEST_CASE("gradients are those of the loss") {
  check_gradients<number_format::fp32>(1e-6);
  check_gradients<number_format::bf16>(4e-3);
}

TEST_CASE("a step of the optimizer is AdamW's, and training lowers the loss") {
  const problem p;
  play_network<number_format::fp32>();
  const cuda::stream on;
  auto network = p.network<number_format::fp32>(on);
  const sweep_examples::adamw_options with{.learning_rate = 0.02F, .weight_decay = 0.1F};
  const auto values = [&] { return copied(network.place(), network[1].weights().values()); };
  std::vector<double> expected(p.weights_2.begin(), p.weights_2.end());
  std::vector<double> mean(expected.size());
  std::vector<double> square(expected.size());
  double first_loss = 0;
  for (int step = 1; step <= 60; ++step) {
    network.load(p.batch, p.of_class);
    network.forward();
    if (step == 1) first_loss = network.loss();
    network.backward();
    network.update(with);
    const auto gradients = copied(network.place(), network[1].weights().gradients());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto g = static_cast<double>(gradients[i]);
      mean[i] = 0.9 * mean[i] + 0.1 * g;
      square[i] = 0.999 * square[i] + 0.001 * g * g;
      const double unbiased_mean = mean[i] / (1 - std::pow(0.9, step));
      const double unbiased_square = square[i] / (1 - std::pow(0.999, step));
      expected[i] -=
          0.02 * (unbiased_mean / (std::sqrt(unbiased_square) + 1e-8) + 0.1 * expected[i]);
    }
  }
  const auto found = values();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(static_cast<double>(found[i]) == doctest::Approx(expected[i]).epsilon(1e-3));
  }
  CHECK(network.loss() < 0.7 * first_loss);
}

TEST_CASE("it learns what the network on a CPU learns") {
  const std::vector<std::int64_t> widths{problem::inputs, problem::hidden, problem::classes};
  const problem p;
  sweep_examples::thread_team team(1);
  sweep_examples::multilayer_perceptron on_cpu(widths, problem::samples, team, 7);
  play_network<number_format::fp32>();
  const cuda::stream on;
  sweep_cuda::network<number_format::fp32> on_gpu(
      sweep_cuda::initial_layers(widths, 7), problem::samples, on);
  const sweep_examples::adamw_options with{.learning_rate = 0.02F, .weight_decay = 0.1F};
  for (int step = 0; step < 40; ++step) {
    const float loss = on_cpu.forward(p.batch, p.of_class);
    on_cpu.backward();
    on_cpu.update(with);
    on_gpu.load(p.batch, p.of_class);
    on_gpu.forward();
    on_gpu.backward();
    on_gpu.update(with);
    CHECK(on_gpu.loss() == doctest::Approx(static_cast<double>(loss)).epsilon(1e-5));
  }
}

TEST_CASE("every call of a network that fails is told, and nothing leaks") {
  const problem p;
  tests::every_call_fails(play_network<number_format::bf16>, [&] {
    const cuda::stream on;
    auto network = p.network<number_format::bf16>(on);
    network.load(p.batch, p.of_class);
    network.forward();
    network.backward();
    network.update();
    static_cast<void>(network.loss());
  });
}

TEST_CASE("a matmul that cuBLASLt does not make is said") {
  play_network<number_format::fp32>();
  stand_in::current_matmul().algorithms = 0;
  const problem p;
  const cuda::stream on;
  CHECK_THROWS_AS(static_cast<void>(p.network<number_format::fp32>(on)), cuda::measurement_error);
}

}  // namespace
