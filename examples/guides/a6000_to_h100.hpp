#pragma once

// Guide 001: from one A6000 to H100s: how long, how many, how much.

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/cost.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/learning_rate.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/speedup.hpp>
#include <gpuplan/training_run.hpp>
#include <gpuplan/units.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "guides/report.hpp"

namespace guides::a6000_to_h100 {

using namespace gpuplan::literals;
using gpuplan::bandwidth;
using gpuplan::batch_plan;
using gpuplan::bytes;
using gpuplan::compute_rate;
using gpuplan::duration;
using gpuplan::gpu_spec;
using gpuplan::number_format;
using gpuplan::price;
using gpuplan::priced_run;
using gpuplan::range;

/// A card as the guide prints it.
struct card {
  bytes memory;
  bandwidth memory_bandwidth;
  compute_rate fp16;
  compute_rate bf16;
  compute_rate tf32;
};

struct inputs {
  card a6000{48_GB, 768_GBps, 309.7_TFLOPS, 309.7_TFLOPS, 155_TFLOPS};  // peaks with sparsity
  // Bandwidth and FP16 of the H100 PCIe, BF16 and TF32 of the H100 SXM5, peaks with sparsity.
  card h100{80_GB, 2000_GBps, 1513_TFLOPS, 1979_TFLOPS, 989_TFLOPS};

  // The cards that these can be.
  gpu_spec a6000_device = gpuplan::catalog::rtx_a6000;
  gpu_spec h100_pcie = gpuplan::catalog::h100_pcie_80gb;
  gpu_spec h100_sxm = gpuplan::catalog::h100_sxm5_80gb;

  // "Main benchmarks", of "multiple sources".
  range<double> h100_over_a100{2.2, 3.3};
  double a100_over_a6000 = 2;
  range<double> real_speedup{6, 7};  // H100 against A6000
  double speedup = 6;                // the one that the guide computes with

  duration stage_1 = 385_h;  // TAC training, measured on one A6000
  duration stage_2 = 213_h;  // LoRA, the same

  gpuplan::scaling_table<3> scaling{{{2, 0.95}, {4, 0.90}, {8, 0.80}}};
  price per_gpu = 3_usd_per_hour;  // of either card

  batch_plan on_1{16, 1, 1};
  batch_plan on_2{8, 2, 2};
  batch_plan on_4{4, 4, 4};

  // Of the scripts that the guide changes, scripts/pretrain.sh and finetune_lora.sh.
  std::int64_t lora_rank = 128;
  // Ours, behind 1,369 tokens of an image: a short report's, and what --model_max_length 2048
  // leaves.
  range<std::int64_t> text_tokens{100, 679};

  // Ours: the best BF16 matrix product found on each card by one and the same search, README of
  // mag-/gpu_benchmark at commit 2218e0a, which the guide's real speed-up can be held against.
  compute_rate a6000_reaches = 131.2_TFLOPS;
  compute_rate h100_pcie_reaches = 499.5_TFLOPS;
  compute_rate h100_sxm_reaches = 821.2_TFLOPS;

