#pragma once

// What an optimizer's step moves.

#include <gpuplan/precision.hpp>
#include <gpuplan/time/kernels.hpp>
#include <gpuplan/training_setup.hpp>

namespace gpuplan {

/// The bytes that an optimizer reads and writes for each parameter it updates: states and weights
/// both ways and the gradient once, in formats as the setup has them; a loop by operators (foreach,
/// for_loop) reads and writes what each operator of torch.optim does (20 values of AdamW: of
/// in-place operators with a number 2, with a tensor 3, of addcdiv_ 4); clipping reads the gradient
/// twice more and writes it. Measured on an H100 at 0.8 of its bandwidth, foreach: AdamW 80 bytes
/// (20 values), SGD 12 (3), with momentum 32 (8), RMSprop and Adagrad 52 (13); of Adafactor, which
/// is not counted, 107.
[[nodiscard]] constexpr double optimizer_bytes(const training_setup& setup) {
  const optimizer& rule = setup.optimizer;
  const bool adapts = setup.trains.what == training::adapters;
  const double weights =
      bits_per_element(adapts ? setup.trains.adapters.weights : setup.precision.weights) / 8.0;
  const double gradient = setup.precision.fp32_gradients ? 4 : weights;
  const double updated = setup.precision.master_weights ? 4 : weights;
  const double state =
      rule.states == number_format::fp32 ? updated : bits_per_element(rule.states) / 8.0;
  double states = 2;
  double values = 20;  // that a loop by operators reads and writes
  switch (rule.kind) {
    case optimizer_kind::sgd:
      states = 0;
      values = 3;
      break;
    case optimizer_kind::sgd_momentum:
    case optimizer_kind::lion:
    case optimizer_kind::muon:
      states = 1;
      values = 8;
      break;
    case optimizer_kind::rmsprop:
    case optimizer_kind::adagrad:
      states = 1;
      values = 13;
      break;
    case optimizer_kind::adamw:
      break;
    case optimizer_kind::adafactor:
      states = 0;
      values = 27;
      break;
  }
  const double once = gradient + 2 * updated + 2 * states * state;
  const double cast = setup.precision.master_weights ? weights : 0;
  const double clip = rule.clips_gradients ? 3 * gradient : 0;
  const bool is_one_kernel =
      rule.loop == optimizer_loop::fused || rule.library != optimizer_library::torch;
  return (is_one_kernel ? once : detail::larger_of(once, values * updated)) + cast + clip;
}

}  // namespace gpuplan
