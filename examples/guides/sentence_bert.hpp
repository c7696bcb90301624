#pragma once

// Guide 003: Sentence-BERT on 8 GPUs: what its speed-ups, batches, learning rates and hours imply.

#include <gpuplan/batch.hpp>
#include <gpuplan/learning_rate.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/speedup.hpp>
#include <gpuplan/training_run.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

#include "guides/report.hpp"

namespace guides::sentence_bert {

using namespace gpuplan::literals;
using gpuplan::duration;
using gpuplan::range;
using gpuplan::result;

/// How the guide runs one strategy.
struct strategy {
  const char* name;
  range<double> speedup;            // against one GPU, on all of them
  range<std::int64_t> micro_batch;  // per GPU
  std::int64_t epochs;
  bool amp;  // whether its command has --use_amp
};

struct inputs {
  std::int64_t gpus = 8;
  duration single_gpu = 10_h;  // of which run, and with or without AMP, is not said
  strategy ddp{"DDP", {6, 7}, {64, 128}, 5, true};
  strategy dp{"DP", {4, 5}, {32, 64}, 3, false};
  range<double> amp_speed{1.5, 2};
  double amp_memory = 0.5;  // saved
  double base_rate = 2e-5;
  std::int64_t base_batch = 32;
  std::int64_t samples = 100'000;  // --train_samples of the DDP command; the DP command has none

  // Of the script of the guide's name: SNLI's pairs, padded to 128 tokens.
  std::int64_t texts = 2;  // of a sample
  std::int64_t tokens_of_a_text = 128;

