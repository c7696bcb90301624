#pragma once

// The tables of guide 000, each in the file of its question, and what these files share.

#include <cstdint>
#include <string>

#include "guides/gr00t_cluster.hpp"

namespace guides::gr00t_cluster {

// nodes_and_batches.cpp: what the cluster has
[[nodiscard]] table nodes(const inputs& given);

// nodes_and_batches.cpp: what fits
[[nodiscard]] table strategies(const inputs& given);
[[nodiscard]] table batch_by_memory(const inputs& given);
[[nodiscard]] table effective_batches(const inputs& given);
[[nodiscard]] table out_of_memory(const inputs& given);

// ../gr00t_cluster.cpp: how long it takes, what it leaves on disk, what to submit
[[nodiscard]] table training_hours(const inputs& given);
[[nodiscard]] table storage(const inputs& given);
[[nodiscard]] table choices(const inputs& given);
[[nodiscard]] table job_scripts(const inputs& given);

// model.cpp: what trains, and what it takes
[[nodiscard]] table the_model(const inputs& given);
[[nodiscard]] bytes states_of(const inputs& given);  // weights, gradients, Adam's moments
/// The weights of a file: all in BF16, or what trains in FP32.
[[nodiscard]] range<bytes> saved_weights(const inputs& given);
/// Those to resume from, with Adam's two moments.
[[nodiscard]] bytes saved_states(const inputs& given);
[[nodiscard]] shown largest_with_states(const inputs& given, card gpu);

// step.cpp: what the replay of a step says of it, over the numbers of cameras
[[nodiscard]] range<bytes> step_memory(const inputs& given, const strategy& s);
[[nodiscard]] range<bytes> sample_memory(const inputs& given);  // of each beyond 32
[[nodiscard]] range<flop_count> sample_work(const inputs& given);
[[nodiscard]] shown largest_step(const inputs& given, const strategy& s);  // samples on the card

// likely.cpp: what the GPUs' work takes, over the numbers of cameras, where 80 % of such steps lie
[[nodiscard]] range<duration> gpus_work(const inputs& given,
                                        card kind,
                                        const batch_plan& plan,
                                        std::int64_t steps);
/// What is estimated computes, over what a sample does.
[[nodiscard]] double stand_in_works(const inputs& given);
[[nodiscard]] std::string finding_of_the_hours(const inputs& given);

// What the static_asserts are about.
inline constexpr inputs guide;
inline constexpr strategy third = guide.strategies[2];

constexpr const char* name(card gpu) {
  switch (gpu) {
    case rtx_4090:
      return "RTX 4090";
    case h100_nvl:
      return "H100 NVL (MIG)";
    case l40s:
      return "L40S";
    case rtx_2080_ti:
      return "RTX 2080 Ti";
    case rtx_4070:
      break;
  }
  return "RTX 4070";
}

// Rows are named as the guide counts, whatever the inputs are.
constexpr const char* node_name(card gpu) {
  switch (gpu) {
    case rtx_4090:
      return "4 x RTX 4090";
    case h100_nvl:
      return "1 x H100 NVL (MIG)";
    case l40s:
      return "6 x L40S";
    case rtx_2080_ti:
      return "4 x RTX 2080 Ti";
    case rtx_4070:
      break;
  }
  return "4 x RTX 4070";
}

constexpr const char* strategy_name(int s) {
  return s == 0 ? "1: 4 x RTX 4090" : s == 1 ? "2: 6 x L40S" : "3: 4 x RTX 2080 Ti";
}

constexpr double TFLOPS(compute_rate rate) { return in(rate, 1_TFLOPS); }
constexpr double GB(bytes memory) { return in(memory, 1_GB); }
constexpr range<double> GB(range<bytes> memory) { return {GB(memory.low()), GB(memory.high())}; }
constexpr range<double> hours(range<duration> time) {
  return {in(time.low(), 1_h), in(time.high(), 1_h)};
}
constexpr range<double> minutes(range<duration> time) {
  return {in(time.low(), 1_min), in(time.high(), 1_min)};
}

inline std::string between(range<double> r, int digits) {
  return decimal(r.low(), digits) + "–" + decimal(r.high(), digits);
}

inline std::string of(const batch_plan& plan) {
  return std::to_string(plan.micro_batch) + " x " + std::to_string(plan.data_parallel) + " x " +
         std::to_string(plan.accumulation) + " = " + std::to_string(plan.effective_batch());
}

inline shown largest(memory_budget memory, const affine_memory& model) {
  const auto most = max_micro_batch(memory, model);
  return most ? number(*most) : word("none fits");
}

inline shown plan_or_not(const result<batch_plan>& plan) {
  return plan ? word(of(*plan)) : word("none fits");
}

inline shown within(const result<range<std::int64_t>>& count) {
  return count ? span_of(*count) : word("none");
}

}  // namespace guides::gr00t_cluster
