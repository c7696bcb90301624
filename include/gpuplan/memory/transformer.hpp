#pragma once

// The memory of a training step, from the model's shape and the framework's code.

#include <gpuplan/device_needs.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/parameters.hpp>
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
  bytes communication{};  // and NCCL's buffers
  step_moment when{};     // the peak is

  [[nodiscard]] constexpr bytes total() const {
    return weights + gradients + optimizer_states + buffers + activations + working + workspace +
           fragmentation + kernels + communication;
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
    {"communication", &memory_breakdown::communication}};

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
namespace detail {

// What is wrong with training so at all, or no failure: bounds for the sum of all that a step
// allocates, far above it, in which no integer of the replay leaves 64 bits.
constexpr failure flaw_of_step(const training_setup& setup, const batch_plan& plan) {
  const auto d = [](std::int64_t count) { return static_cast<double>(count); };
  const std::int64_t most_ranks = std::int64_t{1} << 20;
  if (plan.data_parallel > most_ranks)
    return failure(errc::out_of_bounds,
                   named_fact{fact::data_parallel, plan.data_parallel},
                   named_fact{fact::at_most, most_ranks});
  const std::int64_t most_micro_batches = std::int64_t{1} << 40;
  if (plan.accumulation > most_micro_batches)
    return failure(errc::out_of_bounds,
                   named_fact{fact::accumulation, plan.accumulation},
                   named_fact{fact::at_most, most_micro_batches});
  for (int at = 0; setup.composite != nullptr && at < setup.composite->size(); ++at) {
    const component& part = setup.composite->parts[at];
    batch_plan of_part = plan;
    const checked_integer sequences = checked_product(plan.micro_batch, part.sequences);
    if (!sequences.ok)
      return failure(errc::overflow,
                     {{fact::micro_batch, plan.micro_batch}, {fact::sequences, part.sequences}});
    of_part.micro_batch = sequences.value;
    if (const failure why = flaw_of_step(setup_of_part(setup, part), of_part); failed(why))
      return why;
    // Each takes its own kernels, one after the other.
    if (part.model.image.grid_height == 0) continue;
    const std::int64_t most_pieces = 4096;
    const checked_integer pieces = checked_product(of_part.micro_batch, pieces_of_image(part));
    if (!pieces.ok || pieces.value > most_pieces)
      return failure(errc::out_of_bounds,
                     {{fact::pieces, pieces.ok ? pieces.value : most_pieces + 1},
                      {fact::at_most, most_pieces},
                      {fact::micro_batch, plan.micro_batch},
                      {fact::sequences, part.sequences}});
  }
  const double most = 0x1p62;
  // Each sample has matrices of its own for its kind of robot.
  if (setup.composite != nullptr && setup.composite->actions.embodiments != 0) {
    const action_head& of = setup.composite->actions;
    const double widths = d(of.hidden_size) + d(of.encoder_size) + d(of.state_dim) +
                          d(of.action_dim) + d(setup.model.hidden_size);
    const double tokens = d(setup.sequence_length) + d(of.future_tokens) + d(of.position_rows);
    const double samples = d(plan.micro_batch) + d(of.embodiments);
    if (2048 * samples * (widths + tokens) * (widths + d(of.num_attention_heads) * tokens) *
            (d(of.num_hidden_layers) + d(of.context_layers)) >=
        most)
      return failure(errc::overflow,
                     {{fact::micro_batch, plan.micro_batch},
                      {fact::embodiments, of.embodiments},
                      {fact::hidden_size, of.hidden_size},
                      {fact::num_hidden_layers, of.num_hidden_layers}});
  }
  const transformer& model = setup.model;
  const bool is_vision = model.kind == model_kind::vision;
  const std::int64_t longest =
      setup.target_length > setup.sequence_length ? setup.target_length : setup.sequence_length;
  const double texts = d(plan.micro_batch) * d(setup.encodings);
  const double tokens = is_vision ? d(model.image.tokens())
                                  : d(ceil_div(longest, setup.parallelism.context_parallel));
  const double heads = d(model.num_attention_heads);
  const double layers = d(model.layers()) + 4;
  const named_fact widths[] = {{fact::hidden_size, model.hidden_size},
                               {fact::intermediate_size, model.intermediate_size},
                               {fact::vocab_size, model.vocab_size},
                               {fact::num_classes, model.num_classes},
                               {fact::lora_rank, setup.trains.adapters.rank}};
  named_fact widest = widths[0];
  for (const named_fact& width : widths)
    if (width.value > widest.value) widest = width;
  const double head = d(model.query_dim() + model.value_dim()) + 64;
  // of scores, or of biases by distance, one for each head; a kernel reads one mask at most
  const bool writes_scores = setup.attention == attention_kernel::eager ||
                             setup.attention == attention_kernel::math ||
                             setup.framework.layers().biases_scores;
  const double squares = writes_scores ? heads : 1;
  const double width = 4 * d(widest.value) + heads * head + squares * tokens + texts;
  const double in_flight = 2 * d(setup.parallelism.pipeline_parallel);
  if (2048 * texts * tokens * width * layers * in_flight >= most)
    return failure(errc::overflow,
                   named_fact{fact::micro_batch, plan.micro_batch},
                   named_fact{fact::encodings, setup.encodings},
                   named_fact{fact::sequence_length, is_vision ? model.image.tokens() : longest},
                   widest,
                   named_fact{fact::num_hidden_layers, model.num_hidden_layers});
  // whole tensors of parts that are padded
  const std::int64_t count = parameters(model).total();
  if (64 * (d(count) + 32 * d(plan.data_parallel) * d(widest.value) * layers) >= most)
    return failure(errc::overflow,
                   named_fact{fact::parameters, count},
                   named_fact{fact::data_parallel, plan.data_parallel},
                   widest);
  return {};
}

}  // namespace detail

