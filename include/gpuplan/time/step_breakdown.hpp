#pragma once

// The time of one optimizer step, by what it is spent on.

#include <gpuplan/units.hpp>

namespace gpuplan {

/// One optimizer step of the slowest device, from the first sample read to the last weight written.
/// What is hidden behind other work is not in it, so the parts add up to the step.
struct step_breakdown {
  duration data{};                     // waiting for samples
  duration forward{};                  // kernels of the forward pass, loss included
  duration backward{};                 // of the backward pass,
  duration recompute{};                // and those of the forward pass that it repeats
  duration tensor_communication{};     // exposed communication: of tensor parallelism,
  duration context_communication{};    // of the ring of context parallelism,
  duration expert_communication{};     // of tokens to their experts and back,
  duration pipeline_communication{};   // between stages,
  duration gradient_communication{};   // of data parallelism,
  duration parameter_communication{};  // and of weights that ranks share (ZeRO-1 to 3), with the
                                       // gradients that are reduced in each micro-batch
  duration bubble{};                   // waiting for other stages
  duration optimizer{};
  duration host{};  // the device waits for launches; logging and the like

  /// The sum.
  [[nodiscard]] constexpr duration total() const {
    return data + compute() + communication() + bubble + host;
  }
  /// Of it, the kernels: forward, backward, recomputation and optimizer.
  [[nodiscard]] constexpr duration compute() const {
    return forward + backward + recompute + optimizer;
  }
  /// Of it, exposed communication.
  [[nodiscard]] constexpr duration communication() const {
    return tensor_communication + context_communication + expert_communication +
           pipeline_communication + gradient_communication + parameter_communication;
  }
};

/// Each part, so many times.
[[nodiscard]] constexpr step_breakdown operator*(double factor, const step_breakdown& time) {
  return {.data = factor * time.data,
          .forward = factor * time.forward,
          .backward = factor * time.backward,
          .recompute = factor * time.recompute,
          .tensor_communication = factor * time.tensor_communication,
          .context_communication = factor * time.context_communication,
          .expert_communication = factor * time.expert_communication,
          .pipeline_communication = factor * time.pipeline_communication,
          .gradient_communication = factor * time.gradient_communication,
          .parameter_communication = factor * time.parameter_communication,
          .bubble = factor * time.bubble,
          .optimizer = factor * time.optimizer,
          .host = factor * time.host};
}

}  // namespace gpuplan
