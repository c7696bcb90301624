#pragma once

// What the roofline's time is made of: its terms, one micro-batch's parts, and a device's rates.

#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/time/kernels.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

namespace gpuplan {

/// The terms of the model: each can be switched off, to see what it is worth.
struct time_terms {
  bool waves = true;         // tiles of products come in whole waves over the SMs
  bool alignment = true;     // odd dimensions slow products down
  bool matmul_bytes = true;  // products take at least as long as their operands to move
  bool elements = true;      // element-wise kernels
  bool attention = true;
  bool ends = true;     // embedding, head and loss
  bool host = true;     // launches by the host
  bool latency = true;  // of communication, and its small messages
  bool tensor_communication = true;
  bool context_communication = true;
  bool expert_communication = true;
  bool pipeline_communication = true;
  bool gradient_communication = true;
  bool parameter_communication = true;
  bool contention = true;  // of communication with kernels
  bool recompute = true;
  bool bubble = true;
  bool optimizer = true;
};

/// What parts of a step take, over what the roofline says of them.
struct time_factors {
  double layer = 1;   // kernels and communication of layers, and what the host adds to these
  double input = 1;   // embedding
  double output = 1;  // head and loss
  double point_to_point = 1;  // sends between stages
  double sharing = 1;         // exchanges of gradients and weights among ranks that share these
  double optimizer = 1;
  double host = 1;  // once a step

  friend constexpr bool operator==(const time_factors&, const time_factors&) = default;
};

/// One micro-batch on one stage, or through one layer, in seconds: what `step_breakdown` sums up.
struct micro_batch_time {
  double forward = 0;
  double backward = 0;
  double recompute = 0;
  double tensor = 0;
  double context = 0;
  double expert = 0;
  double parameter = 0;     // waiting for weights that ranks share, and for their gradients
  double host = 0;          // waiting for launches
  double forward_pass = 0;  // of all these, what the forward pass takes
  double weights = 0;       // of the backward pass, what gradients of weights take
  double reductions = 0;    // behind the last micro-batch alone: waiting for gradients

  [[nodiscard]] constexpr double total() const {
    return forward + backward + recompute + tensor + context + expert + parameter + host;
  }
};

[[nodiscard]] constexpr micro_batch_time operator+(const micro_batch_time& a,
                                                   const micro_batch_time& b) {
  return {.forward = a.forward + b.forward,
          .backward = a.backward + b.backward,
          .recompute = a.recompute + b.recompute,
          .tensor = a.tensor + b.tensor,
          .context = a.context + b.context,
          .expert = a.expert + b.expert,
          .parameter = a.parameter + b.parameter,
          .host = a.host + b.host,
          .forward_pass = a.forward_pass + b.forward_pass,
          .weights = a.weights + b.weights,
          .reductions = a.reductions + b.reductions};
}

[[nodiscard]] constexpr micro_batch_time operator*(double count, const micro_batch_time& a) {
  return {.forward = count * a.forward,
          .backward = count * a.backward,
          .recompute = count * a.recompute,
          .tensor = count * a.tensor,
          .context = count * a.context,
          .expert = count * a.expert,
          .parameter = count * a.parameter,
          .host = count * a.host,
          .forward_pass = count * a.forward_pass,
          .weights = count * a.weights,
          .reductions = count * a.reductions};
}

/// The rates of a cluster's device for a setup: what was measured of the device, and else peaks of
/// its formats times the shares reached. Attention is not measured apart.
/// Precondition: the device has a peak for the format of products.
[[nodiscard]] constexpr kernel_rates kernel_rates_of(const training_setup& setup,
                                                     const gpu_spec& gpu,
                                                     const device_efficiency& reached,
                                                     const time_terms& terms = {}) {
  const double clock = clock_share(reached, gpu);
  const auto products = [&](number_format format, double share) {
    const ceiling<compute_rate> most = *matmul_ceiling(gpu, format);
    const bool is_reached = most.origin == ceiling_origin::measured;
    const double by_software = setup.framework.costs.matmul_rate;
    const double of_peak = clock * share * by_software;
    // Cores without tensors that run above the stated clock were seen on no card that was timed.
    const bool is_above = format == number_format::fp32 && of_peak > 1;
    return most.value.value() * (is_reached ? by_software : is_above ? 1 : of_peak);
  };
  kernel_rates rates;
  const bool is_half = detail::is_half(setup.precision.compute);
  rates.half =
      products(setup.precision.compute, is_half ? reached.products : reached.products_fp32);
  const auto single = peak(gpu, number_format::fp32);
  rates.scalar = single ? products(number_format::fp32, reached.products_fp32) : rates.half;
  rates.linear = rates.half;
  rates.linear_bytes = detail::is_half(setup.precision.compute) ? 2 : 4;
  if (setup.precision.fp8_linears) {
    rates.linear = products(number_format::fp8, reached.products_fp8);
    if (setup.precision.scaling == scaling_kind::row)
      rates.linear *= reached.products_fp8_by_row / reached.products_fp8;
    rates.linear_bytes = 1;
  }
  if (setup.precision.fp4_linears) {
    rates.linear = products(number_format::fp4, reached.products_fp4);
    rates.linear_bytes = 0.5;
  }
  const bool attends = terms.attention;
  const double half =
      peak(gpu, setup.precision.compute)->value() * clock * setup.framework.costs.matmul_rate;
  rates.attention_forward = attends ? half * reached.attention_forward : detail::infinity;
  rates.attention_backward = attends ? half * reached.attention_backward : detail::infinity;
  const ceiling<bandwidth> memory = memory_ceiling(gpu);
  const double moved =
      memory.value.value() * (memory.origin == ceiling_origin::measured ? 1 : reached.memory);
  rates.bytes = terms.matmul_bytes ? moved : detail::infinity;
  rates.elements = terms.elements ? moved : detail::infinity;
  // These are bound by what SMs do in a clock, and were measured on an H100: 132 of them at 1830
  // MHz for 3.35 TB/s.
  const double clocks = gpu.clock_MHz ? 1.0 * gpu.sm_count * *gpu.clock_MHz : 0;
  const double bytes_per_clock =
      clocks > 0 ? moved / reached.memory / 3.35e12 * (132 * 1830.0 / clocks) : 1;
  rates.functions = reached.functions * bytes_per_clock;
  rates.sums = reached.sums * bytes_per_clock;
  rates.softmaxes = reached.softmaxes * bytes_per_clock;
  rates.norms = reached.norms * bytes_per_clock;
  rates.rms_norms = reached.rms_norms * bytes_per_clock;
  rates.norm_gradients = reached.norm_gradients * bytes_per_clock;
  rates.reorders = reached.reorders * bytes_per_clock;
  rates.sms = gpu.sm_count;
  const auto kernel = launch_latency(gpu, launch_cost::kernel);
  rates.floor = (kernel ? kernel->value : reached.kernel_floor).value();
  // Products in fp32 are not by tensor cores, and load single elements as fast.
  const bool aligns = terms.alignment && detail::is_half(setup.precision.compute);
  rates.odd = aligns ? reached.odd_matmuls : 1;
  rates.unaligned = aligns ? reached.unaligned_matmuls : 1;
  rates.in_waves = terms.waves;
  const auto of_all_sms = peak(gpu, is_half ? setup.precision.compute : number_format::fp16);
  if (of_all_sms && of_all_sms->value() > 0)
    rates.reuse =
        detail::larger_of(1, detail::flops_of_ampere_sm * rates.sms / of_all_sms->value());
  return rates;
}

}  // namespace gpuplan
