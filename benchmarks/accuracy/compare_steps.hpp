#pragma once

// Training steps of PyTorch beside what the library says of them: counts, memory, time.

#include <gpuplan/flops.hpp>
#include <gpuplan/replay/counts.hpp>

#include <cstdint>
#include <string>

#include "number.hpp"
#include "row_comparisons.hpp"

namespace accuracy {

/// `count` times the FLOPs of one pass, and some besides: whole as long as a double is.
number times(std::int64_t count, gpuplan::flop_count flops, double besides);

/// Compares what a row of `torch_steps.csv` measured.
void compare_step(row_comparisons& row);

/// Compares the peaks of a row of steps, or that the device had too little for them.
void compare_step_memory(row_comparisons& row);

/// Compares what a step took, with where four of five such steps lie, alone on its device.
void compare_step_time(row_comparisons& row);

/// Compares what a row of `layers.csv` measured: the forward and the backward of one layer.
void compare_layer(row_comparisons& row);

/// Compares what a row of `matmul.csv` measured.
void compare_matmul(row_comparisons& row);

/// Compares what a step asks of the device, in the columns of `torch_launches.csv`.
void compare_work(row_comparisons& row);
/// Likewise, of what was counted, or of why it was not.
void compare_work(row_comparisons& row, const gpuplan::step_counts& counts, std::string why_not);

}  // namespace accuracy
