#pragma once

// What an optimizer's step moves.

#include <gpuplan/communication.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/operators.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/time/kernels.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/transformer.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {

namespace detail {

// What Newton and Schulz's five iterations multiply: of each matrix X of layers X times its
// transpose, the square of that, and that times X.
class orthogonalising_visitor : public matrices_alone {
 public:
  double flops = 0;

  constexpr void repeat(std::int64_t count) { times_ = count; }
  constexpr void linear(const linear_operator& op) {
    const auto shorter = static_cast<double>(op.in < op.out ? op.in : op.out);
    const auto longer = static_cast<double>(op.in < op.out ? op.out : op.in);
    const auto copies = static_cast<double>(times_ * op.copies);
    flops += copies * 5 * (4 * shorter * shorter * longer + 2 * shorter * shorter * shorter);
  }

 private:
  std::int64_t times_ = 1;
};

}  // namespace detail

/// The FLOPs of a step in which Muon (Jordan et al. 2024) makes the momentum of each matrix of the
/// layers orthogonal: 5 (4 m^2 n + 2 m^3) of m x n with m <= n, as torch.optim.Muon does;
/// Megatron's is taken to do so with whole matrices. No step of it was timed apart.
[[nodiscard]] constexpr double orthogonalising_flops(const transformer& model) {
  detail::orthogonalising_visitor sum;
  layer_counts layers = layers_between(model, 0, model.layers());
  layers.add(mtp_layers_of(model), own_mtp_layers(model));
  visit_layers(model, layers, sum);
  return sum.flops;
}

/// The bytes in a second that a rank's optimizer on the host reads and writes: DeepSpeed's CPU Adam
/// took 8.2 s for 11.6e9 parameters (deepspeedai/DeepSpeed#735), of 28 bytes each; of its host and
/// ranks nothing is said. Eight such ranks take half of what 16 channels of DDR5-4800 move. Others:
/// 103 GB/s by torch's fused AdamW on 16 cores beside one H200, a host to itself (measured); 6 GB/s
/// by DeepSpeed on nodes of 8 A100 (DeepSpeed#6834: 10 s for 2.3e9 parameters a rank). How a host's
/// ranks share its memory is not counted.
inline constexpr bandwidth host_optimizer_rate = 40_GBps;

/// The bytes that an optimizer reads and writes for each parameter it updates: states and weights
/// both ways and the gradient once, in formats as the setup has them; a loop by operators (foreach,
/// for_loop) reads and writes what each operator of torch.optim does (20 values of AdamW: of
/// in-place operators with a number 2, with a tensor 3, of addcdiv_ 4); clipping reads the gradient
/// twice more and writes it. Measured on an H100 at 0.8 of its bandwidth, foreach: AdamW 80 bytes
/// (20 values), SGD 12 (3), with momentum 32 (8), RMSprop and Adagrad 52 (13); of Adafactor, which
/// is not counted, 107. `by_one_kernel`: whatever the loop is called.
[[nodiscard]] constexpr double optimizer_bytes(const training_setup& setup,
                                               bool by_one_kernel = false) {
  const optimizer& rule = setup.optimizer;
  const bool adapts = setup.trains.what == training::adapters;
  const double weights =
      bits_per_element(adapts ? detail::format_of_adapters(setup) : setup.precision.weights) / 8.0;
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
  const bool is_one_kernel = by_one_kernel || rule.loop == optimizer_loop::fused ||
                             rule.library != optimizer_library::torch;
  return (is_one_kernel ? once : detail::larger_of(once, values * updated)) + cast + clip;
}

/// The bytes in a second that copies between a device and its host reach. Precondition: `gpu.pcie`
/// is known.
[[nodiscard]] constexpr double host_copy_rate(const gpu_spec& gpu) {
  return gpu.pcie->each_direction().value() * link_data::pcie.copy_share;
}

/// The seconds of a step on the host, where its states are, for each parameter of a rank: what
/// `optimizer_bytes` counts at `host_optimizer_rate`. Without `weights_on_host` its gradient goes
/// there and its weight comes back, one after the other; what an engine hides of that behind the
/// backward pass is counted too. `gradient_bytes`: of one. Precondition: `gpu.pcie` is known.
[[nodiscard]] constexpr double host_step_seconds(const training_setup& setup,
                                                 const gpu_spec& gpu,
                                                 double gradient_bytes) {
  const bool adapts = setup.trains.what == training::adapters;
  const double weights =
      bits_per_element(adapts ? detail::format_of_adapters(setup) : setup.precision.weights) / 8.0;
  const double copied = setup.parallelism.weights_on_host ? 0 : gradient_bytes + weights;
  const bool has_own_loop = setup.framework.engine.is->has_own_step;  // DeepSpeed's CPU Adam
  return optimizer_bytes(setup, has_own_loop) / host_optimizer_rate.value() +
         copied / host_copy_rate(gpu);
}

}  // namespace gpuplan