/// The plan itself where its step can be replayed. Errors: those of the setup with the plan;
/// `out_of_bounds` of more than 2^20 ranks or 2^40 micro-batches; `overflow` where the bytes may be
/// too many for 64 bits, with the numbers that make them.
[[nodiscard]] constexpr result<batch_plan> validate(const transformer_memory& memory,
                                                    const batch_plan& plan) {
  if (const auto valid = validate(memory.setup, plan); !valid) return valid.why();
  if (const failure why = detail::flaw_of_step(memory.setup, plan); detail::failed(why)) return why;
  return plan;
}

namespace detail {

// What keeps so many steps of every layer and micro-batch from being replayed, or no failure.
constexpr failure flaw_of_replay(const training_setup& setup,
                                 const batch_plan& plan,
                                 const eager::device_traits& device,
                                 std::int64_t steps = 1) {
  if (const auto valid = validate(transformer_memory{setup}); !valid) return valid.why();
  if (const auto valid = validate(transformer_memory{setup}, plan); !valid) return valid.why();
  const std::int64_t most_threads = 1 << 20;
  for (const named_fact& count :
       {named_fact{fact::multiprocessors, device.multiprocessors},
        named_fact{fact::threads_per_multiprocessor, device.threads_per_multiprocessor}})
    if (count.value < 1 || count.value > most_threads)
      return failure(errc::out_of_bounds,
                     {count, {fact::at_least, 1}, {fact::at_most, most_threads}});
  const std::int64_t most_workspace = std::int64_t{1} << 40;
  for (const named_fact& size : {named_fact{fact::matrix_workspace, device.matrix_workspace},
                                 named_fact{fact::bias_workspace, device.bias_workspace}})
    if (size.value < 0 || size.value > most_workspace)
      return failure(errc::out_of_bounds,
                     {size, {fact::at_least, 0}, {fact::at_most, most_workspace}});
  if (steps < 1) return failure(errc::not_positive, named_fact{fact::steps, steps});
  const checked_integer passes =
      checked_product(setup.model.layers() + 1, plan.accumulation, steps);
  const std::int64_t most_passes = 1 << 20;  // which take some seconds
  if (!passes.ok || passes.value > most_passes)
    return failure(errc::out_of_bounds,
                   {{fact::accumulation, plan.accumulation},
                    {fact::num_hidden_layers, setup.model.num_hidden_layers},
                    {fact::steps, steps},
                    {fact::at_most, most_passes}});
  return {};
}

}  // namespace detail

constexpr bytes transformer_memory::required(const batch_plan& plan) const {
  if (detail::failed(detail::flaw_of_step(setup, plan)))
    return bytes::from_value(std::numeric_limits<double>::infinity());
  return breakdown(plan).total();
}

}  // namespace gpuplan
