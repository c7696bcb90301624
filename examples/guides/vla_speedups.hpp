#pragma once

// Guide 002: a vision-language-action training made faster: what its percentages add up to.

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/speedup.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>

#include "guides/report.hpp"

namespace guides::vla_speedups {

using namespace gpuplan::literals;
using gpuplan::bytes;
using gpuplan::duration;
using gpuplan::range;

struct gpu_batch {
  const char* name;
  bytes memory;              // as printed: GB of 10^9 bytes
  std::int64_t micro_batch;  // the guide's batch_size, per GPU
  gpuplan::gpu_spec device;  // whose usable memory the batch really has
};

struct inputs {
  // "x % faster" in the summary, as shares. The sections say of what: of the time for the
  // initialisation, of the throughput for loading, of the speed for cuDNN, BF16 and torch.compile.
  range<double> dataset_init{0.30, 0.50};  // section 1: "time shortened by 30-50 %"
  range<double> loading{0.10, 0.15};       // section 2: "training throughput +10-15 %"
  range<double> cudnn{0.20, 0.30};         // cuDNN benchmark, at a fixed input size
  range<double> bf16{0.15, 0.25};          // in use already before the changes, says section 3.2
  range<double> compile{0.10, 0.20};       // torch.compile: optional, not in the summary
  range<double> npz{10, 100};              // times, on loading robot_states
  range<double> bf16_memory{0.25, 0.40};
  range<double> npz_files{0.50, 0.80};  // files smaller by

  // Measured before the changes, expected after them.
  duration load_before = 300_s;
  duration load_after = 150_s;
  duration step_before = 1.5_s;
  duration step_after = 0.9_s;
  duration epoch_before = 45_min;
  duration epoch_after = 27_min;

  // "A100" and no form: the two SXM4 parts, whose memory the PCIe ones share.
  gpu_batch gpus[4] = {{"A100 80GB", 80_GB, 32, gpuplan::catalog::a100_sxm4_80gb},
                       {"A100 40GB", 40_GB, 24, gpuplan::catalog::a100_sxm4_40gb},
                       {"RTX 4090 24GB", 24_GB, 16, gpuplan::catalog::rtx_4090},
                       {"RTX 3090 24GB", 24_GB, 12, gpuplan::catalog::rtx_3090}};
  std::int64_t accumulation = 4;
  std::int64_t data_parallel = 4;
  range<std::int64_t> workers{4, 8};  // data-loading processes per GPU

  // Ours: the guide names no model. A public program with its file names freezes Qwen2.5-VL 3B, and
  // says nothing of images either.
  std::int64_t image_size = 504;  // pixels of a side
  range<std::int64_t> images{1, 3};
  std::int64_t text_tokens = 32;

