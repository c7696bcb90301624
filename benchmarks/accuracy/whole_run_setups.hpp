#pragma once

// What a published whole run trained and by which software, as a setup for the planner.

#include <gpuplan/planner/request.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "csv.hpp"

namespace accuracy {

/// A cell's number; none where it is no number, such as "4096 images", or 1e30 and more.
std::optional<double> stated_number(const row& source, std::string_view column);
/// Likewise of a count from 1 on, below 1e15.
std::int64_t stated_count(const row& source, std::string_view column, std::int64_t otherwise);

/// A setup but for its sequences, with the plans that its software has.
struct run_setup {
  gpuplan::training_setup setup{};
  gpuplan::plan_space space{};
  double work = 1;      // of the run's parameters, as a token uses them, over those of the setup's
  std::string why_not;  // what is not stated; blank where there is a setup
};

/// The model: the catalogue's of which the row's notes say "arch: gpuplan catalogue NAME", or that
/// of the row's columns, or the catalogue's of the row's model name where its parameters are as
/// many; else of the shape nearest in active parameters, where `params_total` is larger as a
/// mixture of experts of both.
/// The software: that of the column `framework`, else Megatron's kind of the row's year. Before
/// 2023, and by GPT-NeoX and Megatron-DeepSpeed, layers are recomputed as a whole.
run_setup describe_run_setup(const row& source, bool has_bf16);

}  // namespace accuracy
