#pragma once

// Which steps can be replayed: of those that are valid, all whose integers stay far within 64 bits,
// and in which nobody waits for days. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay/eager/memory_events.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan::detail {

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
  const double samples_in_row = setup.padding_free ? d(plan.micro_batch) : 1;
  const bool prefers = setup.objective == training_objective::preference;
  const double texts =
      (prefers ? 2 : 1) * d(plan.micro_batch) * d(setup.encodings) / samples_in_row;
  const double tokens =
      is_vision ? d(model.image.tokens())
                : samples_in_row * d(ceil_div(longest, setup.parallelism.context_parallel));
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
  const attention_kernel kernel = setup.chosen_attention();
  const bool writes_scores = kernel == attention_kernel::eager ||
                             kernel == attention_kernel::math ||
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

// What keeps a step from being replayed, or no failure.
constexpr failure flaw_of_step_of(const training_setup& setup, const batch_plan& plan) {
  if (const auto valid = validate(setup, plan); !valid) return valid.why();
  transformer adapted = setup.model;
  if (setup.framework.layers().adapts_fused_parts)
    adapted.fused_qkv = adapted.fused_gate_up = false;
  if (const auto valid = validate(setup.trains, adapted); !valid) return valid.why();
  return flaw_of_step(setup, plan);
}

struct device_count {
  named_fact count;
  std::int64_t least;
  std::int64_t most;
};

// What keeps so many steps of every layer and micro-batch from being replayed, or no failure.
constexpr failure flaw_of_replay(const training_setup& setup,
                                 const batch_plan& plan,
                                 const eager::device_traits& device,
                                 std::int64_t steps = 1) {
  if (const failure why = flaw_of_step_of(setup, plan); failed(why)) return why;
  // Of every CUDA device so far, 1,024 to 2,048 threads.
  for (const auto& [count, least, most] :
       {device_count{{fact::multiprocessors, device.multiprocessors}, 1, 1 << 16},
        device_count{
            {fact::threads_per_multiprocessor, device.threads_per_multiprocessor}, 1024, 1 << 16},
        device_count{{fact::matrix_workspace, device.matrix_workspace}, 0, std::int64_t{1} << 40},
        device_count{{fact::bias_workspace, device.bias_workspace}, 0, std::int64_t{1} << 40}})
    if (count.value < least || count.value > most)
      return failure(errc::out_of_bounds, {count, {fact::at_least, least}, {fact::at_most, most}});
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

}  // namespace gpuplan::detail