  // Ours: the guide gives no shares of the 1.5 s step.
  double assumed_loading_share = 0.20;       // waiting for data is seen, or none would work on it
  double assumed_robot_states_share = 0.05;  // a small part of that: text beside images
  double assumed_optimizer_share = 0.10;     // memory-bound; none of the changes touches it
};

// ---- T2.1: what the gains add up to

/// What "x % faster" says.
enum class reading { rate, time };

[[nodiscard]] constexpr range<double> factor(range<double> faster, reading as) {
  return as == reading::rate ? *gpuplan::factor_of_rate_gained(faster)
                             : *gpuplan::factor_of_time_saved(faster);
}

/// The throughput gain of the steps' product; robot_states and the dataset's initialisation are not
/// in it, since neither is a gain of the step.
[[nodiscard]] constexpr range<double> product_gain(const inputs& in, reading as, bool with_bf16) {
  const range<double> one = 1.0;
  return *gpuplan::rate_gained(*gpuplan::product_of_factors(
      {factor(in.loading, as), factor(in.cudnn, as), with_bf16 ? factor(in.bf16, as) : one}));
}

[[nodiscard]] constexpr range<double> product_gain_with_compile(const inputs& in) {
  return *gpuplan::rate_gained(*gpuplan::product_of_factors({factor(in.loading, reading::rate),
                                                             factor(in.cudnn, reading::rate),
                                                             factor(in.bf16, reading::rate),
                                                             factor(in.compile, reading::rate)}));
}

/// The throughput gain at shares of the step: `other` is the reading of robot_states.
[[nodiscard]] constexpr range<double> gain_at(const inputs& in,
                                              const gpuplan::phase_shares& shares,
                                              bool with_bf16 = true) {
  using gpuplan::phase;
  const range<double> bf16 = with_bf16 ? factor(in.bf16, reading::rate) : range<double>(1.0);
  return *gpuplan::rate_gained(*gpuplan::combined_speedup(
      shares,
      {gpuplan::optimisation{{phase::data, phase::other}, factor(in.loading, reading::rate)},
       gpuplan::optimisation{{phase::forward, phase::backward}, factor(in.cudnn, reading::rate)},
       gpuplan::optimisation{{phase::forward, phase::backward}, bf16},
       gpuplan::optimisation{phase::other, in.npz}}));
}

/// Nothing is known of the shares.
inline constexpr gpuplan::phase_shares any_shares{.communication = 0.0};

/// Nothing but that robot_states are read before training and not in the step.
inline constexpr gpuplan::phase_shares any_shares_without_robot_states{.communication = 0.0,
                                                                       .other = 0.0};

/// The step is all forward and backward.
inline constexpr gpuplan::phase_shares all_compute{
    .data = 0.0, .optimizer = 0.0, .communication = 0.0, .other = 0.0};

/// The shares we assume. How forward and backward share the rest does not matter: what touches one
/// touches the other.
[[nodiscard]] constexpr gpuplan::phase_shares assumed_shares(const inputs& in) {
  return {.data = in.assumed_loading_share - in.assumed_robot_states_share,
          .optimizer = in.assumed_optimizer_share,
          .communication = 0.0,
          .other = in.assumed_robot_states_share};
}

/// Autocast halves activations and leaves weights, gradients and optimizer states in fp32: the
/// share of the memory that must be activations if all of it goes by `bf16_memory`.
[[nodiscard]] constexpr range<double> activation_share(const inputs& in) {
  return in.bf16_memory / 0.5;
}

/// How much faster the smaller files alone are read, where reading is bound by bytes.
[[nodiscard]] constexpr range<double> npz_by_size(const inputs& in) {
  return *gpuplan::factor_of_time_saved(in.npz_files);
}

// ---- T2.2: before and after

[[nodiscard]] constexpr double time_saved(duration before, duration after) {
  return 1 - after / before;
}

/// The load, if it gets faster by the percentages for the initialisation.
[[nodiscard]] constexpr range<duration> load_by_gain(const inputs& in, reading as) {
  return in.load_before / factor(in.dataset_init, as);
}

/// The step, if its throughput gains so much.
[[nodiscard]] constexpr range<duration> step_by_gain(const inputs& in, range<double> gain) {
  return in.step_before / *gpuplan::factor_of_rate_gained(gain);
}

/// The longest that a data-loading process may take for a sample if the step is not to wait for it:
/// `workers x step / batch`, at the batch of the documented plan.
[[nodiscard]] constexpr range<duration> worker_time(const inputs& in, duration step) {
  return range<double>(in.workers / in.gpus[0].micro_batch) * step;
}

/// Whether the load is a part of the epoch's minutes or comes before them.
enum class load { before_the_epoch, inside_the_epoch };

[[nodiscard]] constexpr double steps_before(const inputs& in, load is) {
  const duration training =
      is == load::inside_the_epoch ? in.epoch_before - in.load_before : in.epoch_before;
  return training / in.step_before;
}
[[nodiscard]] constexpr double steps_after(const inputs& in, load is) {
  const duration training =
      is == load::inside_the_epoch ? in.epoch_after - in.load_after : in.epoch_after;
  return training / in.step_after;
}

/// The epoch after the changes, with as many steps as before.
[[nodiscard]] constexpr duration epoch_by_steps(const inputs& in, load is) {
  const duration training = steps_before(in, is) * in.step_after;
  return is == load::inside_the_epoch ? in.load_after + training : training;
}

// ---- T2.3: batch by GPU

/// The guide's GB, or what the device's driver leaves to a process.
enum class memory { as_printed, usable };

[[nodiscard]] constexpr bytes memory_of(const gpu_batch& gpu, memory which) {
  return which == memory::as_printed ? gpu.memory : gpuplan::usable_memory(gpu.device);
}

/// The line through two points, each a card that its batch is taken to fill.
[[nodiscard]] constexpr gpuplan::affine_memory line_through(const gpu_batch& a,
                                                            const gpu_batch& b,
                                                            memory which) {
  const bytes per_sample =
      (memory_of(a, which) - memory_of(b, which)) / (a.micro_batch - b.micro_batch);
  return {.fixed = memory_of(a, which) - per_sample * a.micro_batch, .per_sample = per_sample};
}

[[nodiscard]] constexpr gpuplan::affine_memory a100_line(const inputs& in, memory which) {
  return line_through(in.gpus[0], in.gpus[1], which);
}

/// The most per sample with which each of the batches fits its card: nothing but samples.
[[nodiscard]] constexpr gpuplan::affine_memory all_fit(const inputs& in, memory which) {
  bytes least = memory_of(in.gpus[0], which) / in.gpus[0].micro_batch;
  for (const gpu_batch& gpu : in.gpus) {
    const bytes each = memory_of(gpu, which) / gpu.micro_batch;
    if (each < least) least = each;
  }
  return {.fixed = 0_B, .per_sample = least};
}

/// The largest batch of a model on a card. Also for a line that `validate` rejects, so that it can
/// be shown where such a line leads; 0 where nothing fits.
[[nodiscard]] constexpr std::int64_t largest_batch(const gpuplan::affine_memory& model,
                                                   bytes card) {
  if (validate(model)) return gpuplan::max_micro_batch(card, model).value_or_throw();
  std::int64_t batch = 0;
  while (gpuplan::fits({.micro_batch = batch + 1}, card, model)) ++batch;
  return batch;
}

/// The least batch that fills the 80 GB card if the 40 GB card is full: twice as many, since the
/// fixed part, which is not below 0, is there once on either.
[[nodiscard]] constexpr std::int64_t least_on_80_gb(const inputs& in, memory which) {
  const gpuplan::affine_memory samples_only{
      .fixed = 0_B, .per_sample = memory_of(in.gpus[1], which) / in.gpus[1].micro_batch};
  return largest_batch(samples_only, memory_of(in.gpus[0], which));
}

// ---- T2.4: the effective batch

[[nodiscard]] constexpr gpuplan::batch_plan documented_plan(const inputs& in) {
  return {in.gpus[0].micro_batch, in.data_parallel, in.accumulation};
}

/// The same effective batch on cards of another kind, with the guide's batch for them at most: the
/// memory is counted in samples of one byte, and holds just that batch.
[[nodiscard]] constexpr gpuplan::batch_plan same_effective_batch(const inputs& in,
                                                                 const gpu_batch& gpu) {
  constexpr gpuplan::affine_memory one_byte_each{.fixed = 0_B, .per_sample = 1_B};
  return *gpuplan::keep_effective_batch(
      documented_plan(in), in.data_parallel, gpu.micro_batch * 1_B, one_byte_each);
}

/// The effective batch nearest the documented one at the guide's batch for a card.
[[nodiscard]] constexpr gpuplan::batch_plan nearest_at_documented_batch(const inputs& in,
                                                                        const gpu_batch& gpu) {
  gpuplan::batch_plan plan{gpu.micro_batch, in.data_parallel, 1};
  const std::int64_t target = documented_plan(in).effective_batch();
  const std::int64_t one = plan.effective_batch();
  plan.accumulation = (2 * target + one) / (2 * one);
  if (plan.accumulation == 0) plan.accumulation = 1;
  return plan;
}

[[nodiscard]] report make_report(const inputs& in = {});

}  // namespace guides::vla_speedups
