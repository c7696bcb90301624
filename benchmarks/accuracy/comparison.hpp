#pragma once

// What was measured beside what the library says: one line of the program's output.

#include <optional>
#include <string>
#include <vector>

#include "number.hpp"

namespace accuracy {

enum class quantity {
  parameters,
  active_parameters,
  trainable_parameters,
  flops_forward,
  flops_total,
  peak_requested,
  peak_allocated,
  peak_reserved,
  peak_memory,
  fits,
  max_micro_batch,
  model_tflops,
  mfu,
  hfu,
  step_time,
  step_time_low,
  step_time_high,
  layer_forward,
  layer_backward,
  matmul_time,
  kernel_time,
  kernel_rate,
  throughput,
  step_mfu,
  bus_bandwidth,
  // of recipes
  accepted,
  best_over_recipe,
  // of whole runs, each before its ends
  gpu_hours,
  gpu_hours_low,
  gpu_hours_high,
  days,
  days_low,
  days_high,
  energy,
  energy_low,
  energy_high,
  // of a step's work, in the order of `step_work` and `work_counts`
  launches_forward,
  products_forward,
  fills_forward,
  copies_forward,
  operators_forward,
  bytes_forward,
  launches_backward,
  products_backward,
  fills_backward,
  copies_backward,
  operators_backward,
  bytes_backward,
  launches_optimizer,
  products_optimizer,
  fills_optimizer,
  copies_optimizer,
  operators_optimizer,
  bytes_optimizer,
  product_flops
};

struct quantity_text {
  quantity what;
  const char* name;
  const char* unit;
  const char* meaning;
};
inline constexpr quantity_text quantities[] = {
    {quantity::parameters, "parameters", "parameters", "all of the model's, shared ones once"},
    {quantity::active_parameters,
     "active_parameters",
     "parameters",
     "without the routed experts that a token does not use"},
    {quantity::trainable_parameters, "trainable_parameters", "parameters", "those that train"},
    {quantity::flops_forward,
     "flops_forward",
     "FLOP",
     "matrix products of a step's forward passes"},
    {quantity::flops_total,
     "flops_total",
     "FLOP",
     "and of its backward passes, with what these compute again"},
    {quantity::peak_requested,
     "peak_requested",
     "byte",
     "the most that a step's tensors and temporaries have at once"},
    {quantity::peak_allocated,
     "peak_allocated",
     "byte",
     "likewise, as PyTorch's allocator rounds it"},
    {quantity::peak_reserved, "peak_reserved", "byte", "what the allocator took from the device"},
    {quantity::peak_memory,
     "peak_memory",
     "byte",
     "likewise, with the CUDA context and what NCCL takes: nvidia-smi's"},
    {quantity::fits, "fits", "yes or no", "whether the step ran or ran out of memory, as 1 or 0"},
    {quantity::max_micro_batch,
     "max_micro_batch",
     "samples",
     "the largest that fits into usable_bytes"},
    {quantity::model_tflops,
     "model_tflops",
     "TFLOP/s",
     "rate of one GPU by the row's own step time, in the convention of its source"},
    {quantity::mfu, "mfu", "%", "model FLOPs by the same time, as a share of the dense peak"},
    {quantity::hfu, "hfu", "%", "hardware FLOPs likewise"},
    {quantity::step_time, "step_time", "s", "of one optimizer step, by roofline_time"},
    {quantity::step_time_low,
     "step_time_low",
     "s",
     "from here to step_time_high lie four of five such steps, by step_interval"},
    {quantity::step_time_high, "step_time_high", "s", "the end of that range"},
    {quantity::layer_forward, "layer_forward", "s", "of one layer's kernels, by the same"},
    {quantity::layer_backward, "layer_backward", "s", "likewise of its backward pass"},
    {quantity::matmul_time, "matmul_time", "s", "of one matrix product, by the same"},
    {quantity::kernel_time,
     "kernel_time",
     "s",
     "of one kernel of eager code, at the highest clock"},
    {quantity::kernel_rate,
     "kernel_rate",
     "as the row's unit",
     "of one published kernel, layer, copy or collective"},
    {quantity::throughput, "throughput", "token/s", "of one GPU, by the same"},
    {quantity::step_mfu, "step_mfu", "%", "model FLOPs by the same, as mfu"},
    {quantity::bus_bandwidth,
     "bus_bandwidth",
     "GB/s",
     "of a collective, as nccl-tests count; of a copy its rate"},
    {quantity::accepted,
     "accepted",
     "yes or no",
     "whether the planner has plans for a recipe's question, as 1 or 0"},
    {quantity::best_over_recipe,
     "best_over_recipe",
     "ratio",
     "time of the planner's best plan over that of the recipe's, by roofline_time"},
    {quantity::gpu_hours,
     "gpu_hours",
     "h",
     "of a whole run, by the planner's best plan and its interruptions"},
    {quantity::gpu_hours_low,
     "gpu_hours_low",
     "h",
     "from here to gpu_hours_high lie four of five such runs"},
    {quantity::gpu_hours_high, "gpu_hours_high", "h", "the end of that range"},
    {quantity::days, "days", "d", "of the same, on the row's GPUs"},
    {quantity::days_low, "days_low", "d", "likewise"},
    {quantity::days_high, "days_high", "d", "likewise"},
    {quantity::energy,
     "energy_MWh",
     "MWh",
     "of the same, at what its devices draw and the row's PUE"},
    {quantity::energy_low, "energy_MWh_low", "MWh", "likewise"},
    {quantity::energy_high, "energy_MWh_high", "MWh", "likewise"},
    {quantity::launches_forward, "launches_forward", "kernels", "launched, without products"},
    {quantity::products_forward, "products_forward", "calls", "of cuBLAS"},
    {quantity::fills_forward, "fills_forward", "calls", "of cudaMemset"},
    {quantity::copies_forward, "copies_forward", "calls", "of cudaMemcpy"},
    {quantity::operators_forward, "operators_forward", "calls", "of ATen that launch anything"},
    {quantity::bytes_forward, "bytes_forward", "byte", "of these operators' tensors"},
    {quantity::launches_backward, "launches_backward", "kernels", "likewise of the backward"},
    {quantity::products_backward, "products_backward", "calls", "likewise"},
    {quantity::fills_backward, "fills_backward", "calls", "likewise"},
    {quantity::copies_backward, "copies_backward", "calls", "likewise"},
    {quantity::operators_backward, "operators_backward", "calls", "likewise"},
    {quantity::bytes_backward, "bytes_backward", "byte", "likewise"},
    {quantity::launches_optimizer, "launches_optimizer", "kernels", "likewise of the optimizer"},
    {quantity::products_optimizer, "products_optimizer", "calls", "likewise"},
    {quantity::fills_optimizer, "fills_optimizer", "calls", "likewise"},
    {quantity::copies_optimizer, "copies_optimizer", "calls", "likewise"},
    {quantity::operators_optimizer, "operators_optimizer", "calls", "likewise"},
    {quantity::bytes_optimizer, "bytes_optimizer", "byte", "likewise"},
    {quantity::product_flops, "product_flops", "FLOP", "of the step's calls of cuBLAS"},
};
[[nodiscard]] constexpr const quantity_text& text_of(quantity what) {
  return quantities[static_cast<int>(what)];
}

/// Whether a quantity is an end of the range of another, so that it has no error of its own.
[[nodiscard]] constexpr bool is_end_of_range(quantity what) {
  switch (what) {
    case quantity::step_time_low:
    case quantity::step_time_high:
    case quantity::gpu_hours_low:
    case quantity::gpu_hours_high:
    case quantity::days_low:
    case quantity::days_high:
    case quantity::energy_low:
    case quantity::energy_high:
      return true;
    default:
      return false;
  }
}

/// A prediction, or the reason why there is none.
struct prediction {
  std::optional<number> value;
  std::string why_not;

  prediction(number the_value) : value(the_value) {}
  prediction(std::string reason) : why_not(std::move(reason)) {}
};

struct comparison {
  std::string id;
  quantity what{};
  number measured;
  prediction predicted;
  bool flagged = false;       // its source or the collection doubts the row
  bool by_a_margin = false;   // of `fits`: predicted to fit into 95 % of the memory
  std::string repeated_of{};  // where it is one of several measurements of a configuration

  [[nodiscard]] double error() const { return error_percent(measured, *predicted.value); }
};

/// What became of one file.
struct file_comparison {
  std::string path;
  std::string kind;  // "runs"; blank where its columns are those of no known kind
  std::size_t rows = 0;
  std::vector<comparison> comparisons{};
};

}  // namespace accuracy
