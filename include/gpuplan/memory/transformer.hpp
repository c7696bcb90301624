#pragma once

// The memory of a training step, from the model's shape and the framework's code.

#include <gpuplan/device_needs.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay/bounds.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <limits>

namespace gpuplan {

/// What of a device's memory PyTorch's allocator reserves beyond the bytes that were asked for, as
/// a share of these: blocks that lie between others when they are needed elsewhere. Of 74 settings
/// at the largest micro-batch that ran on a device of 8 to 80 GiB, the device had 1.15 times the
/// bytes asked for in the median, 1.01 at least, and 1.40 or less in nineteen of twenty. `replay`
/// with a capacity answers for one setting exactly.
inline constexpr double usual_fragmentation = 0.15;
inline constexpr double worst_fragmentation = 0.40;

/// What one device needs at the peak of a step.
struct memory_breakdown {
  bytes weights{};
  bytes gradients{};
  bytes optimizer_states{};
  bytes buffers{};      // the batch, tables, communication
  bytes activations{};  // kept for backward
  bytes working{};      // of the operator that makes the peak, gradients of activations included
  bytes workspace{};    // of library calls
  bytes fragmentation{};
  bytes kernels{};        // beside tensors: where all are loaded at once,
  bytes communication{};  // and NCCL's buffers,
  bytes inference{};      // and what an engine that generates holds
  step_moment when{};     // the peak is

  [[nodiscard]] constexpr bytes total() const {
    return weights + gradients + optimizer_states + buffers + activations + working + workspace +
           fragmentation + kernels + communication + inference;
  }
};

/// A part of a breakdown, and what people call it.
struct memory_breakdown_part {
  const char* name;
  bytes memory_breakdown::*size;
};

/// All that make the total, as pictures stack them: what stays longest is first.
inline constexpr memory_breakdown_part memory_breakdown_parts[] = {
    {"weights", &memory_breakdown::weights},
    {"optimizer states", &memory_breakdown::optimizer_states},
    {"gradients", &memory_breakdown::gradients},
    {"buffers", &memory_breakdown::buffers},
    {"activations", &memory_breakdown::activations},
    {"working memory", &memory_breakdown::working},
    {"workspace", &memory_breakdown::workspace},
    {"fragmentation", &memory_breakdown::fragmentation},
    {"kernels", &memory_breakdown::kernels},
    {"communication", &memory_breakdown::communication},
    {"inference engine", &memory_breakdown::inference}};

/// The part that has the most bytes, the first of equal ones; never the fragmentation, which is a
/// share of others.
[[nodiscard]] constexpr const memory_breakdown_part& largest_part_of(const memory_breakdown& of) {
  const memory_breakdown_part* largest = &memory_breakdown_parts[0];
  for (const memory_breakdown_part& one : memory_breakdown_parts)
    if (one.size != &memory_breakdown::fragmentation && of.*one.size > of.*largest->size)
      largest = &one;
  return *largest;
}

/// `required` is the most that the step's tensors and temporaries have at once, as `peaks_of`
/// counts it, the fragmentation on top, and what the device needs beside tensors. The CUDA context
/// is not in it: `usable_memory` has taken it off the device. Without fragmentation and needs it is
/// exact for all of 797 measured steps of PyTorch. Constexpr; at run time 0.25 ms, and some
/// milliseconds where every layer is replayed (`peaks_of`).
struct transformer_memory {
  training_setup setup{};
  double fragmentation = usual_fragmentation;
  std::int64_t channels = 24;  // of NCCL: an A100's; `nccl_channels` of other devices

  /// Infinite where the bytes may be too many for 64 bits. Precondition: `validate` accepts this.
  [[nodiscard]] constexpr bytes required(const batch_plan& plan) const;
  /// Precondition: `validate` accepts this, and this with the plan.
  [[nodiscard]] constexpr memory_breakdown breakdown(const batch_plan& plan) const {
    const step_peaks peaks = peaks_of(setup, plan);
    const memory_sum& peak = peaks.peak();
    const auto part = [&](memory_part which) {
      return bytes::from_value(static_cast<double>(peak.of[static_cast<int>(which)]));
    };
    memory_breakdown parts{.weights = part(memory_part::weights),
                           .gradients = part(memory_part::gradients),
                           .optimizer_states = part(memory_part::optimizer_states),
                           .buffers = part(memory_part::buffers),
                           .activations = part(memory_part::activations),
                           .working = part(memory_part::working),
                           .workspace = part(memory_part::workspace)};
    parts.fragmentation = fragmentation * parts.total();
    const device_needs needs = needs_of(setup, plan, channels);
    parts.kernels = needs.kernels;
    parts.communication = needs.communication;
    parts.inference = needs.inference;
    parts.when = peaks.when();
    return parts;
  }
};

/// The model itself where its setup makes one. Errors: those of the setup's parts; `no_such_code`
/// where the framework's code cannot have such a model; `out_of_bounds` of the fragmentation, which
/// is from 0 to 10, and of the channels, from 1 to 1024.
[[nodiscard]] constexpr result<transformer_memory> validate(const transformer_memory& memory) {
  if (const auto valid = validate(memory.setup); !valid) return valid.why();
  if (const auto valid = validate(memory.setup.trains, memory.setup.model); !valid)
    return valid.why();
  if (!(memory.fragmentation >= 0 && memory.fragmentation <= 10))
    return failure(
        errc::out_of_bounds,
        {{fact::fragmentation, memory.fragmentation}, {fact::at_least, 0}, {fact::at_most, 10}});
  const std::int64_t most_channels = 1024;
  if (memory.channels < 1 || memory.channels > most_channels)
    return failure(
        errc::out_of_bounds,
        {{fact::channels, memory.channels}, {fact::at_least, 1}, {fact::at_most, most_channels}});
  return memory;
}
/// The plan itself where its step can be replayed. Errors: those of the setup with the plan;
/// `out_of_bounds` of more than 2^20 ranks or 2^40 micro-batches; `overflow` where the bytes may be
/// too many for 64 bits, with the numbers that make them.
[[nodiscard]] constexpr result<batch_plan> validate(const transformer_memory& memory,
                                                    const batch_plan& plan) {
  if (const failure why = detail::flaw_of_step_of(memory.setup, plan); detail::failed(why))
    return why;
  return plan;
}

constexpr bytes transformer_memory::required(const batch_plan& plan) const {
  if (detail::failed(detail::flaw_of_step(setup, plan)))
    return bytes::from_value(std::numeric_limits<double>::infinity());
  return breakdown(plan).total();
}

}  // namespace gpuplan
