#pragma once

// Matrix products of steps that were counted while models ran.

#include "counted_models.hpp"

#include <gpuplan/flops.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

// torch.utils.flop_counter, PyTorch 2.15: one step of `batch` sequences.
struct counted_step {
  std::string_view model;
  gpuplan::training_pass pass;
  std::int64_t batch;
  std::int64_t trainable;  // 0: all
  std::int64_t forward;
  std::int64_t total;
};

constexpr bool agrees(const counted_step& row) {
  const gpuplan::transformer& model = shape_of(row.model);
  if (!validate(row.pass, model)) return false;
  const gpuplan::flop_counts counts = flops(model, row.pass);
  const auto is = [&](gpuplan::flop_count counted, std::int64_t expected) {
    return static_cast<double>(row.batch) * counted.value() == static_cast<double>(expected);
  };
  return is(counts.forward(), row.forward) && is(counts.hardware(), row.total) &&
         trainable_parameters(model, row.pass.trains) ==
             (row.trainable != 0 ? row.trainable : parameters(model).total());
}

// The name of the model of the first row that disagrees, of one of `parts` equal parts of the rows:
// clang limits the steps of a constant expression.
template <std::size_t Rows>
constexpr std::string_view first_wrong(const counted_step (&steps)[Rows],
                                       std::size_t part,
                                       std::size_t parts) {
  for (std::size_t i = part * Rows / parts; i < (part + 1) * Rows / parts; ++i)
    if (!agrees(steps[i])) return steps[i].model;
  return "";
}
