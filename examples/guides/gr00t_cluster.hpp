#pragma once

// Guide 000: fine-tuning Isaac-GR00T on a shared Slurm cluster (2025-10-25).

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/checkpoint.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/training_run.hpp>

#include <cstdint>
#include <optional>

#include "guides/report.hpp"

namespace guides::gr00t_cluster {

using namespace gpuplan;

enum card { rtx_4090, h100_nvl, l40s, rtx_2080_ti, rtx_4070 };
inline constexpr card cards[] = {rtx_4090, h100_nvl, l40s, rtx_2080_ti, rtx_4070};

enum waiting { almost_none, low, medium, high };

/// A line of the guide's GPU table, as printed: not what the devices are.
struct node_kind {
  std::int64_t gpus = 1;   // in one node
  bytes memory{};          // of one GPU
  compute_rate fp32{};     // of one GPU
  compute_rate fp16{};     // of one GPU; table T0.1 says what each number really is
  std::int64_t first = 0;  // classt<first> to
  std::int64_t last = 0;   // classt<last>
};

struct strategy {
  card gpu{};
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
  range<duration> hours = duration{};  // for all steps
  waiting from{};                      // how long the node is waited for, in words
  waiting to{};
  const char* gres = "";
  const char* node_list = "";
  const char* script = "";
};

/// GR00T N1.5 3B, which the guide does not name by version.
struct trained_model {
  // What public fine-tunes print; the latter is the action head, which is all that trains.
  std::int64_t parameters = 2'724'163'520;
  std::int64_t trainable = 1'068'806'144;
  // As the files of such a run have it: 7.59 GB of weights, 8.0 GiB of optimizer.
  std::int64_t frozen_bytes = 2;  // of a parameter
  std::int64_t trained_bytes = 4;
  std::int64_t gradient_bytes = 4;
  std::int64_t adam_bytes = 8;
  // Ours: the guide names no robot. Each camera image is 256 tokens.
  range<std::int64_t> cameras = {1, 3};
  std::int64_t text_tokens = 32;
};

struct inputs {
  node_kind nodes[5] = {
      {4, 24_GB, 82.6_TFLOPS, 165.2_TFLOPS, 25, 25},
      // Two cards on two nodes. 51.2 is the H100 PCIe's; 1979 the H100 SXM's, with sparsity. 11 GB
      // is a MIG slice; the card has 94 GB.
      {1, 11_GB, 51.2_TFLOPS, 1979_TFLOPS, 23, 24},
      {6, 48_GB, 91.6_TFLOPS, 183.2_TFLOPS, 21, 22},  // 183.2 is twice the CUDA cores' FP32
      {4, 11_GB, 13.4_TFLOPS, 26.9_TFLOPS, 1, 18},    // 26.9 is without tensor cores
      {4, 12_GB, 29.1_TFLOPS, 58.2_TFLOPS, 6, 6},     // 58.2 is twice the CUDA cores' FP32
  };

  // max_batch = floor((memory - base - overhead) / per_sample)
  bytes base = 5_GB;
  bytes overhead = 2_GB;
  bytes per_sample = 1.2_GB;

  range<std::int64_t> effective_batch = {120, 144};
  std::int64_t steps = 10'000;

  // Of the hours, the first are what the others are computed from; the others are read for the
  // fraction of its peak that each node would have to achieve, and for nothing else.
  strategy strategies[3] = {
      {.gpu = rtx_4090,
       .micro_batch = 10,
       .accumulation = 3,
       .hours = {10_h, 12_h},
       .from = low,
       .to = medium,
       .gres = "gpu4090",
       .node_list = "classt25",
       .script = "finetune_gr00t.slurm"},
      {.gpu = l40s,
       .micro_batch = 12,
       .accumulation = 2,
       .hours = {7_h, 9_h},
       .from = medium,
       .to = high,
       .gres = "gpul40s",
       .node_list = "classt21",
       .script = "finetune_gr00t_l40s.slurm"},
      {.gpu = rtx_2080_ti,
       .micro_batch = 5,
       .accumulation = 6,
       .hours = {18_h, 24_h},
       .from = almost_none,
       .to = almost_none,
       .gres = "gpu2080",
       .script = "finetune_gr00t_2080.slurm"},
  };

  std::int64_t test_steps = 100;  // on the last strategy's node
  std::int64_t test_micro_batch = 4;
  duration test_time = 30_min;  // read for the fraction, as the other hours

  double checkpointing_saves = 0.5;                  // of memory
  double checkpointing_slows = 0.2;                  // of speed
  double mixed_precision_saves = 0.5;                // of memory
  range<double> compilation_speeds_up = {0.3, 0.4};  // of speed

  bytes quota = 23.8_GB;
  bytes used = 1_GB;
  range<bytes> checkpoint = {5_GB, 8_GB};
  range<bytes> final_model = {5_GB, 8_GB};
  std::int64_t save_every = 2000;

  trained_model model{};

  // ---- ours: what the guide leaves open