  // Ours: what an A6000 costs, where the guide takes an H100's price. RunPod, on demand, secure
  // cloud, 2026-08-27.
  price a6000_price = 0.53_usd_per_hour;
};

/// The numbers of H100s that the guide compares.
inline constexpr std::array<std::int64_t, 4> counts{1, 2, 4, 8};

// ---- T1.1: the cards

/// Which published peak a printed one is.
struct published_peak {
  const gpu_spec* device = nullptr;
  bool sparse = false;
  compute_rate dense{};  // of that device, in that format
};

/// The published peak, with or without sparsity, that a printed one is to half a percent; none
/// where it is no peak of these devices.
[[nodiscard]] constexpr std::optional<published_peak> identify(
    compute_rate printed, number_format format, std::initializer_list<const gpu_spec*> devices) {
  for (const gpu_spec* device : devices) {
    const compute_rate dense = *peak(*device, format);
    const compute_rate sparse = *sparse_peak(*device, format);
    for (const bool is_sparse : {false, true}) {
      const double ratio = printed / (is_sparse ? sparse : dense);
      if (ratio > 0.995 && ratio < 1.005) return published_peak{device, is_sparse, dense};
    }
  }
  return {};
}

/// The dense peak of one card over that of the A6000.
[[nodiscard]] constexpr double dense_ratio(const inputs& in,
                                           const gpu_spec& h100,
                                           number_format format) {
  return *peak(h100, format) / *peak(in.a6000_device, format);
}

[[nodiscard]] constexpr double bandwidth_ratio(const inputs& in, const gpu_spec& h100) {
  return h100.memory_bandwidth / in.a6000_device.memory_bandwidth;
}

/// The speed-up of work that memory bandwidth bounds, to that of work that BF16 peaks bound.
[[nodiscard]] constexpr range<double> speedup_by_peaks(const inputs& in, const gpu_spec& h100) {
  return {bandwidth_ratio(in, h100), dense_ratio(in, h100, number_format::bf16)};
}

/// H100 against A6000 by way of the A100.
[[nodiscard]] constexpr range<double> speedup_by_a100(const inputs& in) {
  return in.h100_over_a100 * in.a100_over_a6000;
}

// ---- T1.2 to T1.4: hours and money

[[nodiscard]] constexpr duration on_a6000(const inputs& in) { return in.stage_1 + in.stage_2; }

/// The time on `gpus` H100s of what takes `reference` on the A6000.
[[nodiscard]] constexpr range<duration> on_h100(const inputs& in,
                                                duration reference,
                                                std::int64_t gpus,
                                                range<double> speedup) {
  return *gpuplan::training_time(reference, {.speed = speedup * *in.scaling.speedup(gpus)});
}
/// The same at the speed-up that the guide computes with.
[[nodiscard]] constexpr duration on_h100(const inputs& in, duration reference, std::int64_t gpus) {
  return on_h100(in, reference, gpus, in.speedup).low();
}
[[nodiscard]] constexpr duration on_h100(const inputs& in, std::int64_t gpus) {
  return on_h100(in, on_a6000(in), gpus);
}

/// The same if every GPU counted in full.
[[nodiscard]] constexpr duration at_perfect_scaling(const inputs& in, std::int64_t gpus) {
  return on_h100(in, 1) / gpus;
}

/// The same from the guide's way of computing: each stage rounded to whole hours first.
[[nodiscard]] constexpr duration from_whole_hours(const inputs& in, std::int64_t gpus) {
  const auto whole = [&](duration stage) {
    return gpuplan::detail::round(gpuplan::in(on_h100(in, stage, 1), 1_h)) * 1_h;
  };
  return (whole(in.stage_1) + whole(in.stage_2)) / in.scaling.speedup(gpus)->low();
}

/// The A6000 at the H100's price, as the guide has it, then H100s by `counts`.
[[nodiscard]] constexpr std::array<priced_run, 5> runs(const inputs& in) {
  std::array<priced_run, 5> all{*gpuplan::priced(on_a6000(in), 1, in.per_gpu)};
  for (std::size_t i = 0; i < counts.size(); ++i)
    all[i + 1] = *gpuplan::priced(on_h100(in, counts[i]), counts[i], in.per_gpu);
  return all;
}

/// The same with the A6000 at its own price.
[[nodiscard]] constexpr std::array<priced_run, 5> runs_at_own_price(const inputs& in) {
  auto all = runs(in);
  all[0] = *gpuplan::priced(on_a6000(in), 1, in.a6000_price);
  return all;
}

/// The same as `runs` if every GPU counted in full.
[[nodiscard]] constexpr std::array<priced_run, 5> runs_at_perfect_scaling(const inputs& in) {
  auto all = runs(in);
  for (std::size_t i = 0; i < counts.size(); ++i)
    all[i + 1] = *gpuplan::priced(at_perfect_scaling(in, counts[i]), counts[i], in.per_gpu);
  return all;
}

/// The cost of one of them as a share of that of the A6000.
[[nodiscard]] constexpr double relative(const std::array<priced_run, 5>& all, std::size_t which) {
  return gpuplan::relative_cost(all[which].cost, all[0].cost)->low();
}

// ---- T1.5: the batch

/// All that is known of the memory: the micro-batch on one GPU fits. Counted in samples, of one
/// byte each.
inline constexpr gpuplan::affine_memory samples_only{.fixed = 0_B, .per_sample = 1_B};
[[nodiscard]] constexpr bytes known_to_fit(const inputs& in) { return in.on_1.micro_batch * 1_B; }

/// The plan with the effective batch of `like` on another number of GPUs.
[[nodiscard]] constexpr gpuplan::result<batch_plan> same_batch(const inputs& in,
                                                               const batch_plan& like,
                                                               std::int64_t gpus) {
  return gpuplan::keep_effective_batch(like, gpus, known_to_fit(in), samples_only);
}

[[nodiscard]] constexpr double batch_factor(const inputs& in, const batch_plan& plan) {
  return static_cast<double>(plan.effective_batch()) /
         static_cast<double>(in.on_1.effective_batch());
}

/// The factor of the learning rate by a rule, whatever the learning rate on one GPU is.
template <class Rule>
[[nodiscard]] constexpr double rate_factor(const inputs& in,
                                           const batch_plan& plan,
                                           const Rule& rule) {
  const gpuplan::tuned_rate tuned{.effective_batch = in.on_1.effective_batch()};
  return gpuplan::scaled_learning_rate(tuned, plan.effective_batch(), rule)->low();
}

// ---- T1.6: day by day

[[nodiscard]] constexpr std::array<duration, 2> stages(const inputs& in, std::int64_t gpus) {
  return {on_h100(in, in.stage_1, gpus), on_h100(in, in.stage_2, gpus)};
}

/// What runs on one day: at most one piece of each stage.
struct day_plan {
  std::array<gpuplan::schedule_piece, 2> pieces{};
  std::size_t count = 0;
};
[[nodiscard]] constexpr day_plan on_day(const inputs& in, std::int64_t gpus, std::int64_t day) {
  day_plan today;
  const auto both = stages(in, gpus);
  for (const gpuplan::schedule_piece& piece : gpuplan::schedule(both))
    if (piece.day == day) today.pieces[today.count++] = piece;
  return today;
}
[[nodiscard]] constexpr std::int64_t days(const inputs& in, std::int64_t gpus) {
  const auto both = stages(in, gpus);
  return gpuplan::schedule(both).days();
}

[[nodiscard]] report make_report(const inputs& in = {});

}  // namespace guides::a6000_to_h100