  // Ours: the guide names no optimizer. AdamW is what sentence-transformers trains with, and these
  // are PyTorch's defaults for it (torch.optim.AdamW).
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  // Ours: the warm-up of Sentence-BERT itself, "10% of the training data" (Reimers and Gurevych
  // 2019, arXiv:1908.10084, section 3.1). The guide has none.
  double paper_warm_up = 0.10;
};

// ---- T3.1: what a speed-up implies

[[nodiscard]] constexpr range<double> efficiency(const inputs& in, const strategy& how) {
  return *gpuplan::scaling_efficiency(how.speedup, in.gpus);
}
[[nodiscard]] constexpr range<double> serial_fraction(const inputs& in, const strategy& how) {
  return *gpuplan::karp_flatt(how.speedup, in.gpus);
}
[[nodiscard]] constexpr range<double> communication(const inputs& in, const strategy& how) {
  return *gpuplan::communication_share(how.speedup, in.gpus);
}

/// The host's share of a step that would hold one process for all GPUs to this speed-up:
/// `single_process_scaling` the other way round.
[[nodiscard]] constexpr range<double> host_share(const strategy& how) { return 1.0 / how.speedup; }

// ---- T3.2: effective batch

[[nodiscard]] constexpr range<std::int64_t> effective_batch(const inputs& in, const strategy& how) {
  return {gpuplan::batch_plan{how.micro_batch.low(), in.gpus, 1}.effective_batch(),
          gpuplan::batch_plan{how.micro_batch.high(), in.gpus, 1}.effective_batch()};
}

/// The micro-batches that AMP makes room for, if all of the memory goes by the share it saves.
[[nodiscard]] constexpr range<double> micro_batch_with_amp(const inputs& in, const strategy& how) {
  return how.micro_batch / (1 - in.amp_memory);
}

// ---- T3.3: learning rate

template <gpuplan::learning_rate_rule Rule>
[[nodiscard]] constexpr result<range<double>> learning_rate(const inputs& in,
                                                            range<std::int64_t> batch,
                                                            const Rule& rule) {
  return gpuplan::scaled_learning_rate(
      {.learning_rate = in.base_rate, .effective_batch = in.base_batch}, batch, rule);
}

[[nodiscard]] constexpr result<gpuplan::adam_settings> adam(const inputs& in,
                                                            range<std::int64_t> batch) {
  return gpuplan::adam_sde_rule{.beta1 = in.adam_beta1, .beta2 = in.adam_beta2}.settings(
      {.learning_rate = in.base_rate, .effective_batch = in.base_batch}, batch);
}

// ---- T3.5: optimizer steps; before the rest, since warm-up counts in them

[[nodiscard]] constexpr gpuplan::training_run run(const inputs& in,
                                                  const strategy& how,
                                                  std::int64_t batch,
                                                  gpuplan::last_batch last) {
  return {.samples = in.samples, .effective_batch = batch, .epochs = how.epochs, .last = last};
}

/// Steps per epoch at both ends of the strategy's effective batch; more with the smaller one.
[[nodiscard]] constexpr range<std::int64_t> steps_per_epoch(
    const inputs& in, const strategy& how, gpuplan::last_batch last = gpuplan::last_batch::kept) {
  const auto batch = effective_batch(in, how);
  return {*gpuplan::steps_per_epoch(run(in, how, batch.high(), last)),
          *gpuplan::steps_per_epoch(run(in, how, batch.low(), last))};
}
[[nodiscard]] constexpr range<std::int64_t> total_steps(
    const inputs& in, const strategy& how, gpuplan::last_batch last = gpuplan::last_batch::kept) {
  const auto batch = effective_batch(in, how);
  return {*gpuplan::total_steps(run(in, how, batch.high(), last)),
          *gpuplan::total_steps(run(in, how, batch.low(), last))};
}

// ---- warm-up, of T3.3

/// Goyal's warm-up to the linear rule's rate at one batch of a strategy.
[[nodiscard]] constexpr gpuplan::warm_up goyal_warm_up(const inputs& in,
                                                       const strategy& how,
                                                       std::int64_t batch) {
  return *gpuplan::warm_up_over_epochs(
      in.base_rate,
      *learning_rate(in, batch, gpuplan::linear_rule{}),
      gpuplan::goyal_warm_up_epochs,
      *gpuplan::steps_per_epoch(run(in, how, batch, gpuplan::last_batch::kept)));
}

/// As a share of the strategy's training, which is the same at every batch.
[[nodiscard]] constexpr double warm_up_share(const inputs& in, const strategy& how) {
  return static_cast<double>(goyal_warm_up(in, how, effective_batch(in, how).low()).steps) /
         static_cast<double>(total_steps(in, how).high());
}

// ---- T3.4: hours

/// Which training the 10 h of one GPU stand for.
enum class work { of_each_strategy, of_the_ddp_run, of_the_dp_run };

/// Whether AMP is in the 10 h, the strategies' commands being what they are; `not_counted` where it
/// is in all of the hours or in none.
enum class amp { not_counted, not_in_the_10_h, in_the_10_h };

/// The hours of a strategy by one reading.
[[nodiscard]] constexpr range<duration> hours(const inputs& in,
                                              const strategy& how,
                                              work whose,
                                              amp where) {
  const std::int64_t reference_epochs = whose == work::of_the_ddp_run  ? in.ddp.epochs
                                        : whose == work::of_the_dp_run ? in.dp.epochs
                                                                       : how.epochs;
  range<double> faster = how.speedup;
  if (where == amp::not_in_the_10_h && how.amp) faster = faster * in.amp_speed;
  if (where == amp::in_the_10_h && !how.amp) faster = faster / in.amp_speed;
  return *gpuplan::training_time(
      in.single_gpu,
      {.work = static_cast<double>(how.epochs) / static_cast<double>(reference_epochs),
       .speed = faster});
}

/// DDP with AMP on top: both factors on the whole step.
[[nodiscard]] constexpr range<double> product_with_amp(const inputs& in) {
  return *gpuplan::product_of_factors({in.ddp.speedup, in.amp_speed});
}

/// The same where AMP speeds up forward and backward only, over all shares of them.
[[nodiscard]] constexpr range<double> phases_with_amp(const inputs& in) {
  const range<double> amp = *gpuplan::combined_speedup(
      {},
      {gpuplan::optimisation{{gpuplan::phase::forward, gpuplan::phase::backward}, in.amp_speed}});
  return *gpuplan::product_of_factors({in.ddp.speedup, amp});
}

[[nodiscard]] report make_report(const inputs& in = {});

}  // namespace guides::sentence_bert