  // The words for waiting, as hours: guesses, to be replaced by what `squeue --start` says.
  range<duration> waits[4] = {{0_h, 10_min}, {10_min, 1_h}, {1_h, 4_h}, {4_h, 12_h}};
  // The "11GB" of the guide: what older tools call the smallest slice of an H100 NVL.
  const char* mig_profile = "1g.11gb";
  // A backward takes twice the FLOPs of a forward (Kaplan et al. 2020, section 2.1).
  double backward_per_forward = 2;
  // Room for start-up, data and slow nodes; Slurm ends a job at its limit without mercy.
  double wall_time_margin = 0.2;
  // The guide names no program; this is the one of Isaac-GR00T.
  const char* command = "python scripts/gr00t_finetune.py";
  // As the guide's tail -f, but relative: Slurm does not expand ~.
  const char* log = "logs/finetune_%j.out";
};

// ---- devices

[[nodiscard]] constexpr gpu_spec whole_card(card gpu) {
  switch (gpu) {
    case rtx_4090:
      return catalog::rtx_4090;
    case h100_nvl:
      return catalog::h100_nvl;
    case l40s:
      return catalog::l40s;
    case rtx_2080_ti:
      return catalog::rtx_2080_ti;
    case rtx_4070:
      break;
  }
  return catalog::rtx_4070;
}

/// What a job gets: the card, of the H100 NVL the slice.
[[nodiscard]] constexpr gpu_spec device(const inputs& given, card gpu) {
  return gpu == h100_nvl ? slice_of(catalog::h100_nvl, *mig(catalog::h100_nvl, given.mig_profile))
                         : whole_card(gpu);
}

/// The FP16 rate of a node by the guide's numbers.
[[nodiscard]] constexpr compute_rate printed_rate(const inputs& given, card gpu) {
  return given.nodes[gpu].fp16 * given.nodes[gpu].gpus;
}

/// The same by dense peaks of tensor cores that sum in FP32, what training uses, for every node
/// alike.
[[nodiscard]] constexpr compute_rate dense_rate(const inputs& given, card gpu) {
  return *peak(device(given, gpu), number_format::fp16) * given.nodes[gpu].gpus;
}

/// What the guide's FP16 number is: the rate of the catalogue that it equals.
[[nodiscard]] constexpr compute_rate rate_meant(card gpu) {
  switch (gpu) {
    case h100_nvl:
      return *sparse_peak(catalog::h100_sxm5_80gb, number_format::fp16);
    case l40s:
      return 2 * *catalog::l40s.dense.fp32;
    case rtx_2080_ti:
      return *catalog::rtx_2080_ti.dense.fp16_vector;
    case rtx_4070:
      return 2 * *catalog::rtx_4070.dense.fp32;
    case rtx_4090:
      break;
  }
  return *peak(catalog::rtx_4090, number_format::fp16);
}

using node_rate = compute_rate (*)(const inputs&, card);

/// The place of a node among all, 1 for the fastest.
[[nodiscard]] constexpr std::int64_t rank(const inputs& given, card gpu, node_rate rate) {
  std::int64_t place = 1;
  for (const card other : cards)
    if (rate(given, other) > rate(given, gpu)) ++place;
  return place;
}

/// The nodes of a kind: names from first to last that no other kind has for itself.
[[nodiscard]] constexpr std::int64_t node_count(const inputs& given, card gpu) {
  const node_kind& kind = given.nodes[gpu];
  std::int64_t count = 0;
  for (std::int64_t name = kind.first; name <= kind.last; ++name) {
    bool taken = false;
    for (const card other : cards) {
      const node_kind& o = given.nodes[other];
      taken |= o.last - o.first < kind.last - kind.first && o.first <= name && name <= o.last;
    }
    count += !taken;
  }
  return count;
}

// ---- batches

[[nodiscard]] constexpr affine_memory formula(const inputs& given) {
  return {.fixed = given.base + given.overhead, .per_sample = given.per_sample};
}
[[nodiscard]] constexpr affine_memory with_checkpointing(const inputs& given) {
  return with(formula(given), checkpointing(given.checkpointing_saves));
}

/// The memory of a card: as the guide prints it, and what a process can use of the device.
[[nodiscard]] constexpr memory_budget printed(const inputs& given, card gpu) {
  return given.nodes[gpu].memory;
}
[[nodiscard]] constexpr memory_budget usable(const inputs& given, card gpu) {
  return device(given, gpu);
}

[[nodiscard]] constexpr batch_plan plan_of(const inputs& given, const strategy& s) {
  return {s.micro_batch, given.nodes[s.gpu].gpus, s.accumulation};
}

/// The accumulations that bring a strategy's micro-batch within the guide's target, if any.
[[nodiscard]] constexpr std::optional<range<std::int64_t>> accumulations_of(const inputs& given,
                                                                            const strategy& s) {
  const std::int64_t samples = s.micro_batch * given.nodes[s.gpu].gpus;
  const std::int64_t fewest = gpuplan::detail::ceil_div(given.effective_batch.low(), samples);
  const std::int64_t most = given.effective_batch.high() / samples;
  if (fewest > most) return {};
  return range<std::int64_t>(fewest, most);
}

/// What to run on a node: the best plan within the guide's target.
[[nodiscard]] constexpr result<batch_plan> best_plan(const inputs& given,
                                                     card gpu,
                                                     memory_budget memory) {
  return solve_batch({given.effective_batch, given.nodes[gpu].gpus, memory}, formula(given));
}

/// The share of a plan's memory that a saving saves.
[[nodiscard]] constexpr double memory_saved(const inputs& given,
                                            const strategy& s,
                                            const memory_saving& saving) {
  const batch_plan plan = plan_of(given, s);
  const bytes before = formula(given).required(plan);
  return in(before - with(formula(given), saving).required(plan), before);
}

/// "Halve the batch size, double the accumulation" to the letter.
[[nodiscard]] constexpr batch_plan halved_and_doubled(const batch_plan& plan) {
  return {plan.micro_batch / 2, plan.data_parallel, plan.accumulation * 2};
}

// ---- hours

/// The time of a number of samples on a node, from the first strategy's hours: work as samples,
/// speed as node FLOP/s.
[[nodiscard]] constexpr range<duration> time_on(const inputs& given,
                                                card gpu,
                                                std::int64_t samples,
                                                node_rate rate) {
  const strategy& first = given.strategies[0];
  const std::int64_t reference = *samples_in(given.steps, plan_of(given, first).effective_batch());
  return *training_time(first.hours,
                        {.work = static_cast<double>(samples) / static_cast<double>(reference),
                         .speed = in(rate(given, gpu), rate(given, first.gpu))});
}

/// The time of a strategy's steps.
[[nodiscard]] constexpr range<duration> time_of(const inputs& given,
                                                const strategy& s,
                                                node_rate rate) {
  return time_on(given, s.gpu, *samples_in(given.steps, plan_of(given, s).effective_batch()), rate);
}

/// How much more of its peak a strategy's node must achieve than the first's for the guide's hours.
[[nodiscard]] constexpr range<double> implied_fraction(const inputs& given,
                                                       const strategy& s,
                                                       node_rate rate) {
  return time_of(given, s, rate) / s.hours;
}

/// The samples of the test run, whose accumulation the guide does not say.
[[nodiscard]] constexpr std::int64_t test_samples(const inputs& given, std::int64_t accumulation) {
  const batch_plan plan{
      given.test_micro_batch, given.nodes[given.strategies[2].gpu].gpus, accumulation};
  return *samples_in(given.test_steps, plan.effective_batch());
}

/// The test's time by the guide's own hours for the last strategy.
[[nodiscard]] constexpr range<duration> test_time_by_last_strategy(const inputs& given,
                                                                   std::int64_t accumulation) {
  const strategy& last = given.strategies[2];
  const std::int64_t all = *samples_in(given.steps, plan_of(given, last).effective_batch());
  return *training_time(
      last.hours,
      {.work = static_cast<double>(test_samples(given, accumulation)) / static_cast<double>(all)});
}

/// The largest share of its speed that a run can lose to checkpointing: all activations computed
/// again, one more forward, where nothing but computing bounds it.
[[nodiscard]] constexpr double recomputation_slows_at_most(const inputs& given) {
  return 1 / (2 + given.backward_per_forward);
}

// ---- storage

[[nodiscard]] constexpr checkpoint_storage home(const inputs& given) {
  return {.quota = given.quota,
          .used = given.used,
          .final_model = given.final_model,
          .checkpoint = given.checkpoint};
}

// ---- choice

[[nodiscard]] constexpr range<duration> wait_for(const inputs& given, const strategy& s) {
  return {given.waits[s.from].low(), given.waits[s.to].high()};
}

/// The strategy that is done first, by the middle of its range of hours. `run` gives the hours of a
/// strategy.
template <class Run>
[[nodiscard]] constexpr int first_done(const inputs& given, bool count_waiting, Run run) {
  int best = 0;
  duration least{};
  for (int s = 0; s < 3; ++s) {
    range<duration> time = run(given.strategies[s]);
    if (count_waiting) time = time + wait_for(given, given.strategies[s]);
    if (s > 0 && !(midpoint(time) < least)) continue;
    best = s;
    least = midpoint(time);
  }
  return best;
}

/// For a quick test, with the accumulation of the last strategy: waiting counted.
[[nodiscard]] constexpr int choice_for_test(const inputs& given) {
  const std::int64_t samples = test_samples(given, given.strategies[2].accumulation);
  return first_done(
      given, true, [&](const strategy& s) { return time_on(given, s.gpu, samples, printed_rate); });
}

/// For all steps: waiting counted (balanced), or not (fastest).
[[nodiscard]] constexpr int choice_for_training(const inputs& given,
                                                bool count_waiting,
                                                node_rate rate = printed_rate) {
  return first_done(
      given, count_waiting, [&](const strategy& s) { return time_of(given, s, rate); });
}

/// How much longer than for the first strategy's node one can wait for the second's, and be done as
/// early.
[[nodiscard]] constexpr duration waiting_worth(const inputs& given, node_rate rate) {
  return midpoint(time_of(given, given.strategies[0], rate)) -
         midpoint(time_of(given, given.strategies[1], rate));
}

[[nodiscard]] report make_report(const inputs& given = {});

}  // namespace guides::gr00t_cluster
